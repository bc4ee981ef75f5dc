"""What check.py asks of the data: can the targets be written, and read back?"""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from common.data_checks import Finding, Texts, find_duplicates, find_leaks, length_histogram
from common.encoder import freeze_layers
from common.optimizers import make_optimizer
from common.regularization import make_regularization
from common.settings import project_path
from common.training import TrainingModel
from task.data import Example, encode, read_examples
from task.metrics import normal_form, score, score_records
from task.model import build_models, compared_scores
from task.settings import Settings
from task.tokens import decode_texts
from task.training import load_tokenizer_and_encoder

# Texts that no model could write as they are: above this share the tokenizer is at fault.
MOST_CHANGED = 0.2
# Sources or targets that are cut: above this share the lengths are at fault.
MOST_CUT = 0.05


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        source_tokens: of each source, those around it included.
        target_tokens: of each target, its end included.
        unknown: examples with a token that the tokenizer does not know.
        changed: examples and targets that are not what they were after encoding and decoding.
        oracle: scores of the targets after encoding, cutting and decoding; empty without targets.
    """

    source_tokens: list[int]
    target_tokens: list[int]
    unknown: list[Example]
    changed: list[tuple[Example, str]]
    oracle: dict[str, float]


def read_files(settings: Settings) -> dict[str, list[Example]]:
    """Return file -> examples, the training file first; a test file may lack, or lack targets."""
    files = {
        settings.train_file: read_examples(project_path(settings.train_file)),
        settings.dev_file: read_examples(project_path(settings.dev_file)),
    }
    if project_path(settings.test_file).is_file():
        test = read_examples(project_path(settings.test_file), require_targets=False)
        files.setdefault(settings.test_file, test)
    return files


def find_data_faults(files: dict[str, list[Example]]) -> list[Finding]:
    """Find sources that stand twice: their targets belong into one record."""
    texts: Texts = {
        name: [(example.id, example.source, example.line) for example in examples]
        for name, examples in files.items()
    }
    return [*find_duplicates(texts), *find_leaks(texts)]


def measure_reach(examples: Sequence[Example], tokenizer: Tokenizer, settings: Settings) -> Reach:
    """Encode the targets and decode them again, as if a perfect model had written them."""
    frame = len(tokenizer.encode("").ids)
    sources = list(encode(tokenizer, [example.source for example in examples], "sources"))
    pairs = [(example, target) for example in examples for target in example.targets]
    targets = list(encode(tokenizer, [target for _, target in pairs], "targets"))
    unknown_id = tokenizer.token_to_id("[UNK]")
    unknown = {
        example.id: example
        for example, ids in [
            *zip(examples, sources, strict=True),
            *zip((example for example, _ in pairs), targets, strict=True),
        ]
        if unknown_id in ids
    }
    changed = [
        pair
        for pair, text in zip(pairs, decode_texts(tokenizer, targets), strict=True)
        if normal_form(text, settings) != normal_form(pair[1], settings)
    ]
    oracle = {}
    if all(example.targets for example in examples):
        room = settings.target_length - 1
        texts = decode_texts(tokenizer, [ids[:room] for ids in targets])
        # The first target of each record stands for what a model would write.
        first = {
            example.id: text for (example, _), text in reversed([*zip(pairs, texts, strict=True)])
        }
        records = score_records(examples, first, settings)
        oracle = score(examples, first, records, settings)
    return Reach(
        source_tokens=[len(ids) + frame for ids in sources],
        target_tokens=[len(ids) + 1 for ids in targets],
        unknown=list(unknown.values()),
        changed=changed,
        oracle=oracle,
    )


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    lines = [f"\n{name}: {len(examples)} records, {len(reach.target_tokens)} targets"]
    if reach.oracle:
        lines.append(
            "oracle (targets, encoded and decoded): "
            f"exact match {reach.oracle['exact_match']:.4f}, BLEU {reach.oracle['bleu']:.2f}"
        )
    lines.append(length_histogram([len(example.source) for example in examples], "characters"))
    lines.append(length_histogram(reach.source_tokens, "tokens of sources"))
    if reach.target_tokens:
        lines.append(length_histogram(reach.target_tokens, "tokens of targets"))
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach, settings: Settings) -> list[Finding]:
    """Find what is cut off, and what the tokenizer can't give back."""
    findings = []
    for what, lengths, most, setting in (
        ("sources", reach.source_tokens, settings.max_length, "max_length"),
        ("targets", reach.target_tokens, settings.target_length, "target_length"),
    ):
        cut = sum(length > most for length in lengths)
        if cut:
            findings.append(
                Finding(
                    "warning" if cut > MOST_CUT * len(lengths) else "note",
                    f"{what} that lose their end: {cut} of {len(lengths)}, the longest has "
                    f"{max(lengths)} tokens",
                    f"{name}, {setting} = {most}",
                    f"raise {setting}, or leave it where what matters stands at the beginning.",
                )
            )
    if reach.unknown:
        findings.append(
            Finding(
                "warning",
                f"records with characters that the tokenizer does not know: {len(reach.unknown)}",
                f"{name}, line {reach.unknown[0].line} for one",
                "choose an encoder of that language; they can be neither read nor written.",
            )
        )
    if reach.changed:
        example, target = reach.changed[0]
        share = len(reach.changed) / len(reach.target_tokens)
        findings.append(
            Finding(
                "warning" if share > MOST_CHANGED else "note",
                f"targets that are not the same after encoding and decoding: {len(reach.changed)}",
                f"{name}, line {example.line}, {target[:60]!r} for one",
                "choose an encoder that keeps case and spaces (tiny does), or set "
                "lowercase_scores = true if only case is lost.",
            )
        )
    return findings


def build_compiled(examples: list[Example], settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    _, encoder = load_tokenizer_and_encoder(settings, examples)
    model, inference = build_models(encoder, settings)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    freeze_layers(encoder, settings.frozen_layers)
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(inference)),
    )
    return model

"""Checks of the data for check.py: can the targets be written and read back?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenizers import Tokenizer

from core.base.extras import need
from core.data.checks import Finding
from core.step import Models
from generation.encoding import encode, encode_sources
from generation.texts import decode_texts, read_allowed
from task.loading import load_tokenizer_and_encoder
from task.metrics import normal_form, score, score_records
from task.model import build_models
from task.records import Example
from task.settings import Settings

# Above this share of targets that change by encoding and decoding, the tokenizer is at fault.
MOST_CHANGED = 0.2
# Below this share of the best score the targets are at fault, and far below it no model scores.
LOWEST_ORACLE, NO_SCORE = 0.9, 0.01
BEST = {"bleu": 100.0}  # of other scores it is 1, of a negated error 0
# Characters of scripts that write no blanks between words: Chinese and Japanese.
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
# The token of unknown characters: of BERT, and of T5.
UNKNOWN = ("[UNK]", "<unk>")
ENDLESS = 10**9  # tokens
# Above this share of sources or targets that are cut, the lengths are at fault.
MOST_CUT = 0.05


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        source_tokens: number of each source's tokens, special tokens included.
        target_tokens: number of each target's tokens, its end included.
        unknown: examples with a token that the tokenizer does not know.
        changed: examples and targets that encoding and decoding changes.
        oracle: scores of the targets after encoding, cutting and decoding; empty without targets.
        never: why a target is never written -> the examples and targets for which it holds.
    """

    source_tokens: list[int]
    target_tokens: list[int]
    unknown: list[Example]
    changed: list[tuple[Example, str]]
    oracle: dict[str, float]
    never: dict[str, list[tuple[Example, str]]] = field(default_factory=dict)


def measure_reach(
    examples: Sequence[Example], tokenizer: Tokenizer, ends: Sequence[int], settings: Settings
) -> Reach:
    """Encode the targets and decode them again, as if a perfect model had written them.

    Args:
        examples: of a file.
        tokenizer: of the encoder.
        ends: tokens that end a target.
        settings: the project's.
    """
    unknown = {tokenizer.token_to_id(token) for token in UNKNOWN} - {None}
    endless = settings.model_copy(update={"max_length": ENDLESS})  # with all of a prompt
    sources = encode_sources(tokenizer, [example.source for example in examples], endless)
    pairs = [(example, target) for example in examples for target in example.targets]
    targets = list(encode(tokenizer, [target for _, target in pairs], "targets"))
    owners = [*examples, *(example for example, _ in pairs)]
    ids_of: list[Sequence[int]] = [*map(list, sources), *targets]
    encoded = zip(owners, ids_of, strict=True)
    decoded = zip(pairs, decode_texts(tokenizer, targets), strict=True)
    never = find_never_written(pairs, settings)
    return Reach(
        source_tokens=[len(ids) for ids in sources],
        target_tokens=[len(ids) + 1 for ids in targets],
        unknown=list(
            dict.fromkeys(example for example, ids in encoded if not unknown.isdisjoint(ids))
        ),
        changed=[
            pair
            for pair, text in decoded
            if normal_form(text, settings) != normal_form(pair[1], settings)
            and not settings.generation.allowed  # a line is written as its file has it
        ],
        oracle=score_oracle(examples, [cut(ids, ends) for ids in targets], tokenizer, settings),
        never=never,
    )


def find_never_written(
    pairs: Sequence[tuple[Example, str]], settings: Settings
) -> dict[str, list[tuple[Example, str]]]:
    """Return why targets are never written, such as `hold a stop string`, with these targets."""
    table = settings.generation
    never = {}
    if table.stop:
        held = [pair for pair in pairs if any(stop in pair[1] for stop in table.stop)]
        never["hold a stop string, which ends a text"] = held
    if table.allowed:
        lines = {normal_form(line, settings) for line in read_allowed(table.allowed)}
        missing = [pair for pair in pairs if normal_form(pair[1], settings) not in lines]
        never["are not in generation.allowed"] = missing
    return {why: found for why, found in never.items() if found}


def cut(ids: list[int], ends: Sequence[int]) -> list[int]:
    """Return the tokens of a target before the first that ends it, as "[SEP]" within it does."""
    return ids[: next((place for place, token in enumerate(ids) if token in ends), len(ids))]


def score_oracle(
    examples: Sequence[Example],
    targets: Sequence[list[int]],
    tokenizer: Tokenizer,
    settings: Settings,
) -> dict[str, float]:
    """Return the scores of the first target of each record; empty: a record has no target."""
    if not all(example.targets for example in examples):
        return {}
    texts = iter(decode_texts(tokenizer, [ids[: settings.target_length] for ids in targets]))
    first = {example.id: [next(texts) for _ in example.targets][0] for example in examples}
    if settings.extractor:
        return settings.extractor.score_oracle(examples, first)
    return score(examples, first, score_records(examples, first, settings), settings)


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    lines = [f"\n{name}: {len(examples)} records, {len(reach.target_tokens)} targets"]
    if "bleu" in reach.oracle:
        lines.append(
            "oracle (targets, encoded and decoded): "
            f"exact match {reach.oracle['exact_match']:.4f}, BLEU {reach.oracle['bleu']:.2f}"
        )
    lines += draw([len(example.source) for example in examples], "characters")
    lines += draw(reach.source_tokens, "tokens of sources")
    if reach.target_tokens:
        lines += draw(reach.target_tokens, "tokens of targets")
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach, settings: Settings) -> list[Finding]:
    """Find sources and targets that are cut, and texts that the tokenizer changes."""
    findings = []
    for what, lengths, setting in (
        ("sources", reach.source_tokens, "max_length"),
        ("targets", reach.target_tokens, "target_length"),
    ):
        most = getattr(settings, setting)
        cut = sum(length > most for length in lengths)
        if cut:
            findings.append(
                Finding(
                    "warning" if cut > MOST_CUT * len(lengths) else "note",
                    f"{what} that lose their end: {cut} of {len(lengths)}, the longest has "
                    f"{max(lengths)} tokens",
                    f"{name}, {setting} = {most}",
                    f"raise {setting}, or keep it if the beginning is all that matters.",
                )
            )
    for why, targets in reach.never.items():
        many = len(targets) > MOST_CUT * len(reach.target_tokens)
        what = f"targets that {why}: {len(targets)} of {len(reach.target_tokens)}"
        where = f"{name}, line {targets[0][0].line}, {targets[0][1][:60]!r} for one"
        fix = "change this setting of generation, or these targets: no model writes them."
        findings.append(Finding("warning" if many else "note", what, where, fix))
    if reach.unknown:
        findings.append(
            Finding(
                "warning",
                f"records with characters that the tokenizer does not know: {len(reach.unknown)}",
                f"{name}, line {reach.unknown[0].line} for one",
                "choose an encoder of that language: these can be neither read nor written.",
            )
        )
    findings += find_low_oracle(name, reach.oracle, settings)
    if reach.changed and not settings.extractor:  # it says which items are lost
        example, target = reach.changed[0]
        many = len(reach.changed) > MOST_CHANGED * len(reach.target_tokens)
        findings.append(
            Finding(
                "warning" if many else "note",
                f"targets that encoding and decoding changes: {len(reach.changed)}",
                f"{name}, line {example.line}, {target[:60]!r} for one",
                "choose an encoder that keeps case and spaces (tiny does), or set "
                "lowercase_scores = true if only case is lost.",
            )
        )
    return findings


def find_low_oracle(name: str, oracle: dict[str, float], settings: Settings) -> list[Finding]:
    """Find targets for which a perfect model would have a low score; an extractor finds its own."""
    metric, best = settings.metric, BEST.get(settings.metric, 1.0)
    score = oracle.get(metric, best)
    share = score / best if best else float(score >= best)
    if settings.extractor or share >= LOWEST_ORACLE:
        return []
    fix = "see the other findings."
    if metric == "bleu":
        fix += ' BLEU counts sequences of four words: for shorter targets set metric = "rouge_l".'
        fix += ' Chinese and Japanese have no blanks between words: set bleu_tokenizer = "zh".'
    what = f"a perfect model would score {metric} {oracle[metric]:.4g}"
    # Of a negated error there is no share: it may be small.
    return [Finding("error" if best and share < NO_SCORE else "warning", what, name, fix)]


def find_unspaced_targets(
    name: str, examples: Sequence[Example], settings: Settings
) -> list[Finding]:
    """Find targets without blanks between words, of which BLEU would take each for one word."""
    if settings.metric != "bleu" or settings.bleu_tokenizer in ("zh", "char"):
        return []
    targets = [target for example in examples for target in example.targets]
    unspaced = [target for target in targets if 2 * len(UNSPACED.findall(target)) > len(target)]
    if 2 * len(unspaced) <= len(targets):
        return []
    what = f"targets without blanks between words: {len(unspaced)} of {len(targets)}"
    fix = f'set bleu_tokenizer = "zh": "{settings.bleu_tokenizer}" takes each of them for one word.'
    return [Finding("warning", what, f"{name}, {unspaced[0][:60]!r} for one", fix)]


def build(examples: Sequence[Example], settings: Settings) -> Models:
    """Return models on a new encoder."""
    _, encoder = load_tokenizer_and_encoder(settings, examples)
    return build_models(encoder, settings)

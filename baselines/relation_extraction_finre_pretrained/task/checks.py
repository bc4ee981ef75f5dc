"""What check.py asks of the data: can the labels be taught, and found again?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from common.data_checks import (
    Finding,
    Texts,
    find_duplicates,
    find_leaks,
    find_unseen_labels,
    label_histogram,
    length_histogram,
)
from common.encoder import freeze_layers, load_encoder
from common.optimizers import make_optimizer
from common.records import Span
from common.regularization import make_regularization
from common.settings import project_path
from common.tokens import Window, is_aligned, split_into_windows
from common.training import TrainingModel
from task.data import Example, pointer_labels, read_examples
from task.decode import decode_window
from task.metrics import score
from task.model import POINTERS, build_models, compared_scores
from task.settings import Settings

# Gold that the best possible model could not find: below this the data is at fault.
LOWEST_ORACLE_F1 = 0.9
# Share of records annotated for some predicates only that a shared entity head bears.
MANY_PARTIAL = 0.2


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        windows: of all texts.
        tokens: of each text.
        spans: subjects and objects.
        unaligned: spans that don't begin and end with a token, with their examples.
        apart: examples of the triples whose spans never share a window.
        oracle: scores of the gold triples after encoding and decoding.
    """

    windows: int
    tokens: list[int]
    spans: int
    unaligned: list[tuple[Example, Span]]
    apart: list[Example]
    oracle: dict


def read_files(settings: Settings) -> dict[str, list[Example]]:
    """Return file -> examples, the training file first; a test file may lack, or lack triples."""
    files = {
        settings.train_file: read_examples(project_path(settings.train_file)),
        settings.dev_file: read_examples(project_path(settings.dev_file)),
    }
    if project_path(settings.test_file).is_file():
        test = read_examples(project_path(settings.test_file), require_triples=False)
        files.setdefault(settings.test_file, test)
    return files


def find_data_faults(files: dict[str, list[Example]]) -> list[Finding]:
    """Find repeats, leaks and predicates that the training file never shows."""
    texts: Texts = {
        name: [(example.id, example.text, example.line) for example in examples]
        for name, examples in files.items()
    }
    labels = {name: count_predicates(examples) for name, examples in files.items()}
    return [*find_duplicates(texts), *find_leaks(texts), *find_unseen_labels(labels)]


def find_head_faults(settings: Settings, examples: Sequence[Example]) -> list[Finding]:
    """Find shared entity heads where many records are annotated for some predicates only."""
    partial = sum(example.annotated_predicates is not None for example in examples)
    if settings.entity_heads != "shared" or partial < MANY_PARTIAL * len(examples):
        return []
    return [
        Finding(
            "warning",
            f"{partial} of {len(examples)} records list annotated_predicates, and a shared entity "
            "head learns from them that the spans of all other predicates are none",
            settings.train_file,
            'set entity_heads = "per_predicate".',
        )
    ]


def count_predicates(examples: Sequence[Example]) -> Counter:
    """Count the triples of each predicate."""
    return Counter(triple.predicate for example in examples for triple in example.triples)


def measure_reach(
    examples: Sequence[Example], tokenizer: Tokenizer, predicates: list[str], settings: Settings
) -> Reach:
    """Encode the gold triples as labels, and decode the labels as if a model had found them."""
    texts = [example.text for example in examples]
    overlap = settings.window_overlap
    windows = split_into_windows(tokenizer, texts, settings.max_length, overlap, "encode")
    unaligned, apart, found = [], [], {}
    bar = tqdm(
        zip(examples, windows, strict=True), "oracle", len(examples), leave=False, disable=None
    )
    for example, parts in bar:
        for triple in example.triples:
            for span in (triple.subject, triple.object):
                if not any(is_aligned(span, window) for window in parts):
                    unaligned.append((example, span))
            if not any(
                window.token_span(triple.subject) and window.token_span(triple.object)
                for window in parts
            ):
                apart.append(example)
        found[example.id] = list(
            dict.fromkeys(
                triple
                for window in parts
                for triple in decode_gold(example, window, predicates, settings.entity_heads)
            )
        )
    return Reach(
        windows=sum(map(len, windows)),
        # Tokens that windows share are counted once: each starts at another character.
        tokens=[len(np.unique(np.concatenate([w.starts for w in parts]))) for parts in windows],
        spans=2 * sum(len(example.triples) for example in examples),
        unaligned=unaligned,
        apart=apart,
        oracle=score(list(examples), found),
    )


def decode_gold(example: Example, window: Window, predicates: list[str], entity_heads: str) -> dict:
    """Return the triples that are decoded from the labels of a window."""
    labels = pointer_labels(example, window, predicates, entity_heads)
    grids = {}
    for name in POINTERS:
        pairs = labels[f"{name}_labels"]
        grids[name] = np.full((len(pairs), len(window), len(window)), -10, np.float32)
        for grid, cells in zip(grids[name], pairs, strict=True):
            cells = cells[cells[:, 0] >= 0]
            grid[cells[:, 0], cells[:, 1]] = 10
    return decode_window(grids, window, predicates, entity_heads)


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    aligned = 1 - len(reach.unaligned) / max(reach.spans, 1)
    lines = [
        f"\n{name}: {len(examples)} records, {reach.spans // 2} triples",
        f"windows: {reach.windows / len(examples):.2f} a text",
        f"aligned with tokens: {aligned:.2%} of {reach.spans} spans",
        f"oracle (gold, encoded and decoded): F1 {reach.oracle['f1']:.4f}, precision "
        f"{reach.oracle['precision']:.4f}, recall {reach.oracle['recall']:.4f}",
        length_histogram([len(example.text) for example in examples], "characters"),
        length_histogram(reach.tokens, "tokens"),
        label_histogram(count_predicates(examples), "predicates"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach) -> list[Finding]:
    """Find the labels that no model can learn, or that decoding loses."""
    findings = []
    if reach.unaligned:
        example, span = reach.unaligned[0]
        findings.append(
            Finding(
                "warning",
                f"spans that don't begin and end with a token: {len(reach.unaligned)}",
                f"{name}, line {example.line}, {list(span)} {example.text[slice(*span)]!r} for one",
                "correct the offsets, or choose an encoder with shorter tokens.",
            )
        )
    if reach.apart:
        findings.append(
            Finding(
                "warning",
                f"triples whose spans never share a window: {len(reach.apart)}",
                f"{name}, line {reach.apart[0].line} for one",
                "raise max_length and window_overlap.",
            )
        )
    oracle = reach.oracle
    if reach.spans and oracle["f1"] < 1:
        findings.append(
            Finding(
                "error" if oracle["f1"] < LOWEST_ORACLE_F1 else "warning",
                f"a perfect model would score F1 {oracle['f1']:.4f}",
                f"{name}, {oracle['gold'] - oracle['correct']} triples are lost, "
                f"{oracle['predicted'] - oracle['correct']} invented",
                "mend the findings above; where triples are invented, entity_heads = "
                '"per_predicate" tells more of them apart.',
            )
        )
    return findings


def build_compiled(tokenizer: Tokenizer, predicates: int, settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    encoder = load_encoder(settings, tokenizer)
    model, inference = build_models(encoder, predicates, settings)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    freeze_layers(encoder, settings.frozen_layers)
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(inference)),
    )
    return model

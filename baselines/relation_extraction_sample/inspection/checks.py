"""What check.py asks of the data: can the labels be taught, and found again?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from core.data.checks import Finding
from core.data.tokens import Window, split_into_windows
from core.encoders.encoder import load_encoder
from core.step import Models
from task.data import pointer_labels
from task.decode import MOST_SPANS, MOST_TRIPLES, decode_window
from task.metrics import score
from task.model import build_models
from task.records import Example, Triple
from task.settings import Settings

# Below this F1 of a perfect model the data is at fault.
LOWEST_ORACLE_F1 = 0.9
# From this share of partly annotated records on, a shared entity head gets a warning.
MANY_PARTIAL = 0.2


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        tokens: of each window.
        cut: spans that don't begin and end with a token, from the doctor.
        apart: lines of the triples whose spans never share a window.
        oracle: scores of the gold triples after encoding and decoding.
        crowded: lines of the triples beyond those that a window keeps.
    """

    tokens: list[int]
    cut: list
    apart: list[int]
    oracle: dict
    crowded: list[int] = field(default_factory=list)


def find_data_faults(files: Mapping[str, Sequence[Example]], settings: Settings) -> list[Finding]:
    """Find repeats, leaks, predicates never shown in training, and heads that learn wrong."""
    find, texts = need("doctor", "record_checks").find_record_faults, lambda example: [example.text]
    findings = find(files, texts, describe_triples, count_predicates, "triples")
    train = files[settings.train_file]
    partial = sum(example.annotated_predicates is not None for example in train)
    if settings.entity_heads == "shared" and partial >= MANY_PARTIAL * len(train):
        what = (
            f"{partial} of {len(train)} records list annotated_predicates, and a shared entity "
            "head learns from them that the spans of all other predicates are none"
        )
        fix = 'set entity_heads = "per_predicate".'
        findings.append(Finding("warning", what, settings.train_file, fix))
    return findings


def describe_triples(example: Example) -> list[str]:
    """Return the triples of a record in words."""
    words = [
        [example.text[slice(*span)] for span in (t.subject, t.object)] for t in example.triples
    ]
    return [
        f"{[*t.subject]} {one!r} {t.predicate} {[*t.object]} {two!r}"
        for t, (one, two) in zip(example.triples, words, strict=True)
    ]


def count_predicates(examples: Sequence[Example]) -> Counter:
    """Count the triples of each predicate."""
    return Counter(triple.predicate for example in examples for triple in example.triples)


def measure_reach(
    examples: Sequence[Example], tokenizer: Tokenizer, predicates: list[str], settings: Settings
) -> Reach:
    """Encode the gold triples as labels, and decode the labels as if a model had found them."""
    texts = [example.text for example in examples]
    length, overlap = settings.max_length, settings.window_overlap
    windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
    faults = need("doctor", "span_faults")
    cut, apart, crowded, found = [], [], [], {}
    pairs = zip(examples, windows, strict=True)
    for example, parts in tqdm(pairs, "oracle", len(examples), leave=False, disable=None):
        for triple in example.triples:
            spans = (triple.subject, triple.object)
            cut += [faults.find_cut_span(example.text, span, example.line, parts) for span in spans]
            blank = any(faults.is_blank(example.text, span) for span in spans)
            if not any(all(window.token_span(s) for s in spans) for window in parts) and not blank:
                apart.append(example.line)
        decoded = (decode_gold(example, window, predicates, settings) for window in parts)
        found[example.id] = list(dict.fromkeys(triple for part in decoded for triple in part))
        for triple in {*example.triples}.difference(found[example.id]):
            spans = (triple.subject, triple.object)
            whole = any(all(faults.is_aligned(span, window) for span in spans) for window in parts)
            crowded += [example.line] if whole and triple.predicate in predicates else []
    tokens = [len(window) for parts in windows for window in parts]
    return Reach(tokens, [*filter(None, cut)], apart, score(examples, found), crowded)


def decode_gold(
    example: Example, window: Window, predicates: list[str], settings: Settings
) -> dict[Triple, float]:
    """Return the triples that are decoded from the labels of a window."""
    labels = pointer_labels(example, window, predicates, settings.entity_heads)
    entity, head, tail = (
        [{(i, j) for i, j in cells if i >= 0} for cells in labels[f"{name}_labels"].tolist()]
        for name in ("entity", "head", "tail")
    )
    rows = []
    for predicate, (heads, tails) in enumerate(zip(head, tail, strict=True)):
        first = 0 if settings.entity_heads == "shared" else 2 * predicate
        subjects, objects = (sorted(spans)[:MOST_SPANS] for spans in entity[first : first + 2])
        for one, two in product(subjects, objects if heads else ()):
            if (one[0], two[0]) in heads and (one[1], two[1]) in tails:
                rows.append((predicate, *one, *two))
    table = np.array(rows[:MOST_TRIPLES], int).reshape(-1, 5)
    found = {"scores": np.ones(len(table)), "predicates": table[:, 0], "places": table[:, 1:]}
    return decode_window(found, window, predicates)


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    triples = sum(len(example.triples) for example in examples)
    aligned = 1 - len(reach.cut) / max(2 * triples, 1)
    lines = [
        f"\n{name}: {len(examples)} records, {triples} triples",
        f"windows: {len(reach.tokens) / len(examples):.2f} a text",
        f"aligned with tokens: {aligned:.2%} of {2 * triples} spans",
        f"oracle (gold, encoded and decoded): F1 {reach.oracle['f1']:.4f}, precision "
        f"{reach.oracle['precision']:.4f}, recall {reach.oracle['recall']:.4f}"
        if triples
        else "oracle: none, because no record has a triple",
        *draw([len(example.text) for example in examples], "characters"),
        *draw(reach.tokens, "tokens a window"),
        *draw(count_predicates(examples), "predicates"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach) -> list[Finding]:
    """Find the labels that no model can learn, or that decoding loses."""
    findings = need("doctor", "span_faults").find_span_faults(name, reach.cut)
    if reach.apart:
        what = f"triples whose spans never share a window: {len(reach.apart)}"
        fix = "raise max_length and window_overlap."
        findings.append(Finding("warning", what, f"{name}, line {reach.apart[0]} for one", fix))
    if reach.crowded:
        most = f"{MOST_SPANS} subjects, {MOST_SPANS} objects and {MOST_TRIPLES} triples"
        what = f"triples beyond the {most} that each window keeps: {len(reach.crowded)}"
        fix = "lower max_length, so that a window holds fewer of them."
        findings.append(Finding("warning", what, f"{name}, line {reach.crowded[0]} for one", fix))
    oracle = reach.oracle
    if oracle["gold"] and oracle["f1"] < 1:
        level = "error" if oracle["f1"] < LOWEST_ORACLE_F1 else "warning"
        lost, invented = (oracle[key] - oracle["correct"] for key in ("gold", "predicted"))
        what = f"a perfect model would score F1 {oracle['f1']:.4f}"
        where = f"{name}, {lost} triples are lost, {invented} invented"
        fix = "fix the findings above."
        if invented and not findings:
            fix = 'entity_heads = "per_predicate" tells more triples apart.'
        findings.append(Finding(level, what, where, fix))
    return findings


def build(tokenizer: Tokenizer, predicates: int, settings: Settings) -> Models:
    """Return the models on an encoder of their own."""
    return build_models(load_encoder(settings, tokenizer), predicates, settings)

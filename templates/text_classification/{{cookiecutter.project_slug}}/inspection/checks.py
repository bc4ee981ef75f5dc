"""What check.py asks of the data: can the labels be learned from these texts?"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from core.base.extras import need
from core.base.files import project_path
from core.data.checks import Finding
from core.encoders.encoder import load_encoder
from core.step import Models
from library.encoding import encode_examples
from task.decode import choose_labels, make_candidates
from task.evaluation import evaluate
from task.metrics import choose_metric
from task.model import build_models
from task.records import TABLES, Example, Labels, check_kind, count_labels
from task.settings import Settings

# A note is given where the most frequent label is more than so many times as frequent as another.
IMBALANCE = 20
# Share of cut records that is not worth a warning.
FEW_CUT = 0.01
# Characters at the beginning and the end of a text that is shown.
BEGINNING, END = 120, 60
SHOWN_LABELS = 5


def find_data_faults(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find repeats, leaks, contradictions and labels that the training file never shows."""

    def gold_of(example: Example) -> Sequence[str] | None:
        numbers = getattr(example, "numbers", ())  # of targets, whose names are the labels
        pairs = [
            f"{name} {number:g}" for name, number in zip(example.labels, numbers, strict=False)
        ]
        return (pairs or example.labels) if example.labelled else None

    gold = "numbers" if any(hasattr(examples[0], "numbers") for examples in files.values()) else ""
    find = need("doctor", "record_checks").find_record_faults
    return find(files, lambda example: example.texts, gold_of, count_labels, gold or "labels")


def find_label_faults(
    files: dict[str, Sequence[Example]], labels: Labels, settings: Settings
) -> list[Finding]:
    """Find labels that exclude each other, that the loss hardly sees, or that may be slips."""
    findings = find_single_labels(files[settings.train_file], labels, settings)
    most, fewest = max(labels.counts), min(labels.counts)
    ranked = files[settings.train_file][0].group is not None
    if most > IMBALANCE * fewest and settings.class_weights == "none" and not ranked:
        often, seldom = (labels.names[labels.counts.index(count)] for count in (most, fewest))
        findings.append(
            Finding(
                "note",
                f"{often!r} occurs {most} times, {seldom!r} {fewest} times",
                settings.train_file,
                'if rare labels count as much in your competition, try class_weights = "balanced".',
            )
        )
    return findings + find_unequal_positive(labels, settings)


def find_unequal_positive(labels: Labels, settings: Settings) -> list[Finding]:
    """Find a positive label beside more than one other: maybe one of them is a slip."""
    others = [name for name in labels.names if name != settings.positive_label]
    if not settings.positive_label or labels.several or len(others) < 2:
        return []
    shown = ", ".join(map(repr, others[:SHOWN_LABELS]))
    what = f"positive_label = {settings.positive_label!r}, and {len(others)} labels beside it"
    fix = f"if one is a slip, correct it; the score is F1 of {settings.positive_label!r} alone."
    return [Finding("warning", f"{what}: {shown}", settings.train_file, fix)]


def find_single_labels(
    examples: Sequence[Example], labels: Labels, settings: Settings
) -> list[Finding]:
    """Find several labels of which each record has exactly one: they exclude each other."""
    table = getattr(settings, "competition", None)
    if labels.are_numbers or not labels.several or len(labels.names) < 2:
        return []
    if table and table.hierarchy or any(len(example.labels) != 1 for example in examples):
        return []
    fix = 'write "label" instead of "labels" in every record.'
    if Path(settings.train_file).suffix.lower() in TABLES and table:
        of_cell = "leave competition.label_separator empty."
        fix = of_cell if table.label_separator else "set competition.one_label = true."
    what = (
        f"each record has exactly one of {len(labels.names)} labels, but may have several: each "
        "gets a probability of its own, and those of a record don't sum to 1"
    )
    return [Finding("warning", what, settings.train_file, f"if one always holds, {fix}")]


def find_still_score(
    examples: Sequence[Example], labels: Labels, settings: Settings
) -> list[Finding]:
    """Find a dev file on which the best and the worst model have the same score."""
    check_kind(examples, labels, settings.dev_file)
    monitor = choose_metric(settings.metric, labels, examples)
    gold = np.array([getattr(example, "numbers", ()) for example in examples], float)
    if not labels.are_numbers:
        gold = labels.targets(examples).astype(float)
    # Never the gold itself, even where all of it is the same.
    worst = gold.max() + gold.min() + 1 - gold if labels.are_numbers else 1 - gold
    path = project_path(settings.dev_file)
    found = [
        evaluate(examples, make_candidates(examples, rows, labels), labels, path, settings)
        for rows in (gold, worst)
    ]
    best, lowest = (one.scores.get(monitor, 0.0) for one in found)  # none: no gold label is known
    seen = {example.labels for example in examples}
    fix = "name a dev_file in which the labels of train_file occur, such as a part of that file."
    if best == lowest:
        what = f"{monitor} is {best:.4f} whatever a model predicts, so it can choose nothing"
        return [Finding("warning", what, settings.dev_file, fix)]
    if len(seen) == 1 and not labels.are_numbers:
        what = f"each record has the same label, {', '.join(*seen) or 'none'}"
        return [Finding("warning", what, settings.dev_file, fix)]
    return []


def warn(
    what: str, name: str, found: Sequence[Example], examples: Sequence[Example], advice: str
) -> list[Finding]:
    """Return a warning that counts the examples found among all of a file; none: no warning."""
    where = f"{name}, line {found[0].line} for one" if found else ""
    counted = f"{what}: {len(found)} of {len(examples)}"
    return [Finding("warning", counted, where, advice)] if found else []


def measure_tokens(
    examples: Sequence[Example], tokenizer: Tokenizer, max_length: int
) -> tuple[list[int], list[Example]]:
    """Return the tokens that are read of each example, and the examples that are cut."""
    found = encode_examples(
        tokenizer, examples, max_length, lambda own: (len(own.ids), bool(own.overflowing))
    )
    cut = [example for example, (_, longer) in zip(examples, found, strict=True) if longer]
    return [length for length, _ in found], cut


def find_cut_texts(
    name: str, examples: Sequence[Example], cut: Sequence[Example], max_length: int
) -> list[Finding]:
    """Find files of which more than a few records lose their end."""
    what = f"records longer than max_length = {max_length} tokens, which lose their end"
    advice = "raise max_length, or shorten the texts to what decides."
    many = len(cut) > FEW_CUT * len(examples)
    return warn(what, name, cut, examples, advice) if many else []


def describe_file(
    name: str, examples: Sequence[Example], labels: Labels, tokens: list[int], cut: int
) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    lines = [f"\n{name}: {len(examples)} records, {cut} cut at the end"]
    if known := [example for example in examples if example.labelled]:
        # A perfect model's accuracy: below 1 where labels are unknown to it.
        found = [choose_labels(row, labels, 0.5) for row in labels.targets(known)]
        right = [set(e.labels) == set(names) for e, names in zip(known, found, strict=True)]
        lines.append(f"oracle (gold labels, encoded and decoded): {np.mean(right):.4f}")
    else:
        lines.append("oracle: none, because no record has a label")
    lines += [
        *draw([sum(map(len, example.texts)) for example in examples], "characters"),
        *draw(tokens, "tokens"),
        *draw(count_labels(examples), "labels"),
    ]
    groups = {example.group for example in examples} - {None}
    ranked = {example.group for example in known if labels.positive in example.labels}
    if groups:
        left_out = len(groups - ranked)
        lines.append(f"groups: {len(groups)}, {left_out} without {labels.positive!r}: not ranked")
    return "\n".join(lines)


def show_records(settings: Settings, examples: Sequence[Example], tokenizer: Tokenizer) -> str:
    """Return three records as the model reads them: the first, the longest and another one.

    A bi-encoder of extras/retrieval reads each of their texts separately.

    Args:
        settings: `train_file`, `max_length`.
        examples: of the training file.
        tokenizer: of the encoder.
    """
    count = len(examples)
    longest = max(range(count), key=lambda own: sum(map(len, examples[own].texts)))
    places = [*dict.fromkeys((0, longest, count // 2, count - 1))]
    chosen = [examples[place] for place in sorted(places[:3])]
    if getattr(getattr(settings, "retrieval", None), "loss", "none") != "none":
        chosen = [
            replace(one, text_a=text, text_b=None, context=None)
            for one in chosen
            for text in one.texts
        ]
    lines = [f"\n{settings.train_file}, as the model reads it:"]
    encoded = encode_examples(tokenizer, chosen, settings.max_length)
    for example, encoding in zip(chosen, encoded, strict=True):
        text = show_tokens(example, encoding, tokenizer)
        pairs = zip(example.labels, getattr(example, "numbers", ()), strict=False)
        gold = ", ".join([f"{label} {number:g}" for label, number in pairs] or example.labels)
        lines.append(f"line {example.line}, {len(encoding.ids)} tokens: {text}")
        lines.append(f"  gold: {gold or 'none'}")
    return "\n".join(lines)


def show_tokens(example: Example, encoding: Any, tokenizer: Tokenizer) -> str:
    """Return the tokens of an encoded record as text, with separators and where it is cut.

    Args:
        example: the record.
        encoding: from `encode_examples`.
        tokenizer: of the encoder.
    """
    text_of = getattr(encoding, "text_ids", encoding.sequence_ids)
    parts = []
    for number, own in itertools.groupby(zip(text_of, encoding.ids, strict=True), lambda x: x[0]):
        ids = [token for _, token in own]
        part = tokenizer.decode(ids, skip_special_tokens=False).replace("\n", "\\n").strip(" ")
        if len(part) > BEGINNING + END:
            part = f"{part[:BEGINNING]} ... {part[-END:]}"
        parts.append(part)
        if number is not None:
            every = tokenizer.encode(example.texts[number], add_special_tokens=False).ids
            cut = len(every) - len(ids)
            parts += [f"<{cut} of {len(every)} tokens cut>"] if cut else []
    return " ".join(parts)


def build(tokenizer: Tokenizer, labels: Labels, settings: Settings) -> Models:
    """Return the models on an encoder of their own."""
    return build_models(load_encoder(settings, tokenizer), labels, settings)

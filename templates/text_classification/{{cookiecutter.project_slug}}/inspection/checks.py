"""What check.py asks of the data: can the labels be learned from these texts?"""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from core.base.extras import need
from core.data.checks import Finding, draw_histogram
from core.encoders.encoder import load_encoder
from core.step import Models
from task.data import Example, Labels, count_labels, encode_examples
from task.decode import choose_labels
from task.model import build_models
from task.settings import Settings

# A note is given where the most frequent label is more than so many times as frequent as another.
IMBALANCE = 20
# Share of cut records that is not worth a warning.
FEW_CUT = 0.01


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
    """Find labels so rare that the loss hardly sees them, and empty texts."""
    findings = []
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
    for name, examples in files.items():
        empty = [example for example in examples if not all(t.strip() for t in example.texts)]
        advice = "give each record the same fields, with text in them."
        findings += warn("records with an empty text", name, empty, examples, advice)
    return findings


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
    lines = [f"\n{name}: {len(examples)} records, {cut} cut at the end"]
    if known := [example for example in examples if example.labelled]:
        # A perfect model's accuracy: below 1 where labels are unknown to it.
        found = [choose_labels(row, labels, 0.5) for row in labels.targets(known)]
        right = [set(e.labels) == set(names) for e, names in zip(known, found, strict=True)]
        lines.append(f"oracle (gold labels, encoded and decoded): {np.mean(right):.4f}")
    else:
        lines.append("oracle: none, because no record has a label")
    lines += [
        *draw_histogram([sum(map(len, example.texts)) for example in examples], "characters"),
        *draw_histogram(tokens, "tokens"),
        *draw_histogram(count_labels(examples), "labels"),
    ]
    groups = {example.group for example in examples} - {None}
    ranked = {example.group for example in known if labels.positive in example.labels}
    if groups:
        left_out = len(groups - ranked)
        lines.append(f"groups: {len(groups)}, {left_out} without {labels.positive!r}: not ranked")
    return "\n".join(lines)


def build(tokenizer: Tokenizer, labels: Labels, settings: Settings) -> Models:
    """Return the models on an encoder of their own."""
    return build_models(load_encoder(settings, tokenizer), labels, settings)

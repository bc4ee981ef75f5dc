"""What check.py does with records: it looks for repeats, leaks and labels, and draws lengths."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.data.checks import Finding
from extras.doctor.record_checks import (
    find_duplicates,
    find_leaks,
    find_leaks_of_first_texts,
    find_unseen_labels,
    label_histogram,
    length_histogram,
)


def find_record_faults(
    files: Mapping[str, Sequence[Any]],
    texts_of: Callable[[Any], Sequence[str]],
    count_labels: Callable[[Sequence[Any]], Counter] | None,
) -> list[Finding]:
    """Return repeats, leaks, and labels that the training file never shows.

    The arguments are those of the function in core/data/data_checks.py that asks.
    """
    texts, first_texts = {}, {}
    for name, examples in files.items():
        rows = [(texts_of(example), example.line) for example in examples]
        texts[name] = [("\n".join(parts), line) for parts, line in rows]
        first_texts[name] = [(parts[0], line) for parts, line in rows if len(parts) > 1]
    findings = [*find_duplicates(texts), *find_leaks(texts)]
    findings += find_leaks_of_first_texts(first_texts)
    if count_labels:
        labels = {name: count_labels(examples) for name, examples in files.items()}
        findings += find_unseen_labels(labels)
    return findings


def draw_histogram(values: Sequence[int] | Counter, unit: str) -> list[str]:
    """Return lines of text: bars for lengths, or for how often each label stands."""
    if isinstance(values, Counter):
        return label_histogram(values, unit)
    return length_histogram(values, unit)

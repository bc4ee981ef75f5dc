"""Checks of the records of any task: repeats, leaks, labels that can't be learned."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.data.checks import Finding, normalise

BAR_WIDTH = 40
SHOWN_PLACES = 3

# File name -> (text, line) of each record.
Texts = dict[str, list[tuple[str, int]]]


def find_record_faults(
    files: Mapping[str, Sequence[Any]],
    texts_of: Callable[[Any], Sequence[str]],
    count_labels: Callable[[Sequence[Any]], Counter] | None,
) -> list[Finding]:
    """Return repeats, leaks, and labels that the training file does not have.

    The arguments are those of the function in core/data/checks.py that calls this.
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
        findings += find_missing_gold(labels)
    return findings


def find_duplicates(texts: Texts) -> Iterator[Finding]:
    """Find texts that occur twice in one file, ignoring case and white space."""
    for file, records in texts.items():
        repeated = [lines for lines in lines_by_text(records).values() if len(lines) > 1]
        if repeated:
            extra = sum(len(lines) - 1 for lines in repeated)
            shown = ", ".join(map(str, repeated[0][:SHOWN_PLACES]))
            yield Finding(
                "warning",
                f"repeated texts: {extra} of {len(records)} records",
                f"{file}, lines {shown}{', ...' * (len(repeated[0]) > SHOWN_PLACES)} for one",
                "keep one of each, or score them as what they are: the same record.",
            )


def find_leaks(texts: Texts) -> Iterator[Finding]:
    """Find texts that occur in two files, ignoring case and white space.

    Args:
        texts: the training file first; its texts make the score of another file too good.
    """
    lines = {file: lines_by_text(records) for file, records in texts.items()}
    for first, second in itertools.combinations(lines, 2):
        # In file order, so that the same place is named each time.
        shared = [text for text in lines[second] if text in lines[first]]
        if shared:
            places = [lines[file][shared[0]][0] for file in (first, second)]
            yield Finding(
                "error" if first == next(iter(texts)) else "warning",
                f"texts of {second} that are in {first} too: {len(shared)}",
                f"{second}, line {places[1]}, is {first}, line {places[0]}, for one",
                f"take them out of {first}, or the score on {second} says nothing.",
            )


def find_leaks_of_first_texts(texts: Texts) -> Iterator[Finding]:
    """Find first texts of pairs in two files, such as a dev question with answers in training."""
    for leak in find_leaks(texts):
        what = leak.what.replace("texts of", "first texts of")
        yield replace(leak, level="warning", what=what)


def find_unseen_labels(labels: dict[str, Counter]) -> Iterator[Finding]:
    """Find labels that are not in the training file.

    Args:
        labels: file -> number of each label; the training file first.
    """
    (train, known), *others = labels.items()
    for file, counts in others:
        unseen = Counter({label: n for label, n in counts.items() if n and not known[label]})
        if unseen:
            names = ", ".join(f"{name} ({n})" for name, n in unseen.most_common(SHOWN_PLACES))
            yield Finding(
                "warning",
                f"labels never seen in {train}: {len(unseen)}, of {unseen.total()} items",
                f"{file}: {names}{', ...' if len(unseen) > SHOWN_PLACES else ''}",
                f"add examples of them to {train}: no model can find them otherwise.",
            )


def find_missing_gold(labels: dict[str, Counter]) -> Iterator[Finding]:
    """Find a dev file without any gold: its score can choose nothing.

    Args:
        labels: file -> number of each label; the training file first, then dev.
    """
    dev = next(iter([*labels][1:]), None)
    if dev is not None and not labels[dev].total():
        yield Finding(
            "warning",
            "no record has gold, so the score is the same after every epoch and chooses nothing",
            dev,
            "name a dev_file with labels, such as a part of the training file.",
        )


def lines_by_text(records: list[tuple[str, int]]) -> dict[str, list[int]]:
    """Return normalised text -> its lines."""
    lines: dict[str, list[int]] = {}
    for text, line in records:
        lines.setdefault(normalise(text), []).append(line)
    return lines


def draw_histogram(values: Sequence[int] | Counter, unit: str) -> list[str]:
    """Return lines of text: bars for lengths, or for how often each label occurs."""
    if isinstance(values, Counter):
        return label_histogram(values, unit)
    return length_histogram(values, unit)


def length_histogram(lengths: Sequence[int], unit: str, bins: int = 10) -> list[str]:
    """Return the lengths of records as text bars, below the median and the extremes."""
    if not len(lengths):
        return [f"{unit}: no record"]
    values = np.asarray(lengths)
    # Whole numbers at every edge, so that a bar's name is exact.
    step = max(1, -(-(int(np.ptp(values)) + 1) // bins))
    starts, counts = np.unique(values - (values - values.min()) % step, return_counts=True)
    names = [f"{start}" if step == 1 else f"{start} to {start + step - 1}" for start in starts]
    head = (
        f"{unit}: shortest {values.min()}, median {np.median(values):g}, "
        f"95 % up to {np.percentile(values, 95):g}, longest {values.max()}"
    )
    return [head, *draw_bars(names, counts.tolist())]


def label_histogram(counts: Counter, unit: str = "labels", most: int = 30) -> list[str]:
    """Return the counts of the most frequent labels as text bars."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    bars = draw_bars([name for name, _ in rows[:most]], [count for _, count in rows[:most]])
    more = f"  and {len(rows) - most} more, {sum(n for _, n in rows[most:])} in all"
    head = f"{unit}: {len(rows)} kinds, {counts.total()} in all"
    return [head, *bars, *([more] if rows[most:] else [])]


def draw_bars(names: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return one line per name; the name comes last, because Chinese names are wide."""
    largest = max(counts, default=1)
    bars = ["█" * round(BAR_WIDTH * count / largest) or "▏" for count in counts]
    return [
        # A tab or line break in a label would break the table.
        f"  {count:>7} {bar:<{BAR_WIDTH}} {name if name.isprintable() else repr(name)}"
        for name, count, bar in zip(names, counts, bars, strict=True)
    ]

"""What can be wrong with data before any training: repeats, leaks, labels nobody can learn."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from rich.cells import cell_len, set_cell_size

BAR_WIDTH = 40
LABEL_WIDTH = 32
SHOWN_PLACES = 3

# File name -> (id, text, line) of each record.
Texts = dict[str, list[tuple[str, str, int]]]


@dataclass(frozen=True)
class Finding:
    """One thing that the participant should know: what, where and how to mend it."""

    level: Literal["error", "warning", "note"]
    what: str
    where: str
    mend: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what} ({self.where}): {self.mend}"


def find_repeated_ids(texts: Texts) -> list[Finding]:
    """Find ids that stand twice in one file: predictions could not be told apart."""
    findings = []
    for file, records in texts.items():
        repeated = group_lines((identity, line) for identity, _, line in records)
        if repeated:
            identity, lines = next(iter(repeated.items()))
            findings.append(
                Finding(
                    "error",
                    f"repeated ids: {len(repeated)}, {identity!r} for one",
                    f"{file}, {name_lines(lines)}",
                    "give each record an id of its own.",
                )
            )
    return findings


def find_duplicates(texts: Texts) -> list[Finding]:
    """Find texts that stand twice in one file, but for case and white space."""
    findings = []
    for file, records in texts.items():
        repeated = group_lines((normalise(text), line) for _, text, line in records)
        if repeated:
            extra = sum(len(lines) - 1 for lines in repeated.values())
            findings.append(
                Finding(
                    "warning",
                    f"repeated texts: {extra} of {len(records)} records",
                    f"{file}, {name_lines(next(iter(repeated.values())))} for one",
                    "keep one of each, or score them as what they are: the same record.",
                )
            )
    return findings


def find_leaks(texts: Texts) -> list[Finding]:
    """Find texts that stand in two files, but for case and white space.

    Args:
        texts: the training file first; a text of it in another file makes that file's score a lie.
    """
    files = [(file, lines_by_text(records)) for file, records in texts.items()]
    findings = []
    for position, (first, first_lines) in enumerate(files):
        for second, second_lines in files[position + 1 :]:
            # In the order of the file, so that the same place is named each time.
            shared = [text for text in second_lines if text in first_lines]
            if shared:
                text = shared[0]
                findings.append(
                    Finding(
                        "error" if position == 0 else "warning",
                        f"texts of {second} that stand in {first} too: {len(shared)}",
                        f"{second}, line {second_lines[text]}, is {first}, line "
                        f"{first_lines[text]}, for one",
                        f"take them out of {first}, or the score on {second} says nothing.",
                    )
                )
    return findings


def find_unseen_labels(labels: dict[str, Counter]) -> list[Finding]:
    """Find labels that the training file never shows.

    Args:
        labels: file -> how often each label stands in it; the training file first.
    """
    (train, known), *others = labels.items()
    findings = []
    for file, counts in others:
        unseen = Counter({label: n for label, n in counts.items() if n and not known[label]})
        if unseen:
            names = ", ".join(f"{name} ({n})" for name, n in unseen.most_common(SHOWN_PLACES))
            findings.append(
                Finding(
                    "warning",
                    f"labels never seen in {train}: {len(unseen)}, of {unseen.total()} items",
                    f"{file}: {names}{', ...' if len(unseen) > SHOWN_PLACES else ''}",
                    f"add examples of them to {train}: no model can find them otherwise.",
                )
            )
    return findings


def normalise(text: str) -> str:
    """Return a text without the differences that make no other record of it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def group_lines(keys: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return `key -> its lines` for the keys that stand on several lines."""
    lines: dict[str, list[int]] = {}
    for key, line in keys:
        lines.setdefault(key, []).append(line)
    return {key: found for key, found in lines.items() if len(found) > 1}


def lines_by_text(records: list[tuple[str, str, int]]) -> dict[str, int]:
    """Return normalised text -> the first line that it stands on."""
    return {normalise(text): line for _, text, line in reversed(records)}


def name_lines(lines: Sequence[int]) -> str:
    """Return `lines 3, 7`, cut short when there are many."""
    more = ", ..." if len(lines) > SHOWN_PLACES else ""
    return f"lines {', '.join(map(str, lines[:SHOWN_PLACES]))}{more}"


def length_histogram(lengths: Sequence[int], unit: str, bins: int = 10) -> str:
    """Return the lengths as bars of text, with the median and the extremes above.

    Args:
        lengths: of each record.
        unit: what is counted, "tokens" for one.
        bins: the most bars.
    """
    if not len(lengths):
        return f"{unit}: no record"
    values = np.asarray(lengths)
    head = (
        f"{unit}: shortest {values.min()}, median {np.median(values):g}, "
        f"95 % up to {np.percentile(values, 95):g}, longest {values.max()}"
    )
    # Whole numbers at every edge, so that a bar's name says exactly what it holds.
    step = max(1, -(-(int(values.max()) - int(values.min()) + 1) // bins))
    edges = np.arange(values.min(), values.max() + step + 1, step)
    counts, _ = np.histogram(values, edges)
    names = [
        f"{start}" if step == 1 else f"{start} to {end - 1}"
        for start, end in zip(edges, edges[1:], strict=False)
    ]
    rows = list(zip(names, counts.tolist(), strict=True))
    while not rows[-1][1]:
        rows.pop()
    return "\n".join([head, *draw_bars(rows)])


def label_histogram(counts: Counter, unit: str = "labels", most: int = 30) -> str:
    """Return the counts of labels as bars of text, the most frequent first.

    Args:
        counts: label -> how often it stands in a file.
        unit: what is counted, "predicates" for one.
        most: labels to show; the others are counted in the last line.
    """
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    lines = [f"{unit}: {len(rows)} kinds, {counts.total()} in all", *draw_bars(rows[:most])]
    if rows[most:]:
        lines.append(f"  and {len(rows) - most} more, {sum(n for _, n in rows[most:])} in all")
    return "\n".join(lines)


def draw_bars(rows: Sequence[tuple[str, int]]) -> list[str]:
    """Return a line of text for each `(name, count)`; Chinese names take two cells a character."""
    # A tab or line break within a label would break the table.
    names = [name if name.isprintable() else repr(name) for name, _ in rows]
    width = min(LABEL_WIDTH, max(map(cell_len, names), default=0))
    largest = max((count for _, count in rows), default=0)
    digits = len(str(largest))
    lines = []
    for name, (_, count) in zip(names, rows, strict=True):
        short = name if cell_len(name) <= width else set_cell_size(name, width - 1) + "…"
        bar = "█" * round(BAR_WIDTH * count / max(largest, 1)) or "▏" * (count > 0)
        lines.append(f"  {set_cell_size(short, width)} {count:>{digits}} {bar}".rstrip())
    return lines

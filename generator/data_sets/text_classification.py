"""SelQA: lines of question, candidate, 0 or 1; EmoBank: sentences with three numbers each."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import (
    Records,
    fields_checked,
    pick_splits,
    read_fields,
    read_text,
    text_id,
)

FIELDS = ("question", "candidate", "label")
LABELS = ("0", "1")
EMOBANK_HEADER = ["id", "split", "V", "A", "D", "text"]
EMOBANK_TARGETS = {"valence": "V", "arousal": "A", "dominance": "D"}


def convert_selqa(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert SelQA files to the records of each split, one per candidate.

    Args:
        files: files in the official format; a candidate may be in any of them.
        splits: the pinned ids of each split's candidates.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned candidate is missing.
    """
    # Sorted, so that the order of the files has no effect.
    rows = sorted(row for path in files for row in read_rows(path))
    return pick_splits(candidate_records(rows), splits, files)


def candidate_records(rows: Iterable[list[str]]) -> Records:
    """Return the records of question, candidate and label.

    A candidate may occur again for its question, even with the other label, so ids are numbered.
    """
    seen: Counter[str] = Counter()
    records: Records = {}
    for question, candidate, label in rows:
        pair = text_id(question, candidate)
        seen[pair] += 1
        name = pair if seen[pair] == 1 else f"{pair}-{seen[pair]}"
        records[name] = {
            "id": name,
            "text_a": question,
            "text_b": candidate,
            "label": label,
            "group": text_id(question),
        }
    return records


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield question, candidate and label of each line."""
    for where, fields in read_fields(path, FIELDS):
        if fields[2] not in LABELS:
            raise InputError(
                f"{where}: the label is {fields[2]!r} instead of 0 or 1: fetch the file again."
            )
        yield fields


# ----------------------------------------------------------------------------------------- EmoBank


def convert_emobank(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert EmoBank's table to the records of each split, one per sentence.

    Args:
        files: files in the official format; a sentence may be in any of them.
        splits: the pinned ids of each split's sentences.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    records: Records = {}
    for path in files:
        records |= {record["id"]: record for record in read_emobank(path)}
    return pick_splits(records, splits, files)


def read_emobank(path: Path) -> Iterator[dict]:
    """Yield the record of each sentence: its text and its mean ratings, from 1 to 5.

    An id is derived from the official one, which names the document.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        if next(reader, None) != EMOBANK_HEADER:
            raise InputError(
                f"{path}: the first line is not {','.join(EMOBANK_HEADER)}: fetch the file again."
            )
        for fields in filter(None, reader):
            with fields_checked(f"{path}, line {reader.line_num}"):
                row = dict(zip(EMOBANK_HEADER, fields, strict=True))
                numbers = {name: float(row[column]) for name, column in EMOBANK_TARGETS.items()}
                if not all(math.isfinite(number) for number in numbers.values()):
                    raise ValueError("a rating is not finite")
                yield {"id": text_id(row["id"]), "text_a": row["text"], **numbers}
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not CSV ({error}): fetch the file again."
        ) from error

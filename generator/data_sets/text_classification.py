"""SelQA: `question <tab> candidate <tab> 0|1`, one candidate sentence a line."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import Records, pick_splits, read_fields, text_id

FIELDS = ("question", "candidate", "label")
LABELS = ("0", "1")


def convert_selqa(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn SelQA files into the records of each split, one record a candidate.

    Args:
        files: files in the official format; a candidate may be in any of them.
        splits: the pinned ids of each split's candidates.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned candidate is missing.
    """
    # In sorted order, so that the order of the files plays no part.
    rows = sorted(row for path in files for row in read_rows(path))
    return pick_splits(candidate_records(rows), splits, files)


def candidate_records(rows: Iterable[list[str]]) -> Records:
    """Return the records of question, candidate and label.

    A candidate may come again for its question, even with the other label: the ids are counted.
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

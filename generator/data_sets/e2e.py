"""E2E: CSV files with a meaning representation (mr) and one of its references (ref) a line."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from generator.data_sets.reading import pick, read_text, text_id
from generator.data_sets.references import reference_records
from generator.errors import InputError

HEADER = ["mr", "ref"]


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn E2E files into the records of each split, one record a meaning representation.

    Args:
        files: one file a split, in the order of `splits`.
        splits: the pinned ids of each split's meaning representations.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned meaning representation is missing.
    """
    return {
        split: pick(reference_records(read_pairs(path, set(ids))), ids, split, str(path))
        for path, (split, ids) in zip(files, splits.items(), strict=True)
    }


def read_pairs(path: Path, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of meaning representation and reference for the wanted meanings."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        if next(reader, None) != HEADER:
            raise InputError(f"{path}: the first line is not mr,ref: fetch the file again.")
        for fields in reader:
            if not fields or text_id(fields[0]) not in wanted:
                continue
            if len(fields) != len(HEADER):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields instead of mr and ref:"
                    " fetch the file again."
                )
            yield fields[0], fields[1]
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not CSV ({error}): fetch the file again."
        ) from error

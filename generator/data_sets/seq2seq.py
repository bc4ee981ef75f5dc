"""Data sets of text generation: E2E and the titles of CSL, one record per source."""

import csv
import io
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import (
    Records,
    pick,
    pick_splits,
    read_fields,
    read_text,
    text_id,
)

E2E_HEADER = ["mr", "ref"]
CSL_FIELDS = ("prompt", "abstract", "title")


def reference_records(pairs: Iterable[tuple[str, str]]) -> Records:
    """Group pairs of source and target by source, with its targets in file order."""
    records: Records = {}
    for source, target in pairs:
        name = text_id(source)
        record = records.setdefault(name, {"id": name, "source": source, "targets": []})
        record["targets"].append(target)
    return records


# --------------------------------------------------------------------------------------------- E2E

# CSV files; each line has a meaning representation (mr) and one of its references (ref).


def convert_e2e(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert E2E files to the records of each split, one per meaning representation.

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


def read_pairs(path: Path, wanted: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of meaning representation and reference for the wanted meanings."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        if next(reader, None) != E2E_HEADER:
            raise InputError(f"{path}: the first line is not mr,ref: fetch the file again.")
        for fields in reader:
            if not fields or text_id(fields[0]) not in wanted:
                continue
            if len(fields) != len(E2E_HEADER):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields instead of mr and ref:"
                    " fetch the file again."
                )
            yield fields[0], fields[1]
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not CSV ({error}): fetch the file again."
        ) from error


# -------------------------------------------------------------------------------------- CSL titles

# `prompt <tab> abstract <tab> title`, one paper per line.


def convert_csl_title(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert CSL files to the records of each split, one record an abstract.

    Args:
        files: files in the official format; an abstract may be in any of them.
        splits: the pinned ids of each split's abstracts.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned abstract is missing.
    """
    pairs = (pair for path in files for pair in read_titles(path))
    return pick_splits(reference_records(pairs), splits, files)


def read_titles(path: Path) -> Iterator[tuple[str, str]]:
    """Yield abstract and title of each paper of a file."""
    for _, (_, abstract, title) in read_fields(path, CSL_FIELDS):
        yield abstract, title

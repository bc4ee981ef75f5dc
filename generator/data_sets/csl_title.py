"""CSL titles: `prompt <tab> abstract <tab> title`, one paper a line."""

from pathlib import Path

from generator.data_sets.reading import pick_splits, read_fields
from generator.data_sets.references import reference_records

FIELDS = ("prompt", "abstract", "title")


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn CSL files into the records of each split, one record an abstract.

    Args:
        files: files in the official format; an abstract may be in any of them.
        splits: the pinned ids of each split's abstracts.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned abstract is missing.
    """
    pairs = (
        (abstract, title) for path in files for _, (_, abstract, title) in read_fields(path, FIELDS)
    )
    return pick_splits(reference_records(pairs), splits, files)

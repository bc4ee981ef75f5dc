"""The pinned splits of a data set: its records by id, in one fixed order."""

from collections.abc import Iterable
from pathlib import Path

from extras.host_formats.records import Conversion
from extras.host_formats.source_files import SourceError, named

Records = dict[str | int, dict]


def pool(found: Iterable[tuple[str, dict]], conversion: Conversion) -> Records:
    """Return records by id; one that comes twice must be the same, and counts once.

    Raises:
        SourceError: it is another one.
    """
    records: Records = {}
    for where, record in found:
        if record["id"] in records:
            if records[record["id"]] != record:
                raise SourceError(f"{where}: record {named(record['id'])} comes twice and differs")
            conversion.remark("records that come twice, kept once", where)
        records[record["id"]] = record
    return records


def pick_splits(
    records: Records, splits: dict[str, list[str]], files: list[Path]
) -> dict[str, list[dict]]:
    """Return for each split its records in the pinned order.

    Args:
        records: what was read, by id; records that are not pinned are left out.
        splits: the pinned ids of each split.
        files: those that were read, for the error.

    Raises:
        SourceError: a pinned record is missing.
    """
    where = " and ".join(str(path) for path in files)
    for split, ids in splits.items():
        missing = [name for name in ids if name not in records]
        if missing:
            raise SourceError(
                f"{where}: record {missing[0]} of the {split} split is missing"
                f" ({len(missing)} of {len(ids)} are)"
            )
    return {split: [records[name] for name in ids] for split, ids in splits.items()}

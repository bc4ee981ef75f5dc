"""What the converters share: lines with numbers, pinned splits, triples in one fixed order."""

from collections.abc import Iterator
from pathlib import Path

from generator.errors import InputError

Triple = tuple[int, int, str, int, int]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield `(line number, line)` of a UTF-8 file, without line ends and without empty lines.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    number = 0
    try:
        # Lines end at "\n" alone: other separators of Unicode are part of the text.
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                line = line.rstrip("\r\n")
                if line:
                    yield number, line
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, after line {number}: not UTF-8 ({error.reason}): fetch the file again."
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path.") from error


def triple_records(triples: set[Triple]) -> list[dict]:
    """Return the triples as JSON objects, sorted, so that the order of a source plays no part."""
    return [
        {"subject": [start, end], "predicate": predicate, "object": [object_start, object_end]}
        for start, end, predicate, object_start, object_end in sorted(triples)
    ]


def pick(records: dict[str, dict], ids: list[str], split: str, where: str) -> list[dict]:
    """Return the records of a pinned split in the pinned order.

    Args:
        records: the records that were read, by id; those that are not pinned are left out.
        ids: the pinned ids.
        split: name of the split, for the error.
        where: the file or files that were read, for the error.

    Raises:
        InputError: a pinned record is missing.
    """
    missing = [name for name in ids if name not in records]
    if missing:
        raise InputError(
            f"{where}: record {missing[0]} of the {split} split is missing"
            f" ({len(missing)} of {len(ids)} are): fetch the whole file again."
        )
    return [records[name] for name in ids]

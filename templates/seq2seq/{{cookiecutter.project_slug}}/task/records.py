"""The records of a file: sources and their targets; read and checked field by field."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import InputError
from core.data.records import Id, read_field, read_records
from task.settings import Settings

FIELDS = ("id", "source", "targets")


@dataclass(frozen=True)
class Example:
    """One record of a file; its targets are equally good, or have `shares` of its `weight`.

    The weight is that in the loss.
    """

    id: Id
    source: str
    targets: tuple[str, ...]
    line: int
    weight: float = 1.0
    shares: tuple[float, ...] = ()


def read_examples(
    path: str | Path, require_targets: bool = True, settings: Settings | None = None
) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "source", "targets"}`.
        require_targets: False for files to predict, which have no targets.
        settings: with `extraction.kind` the records are of another kind; None: sources and targets.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    if settings and settings.extractor:
        return settings.extractor.read_examples(path, require_targets)
    read_one = functools.partial(read_example, require_targets=require_targets)
    return read_records(path, FIELDS, read_one)


def read_example(record: dict, line: int, require_targets: bool) -> Example:
    """Check one record."""
    source, targets, given = read_field(record, "source", str), [], record.get("targets")
    if require_targets and not source.strip():
        raise InputError('"source" is empty: write the text to start from, or drop the record.')
    # Hosts may write [], [""] or null where a target is unknown.
    if require_targets or any(given if isinstance(given, list) else [given]):
        targets = read_field(record, "targets", list)
        for target in targets:
            if not isinstance(target, str):
                raise InputError(f'"targets" must be a list of strings, but holds {target!r}.')
            if not target.strip():
                raise InputError('"targets" holds an empty text: drop it, or drop the record.')
        if not targets and require_targets:
            raise InputError('"targets" is empty: give at least one text, or drop the record.')
    # `read_records` sets the weight.
    return Example(read_field(record, "id", Id), source, tuple(dict.fromkeys(targets)), line)


def tokenizer_texts(examples: Sequence[Example]) -> Iterator[str]:
    """Yield the texts that a vocabulary is learned from."""
    yield from (text for example in examples for text in (example.source, *example.targets))

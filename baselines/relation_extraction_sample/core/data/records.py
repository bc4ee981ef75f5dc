"""Read and check records; every message names the file and the line."""

import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from core.base.errors import InputError
from core.base.extras import ask, need
from core.base.files import PROJECT, file_hash, read_json_lines

Id = str | int
Span = tuple[int, int]
AnyExample = TypeVar("AnyExample", bound=Any)
SHOWN_KEYS = 3
WEIGHT = "weight"  # of a record in the loss, which a record of any task may have
LARGEST = 1e30  # the sum of those of a batch fits into float32
PROBABILITY = "probability"  # of one of the items of a record
ANNOTATED = "annotated_predicates"  # by which a record says that the others are not known
ITEMS = ("triples", "entities", "events")


def read_records(
    path: str | Path, fields: Collection[str], read_one: Callable[[dict, int], AnyExample]
) -> Sequence[AnyExample]:
    """Read a JSON Lines file of examples; warn of unknown keys.

    Args:
        path: of the file, one record per line.
        fields: the known keys of a record and of the objects within it, besides `weight`.
        read_one: from a record and its line number to an example, which has an `id` and a `weight`.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    fields = (*fields, WEIGHT, *([PROBABILITY] if {*ITEMS} & {*fields} else []))
    if kept := ask("open_records", path, fields, read_one):
        return kept
    examples: list[AnyExample] = []
    lines: dict[str, int] = {}
    strange: dict[str, str] = {}

    def make_object(place: str, pairs: list[tuple[str, Any]]) -> dict:
        keys = [] if names_numbers(pairs) else [key for key, _ in pairs]
        for key in keys:
            if key not in fields or keys.count(key) > 1:
                strange.setdefault(key, place)
        return dict(pairs)

    for line, record in read_json_lines(path, make_object):
        try:
            example = read_weighted(record, line, read_one)
            if (first := lines.setdefault(str(example.id), line)) != line:
                raise InputError(
                    f"id {example.id!r} is on line {first} already: give each record an id of "
                    "its own."
                )
        except InputError as error:
            # It may quote a megabyte of the record.
            what = textwrap.shorten(str(error), 400, placeholder=" [...].")
            raise InputError(f"{path}, line {line}: {what}") from error
        examples.append(example)
    if not examples:
        raise InputError(f"{path} holds no record: write one JSON object on each line.")
    for key, place in list(strange.items())[:SHOWN_KEYS]:
        what = "occurs twice in one object" if key in fields else "is not read"
        print(f'warning: {place}: "{key[:40]}" {what}: the fields are {", ".join(fields)}')
    if len(strange) > SHOWN_KEYS:
        print(f"warning: {path}: the same holds for {len(strange) - SHOWN_KEYS} more keys")
    return examples


def names_numbers(pairs: Sequence[tuple[str, Any]]) -> bool:
    """Return whether the keys of an object are names of numbers, such as of label probabilities."""
    return all(isinstance(value, int | float) for _, value in pairs)


def read_weighted(
    record: dict, line: int, read_one: Callable[[dict, int], AnyExample]
) -> AnyExample:
    """Return the example of a record, with the weight that the record gives it in the loss.

    Items with probabilities, and texts with weights, are read by extras/distillation.

    Raises:
        InputError: the weight is not a number from 0 to 1e30, or the record is invalid.
    """
    weighted_texts = "source" in record and isinstance(record.get("targets"), dict)
    if weighted_texts or is_soft([record.get(name) for name in ITEMS]):
        example = need("distillation", "soft_records").read_soft(record, line, read_one)
    else:
        example = read_one(record, line)
    if WEIGHT not in record:
        return example
    weight = record[WEIGHT]
    if type(weight) not in (int, float) or not 0 <= weight <= LARGEST:
        raise InputError(
            f'"{WEIGHT}" must be a number from 0 to {LARGEST:.0e}, not {weight!r}: 1 is that of a '
            "record without."
        )
    return replace(example, weight=float(weight))


def is_soft(value: Any) -> bool:
    """Return whether an object within the lists of a value has a probability."""
    if isinstance(value, dict):
        lists = (part for part in value.values() if isinstance(part, list))
        return PROBABILITY in value or any(map(is_soft, lists))
    return isinstance(value, list) and any(map(is_soft, value))


def read_annotated(record: dict, predicates: Sequence[str]) -> tuple[str, ...] | None:
    """Return the predicates that a record is annotated for, each once; None: all.

    Args:
        record: a record with triples.
        predicates: of its triples.

    Raises:
        InputError: they are no list of names, or lack the predicate of a triple.
    """
    names = record.get(ANNOTATED)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f'"{ANNOTATED}" must be a list of strings, or absent.')
    for predicate in predicates:
        if predicate not in names:
            raise InputError(
                f'the triple with predicate {predicate!r} is not among "{ANNOTATED}": add the '
                "predicate there, or drop the triple."
            )
    return tuple(dict.fromkeys(names))


def record_weights(batches: Any) -> list[float]:
    """Return the weight in the loss of each example of a `DataGenerator`: that of its record.

    Examples of one record may have `shares` of it. Where the examples are no records, as in plain
    text, each weighs 1.
    """
    records = getattr(batches, "examples", None)
    if not isinstance(records, Sequence):
        return [1.0] * batches.size
    weights: list[float] = []
    for row, own in itertools.groupby(getattr(batches, "record_of", range(len(records)))):
        record, count = records[row], len([*own])
        shares = getattr(record, "shares", ()) or [1.0] * count
        weights += [getattr(record, WEIGHT, 1.0) * share for share in shares]
    return weights


def collect(function: Callable[[Any], Any], examples: Any, joined: bool = False) -> Any:
    """Return the result of a function of all examples of a file; extras/cache may remember it.

    Args:
        function: of the examples.
        examples: a sequence; those of extras/cache have a method `recall` that remembers.
        joined: the function may see parts of the file, and its sets or Counters are joined.
    """
    recall = getattr(examples, "recall", None)
    return recall(function, joined) if recall else function(examples)


def read_field(record: dict, name: str, kind: Any) -> Any:
    """Return a field of a type: `str`, `list`, `int | float` or `Id`; `object`: of any type.

    As an id 7.0 is 7: a column with an empty cell makes floats of whole numbers.

    Raises:
        InputError: the field is missing or of another type.
    """
    if name not in record:
        raise InputError(f'the field "{name}" is missing: add it to the record.')
    value = whole_number(record[name]) if kind == Id else record[name]
    odd = isinstance(value, bool) or isinstance(value, float) and not math.isfinite(value)
    if not isinstance(value, kind) or odd and kind is not object:
        kinds: dict = {str: "a string", list: "a list", int | float: "a number"}
        wanted = kinds.get(kind, "a string or a whole number")
        raise InputError(f'"{name}" must be {wanted}, not {value!r}.')
    if name in ("type", "role", "predicate", "label") and kind is str and not value.strip():
        raise InputError(f'"{name}" is empty: write a name.')
    return value


def whole_number(value: Any) -> Any:
    """Return a float without a fraction as an int, and any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_span(item: dict, name: str, text: str) -> Span:
    """Return a field that is a span `[start, end)` of the text; raises as `check_span` does."""
    return check_span(read_field(item, name, object), name, text)


def check_span(span: object, name: str, text: str) -> Span:
    """Return a value of a file as a span inside the text.

    Raises:
        InputError: it is not a span, or not inside the text.
    """
    if not isinstance(span, list) or [type(offset) for offset in span] != [int, int]:
        raise InputError(f'"{name}" must be [start, end], two whole numbers, not {span!r}.')
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(
            f'the span "{name}" {span} is not inside the text of {len(text)} characters: offsets '
            "count characters from 0, and end is the first one after the span."
        )
    return start, end


def name_file(path: Path) -> dict[str, str]:
    """Return `file` and `data_hash` of a scored file.

    A file outside the project has only its name: its folder is private to the user.
    """
    path = path.resolve()
    inside = path.is_relative_to(PROJECT)
    return {
        "file": path.relative_to(PROJECT).as_posix() if inside else path.name,
        "data_hash": file_hash(path),
    }

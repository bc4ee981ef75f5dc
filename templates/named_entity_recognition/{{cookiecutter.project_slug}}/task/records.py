"""The records of a file in three formats: texts with entities; read and checked."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import InputError
from core.base.files import project_path
from core.data.records import (
    Id,
    Span,
    check_span,
    collect,
    read_field,
    read_records,
    read_span,
)
from formats.conll import Chunk, file_scheme, is_conll, read_conll, read_sentences
from task.settings import Settings

FIELDS = ("id", "text", "entities", "type", "span", "label", "start_offset", "end_offset")
# Other keys of doccano. "labels" and "data" are read, where there is no "label", and no "text".
OF_DOCCANO = ("labels", "data", "relations", "from_id", "to_id", "Comments", "comments", "meta")
PIECES = "an entity of several pieces is not possible: give the span of each piece, or of them all."


@dataclass(frozen=True, order=True)
class Entity:
    """The characters `[start, end)` of a name, and its type."""

    span: Span
    type: str


@dataclass(frozen=True)
class Example:
    """One record of a file, or one sentence of a CoNLL file.

    Attributes:
        tokens: spans of the tokens of a CoNLL file, with which its entities start and end.
        line: where it starts.
        weight: in the loss.
        levels: (probability, all entities at least so probable) pairs; empty: all are certain.
    """

    id: Id
    text: str
    entities: tuple[Entity, ...]
    tokens: tuple[Span, ...] | None
    line: int
    weight: float = 1.0
    levels: tuple = ()


@dataclass(frozen=True)
class Schema:
    """The content of labels.json, from the training file.

    Attributes:
        types: of entities; each is a head of the pointer, or a pair of tags.
        flat: no two entities overlap, so no predicted ones may.
        scheme: of tags, for CoNLL files without tags.
    """

    types: list[str]
    flat: bool
    scheme: str = "bio2"


def read_examples(
    path: str | Path, settings: Settings, require_entities: bool = True
) -> Sequence[Example]:
    """Read a file and check every field.

    Args:
        path: records `{"id", "text", "entities": [{"type", "span"}]}`, an export of doccano, or
            columns: see `is_conll`.
        settings: `conll` describes the columns.
        require_entities: False for files to predict.

    Raises:
        InputError: names file, line and what is wrong there.
    """
    if is_conll(path):
        return read_sentences(path, settings.conll, require_entities, conll_example)
    fields = (*FIELDS, *OF_DOCCANO)
    return read_records(path, fields, functools.partial(read_example, required=require_entities))


def conll_example(line: int, text: str, tokens: list[Span], chunks: list[Chunk]) -> Example:
    """Return a sentence of a CoNLL file; its id is the number of its first line."""
    entities = tuple(Entity((tokens[i][0], tokens[j][1]), kind) for kind, i, j in chunks)
    return Example(line, text, entities, tuple(tokens), line)


def read_example(record: dict, line: int, required: bool) -> Example:
    """Check one record, ours or doccano's."""
    record = {name: value for name, value in record.items() if value is not None}  # null: unknown
    text = read_field(record, "data" if "data" in record and "text" not in record else "text", str)
    name = "labels" if "labels" in record and "label" not in record else "label"
    if "entities" in record and record.get(name):
        raise InputError(f'"entities" and "{name}" both hold entities: keep one of them.')
    found: set[Entity] = set()
    if "entities" not in record and name in record:
        found = {read_doccano_label(item, text) for item in read_field(record, name, list)}
    elif required or "entities" in record:
        found = {read_entity(item, text) for item in read_field(record, "entities", list)}
    return Example(read_field(record, "id", Id), text, tuple(sorted(found)), None, line)


def read_entity(item: object, text: str) -> Entity:
    """Check one entity; in doccano's format it has `start_offset` and `end_offset`."""
    if not isinstance(item, dict):
        raise InputError(
            f'the entity {item!r} must be {{"type": "...", "span": [start, end]}}, or as doccano '
            "exports it."
        )
    if "start_offset" in item:
        ends = [item["start_offset"], read_field(item, "end_offset", object)]
        return Entity(check_span(ends, "start_offset", text), read_field(item, "label", str))
    span = item.get("span")
    if isinstance(span, list) and any(isinstance(part, list) for part in span):
        raise InputError(f'"span" is {span!r}: {PIECES}')
    return Entity(read_span(item, "span", text), read_field(item, "type", str))


def read_doccano_label(item: object, text: str) -> Entity:
    """Check one label `[start, end, type]` of doccano."""
    if not isinstance(item, list) or len(item) != 3:
        raise InputError(f'the label {item!r} must be [start, end, "type"].')
    kind = read_field({"type": item[2]}, "type", str)
    return Entity(check_span(item[:2], "label", text), kind)


def collect_schema(examples: Sequence[Example], settings: Settings) -> Schema:
    """Return the types of the training examples, sorted, and whether entities overlap.

    Raises:
        InputError: there is no entity.
    """
    path = project_path(settings.train_file)
    schema: Schema = collect(functools.partial(find_schema, path=path, settings=settings), examples)
    if not schema.types:
        raise InputError("no training example has an entity: there is nothing to learn.")
    return schema


def find_schema(examples: Sequence[Example], path: Path, settings: Settings) -> Schema:
    """Return the schema of the examples of a file."""
    types = sorted({entity.type for example in examples for entity in example.entities})
    scheme = None
    if is_conll(path):
        scheme = file_scheme(read_conll(path, settings.conll, True), settings.conll)
    return Schema(types, not any(overlap(e.entities) for e in examples), scheme or "bio2")


def overlap(entities: Iterable[Entity]) -> bool:
    """Tell whether two of some entities share a character."""
    end = 0
    for start, stop in sorted(entity.span for entity in entities):
        if start < end:
            return True
        end = max(end, stop)
    return False

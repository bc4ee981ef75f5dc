"""What a format must be told besides the file: the task, the columns, the types of entities."""

import argparse
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from extras.host_formats.source_files import SourceError

RELATIONS, EVENTS = "relation_extraction", "event_extraction"
ENTITIES, LABELS = "named_entity_recognition", "text_classification"
TASKS = (RELATIONS, EVENTS, ENTITIES, LABELS)
# The type of an entity that no file names.
ENTITY = "entity"
SCHEMES = ("bio2", "bioes")


@dataclass
class Types:
    """The types of entities that a host wants with triples and arguments, which records lack.

    Attributes:
        subjects: predicate -> types of its subject.
        objects: predicate -> types of its object. For DuIE predicates may have a slot, "p@slot".
        roles: (type of event, role) -> types of the argument.
        codes: description of a label of CLUE -> label.
        plain: the objects of DuIE are strings, as in its first version, and not `{"@value": ...}`;
            None: no labelled file says it.
        plain_schema: the types of objects are strings in a schema, as DuIE 1.0 and CMeIE have them.
    """

    subjects: dict[str, Counter[str]] = field(default_factory=dict)
    objects: dict[str, Counter[str]] = field(default_factory=dict)
    roles: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    plain: bool | None = None
    plain_schema: bool = False


def count_type(table: dict, key: object, kind: str) -> None:
    """Count that a predicate or role had an entity of a type."""
    table.setdefault(key, Counter())[kind] += 1


def usual_type(table: dict, key: object) -> str | None:
    """Return the most frequent type of a predicate or role, the first by name of equals."""
    counts: Counter[str] = table.get(key, Counter())
    return min(counts, key=lambda kind: (-counts[kind], kind), default=None)


@dataclass
class Options:
    """How a file is read or written.

    Attributes:
        task: one of `TASKS`: of what an annotation tool holds, its records have this part.
        text_field: of a task of Label Studio; empty: "text", or the only field with a text.
        label_field: of a task of Label Studio: the control, or the column, of the labels of texts;
            empty: the only one.
        several: texts have any number of labels; None: if one has several, or all have none.
        token_column, tag_column: of CoNLL columns, from 1; -1 is the last one.
        join: between tokens: `auto`: a space, but none next to a Chinese character; else `space` or
            `none`.
        scheme: of the tags that are written, one of `SCHEMES`.
        exclusive_ends: CMeEE is written with `end_idx` behind the last character.
        types: from a labelled file.
    """

    task: str
    text_field: str = ""
    label_field: str = ""
    several: bool | None = None
    token_column: int = 1
    tag_column: int = -1
    join: str = "auto"
    scheme: str = "bio2"
    exclusive_ends: bool = False
    types: Types = field(default_factory=Types)


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence lists them."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def add_flags(parser: argparse.ArgumentParser, formats: Collection[str]) -> None:
    """Add the format to a command line, one of some, and what it must be told."""
    parser.add_argument("format", metavar="FORMAT", choices=formats, help=", ".join(formats))
    parser.add_argument("--text-field", default="", help="Label Studio: the field with the text")
    parser.add_argument("--label-field", default="", help="Label Studio: that of the labels")
    parser.add_argument(
        "--labels", choices=("one", "several"), help="of a text: one, or any number"
    )
    parser.add_argument("--token-column", type=int, default=1, help="conll: from 1")
    parser.add_argument("--tag-column", type=int, default=-1, help="conll: from 1; -1 is the last")
    parser.add_argument("--join", choices=("auto", "space", "none"), default="auto")
    parser.add_argument("--scheme", choices=SCHEMES, default="bio2", help="conll: tags to write")


def read_ends(name: str, ends: str | None) -> bool:
    """Return `exclusive_ends` for the flag `--ends`.

    Raises:
        SourceError: it is missing where a host has files of both kinds, or it is given elsewhere.
    """
    if name == "cmeee" and not ends:
        fault = "'end_idx' of CMeEE is that of the last character, or one more"
        fix = (
            "add --ends inclusive or --ends exclusive; read.py says of a labelled file which it has"
        )
        raise SourceError(fault, fix)
    if ends and name != "cmeee":
        raise SourceError(f"--ends is for cmeee, and not for {name}", "leave it out")
    return ends == "exclusive"


def choose_objects(name: str, types: Types, objects: str | None) -> None:
    """Set `plain` of some types for the flag `--objects`.

    Raises:
        SourceError: it is missing where a schema leaves it open, or it is given elsewhere.
    """
    if objects and name != "duie":
        raise SourceError(f"--objects is for duie, and not for {name}", "leave it out")
    if types.plain_schema and types.plain is None and not objects:
        fault = 'the schema does not say whether an object is a string or {"@value": ...}'
        fix = "add --objects words for DuIE 1.0, or --objects values for CMeIE"
        raise SourceError(fault, fix)
    if objects:
        types.plain = objects == "words"


def read_flags(arguments: argparse.Namespace, task: str) -> Options:
    """Return the options of a command for the task of the project, such as "Event extraction"."""
    names = ("text_field", "label_field", "token_column", "tag_column", "join", "scheme")
    name_of_task = task.lower().replace(" ", "_").replace("-", "_")
    several = {None: None, "one": False, "several": True}[arguments.labels]
    own = {name: getattr(arguments, name) for name in names}
    return Options(name_of_task, several=several, **own)

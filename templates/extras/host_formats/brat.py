"""brat's standoff: a folder with NAME.txt and NAME.ann for each text; its offsets count characters.

    T1	person 0 9	Ada Quill            entity, or trigger; "0 3;6 9" has two pieces
    R1	founded Arg1:T1 Arg2:T2          relation
    E1	purchase:T3 buyer:T1 target:T2   event; an argument may be another event

A text without an .ann is unlabelled. Its id is its path in the folder, without .txt.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extras.host_formats.documents import Document, Predicted, make_record
from extras.host_formats.options import Options
from extras.host_formats.records import ALIGNED, Conversion, Span, nearest_place
from extras.host_formats.source_files import (
    SourceError,
    is_of_system,
    named,
    read_text,
    shown,
)

NOT_READ = {"A": "attributes", "M": "attributes", "N": "links to other resources", "#": "notes"}
# A relation without direction between any number of entities.
NOT_READ["*"] = "equivalences"
# What brat allows in the name of a type or a role.
NAME = re.compile(r"[^\s:;|]+")
# Bytes of a name of a file, without .txt and .ann.
LONGEST_NAME = 240
# An entity of one piece.
ENTITY_LINE = re.compile(r"T\S*\t\S+ (\d+) (\d+)\t(.*?)\r?$")
NUMBERED = re.compile(r"(.*?)([2-9]|[1-9][0-9]+)")


@dataclass(frozen=True)
class Pair:
    """A text and its annotations; without any, `annotations` is None."""

    name: str
    text: str
    annotations: str | None = None


def open_brat(folder: Path) -> Iterator[tuple[str, Pair]]:
    """Yield `(path of the text, text and annotations)`, sorted by path.

    Raises:
        SourceError: there is no text.
    """
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder", "name the one that holds the .txt and .ann")
    # Some systems write the suffix in capitals.
    files = [path for path in folder.rglob("*.*") if not is_of_system(path)]
    texts, marks = (
        {path.with_suffix(""): path for path in files if path.suffix.lower() == suffix}
        for suffix in (".txt", ".ann")
    )
    if not texts:
        raise SourceError(f"{folder} holds no .txt", "name the folder with the texts")
    for stem, path in sorted(texts.items(), key=lambda item: item[1]):
        annotations = read_text(marks[stem]) if stem in marks else None
        yield str(path), Pair(stem.relative_to(folder).as_posix(), read_text(path), annotations)
    if lonely := marks.keys() - texts.keys():
        raise SourceError(f"{marks[min(lonely)]} has no .txt of the same name", "add the text")


# ------------------------------------------------------------------------------------------ reading


def read_brat(pair: Pair, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a text."""
    return make_record(read_document(pair, where, conversion), options.task, where, conversion)


def read_document(pair: Pair, where: str, conversion: Conversion) -> Document:
    """Return a text with its annotations.

    Raises:
        SourceError: a line is not brat's, or names what is not there.
    """
    text = choose_text(pair)
    what = "texts whose offsets count a line end of two characters as one, read so"
    conversion.remark(what, where, text != pair.text)
    document = Document(pair.name, text, pair.annotations is not None)
    events: dict[str, tuple[str, str, list[tuple[str, str]]]] = {}
    joined: list[tuple[str, tuple[str, str, str]]] = []
    places: dict[str, str] = {}
    path = str(Path(where).with_suffix(".ann"))
    for number, line in enumerate((pair.annotations or "").split("\n"), start=1):
        line, place = line.removesuffix("\r"), f"{path}, line {number}"
        name, _, rest = line.partition("\t")
        if not line.strip():
            continue
        if name[:1] in ("T", "R", "E") and places.setdefault(name, place) != place:
            raise SourceError(f"{place}: {name} comes twice", "give each annotation its own id")
        if name[:1] == "T":
            kind, spans, words = split_entity(rest, place)
            span = join_pieces(text, spans, words, place, conversion)
            document.entities[name] = span, kind
        elif name[:1] == "R":
            [(predicate, _), *arguments] = split_arguments(rest, place)
            if len(arguments) != 2:
                raise SourceError(f"{place}: a relation has two arguments")
            if [role for role, _ in arguments] == ["Arg2", "Arg1"]:
                arguments.reverse()
            joined.append((place, (predicate, arguments[0][1], arguments[1][1])))
        elif name[:1] == "E":
            [(kind, trigger), *arguments] = split_arguments(rest, place)
            events[name] = kind, trigger, merge_roles(arguments, place, conversion)
        elif name[:1] in NOT_READ:
            conversion.remark(f"{NOT_READ[name[:1]]} of brat, left out", place)
        else:
            raise SourceError(f"{place}: {shown(line)} is not an annotation of brat")
    for place, (predicate, *names) in joined:
        what = "arguments that are events: read as their triggers"
        conversion.remark(what, place, sum(name in events for name in names))
        first, second = (events[name][1] if name in events else name for name in names)
        for name in (first, second):
            document.span(name, place)
        document.relations.append((predicate, first, second))
    add_events(document, events, places, conversion)
    return document


def choose_text(pair: Pair) -> str:
    """Return the text that the offsets count: that of the file, or one whose lines end in "\\n".

    Git and editors of Windows may have changed the ends of the lines afterwards.
    """
    plain = pair.text.replace("\r\n", "\n")
    if plain == pair.text:
        return plain
    entities = []
    for line in (pair.annotations or "").split("\n"):
        match = ENTITY_LINE.match(line)
        if match:
            entities.append((int(match[1]), int(match[2]), match[3]))

    def misses(text: str) -> int:
        return sum(flat(text[start:end]) != flat(words) for start, end, words in entities)

    return plain if misses(pair.text) and not misses(plain) else pair.text


def split_entity(rest: str, place: str) -> tuple[str, list[Span], str]:
    """Return type, pieces and words of an entity.

    Raises:
        SourceError: the line has another form.
    """
    head, _, words = rest.partition("\t")
    kind, _, pieces = head.partition(" ")
    try:
        spans = []
        for piece in pieces.split(";"):
            start, end = map(int, piece.split())
            spans.append((start, end))
    except ValueError as error:
        raise SourceError(f"{place}: {shown(head)} is not TYPE START END") from error
    if not kind or any(start >= end for start, end in spans):
        raise SourceError(f"{place}: {shown(head)} has no type, or a piece without a character")
    return kind, spans, words


def join_pieces(
    text: str, spans: list[Span], words: str, place: str, conversion: Conversion
) -> Span:
    """Return one span from the first piece to the last; a line break between two is no gap.

    Raises:
        SourceError: the text there reads otherwise, and the words are nowhere else.
    """
    start, end = min(spans)[0], max(end for _, end in spans)
    read = " ".join(text[slice(*span)] for span in spans)
    if start < 0 or end > len(text) or flat(read) != flat(words):
        found = nearest_place(text, words, start) if len(spans) == 1 else None
        if found is None:
            raise SourceError(f"{place}: {shown(words)} is not the text at [{start}, {end})")
        conversion.remark(ALIGNED, place)
        return found, found + len(words)
    ordered = sorted(spans)
    gaps = [text[a[1] : b[0]] for a, b in zip(ordered, ordered[1:], strict=False)]
    if any(between.strip("\r\n") for between in gaps):
        what = "entities of several pieces, read as one from the first piece to the last"
        conversion.remark(what, place)
    return start, end


def flat(text: str) -> str:
    """Return a text with a space for each run of white space: brat writes no line break."""
    return " ".join(text.split())


def split_arguments(rest: str, place: str) -> list[tuple[str, str]]:
    """Return the parts `NAME:ID` of a line; the type of a relation has an empty id.

    Raises:
        SourceError: there is none, or one has another form.
    """
    parts = [part.rpartition(":") if ":" in part else (part, "", "") for part in rest.split()]
    if not parts or any(not name for name, _, _ in parts):
        raise SourceError(f"{place}: {shown(rest)} is not TYPE ROLE:ID ROLE:ID")
    return [(name, target) for name, _, target in parts]


def merge_roles(
    arguments: list[tuple[str, str]], place: str, conversion: Conversion
) -> list[tuple[str, str]]:
    """Return arguments whose roles have no number: the second `Theme` of an event is `Theme2`."""
    roles = {role for role, _ in arguments}
    merged = []
    for role, name in arguments:
        match = NUMBERED.fullmatch(role)
        if match and match[1] in roles:
            what = "numbered roles, such as Theme2 next to Theme, read without the number"
            conversion.remark(what, place)
            role = match[1]
        merged.append((role, name))
    return merged


def add_events(
    document: Document,
    events: dict[str, tuple[str, str, list[tuple[str, str]]]],
    places: dict[str, str],
    conversion: Conversion,
) -> None:
    """Add the events of a text; an argument that is an event becomes the trigger of that event."""
    for own_name, (kind, trigger, arguments) in events.items():
        place = places[own_name]
        parts = []
        for role, name in arguments:
            if name in events:
                conversion.remark("arguments that are events: read as their triggers", place)
                name = events[name][1]
            parts.append((role, name))
        for name in (trigger, *(name for _, name in parts)):
            document.span(name, place)
        document.events.append((kind, trigger, parts))


# ------------------------------------------------------------------------------------------ writing


def write_brat(pair: Pair | None, record: dict, options: Options, conversion: Conversion) -> Pair:
    """Return a text with predicted annotations.

    Raises:
        SourceError: a name has characters that brat doesn't allow.
    """
    where = f"record {record['id']}"
    document = Predicted(record, options, conversion).document
    text = document.text  # of which the offsets are, whatever the ends of lines in the file
    lines = [
        write_entity(name, span, kind, text, where, conversion)
        for name, (span, kind) in document.entities.items()
    ]
    for number, (predicate, subject, object_) in enumerate(document.relations, start=1):
        lines.append(f"R{number}\t{check_name(predicate, where)} Arg1:{subject} Arg2:{object_}")
    events = [event for event in document.events if event[1]]
    what = "events without a trigger, which brat can't hold, left out"
    conversion.remark(what, where, len(document.events) - len(events))
    for number, (kind, trigger, parts) in enumerate(events, start=1):
        words = [f"{check_name(kind, where)}:{trigger}"]
        seen: dict[str, int] = {}
        for role, name in parts:
            seen[role] = seen.get(role, 0) + 1
            count = str(seen[role]) if seen[role] > 1 else ""
            words.append(f"{check_name(role, where)}{count}:{name}")
        lines.append(f"E{number}\t{' '.join(words)}")
    name = str(record["id"]) if pair is None else pair.name
    return Pair(name, text, "".join(f"{line}\n" for line in lines))


def write_entity(
    name: str, span: Span, kind: str, text: str, where: str, conversion: Conversion
) -> str:
    """Return the line of an entity; one of several lines has a piece for each of them.

    Raises:
        SourceError: it has only line breaks.
    """
    start, end = span
    pieces = [
        (start + match.start(), start + match.end())
        for match in re.finditer(r"[^\r\n]+", text[start:end])
    ]
    if not pieces:
        raise SourceError(f"{where}: an entity of line breaks only, which brat can't hold")
    if (pieces[0][0], pieces[-1][1]) != span:
        what = "line breaks at the ends of entities, which brat can't hold, cut off"
        conversion.remark(what, where)
    places = ";".join(f"{first} {last}" for first, last in pieces)
    words = " ".join(text[slice(*piece)] for piece in pieces)
    return f"{name}\t{check_name(kind, where)} {places}\t{words}"


def check_name(name: str, where: str) -> str:
    """Return the name of a type or a role.

    Raises:
        SourceError: brat doesn't allow it.
    """
    if not NAME.fullmatch(name):
        raise SourceError(
            f"{where}: {shown(name)} has white space or one of :;|, which brat allows in no name",
            "rename it in the training data",
        )
    return name


def brat_files(pairs: list[Pair]) -> dict[str, str]:
    """Return path -> content of the files of a folder."""
    files = {}
    for pair in pairs:
        path = Path(pair.name)
        longest = max((len(part.encode()) for part in path.parts), default=0)
        odd = path.is_absolute() or ".." in path.parts or "\0" in pair.name
        if odd or path.as_posix() != pair.name or not path.name or longest > LONGEST_NAME:
            fault = f"record {named(pair.name)}: the id is no name of a file"
            raise SourceError(fault, "name another id")
        files[f"{pair.name}.txt"] = pair.text
        files[f"{pair.name}.ann"] = pair.annotations or ""
    return files

"""Data sets of named entities in CoNLL columns: WNUT 2017 and Weibo, in one fixed order."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from extras.host_formats.records import Conversion, text_id
from extras.host_formats.source_files import SourceError, read_text, shown

# A token and its tag; None: the file is unlabelled.
Row = tuple[str, str | None]


def read_wnut17(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences: a token and its BIO tag a line."""
    for where, name, tokens, tags in read_wanted(files, conversion):
        yield where, make_record(name, tokens, tags, " ", where, conversion)


def read_weibo(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted messages: a character and its tag a line.

    A digit after each character, its position in a word, is left out.

    Raises:
        SourceError: one has none.
    """
    for where, name, tokens, tags in read_wanted(files, conversion):
        for token in tokens:
            if len(token) < 2 or token[-1] not in "0123456789":
                raise SourceError(f"{where}: {shown(token)} is not a character and a digit")
        yield (
            where,
            make_record(name, [token[:-1] for token in tokens], tags, "", where, conversion),
        )


def read_wanted(
    files: list[Path], conversion: Conversion
) -> Iterator[tuple[str, str, Sequence[str], Sequence[str | None]]]:
    """Yield place, id, tokens and tags of the wanted sentences."""
    for where, rows in (sentence for path in files for sentence in read_sentences(path)):
        tokens, tags = zip(*rows, strict=True)
        # The same words may come again with other tags: both name a record.
        name = text_id(" ".join(tokens), " ".join(tag or "" for tag in tags))
        if name in conversion.wanted:
            yield where, name, tokens, tags


def read_sentences(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield place and rows of each sentence; an empty line or a bare tab ends a sentence.

    Raises:
        SourceError: a line of a labelled file is not a token, a tab and a tag.
    """
    # Lines end at "\n" alone: other separators of Unicode are part of the text.
    lines = [line.removesuffix("\r") for line in [*read_text(path).split("\n"), ""]]
    labelled = any(line.strip("\t").count("\t") for line in lines)
    rows: list[Row] = []
    first = 1
    for number, line in enumerate(lines, start=1):
        token, *tag = line.split("\t")
        if not line.strip("\t" if labelled else None):
            if rows:
                yield f"{path}, line {first}", rows
            rows, first = [], number + 1
        elif labelled and not (token and len(tag) == 1):
            raise SourceError(f"{path}, line {number}: not a token, a tab and a tag")
        elif not labelled and " " in line.strip():
            raise SourceError(f"{path}, line {number}: not a token, a tab and a tag, nor a token")
        else:
            rows.append((token, tag[0] if labelled else None))


def make_record(
    name: str,
    tokens: Sequence[str],
    tags: Sequence[str | None],
    between: str,
    where: str,
    conversion: Conversion,
) -> dict:
    """Return a sentence as a record; `between` separates the tokens.

    B begins an entity, and so does an I without an entity of its type before it.

    Raises:
        SourceError: a tag is another one.
    """
    text, before = "", "O"
    entities: list[dict] = []
    for token, tag in zip(tokens, tags, strict=True):
        start = len(text) + len(between) * bool(text)
        text += (between if text else "") + token
        letter, _, kind = (tag or "O").partition("-")
        if letter == "I" and kind and before == kind:
            entities[-1]["span"][1] = len(text)
        elif letter in ("B", "I") and kind:
            entities.append({"type": kind, "span": [start, len(text)]})
            if letter == "I":
                what = "tags I without an entity of their type before them: read as B"
                conversion.remark(what, where)
        elif tag not in ("O", None):
            raise SourceError(f"{where}: {shown(tag)} is not a tag of BIO")
        before = kind
    record = {"id": name, "text": text}
    return record if tags[0] is None else {**record, "entities": entities}

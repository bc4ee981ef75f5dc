"""Data sets of named entities in CoNLL columns: WNUT 2017 and Weibo, in one fixed order."""

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import pool, read_text, text_id

Row = tuple[str, str]  # a token and its tag


def convert_wnut17(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert WNUT 2017 files, one token and BIO tag per line, to the records of each split.

    Args:
        files: files in the official format; a sentence may be in any of them.
        splits: the pinned ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return pool(files, splits, read_wnut17)


def convert_weibo(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert Weibo files, one character and tag per line; otherwise as `convert_wnut17`."""
    return pool(files, splits, read_weibo)


def read_wnut17(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences of a file."""
    for where, name, tokens, tags in read_wanted(path, wanted):
        yield where, make_record(name, tokens, tags, " ", where)


def read_weibo(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted messages of a file.

    A digit after each character, its position in a word, is left out.

    Raises:
        InputError: a character has no digit.
    """
    for where, name, tokens, tags in read_wanted(path, wanted):
        for token in tokens:
            if len(token) < 2 or token[-1] not in "0123456789":
                raise InputError(
                    f"{where}: {token!r} is not a character and a digit: fetch the file again."
                )
        yield where, make_record(name, [token[:-1] for token in tokens], tags, "", where)


def read_wanted(
    path: Path, wanted: Container[str]
) -> Iterator[tuple[str, str, Sequence[str], Sequence[str]]]:
    """Yield place, id, tokens and tags of the wanted sentences of a file."""
    for where, rows in read_sentences(path):
        tokens, tags = zip(*rows, strict=True)
        # The same words may occur again with other tags, so both are part of the id.
        name = text_id(" ".join(tokens), " ".join(tags))
        if name in wanted:
            yield where, name, tokens, tags


def read_sentences(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield place and rows of each sentence; an empty line or a bare tab ends a sentence.

    Raises:
        InputError: a line is not a token, a tab and a tag.
    """
    rows: list[Row] = []
    first = 1
    # Only "\n" ends a line; other Unicode separators are part of the text.
    for number, line in enumerate([*read_text(path).split("\n"), ""], start=1):
        token, *tag = line.rstrip("\r").split("\t")
        if token and len(tag) == 1:
            rows.append((token, tag[0]))
        elif token:
            raise InputError(
                f"{path}, line {number}: not a token, a tab and a tag: fetch the file again."
            )
        else:
            if rows:
                yield f"{path}, line {first}", rows
            rows, first = [], number + 1


def make_record(
    name: str, tokens: Sequence[str], tags: Sequence[str], between: str, where: str
) -> dict:
    """Return a sentence as a record; `between` separates the tokens.

    B begins an entity, and so does an I without an entity of its type before it.

    Raises:
        InputError: a tag is neither B, I nor O.
    """
    text, before = "", "O"
    entities: list[dict] = []
    for token, tag in zip(tokens, tags, strict=True):
        letter, _, kind = tag.partition("-")
        start = len(text) + len(between) * bool(text)
        text += (between if text else "") + token
        if letter == "I" and before.partition("-")[2] == kind:
            entities[-1]["span"][1] = len(text)
        elif letter in ("B", "I"):
            entities.append({"type": kind, "span": [start, len(text)]})
        elif tag != "O":
            raise InputError(f"{where}: {tag!r} is not a tag of BIO: fetch the file again.")
        before = tag
    return {"id": name, "text": text, "entities": entities}

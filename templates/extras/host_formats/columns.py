"""CoNLL columns: a token on each line with its tag, an empty line behind each sentence.

A project of named entities reads and writes such files itself, and all that they may hold. This is
for other readers of records: tags of BIO1, BIO2, BIOES, BILOU and BMES become entities.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from extras.host_formats.options import Options
from extras.host_formats.records import Conversion, Span, entity_records, text_id
from extras.host_formats.source_files import SourceError, read_text, shown

DOCUMENT_MARK = "-DOCSTART-"
COMMENT = re.compile(r"# ?(id|sent_id|text|newdoc|newpar|global\.columns)\b")
# Placeholders for tags in files to predict.
NO_TAGS = ("-", "_", "?", "")
TAG = re.compile(r"O|[BIESMLU]-.+")
# Chinese characters and Japanese kana, with their punctuation: they have no spaces around them.
UNSPACED = re.compile(
    "[\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]"
)


@dataclass(frozen=True)
class Sentence:
    """The lines of a sentence; `above` are comments and empty lines before it.

    `characters` says of each column whether all cells of its file are one character.
    """

    rows: list[list[str]]
    separator: str
    above: list[str]
    characters: tuple[bool, ...] = ()

    def join(self, options: Options) -> str:
        """Return how tokens are joined: single characters without spaces, Latin ones too."""
        column = options.token_column - (options.token_column > 0)
        single = len(self.characters) > max(column, -column - 1) and self.characters[column]
        return "none" if options.join == "auto" and single else options.join


def open_columns(path: Path) -> Iterator[tuple[str, Sentence]]:
    """Yield `(place of the first line, sentence)` of a file; raises as `split_sentences` does."""
    placed = list(split_sentences(path))
    rows = [row for _, sentence in placed for row in sentence.rows]
    characters = tuple(
        all(len(cell) == 1 for cell in column) for column in zip(*rows, strict=False)
    )
    yield from ((where, replace(sentence, characters=characters)) for where, sentence in placed)


def split_sentences(path: Path) -> Iterator[tuple[str, Sentence]]:
    """Yield `(place of the first line, sentence)`; columns are separated by tabs, or else spaces.

    Raises:
        SourceError: a line has another number of columns than the first one.
    """
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    plain = [line for line in lines if line.strip() and not is_mark(line)]
    # A comment may have a tab where tokens have spaces.
    separator = "\t" if any("\t" in line for line in plain or lines) else " "
    usual = split_cells(plain[0], separator) if plain else []
    rows: list[list[str]] = []
    above: list[str] = []
    width, first = 0, 0
    for number, line in enumerate([*lines, ""], start=1):
        cells = split_cells(line, separator)
        mark = is_mark(line) and not (COMMENT.match(line) and (rows or is_token(cells, usual)))
        if mark or not line.strip():
            if rows:
                yield f"{path}, line {first}", Sentence(rows, separator, above)
                rows, above = [], []
            above.append(line)
            continue
        width, first = width or len(cells), first if rows else number
        if len(cells) != width:
            raise SourceError(f"{path}, line {number}: {len(cells)} columns instead of {width}")
        rows.append(cells)


def is_mark(line: str) -> bool:
    """Return whether a line looks like a comment, or begins a document."""
    return line.startswith(DOCUMENT_MARK) or bool(COMMENT.match(line))


def split_cells(line: str, separator: str) -> list[str]:
    """Return the cells of a line; other white space, such as U+00A0, may be part of a token."""
    return [cell for cell in line.split(separator) if cell or separator == "\t"]


def is_token(cells: list[str], usual: list[str]) -> bool:
    """Return whether a line that looks like a comment is a token, such as a hashtag.

    >>> is_token(["#text", "O"], ["Ada", "B-per"])
    True
    >>> is_token(["# id 7", "domain=en"], ["Ada", "B-per"])
    False
    """
    if len(cells) != len(usual or cells):
        return False
    if len(usual) > 1 and TAG.fullmatch(usual[-1]):
        return bool(TAG.fullmatch(cells[-1]))
    return " " not in cells[0] and cells[0] != "#"


def join_tokens(tokens: list[str], join: str) -> tuple[str, list[Span]]:
    """Return the text of tokens, and the span of each; arguments as in `Options`."""
    text, spans = "", []
    for token in tokens:
        close = UNSPACED.match(text[-1:]) or UNSPACED.match(token)
        text += " " if text and (join == "space" or join == "auto" and not close) else ""
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text, spans


def pick_column(sentence: Sentence, column: int, where: str) -> list[str]:
    """Return a column of a sentence, counted from 1, or from -1 for the last one.

    Raises:
        SourceError: there is none.
    """
    width = len(sentence.rows[0])
    place = column - 1 if column > 0 else width + column
    if not column or not 0 <= place < width:
        fault = f"{where}: {width} columns, and column {column} was asked for"
        raise SourceError(fault, "name another one with --token-column or --tag-column")
    return [row[place] for row in sentence.rows]


def find_tags(sentence: Sentence, options: Options, where: str) -> list[str] | None:
    """Return the tags of a sentence; None: it has none.

    Raises:
        SourceError: some cells of the column are tags, and others are not.
    """
    if len(sentence.rows[0]) == 1:
        return None
    tags = pick_column(sentence, options.tag_column, where)
    if not any(TAG.fullmatch(tag) for tag in tags):
        return None
    wrong = [tag for tag in tags if not TAG.fullmatch(tag)]
    if wrong:
        fault = f"{where}: {shown(wrong[0])} is not O, nor a letter, a hyphen and a type"
        raise SourceError(fault, "name the column of the tags with --tag-column")
    return tags


def read_columns(sentence: Sentence, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a sentence; broken tags are read as conlleval reads them."""
    tokens = pick_column(sentence, options.token_column, where)
    if "" in tokens:
        raise SourceError(f"{where}: the sentence has an empty token", "fill in the cell")
    text, spans = join_tokens(tokens, sentence.join(options))
    record = {"id": text_id(text), "text": text}
    tags = find_tags(sentence, options, where)
    if tags is None:
        return record
    entities: list[list] = []
    before, ended = "", True
    for (start, end), tag in zip(spans, tags, strict=True):
        letter, _, kind = tag.partition("-")
        begins = letter in ("B", "S", "U") or ended or kind != before
        if kind and begins:
            entities.append([start, end, kind])
            if letter not in ("B", "S", "U"):
                what = "tags that continue an entity where there is none: one begins there"
                conversion.remark(what, where)
        elif kind:
            entities[-1][1] = end
        before, ended = kind, letter in ("O", "E", "L", "S", "U")
    found = [(start, end, kind) for start, end, kind in entities]
    return {**record, "entities": entity_records(found, where, conversion)}


def write_columns(
    sentence: Sentence | None, record: dict, options: Options, conversion: Conversion
) -> Sentence:
    """Return a sentence with predicted tags; without a column of tags it gets one.

    Raises:
        SourceError: the tokens are unknown.
    """
    where = f"record {record['id']}"
    if sentence is None:
        raise SourceError(f"{where}: columns need tokens", "name the host's file with --texts")
    tokens = pick_column(sentence, options.token_column, where)
    _, spans = join_tokens(tokens, sentence.join(options))
    tags = make_tags(record["entities"], spans, options.scheme, where, conversion)
    place = options.tag_column - 1 if options.tag_column > 0 else options.tag_column
    rows = [[*row] for row in sentence.rows]
    has_column = len(rows[0]) > 1 and has_tag_column(sentence, options, where)
    for row, tag in zip(rows, tags, strict=True):
        if sentence.separator == " " and " " in tag:
            fault = f"{where}: the type of {tag!r} has a space, which separates the columns"
            raise SourceError(fault, "separate the host's columns by tabs")
        if has_column:
            row[place] = tag
        else:
            row.append(tag)
    return replace(sentence, rows=rows)


def has_tag_column(sentence: Sentence, options: Options, where: str) -> bool:
    """Return whether the column of the tags is there, with tags or with placeholders."""
    cells = pick_column(sentence, options.tag_column, where)
    return all(cell in NO_TAGS or TAG.fullmatch(cell) for cell in cells)


def make_tags(
    entities: list[dict], spans: list[Span], scheme: str, where: str, conversion: Conversion
) -> list[str]:
    """Return the tags of tokens; entities become whole tokens, and don't overlap."""
    tags = ["O"] * len(spans)
    for item in sorted(entities, key=lambda item: (item["span"][0], -item["span"][1])):
        start, end = item["span"]
        touched = [n for n, (first, last) in enumerate(spans) if first < end and start < last]
        if not touched or any(tags[number] != "O" for number in touched):
            what = "entities that overlap another one, which columns can't hold, left out"
            conversion.remark(what, where)
            continue
        if (spans[touched[0]][0], spans[touched[-1]][1]) != (start, end):
            conversion.remark("entities that were extended to whole tokens", where)
        letters = ["B", *"I" * (len(touched) - 1)]
        if scheme == "bioes":
            letters[-1] = "S" if len(touched) == 1 else "E"
        for number, letter in zip(touched, letters, strict=True):
            tags[number] = f"{letter}-{item['type']}"
    return tags


def columns_text(sentences: list[Sentence]) -> str:
    """Return the content of a file of columns.

    Raises:
        SourceError: the tags replace a column in some sentences, and are a new one in others.
    """
    widths = sorted({len(row) for sentence in sentences for row in sentence.rows})
    if len(widths) > 1:
        fault = f"the column of the tags is number {widths[0]} for some sentences only"
        raise SourceError(fault, "add a column of O to the host's file, or name it: --tag-column")
    lines = []
    for sentence in sentences:
        lines += [*sentence.above, *(sentence.separator.join(row) for row in sentence.rows)]
    return "".join(f"{line}\n" for line in [*lines, ""])

"""CoNLL columns: one token on each line with its tag, an empty line after each sentence.

Tags are O, or a letter and a type, such as B-person. The letters define the scheme:

bio1    I; B only if the entity directly follows another one of its type
bio2    B begins, I continues
bioes   B begins, I continues, E ends, S is a whole entity; BILOU has L and U for E and S, BMES has
        M for I
"""

import bisect
import codecs
import functools
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.extras import ask
from core.base.files import write_text
from formats.settings import ConllTable

DOCUMENT_MARK = "-DOCSTART-"
APART = (DOCUMENT_MARK, "#")  # how lines may begin that hold no token
# Comments that some files have above a sentence. A token such as #text has a token's columns.
COMMENT = re.compile(r"# ?(id|sent_id|text|newdoc|newpar|global\.columns)\b")
NO_TAGS = ("-", "_", "?", "")  # placeholders for tags in files to predict
# Begins, continues, ends, is a whole entity.
LETTERS = {
    "bio1": ("B", "I", "I", "B"),
    "bio2": ("B", "I", "I", "B"),
    "bioes": ("B", "I", "E", "S"),
    "bilou": ("B", "I", "L", "U"),
    "bmes": ("B", "M", "E", "S"),
}
STANDARD = str.maketrans("MLU", "IES")
# Chinese characters and Japanese kana, with their punctuation: they have no spaces around them.
UNSPACED = re.compile(
    "[\u2e80-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]"
)

Tag = tuple[str, str]  # letter and type; of O both are empty
Chunk = tuple[str, int, int]  # type, first and last token
# Number of a line, from 1 -> its columns, with their separators in between.
Sentence = dict[int, list[str]]


@dataclass(frozen=True)
class ConllFile:
    """A checked file of columns; it is read each time that its sentences are needed.

    Attributes:
        path: of the file.
        separator: pattern that separates columns.
        token, tag: the numbers of these columns, from 0; a file to predict may have no tags.
        labelled: whether entities are read from it.
    """

    path: Path
    separator: str
    token: int
    tag: int | None
    labelled: bool

    @property
    def sentences(self) -> Iterator[Sentence]:
        """The sentences, one after the other: a large file is never held in memory."""
        return split_sentences(self.path, self.separator)

    def column(self, sentence: Sentence, column: int) -> list[str]:
        """Return one column of a sentence."""
        return [cells[2 * column] for cells in sentence.values()]

    def tags(self, sentence: Sentence) -> list[Tag]:
        """Return the tags of a sentence.

        Raises:
            InputError: names the line of a cell that is not a tag.
        """
        tags = []
        cells = self.column(sentence, self.tag) if self.tag is not None else ()
        for line, cell in zip(sentence, cells, strict=False):
            tag = parse_tag(cell)
            if tag is None:
                raise InputError(
                    f"{self.path}, line {line}: {cell!r} is not a tag, which is O, or one of B, I, "
                    "E, S, M, L, U with a hyphen and a type: correct it, or set conll.tag_column "
                    "to the column of the tags."
                )
            tags.append(tag)
        return tags


def is_conll(path: str | Path) -> bool:
    """True for a file of columns, by its name and its first line; others are JSON Lines."""
    path = Path(path)
    if path.suffix.lower() in (".jsonl", ".json") or not path.is_file():
        return False
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        first = next((line for line in file if line.strip()), "")
    try:
        return not isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return not first.startswith('{"')


def read_sentences(
    path: str | Path, table: ConllTable, require_tags: bool, make: Callable[..., Any]
) -> Sequence[Any]:
    """Return an example for each sentence of a file; extras/cache may have kept them.

    Args:
        path: as in `read_conll`, and so is `require_tags`.
        table: describes the columns and their tags.
        make: from the first line of a sentence, its text, the spans of its tokens and its entities
            to an example, which has an `id`.

    Raises:
        InputError: names the file and the line of the error.
    """
    stream = functools.partial(
        stream_sentences, path=Path(path), table=table, require_tags=require_tags, make=make
    )
    return ask("open_stream", path, stream) or [*stream()]


def stream_sentences(
    path: Path, table: ConllTable, require_tags: bool, make: Callable[..., Any]
) -> Iterator[Any]:
    """Yield an example for each sentence; arguments and errors as in `read_sentences`."""
    file = read_conll(path, table, require_tags)
    scheme = file_scheme(file, table) if file.labelled else None
    join = table.join
    if join == "auto" and has_characters(file):
        join = "none"
    for sentence in file.sentences:
        chunks = read_entities(file, sentence, scheme or "bio2", table) if file.labelled else []
        text, tokens = join_tokens(file.column(sentence, file.token), join)
        yield make(next(iter(sentence)), text, tokens, chunks)


def has_characters(file: ConllFile) -> bool:
    """Return whether each token of a file is one character: then Latin ones belong together too."""
    tokens = (token for sentence in file.sentences for token in file.column(sentence, file.token))
    return all(len(token) == 1 for token in tokens)


def read_conll(path: str | Path, table: ConllTable, require_tags: bool) -> ConllFile:
    """Find the columns of a file and check all its lines.

    Args:
        path: tokens and tags, separated by tabs or else spaces; document marks and comments are
            left out.
        table: `token_column`, `tag_column`.
        require_tags: False for files to predict.

    Raises:
        InputError: names the file and the line of the error.
    """
    path = Path(path)
    # A comment, or an empty line, may have a tab where tokens have spaces.
    lines = (line.strip() for _, line in read_lines(path) if not line.startswith(APART))
    separator = "\t" if any("\t" in line for line in lines) else "[ \t]+"
    sentences = split_sentences(path, separator)
    token, tag = find_columns(path, sentences, table, require_tags)
    return ConllFile(path, separator, token, tag, require_tags)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file without line ends, each with its number from 1.

    Raises:
        InputError: names the line that is not UTF-8.
    """
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, start=1):
            try:
                if not line.isascii():
                    line.encode(errors="surrogateescape").decode()
            except UnicodeDecodeError as error:
                what = f"not UTF-8 ({error.reason}): save the file as UTF-8."
                raise InputError(f"{path}, line {number}: {what}") from error
            yield number, line.rstrip("\n")


def split_sentences(path: Path, separator: str) -> Iterator[Sentence]:
    """Yield the sentences of a file; raises as `read_lines` does."""
    split = re.compile(f"({separator})").split
    usual = find_usual_line(path, split)
    sentence: Sentence = {}
    for number, line in read_lines(path):
        cells = split(line.rstrip(" \r"))
        comment = not sentence and is_comment(line, cells, usual)
        mark = line.startswith(DOCUMENT_MARK) or comment
        if not mark and line.strip(" \t\r"):
            sentence[number] = cells
        elif sentence:
            yield sentence
            sentence = {}
    if sentence:
        yield sentence


def find_usual_line(path: Path, split: Callable[[str], list[str]]) -> list[str]:
    """Return the first line of a file that can't be a comment, split; empty: there is none."""
    for _, line in read_lines(path):
        if not line.startswith(APART) and line.strip(" \t\r"):
            return split(line.rstrip(" \r"))
    return []


def is_comment(line: str, cells: Sequence[str], usual: Sequence[str]) -> bool:
    """Return whether a line above a sentence is a comment: a known one, or of other columns.

    Args:
        line: of a file.
        cells: the line, split.
        usual: those of a line that is no comment; empty: there is none.
    """
    if COMMENT.match(line):
        return not is_token_line(cells, usual)
    return line.startswith("#") and bool(usual) and len(cells) != len(usual)


def is_token_line(cells: Sequence[str], usual: Sequence[str]) -> bool:
    """Return whether a line that looks like a comment is a token, such as a hashtag.

    Args:
        cells: of the line, with their separators in between.
        usual: those of a line that is no comment; empty: there is none.

    Example:
        >>> is_token_line(["#text", "\t", "O"], ["Ada", "\t", "B-per"])
        True
        >>> is_token_line(["# id 7", "\t", "domain=en"], ["Ada", "\t", "B-per"])
        False
    """
    usual = usual or cells
    if len(cells) != len(usual):
        return False
    if len(usual) > 1 and is_tag(usual[-1]):
        return is_tag(cells[-1])
    return " " not in cells[0] and cells[0] != "#"


def find_columns(
    path: Path, sentences: Iterable[Sentence], table: ConllTable, require_tags: bool
) -> tuple[int, int | None]:
    """Return the columns of tokens and of tags, from 0; without tags the second is None.

    Raises:
        InputError: there is no line, a line has another number of columns than the first, or a
            column of the settings is missing.
    """
    lines = itertools.chain.from_iterable(sentence.items() for sentence in sentences)
    first, cells = next(lines, (0, []))
    if not first:
        raise InputError(f"{path} holds no record: write one token on each line.")
    width = len(cells) // 2 + 1
    places = {}
    for name in ("token_column", "tag_column"):
        column = getattr(table, name)
        places[name] = column - 1 if column > 0 else width + column
        if not 0 <= places[name] < width and (name == "token_column" or require_tags):
            raise InputError(
                f"{path}, line {first}: {count_columns(width)}, and conll.{name} = {column}: set "
                "it to a column of the file."
            )
    token, tag = places["token_column"], places["tag_column"]
    if require_tags and tag == token:
        raise InputError(
            f"{path}, line {first}: {count_columns(width)}, and tokens and tags are read from the "
            "same one: add the tags, or set conll.token_column and conll.tag_column."
        )
    tagged = 0 <= tag < width and tag != token
    for line, parts in itertools.chain([(first, cells)], lines):
        if len(parts) != len(cells):
            raise InputError(
                f"{path}, line {line}: {count_columns(len(parts) // 2 + 1)}, and line {first} has "
                f"{width}: write as many on each line, with tabs where a token holds a space."
            )
        if not parts[2 * token]:
            raise InputError(f"{path}, line {line}: the token is empty: write one, or delete it.")
        tagged = tagged and (require_tags or is_tag(parts[2 * tag]))
    return token, tag if tagged else None


def is_single(file: ConllFile) -> bool:
    """Return whether a file has one column."""
    return all(len(cells) == 1 for sentence in file.sentences for cells in sentence.values())


def has_tags(path: str | Path, table: ConllTable) -> bool:
    """Return whether a file of columns has tags, with an entity: its labels can be checked."""
    if not is_conll(path):
        return False
    file = read_conll(path, table, False)
    if file.tag is None:
        return False
    cells = {cell for sentence in file.sentences for cell in file.column(sentence, file.tag)}
    return not cells & {*NO_TAGS} and cells != {"O"}


def count_columns(count: int) -> str:
    """Return `1 column` or `2 columns`."""
    return f"{count} column{'s' * (count > 1)}"


def is_tag(cell: str) -> bool:
    """True for a cell that is a tag or a placeholder for one."""
    return cell in NO_TAGS or parse_tag(cell) is not None


@functools.lru_cache(1024)
def parse_tag(cell: str) -> Tag | None:
    """Return letter and type of a tag; None: it is not a tag."""
    letter, _, kind = cell.partition("-")
    if cell == "O":
        return "", ""
    return (letter, kind) if letter in tuple("BIESMLU") and kind else None


def find_scheme(sentences: Iterable[Sequence[Tag]]) -> str | None:
    """Return the first scheme that fits all tags; None: there is no entity."""
    letters: set[str] = set()
    begun, orphans = 0, 0
    for tags in sentences:
        letters |= {letter for letter, _ in tags if letter}
        kinds = ["", *(kind for _, kind in tags)]
        for before, (letter, kind) in zip(kinds, tags, strict=False):
            begun += letter == "B" and before != kind
            orphans += letter == "I" and before != kind
    if letters <= {"B", "I"}:
        # In BIO1 a B only follows an entity of its own type; in BIO2 so does an I.
        return ("bio1" if orphans and not begun else "bio2") if letters else None
    return fitting_schemes(letters)[0]


def fitting_schemes(letters: set[str]) -> list[str]:
    """Return the schemes that have all of some letters."""
    return [scheme for scheme, known in LETTERS.items() if letters <= {*known}]


def read_chunks(tags: Sequence[Tag]) -> list[Chunk]:
    """Return the entities of tags in any scheme, as conlleval reads them, broken ones included.

    An entity begins at B or S, or after O, after an entity that has ended, or after another type.
    It ends before the next entity and before O.
    """
    chunks: list[Chunk] = []
    before = ("", "")
    for position, (letter, kind) in enumerate(tags):
        letter = letter.translate(STANDARD)
        ended = before[0] in ("", "E", "S") or before[1] != kind
        if letter in ("B", "S") or letter and ended:
            chunks.append((kind, position, position))
        elif letter:
            chunks[-1] = (kind, chunks[-1][1], position)
        before = letter, kind
    return chunks


def write_chunks(chunks: Iterable[Chunk], length: int, scheme: str) -> list[Tag]:
    """Return the tags of `length` tokens with some entities, which don't overlap."""
    begins, goes_on, ends, alone = LETTERS[scheme]
    tags = [("", "")] * length
    for kind, first, last in chunks:
        letters = alone if first == last else begins + goes_on * (last - first - 1) + ends
        if scheme == "bio1" and (not first or tags[first - 1][1] != kind):
            letters = "I" + letters[1:]
        tags[first : last + 1] = [(letter, kind) for letter in letters]
    return tags


def find_chunks(tags: Sequence[Tag], scheme: str, broken: str) -> tuple[list[Chunk], int | None]:
    """Return the entities of tags, and the first token whose tag the scheme doesn't allow.

    Args:
        tags: of a sentence.
        scheme: of `LETTERS`.
        broken: `drop` leaves out entities that break the scheme, as seqeval's strict mode does;
            else they are read as conlleval reads them.
    """
    chunks = read_chunks(tags)
    right = write_chunks(chunks, len(tags), scheme)
    wrong = [place for place, pair in enumerate(zip(tags, right, strict=True)) if len({*pair}) > 1]
    if broken == "drop":
        chunks = [c for c in chunks if not any(c[1] <= place <= c[2] for place in wrong)]
    return chunks, wrong[0] if wrong else None


def file_scheme(file: ConllFile, table: ConllTable) -> str | None:
    """Return the scheme of the tags of a file; None: it has no entity.

    Raises:
        InputError: names the line of a cell that is not a tag, or of a letter of another scheme.
    """
    found = find_scheme(tags_that_fit(file))
    return found if table.scheme == "auto" else table.scheme


def tags_that_fit(file: ConllFile) -> Iterator[list[Tag]]:
    """Yield the tags of each sentence; raises as `file_scheme` does."""
    letters: set[str] = set()
    for sentence in file.sentences:
        tags = file.tags(sentence)
        for line, (letter, _) in zip(sentence, tags, strict=False):
            if letter and letter not in letters:
                letters.add(letter)
                if not fitting_schemes(letters):
                    raise InputError(
                        f"{file.path}, line {line}: no scheme has {', '.join(sorted(letters))} "
                        "together: write all tags in BIO, BIOES, BILOU or BMES."
                    )
        yield tags


def read_entities(
    file: ConllFile, sentence: Sentence, scheme: str, table: ConllTable
) -> list[Chunk]:
    """Return the entities of a sentence of a file.

    Raises:
        InputError: names the line of a tag that the scheme doesn't allow.
    """
    chunks, wrong = find_chunks(file.tags(sentence), scheme, table.broken_tags)
    if wrong is not None and table.broken_tags == "refuse":
        cell, line = file.column(sentence, file.tag or 0)[wrong], [*sentence][wrong]
        raise InputError(
            f"{file.path}, line {line}: {cell!r} is not allowed here in "
            f"{scheme.upper()}: correct the tag, or set conll.broken_tags to begin, as conlleval "
            "reads it, or to drop, as seqeval's strict mode does."
        )
    return chunks


def join_tokens(tokens: Sequence[str], join: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of some tokens, and the span `[start, end)` of each token.

    Args:
        tokens: of a sentence.
        join: the setting; `auto` puts a space between tokens, but none next to a Chinese character.
    """
    text, spans = "", []
    for token in tokens:
        close = UNSPACED.match(text[-1:]) or UNSPACED.match(token)
        text += " " if text and (join == "space" or join == "auto" and not close) else ""
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text, spans


def whole_tokens(span: tuple[int, int], tokens: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the span from the first to the last token of a CoNLL file that a span touches."""
    first = bisect.bisect_right(tokens, span[0], key=operator.itemgetter(1))
    last = bisect.bisect_left(tokens, span[1], key=operator.itemgetter(0)) - 1
    return tokens[first][0], tokens[last][1]


def write_conll(out: Path, file: ConllFile, chunks: Sequence[Sequence[Chunk]], scheme: str) -> None:
    """Write a copy of a file with the tags of some entities; all else stays as it was.

    Args:
        out: the file to write.
        file: the source; without tags it gets one more column.
        chunks: of each sentence.
        scheme: of `LETTERS`.

    Raises:
        InputError: a type holds what separates the columns of the file.
    """
    lines = [line for _, line in read_lines(file.path)]
    with open(file.path, "rb") as source:
        first = source.readline()
    tab = "\t" if file.separator == "\t" else " "
    kinds = {kind for own in chunks for kind, *_ in own}
    held = [kind for kind in sorted(kinds) if re.search(rf"[\r\n]|{file.separator}", kind)]
    spaced = bool(held) and not re.search(r"[\t\r\n]", "".join(held))
    if spaced and file.tag is None and is_single(file):
        held, tab = [], "\t"  # of one column anything can separate the second
    if held:
        raise InputError(
            f"the type {held[0]!r} holds what separates the columns of {file.path}: separate them "
            "by tabs, or write records with --format records."
        )
    for sentence, own in zip(file.sentences, chunks, strict=True):
        tags = write_chunks(own, len(sentence), scheme)
        for (line, cells), (letter, kind) in zip(sentence.items(), tags, strict=True):
            if file.tag is None:
                cells += [tab, ""]
            cells[-1 if file.tag is None else 2 * file.tag] = f"{letter}-{kind}" if kind else "O"
            lines[line - 1] = "".join(cells)
    end, mark = "\r\n" if first.endswith(b"\r\n") else "\n", first.startswith(codecs.BOM_UTF8)
    write_text(out, "\ufeff" * mark + "".join(f"{line}{end}" for line in lines))

"""Read the rows of .csv and .tsv files, and those of JSON Lines whose fields have any names.

Python's own csv module reads tables. pandas would turn texts such as "NA" and "null" into missing
values and ids such as "007" into numbers. It would also guess broken rows, and names no line.
"""

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from core.base.errors import InputError
from core.base.files import read_json_lines
from extras.competition.quotes import Lines, encloses_cells, explain_quotes, swallows_rows

UNNAMED = "unnamed {}"  # a column whose header is empty
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BLOCK = 1 << 20  # bytes read at once
Quoting = Literal["auto", "cells", "none"]
LONGEST_CELL = 2**31 - 1  # of more csv knows nothing on Windows


@dataclass(frozen=True)
class Dialect:
    """How tables are written.

    Attributes:
        encoding: of the file.
        delimiter: of the cells, where the first line has it; empty: the usual one.
        quoting: whether double quotes enclose cells, or belong to the texts; "auto": in .csv they
            enclose cells, and in .tsv the lines tell.
        names: of the columns of files that have no header; empty: the first row is one.
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    quoting: Quoting = "auto"
    names: tuple[str, ...] = ()

    def lacks_header(self, cells: list[str]) -> bool:
        """Return whether the first row is one of texts, and `names` are those of its columns.

        A row of the same names, in whatever order or case, is a header.
        """
        own, names = (sorted(n.strip().casefold() for n in row) for row in (cells, self.names))
        return len(cells) == len(names) and own != names

    def shared_names(self, cells: list[str]) -> list[str]:
        """Return the `names` that a row has as cells."""
        return [name for name in self.names if name.casefold() in map(str.casefold, cells)]

    def fits_header(self, header: list[str]) -> bool:
        """Return whether a header may be one: where `names` are given, it has some of them."""
        own, names = ({n.casefold() for n in row} for row in (header, self.names))
        return not names or bool(own & names)


def is_table(path: str | Path) -> bool:
    """Return whether a file is called .csv or .tsv."""
    return Path(path).suffix.lower() in DELIMITERS


def read_any_rows(
    path: str | Path, dialect: Dialect = Dialect()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line, row)` of a table, or of JSON Lines, whose values need not be strings."""
    return read_rows(path, dialect) if is_table(path) else read_json_lines(path)


def read_rows(
    path: str | Path, dialect: Dialect = Dialect()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield `(line, row)`: the first line of a row, and its cells by column.

    A byte order mark and empty lines are skipped. Quoted cells may contain line breaks. In .tsv the
    lines say whether quotes enclose cells: see `encloses_cells`.

    Raises:
        InputError: the file is absent, empty or in another encoding, or a row is broken.
    """
    path, encoding = Path(path), encoding_of(path, dialect)
    delimiter, quoting = find_format(path, dialect)
    lines = Lines(read_lines(path, encoding))
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    quoted = quoting != csv.QUOTE_NONE
    header: list[str] | None = None
    count, line = 0, 1
    limit = csv.field_size_limit(LONGEST_CELL)  # of the whole process: restored below
    try:
        for cells in reader:
            begin, line = line, reader.line_num + 1
            doubtful = line > begin + 1 and dialect.quoting != "cells"
            if doubtful and swallows_rows(lines.last, delimiter):
                raise InputError(
                    f"{path}, lines {begin} to {line - 1}: a double quote opens a cell here and is "
                    "closed lines later, and each of these lines is a row: close the quote where "
                    "its text ends, or write a quote that belongs to a text twice within quotes. "
                    'If these lines are one text, set competition.quoting = "cells".'
                    + explain_quotes(path, read_lines(path, encoding), delimiter)
                )
            lines.forget()
            if not cells:
                continue
            if header is None and dialect.lacks_header(cells):
                if same := dialect.shared_names(cells):
                    raise InputError(
                        f"{path}, line {begin}: {same[0]!r} is a name in competition.column_names, "
                        "so this row may be a header with other names: write it with the same "
                        "ones, or leave column_names empty."
                    )
                header = [*dialect.names]
            elif header is None:
                header = check_header(path, begin, cells)
                if not dialect.fits_header(header):
                    raise InputError(
                        f"{path}, line {begin}: {len(cells)} cells, but competition.column_names "
                        f"names {len(dialect.names)} columns, and none of them is here: name each "
                        "column of this file, or in a header at least one as column_names does."
                    )
                continue
            if len(cells) != len(header):
                raise InputError(explain_count(path, begin, len(cells), len(header), quoted))
            count += 1
            yield begin, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        what = str(error).replace("'\t'", "a tab")
        if "unexpected end" in what:
            what = "a double quote that opens in this row is never closed"
        advice = 'within quotes write a double quote twice, as in "say ""yes"""'
        advice += "." + explain_quotes(path, read_lines(path, encoding), delimiter)
        raise InputError(f"{path}, line {line}: {what}: {advice}") from error
    finally:
        csv.field_size_limit(limit)
    if not count:
        what = "holds a header and no row" if header else "is empty"
        raise InputError(f"{path} {what}: the first line names the columns, rows follow.")


def explain_count(path: Path, line: int, cells: int, columns: int, quoted: bool) -> str:
    """Return what to do about a row with another number of cells than the header."""
    advice = "put a text that holds commas, tabs, quotes or line breaks into double quotes."
    if not quoted:
        advice = (
            "quotes enclose nothing in this file, so no text may hold the delimiter: correct the "
            'line, or set competition.quoting = "cells" if quotes enclose its cells.'
        )
    return f"{path}, line {line}: {cells} cells, but the header has {columns} columns: {advice}"


def find_format(path: Path, dialect: Dialect) -> tuple[str, Literal[0, 3]]:
    """Return the delimiter of a table, and how the csv module has to take its quotes."""
    delimiter = DELIMITERS.get(path.suffix.lower(), ",")
    encoding = encoding_of(path, dialect)
    if dialect.delimiter and dialect.delimiter in next(read_lines(path, encoding)):
        delimiter = dialect.delimiter
    encloses = dialect.quoting == "cells"
    if dialect.quoting == "auto":
        encloses = path.suffix.lower() != ".tsv" or encloses_cells(
            read_lines(path, encoding), delimiter
        )
    return delimiter, csv.QUOTE_MINIMAL if encloses else csv.QUOTE_NONE


def encoding_of(path: str | Path, dialect: Dialect) -> str:
    """Return the encoding of a file: UTF-8 where all of it is, whatever the setting says.

    Text in another encoding that is not plain ASCII is hardly ever valid UTF-8.
    """
    if codecs.lookup(dialect.encoding).name == "utf-8" or not Path(path).is_file():
        return dialect.encoding
    decoder, is_ascii = codecs.getincrementaldecoder("utf-8")(), True
    with open(path, "rb") as file:
        try:
            while block := file.read(BLOCK):
                is_ascii &= block.isascii()
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeError:
            return dialect.encoding
    return dialect.encoding if is_ascii else "utf-8"


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the unchanged lines of a file, without a byte order mark."""
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path, or the setting that names it.")
    try:
        with open(path, encoding=encoding, newline="") as file:
            yield next(file, "").removeprefix("\ufeff")
            yield from file
    except UnicodeError as error:
        line = line_of_fault(path.read_bytes(), encoding)
        raise InputError(
            f"{path}, line {line}: not {encoding}: save the file as UTF-8, unpacked, or set "
            "competition.encoding to what it is, such as cp1252, utf-16 or gb18030."
        ) from error


def line_of_fault(content: bytes, encoding: str) -> int:
    """Return the line of the first bytes that are invalid in an encoding."""
    try:
        content.decode(encoding)
    except UnicodeError as error:
        return content.count(b"\n", 0, getattr(error, "start", 0)) + 1
    return 1


def check_header(path: Path, line: int, names: list[str]) -> list[str]:
    """Return the stripped names of the columns."""
    names = [name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1 and name})
    if twice:
        raise InputError(f"{path}, line {line}: the header names {twice[0]!r} twice: rename one.")
    if len(names) == 1 and (found := re.search(r"[;\t|]", names[0])):
        raise InputError(
            f"{path}, line {line}: the header is a single column {names[0]!r}: separate columns by "
            f"commas in .csv, and by tabs in .tsv, or set competition.delimiter = {found[0]!r}."
        )
    return [name or UNNAMED.format(number) for number, name in enumerate(names, start=1)]


def header_cells(names: Sequence[str]) -> list[str]:
    """Return a header as a file has it: a column without a name, such as an index, has none."""
    pairs = enumerate(names, start=1)
    return ["" if name == UNNAMED.format(number) else name for number, name in pairs]


def raw_header(path: Path, dialect: Dialect = Dialect()) -> tuple[str, ...]:
    """Return the first row of a table as it is, with the blanks around its cells."""
    delimiter, quoting = find_format(path, dialect)
    lines = read_lines(path, encoding_of(path, dialect))
    return tuple(next(filter(None, csv.reader(lines, delimiter=delimiter, quoting=quoting))))


def table_text(rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    """Return the text of a table; a cell with any line break is in quotes."""
    lines: list[str] = []
    # csv quotes a lone carriage return only where it is in what ends a row.
    out = SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return "".join(lines)

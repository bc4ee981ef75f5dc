"""Double quotes of a table: which of them enclose a cell, and whether one swallows rows.

In .csv they enclose a cell. In .tsv they may: pandas writes them, and other programs write texts as
they are, in which a cell may begin with a quote. The lines of the file say which of both it is.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

# A cell in quotes, in which each quote is written twice.
ENCLOSED = re.compile(r'"(?:[^"]|"")*"')
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)


class Lines:
    """The lines of a file, one by one, and those since the last `forget`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines, self.last = iter(lines), list[str]()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self.last.append(line)
        return line

    def forget(self) -> None:
        """Forget the lines so far."""
        self.last.clear()


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line in which quotes mean nothing."""
    return line.rstrip("\r\n").split(delimiter)


def find_uneven_line(lines: Iterable[str], delimiter: str) -> tuple[int, int, int] | None:
    """Return the first line with another number of cells than the header, and both numbers.

    Args:
        lines: of the file; quotes mean nothing in them.
        delimiter: of the cells.
    """
    wanted = 0
    for number, line in enumerate(lines, start=1):
        cells = len(split_line(line, delimiter))
        if line.strip("\r\n"):
            wanted = wanted or cells
            if cells != wanted:
                return number, cells, wanted
    return None


def encloses_cells(lines: Iterable[str], delimiter: str = "\t") -> bool:
    r"""Return whether quotes enclose cells of a .tsv file; else they belong to the texts.

    They do if a line has other cells than the header, since a cell then holds tabs or line breaks.
    If all lines are even, the quotes have to be written as such a program writes them: around each
    cell, the header included, or around cells whose own quotes are written twice.

    Example:
        >>> encloses_cells(["id\ttext", '1\t"Great, fun'])
        False
        >>> encloses_cells(["id\ttext", '1\t"say ""yes"" to it"'])
        True
    """
    wanted, needed = 0, False
    for line in lines:
        cells = split_line(line, delimiter)
        if not line.strip("\r\n"):
            continue
        if wanted and len(cells) != wanted:
            return True
        quoted = [cell for cell in cells if cell.startswith('"')]
        if any(not ENCLOSED.fullmatch(cell) for cell in quoted):
            # Of one column each line is even, so a text of several lines looks like this too.
            return len(cells) == 1 or not all_even(lines, delimiter, len(cells))
        needed = needed or any(not wanted or '""' in cell[1:-1] for cell in quoted)
        wanted = wanted or len(cells)
    return needed


def all_even(lines: Iterable[str], delimiter: str, cells: int) -> bool:
    """Return whether all further lines have so many cells, or are empty."""
    return all(len(split_line(line, delimiter)) == cells for line in lines if line.strip("\r\n"))


def swallows_rows(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether the lines of one row are rows of their own, with numbers in the same places.

    Args:
        lines: of a row with a cell of several lines.
        delimiter: of the cells; in .csv a text may hold it, so a column of numbers has to agree.
    """
    first, *others = (split_line(line, delimiter) for line in lines if line.strip("\r\n"))
    if len(first) < 2 or not others or any(len(cells) != len(first) for cells in others):
        return False
    numbers = [place for place, cell in enumerate(first) if NUMBER.fullmatch(cell)]
    same = all(NUMBER.fullmatch(cells[place]) for cells in others for place in numbers)
    return same and (delimiter == "\t" or bool(numbers))


def explain_quotes(path: Path, lines: Iterable[str], delimiter: str) -> str:
    """Return what else can be at fault in a .tsv file whose quotes are not those of cells."""
    uneven = find_uneven_line(lines, delimiter) if path.suffix.lower() == ".tsv" else None
    if not uneven:
        return ""
    line, cells, wanted = uneven
    return (
        f" Or correct line {line}, which has {cells} cells, and the header {wanted}: if all lines "
        "have as many, quotes are read as parts of the texts."
    )

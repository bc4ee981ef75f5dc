"""Numbers as tables write them: with a decimal point or comma, and separators of thousands."""

import functools
import re
import sys
import textwrap
from typing import Any

from core.base.errors import InputError
from extras.competition.settings import Table

SPACES = " \u00a0\u202f\u2009"  # all of them separate thousands where a space does
EXAMPLE = "1{thousands}234{decimal}5"


@functools.cache
def pattern_of(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return what a number looks like; one with separators has three digits after each."""
    gap = f"[{SPACES}]" if thousands == " " else re.escape(thousands)
    whole = rf"(?:\d{{1,3}}(?:{gap}\d{{3}})+|\d+)" if thousands else r"\d+"
    point = re.escape(decimal)
    return re.compile(rf"[-+]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:e[-+]?\d+)?", re.IGNORECASE)


def parse_number(cell: str, table: Table) -> float | None:
    """Return the number in a cell without blanks around it; None: it holds none.

    Example: with `decimal = ","` and `thousands = "."` the cell 1.234,5 is 1234.5.
    """
    if not pattern_of(table.decimal, table.thousands).fullmatch(cell):
        return None
    for separator in SPACES if table.thousands == " " else table.thousands:
        cell = cell.replace(separator, "")
    return float(cell.replace(table.decimal, "."))


def read_number(name: str, cell: Any, table: Table, what: str = "target") -> float:
    """Return the number in a cell.

    Args:
        name: of the column.
        cell: a string without blanks around it, or a value of JSON.
        table: says how numbers are written.
        what: the word for the number.

    Raises:
        InputError: the cell is empty, or not a finite number.
    """
    if cell is None or cell == "":
        raise InputError(f"the {what} {name!r} is empty: fill it in, or leave the row out.")
    value = cell if isinstance(cell, int | float) else None
    if isinstance(cell, str):
        value = parse_number(cell, table)
    if value is None or not is_finite(value):
        own = EXAMPLE.format(thousands=table.thousands, decimal=table.decimal)
        raise InputError(
            f"the {what} {name!r} is {shorten(cell)}, which is not a finite number: write it "
            f"as {own}{suggest_format(cell, table)}."
        )
    return float(value)


def is_finite(value: float) -> bool:
    """Return whether a number is finite as a float; JSON has whole numbers of any size."""
    return -sys.float_info.max <= value <= sys.float_info.max


def shorten(value: Any) -> str:
    """Return a value as a message shows it; JSON has whole numbers of hundreds of digits."""
    return textwrap.shorten(repr(value), 60, placeholder="[...]")


def suggest_format(cell: Any, table: Table) -> str:
    """Return the settings with which a cell is a number; empty: none, or it is one already."""
    if not isinstance(cell, str) or parse_number(cell, table) is not None:
        return ""
    for decimal, thousands in ((",", ""), (".", ","), (",", "."), (".", " "), (",", " ")):
        other = table.model_copy(update={"decimal": decimal, "thousands": thousands})
        if parse_number(cell, other) is not None:
            return f", or set competition.decimal = {decimal!r}" + (
                f" and competition.thousands = {thousands!r}" if thousands else ""
            )
    return ""

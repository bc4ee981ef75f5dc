"""Texts and names of a file as a terminal shows them: short, on one line, in even columns."""

import unicodedata
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

GAP = " [...] "
# They move the cursor, end a line, or turn the direction of what follows.
CONTROLS = {"Cc", "Zl", "Zp", *"LRE RLE LRO RLO LRI RLI FSI PDF PDI".split()}


def printable(text: str) -> str:
    """Return a text in which control characters are escaped."""
    kinds = ({unicodedata.category(c), unicodedata.bidirectional(c)} for c in text)
    return "".join(
        repr(c)[1:-1] if CONTROLS & kind else c for c, kind in zip(text, kinds, strict=True)
    )


def excerpt(text: str, spans: Iterable[tuple[int, int]] = (), most: int = 400) -> str:
    """Return about `most` characters of a text on one line: around spans, or its beginning.

    Example:

    >>> excerpt("a" * 30 + "Zenco" + "b" * 30, [(30, 35)], most=20)
    ' [...] aaaaaZencobbbbb [...] '
    """
    around, kept = most // 4, set(range(most))
    if len(text) > most and (places := sorted({*spans})):
        kept = set()
        for span in places:
            near = {i for end in span for i in range(max(end - around, 0), end + around)}
            if len(kept | near) > most and kept:
                break
            kept |= near
    pieces, before = [], -1
    for index in sorted(i for i in kept if i < len(text)):
        pieces += [GAP] * (index != before + 1) + [text[index]]
        before = index
    return printable("".join(pieces + [GAP] * (before + 1 < len(text))))


def column(text: str, width: int, right: bool = False) -> str:
    """Return a name `width` cells wide, and a blank; characters of Chinese have two cells."""
    shown = printable(text)
    if cell_len(shown) > width:
        return set_cell_size(shown, width - 3) + "... "
    blanks = " " * (width - cell_len(shown))
    return f"{blanks}{shown} " if right else f"{shown}{blanks} "

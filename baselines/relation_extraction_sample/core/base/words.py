"""Texts and names as a terminal shows them: short, on one line, in even columns."""

import unicodedata
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

GAP = " [...] "
CONTROLS = {"Cc", "Zl", "Zp", *"LRE RLE LRO RLO LRI RLI FSI PDF PDI".split()}


def printable(text: str) -> str:
    """Return a text with escapes for characters that move the cursor or change the direction."""
    kinds = ({unicodedata.category(c), unicodedata.bidirectional(c)} for c in text)
    pairs = zip(text, kinds, strict=True)
    return "".join(repr(c)[1:-1] if CONTROLS & kind else c for c, kind in pairs)


def excerpt(text: str, spans: Iterable[tuple[int, int]] = (), most: int = 400) -> str:
    """Return about `most` characters of a text on one line: around spans, or its beginning."""
    kept: set[int] = set(range(most))
    if len(text) > most and (places := sorted({*spans})):
        kept = set()
        for end in (end for span in places for end in span):
            if len(kept) < most:
                kept |= {*range(max(end - most // 4, 0), end + most // 4)}
    ends = [-1, *sorted(i for i in kept if i < len(text)), len(text)]
    gaps = [GAP * (index != before + 1) for before, index in zip(ends, ends[1:], strict=False)]
    letters = [*(text[index] for index in ends[1:-1]), ""]
    return printable("".join(gap + c for gap, c in zip(gaps, letters, strict=True)))


def column(text: str, width: int, right: bool = False) -> str:
    """Return a name `width` cells wide, and a blank; characters of Chinese have two cells."""
    shown = printable(text)
    if cell_len(shown) > width:
        return set_cell_size(shown, width - 3) + "... "
    blanks = " " * (width - cell_len(shown))
    return f"{blanks}{shown} " if right else f"{shown}{blanks} "

"""Why do spans not begin and end with a token, and what would mend their offsets?"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from core.data.checks import Finding
from core.data.records import Span
from core.data.tokens import Window

# A shift of more than one character proves something only where it mends so many spans.
MANY = 3
MOST_SHIFTED = 9
SHOWN_WORDS = 60


@dataclass(frozen=True)
class CutSpan:
    """A span that doesn't begin and end with a token.

    Attributes:
        line: of its record.
        quoted: the span and its words.
        mended: way to read the offsets -> the span that this gives, which fits the tokens, quoted.
        tokens: all characters of the tokens that it touches, quoted.
    """

    line: int
    quoted: str
    mended: dict[str, str]
    tokens: str


# Ways to count the characters before an offset: the width of each character that is not counted
# as one. The text is what the file holds.
WIDTHS: dict[str, Callable[[str], Iterable[tuple[int, int]]]] = {
    "utf16": lambda text: ((m.start(), 2) for m in re.finditer("[\U00010000-\U0010ffff]", text)),
    "utf8": lambda text: ((m.start(), len(m[0].encode())) for m in re.finditer("[^\0-\x7f]", text)),
    "crlf_two": lambda text: ((m.start(), 2) for m in re.finditer("(?<!\r)\n", text)),
    "crlf_one": lambda text: ((m.start(), 0) for m in re.finditer("(?<=\r)\n", text)),
    "marks": lambda text: ((i, 0) for i, c in enumerate(text) if unicodedata.combining(c)),
    "stripped": lambda text: ((i, 0) for i in range(len(text) - len(text.lstrip()))),
}
# What is added to start and end.
SHIFTS = {
    "last": (0, 1),
    "first": (1, 0),
    "from_one_last": (-1, 0),
    "end": (0, -1),
    **{
        f"shift {n:+d}": (n, n)
        for n in sorted(range(-MOST_SHIFTED, MOST_SHIFTED + 1), key=abs)
        if n
    },
}
UNLESS = "if parts of words are meant, choose an encoder with shorter tokens instead"
# Reading -> what is wrong, and how it is mended; the likelier of two comes first.
CAUSES = {
    "empty": (
        "spans of blanks only",
        "no token covers them: leave them out, or correct the offsets.",
    ),
    "blank": (
        "spans that begin or end with a blank",
        "leave the blanks out of the spans.",
    ),
    "utf16": (
        "spans whose offsets count UTF-16 units, as Java and JavaScript do",
        "count characters: of each offset take "
        'len(text.encode("utf-16-le")[: 2 * offset].decode("utf-16-le")).',
    ),
    "utf8": (
        "spans whose offsets count bytes of UTF-8",
        "count characters: of each offset take len(text.encode()[:offset].decode()).",
    ),
    "crlf_two": (
        r"spans whose offsets count a line break as two characters (\r\n), where the text has one",
        r"subtract the number of line breaks before each offset, or write \r\n in the texts.",
    ),
    "crlf_one": (
        r"spans whose offsets count a line break as one character, where the text has two (\r\n)",
        r"write \n in the texts, or add the number of line breaks before each offset.",
    ),
    "marks": (
        "spans whose offsets don't count combining marks, as those of an NFC text",
        'write the texts as unicodedata.normalize("NFC", text), or count the marks.',
    ),
    "stripped": (
        "spans whose offsets don't count the blanks that the text begins with",
        "write text.strip() in the texts, or add the number of these blanks to each offset.",
    ),
    "last": (
        "spans off by one: they end one character too early",
        f"end is the first character after a span, so add 1 to it; {UNLESS}.",
    ),
    "first": (
        "spans off by one: they begin one character too early",
        f"add 1 to start; {UNLESS}.",
    ),
    "from_one_last": (
        "spans off by one: they begin one character too late",
        f"offsets count from 0, so subtract 1 from start; {UNLESS}.",
    ),
    "end": (
        "spans off by one: they end one character too late",
        f"end is the first character after a span, so subtract 1 from it; {UNLESS}.",
    ),
    "cut": (
        "spans that begin or end within a token",
        "correct the offsets if other words are meant; if not, choose an encoder with shorter "
        "tokens.",
    ),
}


def is_aligned(span: Span, window: Window) -> bool:
    """Return whether a character span begins and ends with a token of the window."""
    return span[0] in window.starts and span[1] in window.ends


def is_blank(text: str, span: Span) -> bool:
    """Return whether a span has only blanks, and other characters that nobody sees."""
    return all(unicodedata.category(character)[0] in "ZC" for character in text[slice(*span)])


def find_cut_span(text: str, span: Span, line: int, windows: Sequence[Window]) -> CutSpan | None:
    """Return a span that doesn't begin and end with a token; None: it does.

    Args:
        text: of the record.
        span: characters `[start, end)`.
        line: of the record.
        windows: of the text.
    """
    if any(is_aligned(span, window) for window in windows):
        return None
    if is_blank(text, span):
        return CutSpan(line, quote(text, span), {"empty": ""}, "")
    starts = {start for window in windows for start in window.starts.tolist()}
    ends = {end for window in windows for end in window.ends.tolist()}

    def fits(one: Span) -> bool:
        return 0 <= one[0] < one[1] and one[0] in starts and one[1] in ends

    if fits(span):  # too long for any window
        return None
    readings = {"blank": strip(text, span)}
    for name, width in WIDTHS.items():
        if wide := [*width(text)]:
            readings[name] = count_again(len(text), wide, span)
    readings |= {name: (span[0] + one, span[1] + two) for name, (one, two) in SHIFTS.items()}
    mended = {name: quote(text, one) for name, one in readings.items() if fits(one) and one != span}
    first = max((start for start in starts if start <= span[0]), default=span[0])
    last = min((end for end in ends if end >= span[1]), default=span[1])
    return CutSpan(line, quote(text, span), mended, quote(text, (max(first, 0), last)))


def strip(text: str, span: Span) -> Span:
    """Return a span without the blanks, and other characters that nobody sees, at its ends."""
    seen = [i for i in range(*span) if unicodedata.category(text[i])[0] not in "ZC"]
    return (seen[0], seen[-1] + 1) if seen else span


def count_again(length: int, wide: list[tuple[int, int]], span: Span) -> Span:
    """Return the characters of a span whose offsets count some characters otherwise.

    Args:
        length: of the text.
        wide: index and width of the characters whose width is not 1.
        span: offsets that count widths.

    Example: the text begins with an emoji of two UTF-16 units.

    >>> count_again(5, [(0, 2)], (3, 5))
    (2, 4)
    """
    widths = np.ones(length, int)
    widths[[index for index, _ in wide]] = [width for _, width in wide]
    before = np.append(0, np.cumsum(widths))
    # The last place of a count is behind the characters that are not counted.
    start, end = np.searchsorted(before, span, "right") - 1
    return int(start), int(end)


def quote(text: str, span: Span) -> str:
    """Return a span with its words, such as `[3, 9] 'Nimbus'`; long ones lose their middle."""
    words = repr(text[slice(*span)])
    half = SHOWN_WORDS // 2
    return (
        f"{[*span]} {words if len(words) <= SHOWN_WORDS else f'{words[:half]}...{words[-half:]}'}"
    )


def find_span_faults(name: str, cut: Sequence[CutSpan]) -> list[Finding]:
    """Return one finding for each cause, with a span and what it should be.

    A span may be mended by several readings: the one that mends the most spans of the file counts.

    Args:
        name: of the file.
        cut: all such spans of it.
    """
    findings, left = [], [*cut]
    while left:
        votes = Counter(reading for span in left for reading in span.mended)
        order = {reading: place for place, reading in enumerate((*CAUSES, *SHIFTS))}
        cause = min(
            (r for r, n in votes.items() if is_likely(r, n, len(left))),
            key=lambda reading: (-votes[reading], order[reading]),
            default="cut",
        )
        own = [span for span in left if cause == "cut" or cause in span.mended]
        left = [] if cause == "cut" else [span for span in left if cause not in span.mended]
        what, fix = CAUSES.get(cause) or describe_shift(cause)
        first = own[0]
        shift = f": meant is {mended}" if (mended := first.mended.get(cause)) else ""
        if cause == "cut":
            shift = f": its tokens are {first.tokens}"
        where = f"{name}, line {first.line}, {first.quoted} for one{shift}"
        findings.append(Finding("warning", f"{what}: {len(own)}", where, fix))
    return findings


def is_likely(reading: str, mended: int, left: int) -> bool:
    """Return whether a reading mends enough of the spans that are left to be believed."""
    return reading in CAUSES or abs(SHIFTS[reading][0]) == 1 or mended >= max(MANY, left / 2)


def describe_shift(reading: str) -> tuple[str, str]:
    """Return what is wrong where all offsets are shifted, and how it is mended."""
    shift = SHIFTS[reading][0]
    count = "one" if abs(shift) == 1 else f"{abs(shift)} characters"
    verb = f"add {shift} to" if shift > 0 else f"subtract {-shift} from"
    return (
        f"spans off by {count}: they begin and end too {'early' if shift > 0 else 'late'}",
        f"offsets count from 0: {verb} start and end; {UNLESS}.",
    )

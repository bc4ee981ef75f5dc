"""Where the words that were written stand in the text: spans `[start, end)` of characters."""

import itertools
import re
import unicodedata
from collections.abc import Sequence

from core.data.records import Span
from extras.extraction.records import Node

# Of words that stand more often than this in a text, the first places are looked at.
MOST_PLACES = 50
# Where a sentence ends, which is not within a number.
SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f\uff1b\n]")
# Letters and digits of scripts with spaces: between two of them a word is cut.
LETTER = re.compile(r"(?![\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[^\W_]")


class SearchedText:
    """A text in which words are found, as they are or but for spaces, case and accents."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded, self.origins = fold(text)
        self.ends = [found.start() for found in SENTENCE_END.finditer(text)]

    def find(self, words: str) -> list[Span]:
        """Return the places of words, in their order; none: they are not in the text.

        Places that cut no word come first: those of the very words, or else those of words that are
        alike. Without one, places within words are taken, in the same order.
        """
        exact = find_all(self.text, r"\s+".join(map(re.escape, words.split())))
        alike = find_all(self.folded, re.escape(fold(words)[0]))
        tolerant = list(dict.fromkeys(self.original(*place) for place in alike))
        whole = [[place for place in part if not self.cuts(place)] for part in (exact, tolerant)]
        return next((places for places in (*whole, exact, tolerant) if places), [])

    def distance(self, one: Span, two: Span) -> tuple[int, int]:
        """Return the sentences that end between two spans, and the characters between them."""
        first, after = min(one[1], two[1]), max(one[0], two[0])
        return sum(first <= end < after for end in self.ends), max(0, after - first)

    def original(self, start: int, end: int) -> Span:
        """Return the span of the text that a span of the folded text stands for."""
        first, after = self.origins[start], self.origins[end - 1] + 1
        # A letter keeps its accents.
        while after < len(self.text) and unicodedata.combining(self.text[after]):
            after += 1
        return first, after

    def cuts(self, place: Span) -> bool:
        """Tell whether a span begins or ends within a word."""
        return any(
            0 < cut < len(self.text)
            and LETTER.match(self.text[cut - 1]) is not None
            and LETTER.match(self.text[cut]) is not None
            for cut in place
        )


def fold(text: str) -> tuple[str, list[int]]:
    """Return a text without space, case and accents, and where each of its characters stood.

    Tokenizers lose these; what NFKC makes equal, as wide letters, is equal here too.
    """
    characters: list[str] = []
    origins: list[int] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character).casefold():
            if not part.isspace() and not unicodedata.combining(part):
                characters.append(part)
                origins.append(place)
    return "".join(characters), origins


def find_all(text: str, pattern: str) -> list[Span]:
    """Return where a pattern stands in a text, overlapping itself too; the first `MOST_PLACES`."""
    found = re.finditer(f"(?=({pattern}))", text) if pattern else ()
    return [place.span(1) for place in itertools.islice(found, MOST_PLACES)]


def choose_places(
    text: SearchedText, found: Sequence[tuple[str | None, list[Span]]]
) -> tuple[Node, ...]:
    """Return one place for each role: those that stand nearest together.

    The anchor is the subject, the trigger, or the first argument of an event without one. Each
    other role takes the place nearest to it, the end of a sentence being further than any
    character, and the earlier of two; a place that another role has only where there is nothing
    else. The anchor takes the place with the smallest sum of these, the first of several.

    Args:
        text: that is searched.
        found: role and places, none of which is empty; that of the anchor first.
    """
    (role, anchors), *others = found
    ways = []
    for anchor in anchors:
        nodes, cost = [(role, anchor)], (0, 0, 0)
        for other, places in others:
            taken = {span for _, span in nodes}
            *own, place = min((p in taken, *text.distance(p, anchor), p) for p in places)
            nodes.append((other, place))
            cost = (cost[0] + own[0], cost[1] + own[1], cost[2] + own[2])
        ways.append((cost, tuple(nodes)))
    return min(ways, key=lambda way: way[0])[1]

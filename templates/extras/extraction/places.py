"""Locate written words in the text: character spans `[start, end)`."""

import itertools
import re
import unicodedata
from collections.abc import Sequence

from core.data.records import Span
from extras.extraction.records import Node

# If words occur more often than this, only the first places are used.
MOST_PLACES = 50
# The end of a sentence, not within a number.
SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f\uff1b\n]")
# Letters and digits of scripts with spaces; a border between two of them cuts a word.
LETTER = re.compile(r"(?![\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[^\W_]")


class SearchedText:
    """A text that finds words, exactly or ignoring spaces, case and accents."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded, self.origins = fold(text)
        self.ends = [found.start() for found in SENTENCE_END.finditer(text)]

    def find(self, words: str) -> list[Span]:
        """Return the places of words in order; none: not in the text.

        Places that cut no word come first: exact ones, or else similar ones. Without any, places
        within words are taken, in the same order.
        """
        exact = find_all(self.text, r"\s+".join(map(re.escape, words.split())))
        alike = find_all(self.folded, re.escape(fold(words)[0]))
        tolerant = list(dict.fromkeys(self.original(*place) for place in alike))
        whole = [[place for place in part if not self.cuts(place)] for part in (exact, tolerant)]
        return next((places for places in (*whole, exact, tolerant) if places), [])

    def distance(self, one: Span, two: Span) -> tuple[int, int]:
        """Return the number of sentence ends and of characters between two spans."""
        first, after = min(one[1], two[1]), max(one[0], two[0])
        return sum(first <= end < after for end in self.ends), max(0, after - first)

    def original(self, start: int, end: int) -> Span:
        """Return the span of the original text for a span of the folded text."""
        first, after = self.origins[start], self.origins[end - 1] + 1
        # A letter keeps its accents.
        while after < len(self.text) and unicodedata.combining(self.text[after]):
            after += 1
        return first, after

    def cuts(self, place: Span) -> bool:
        """Return whether a span begins or ends within a word."""
        return any(
            0 < cut < len(self.text)
            and LETTER.match(self.text[cut - 1]) is not None
            and LETTER.match(self.text[cut]) is not None
            for cut in place
        )


def fold(text: str) -> tuple[str, list[int]]:
    """Return a text without space, case and accents, and the original position of each character.

    Tokenizers may lose these. Characters that NFKC makes equal, such as wide letters, become equal.
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
    """Return the first `MOST_PLACES` places of a pattern, including overlapping ones."""
    found = re.finditer(f"(?=({pattern}))", text) if pattern else ()
    return [place.span(1) for place in itertools.islice(found, MOST_PLACES)]


def choose_places(
    text: SearchedText, found: Sequence[tuple[str | None, list[Span]]]
) -> tuple[Node, ...]:
    """Return one place per role: the places that are closest together.

    The anchor is the subject, the trigger, or the first argument of an event without a trigger.
    Each other role takes the place nearest to the anchor, counting sentence ends first, then
    characters, and the earlier place on a tie. It takes another role's place only if there is no
    other. The anchor takes the place with the smallest sum of distances, and the first on a tie.

    Args:
        text: the searched text.
        found: role and non-empty places; the anchor first.
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

"""Encode more than two texts as one sequence, with what the tokenizer puts between a pair.

The tokenizers know single texts and pairs. Here a third text follows the second one as that follows
the first. So the last text is a segment of its own, and all before it are the other one.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer


@dataclass(frozen=True)
class Segmented:
    """The encoding of several texts, with the names that an `Encoding` has.

    Attributes:
        ids: of the tokens, special ones included.
        type_ids: of the segments, as the tokenizer numbers those of a pair.
        sequence_ids: 0 and 1 for the tokens of the last two texts, None for all others.
        text_ids: the number of the text of each token; None for special ones.
        overflowing: how many tokens are cut from the end of each text, where any are.
    """

    ids: list[int]
    type_ids: list[int]
    sequence_ids: list[int | None]
    text_ids: list[int | None]
    overflowing: list[int]


class Segments:
    """Encodes several texts each, cut to a length.

    Args:
        tokenizer: of the encoder.
        max_length: tokens, special ones included.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        pair = tokenizer.encode("a", "a")
        places = [[p for p, own in enumerate(pair.sequence_ids) if own == n] for n in (0, 1)]
        (first, *_, end), (begin, *_, last) = ([own[0], own[-1]] for own in places)
        tokens = [*zip(pair.ids, pair.type_ids, strict=True)]
        self.before, self.between = tokens[:first], tokens[end + 1 : begin]
        self.after = tokens[last + 1 :]
        self.types = pair.type_ids[first], pair.type_ids[begin]

    def __call__(self, rows: Sequence[Sequence[str]]) -> list[Segmented]:
        """Return the encoding of the texts of each row."""
        self.tokenizer.no_truncation()
        texts = [text for row in rows for text in row]
        found = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        ids = iter([own.ids for own in found])
        return [self.join([*itertools.islice(ids, len(row))]) for row in rows]

    def join(self, texts: Sequence[list[int]]) -> Segmented:
        """Return one sequence of the tokens of some texts; the longest are cut."""
        frame = len(self.before) + len(self.after) + len(self.between) * (len(texts) - 1)
        kept = share_room([len(text) for text in texts], self.max_length - frame)
        last = len(texts) - 1
        parts: list[tuple[int, int, int | None]] = [(*token, None) for token in self.before]
        for number, (text, room) in enumerate(zip(texts, kept, strict=True)):
            kind = self.types[number == last]
            parts += [(token, kind, number) for token in text[:room]]
            follows = self.after if number == last else self.between
            own = number >= last - 1  # else it is within the first segment
            parts += [(token, of if own else self.types[0], None) for token, of in follows]
        cut = [len(text) - room for text, room in zip(texts, kept, strict=True)]
        ids, types, numbers = ([*own] for own in zip(*parts, strict=True))
        compared = [None if n is None or n < last - 1 else n - last + 1 for n in numbers]
        return Segmented(ids, types, compared, numbers, cut if any(cut) else [])


def share_room(lengths: Sequence[int], room: int) -> list[int]:
    """Return how many tokens of each text are kept: those of short texts all, of others the same.

    Of two texts it is what the tokenizers call "longest_first". What can't be shared evenly goes to
    the longest texts.

    Example: of 5, 100 and 80 tokens 45 fit. The first keeps 5, the others 20 each.
    """
    if sum(lengths) <= room:
        return [*lengths]
    kept, left = [0] * len(lengths), max(room, 0)
    shortest_first = np.argsort(lengths, kind="stable").tolist()
    for place, number in enumerate(shortest_first):
        kept[number] = min(lengths[number], left // (len(lengths) - place))
        left -= kept[number]
    return kept

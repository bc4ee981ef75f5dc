"""From lines of text to examples: token ids, and where words begin among them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from corpus.special_tokens import name_special_tokens
from corpus.words import find_word_starts

CHARACTERS_AT_ONCE = 1_000_000
SPECIAL_TOKENS_AROUND = 2  # [CLS] and [SEP], which training adds
GOLDEN_RATIO = (1 + math.sqrt(5)) / 2


@dataclass(frozen=True)
class Line:
    """The tokens of a line: ids `[tokens]`, and which begin a word `[tokens]`, bool."""

    token_ids: np.ndarray
    begins: np.ndarray

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True)
class Lengths:
    """How long examples are.

    Attributes:
        longest: most tokens of an example, [CLS] and [SEP] included.
        short: the same for lines that are cut shorter.
        share: fraction of the lines that are cut shorter.
    """

    longest: int
    short: int
    share: float

    def room(self, number: int) -> int:
        """Return the most tokens of an example, without [CLS] and [SEP], for a line of this number.

        Multiples of the golden ratio are spread evenly, and so are lines that are cut shorter.
        """
        is_short = number * GOLDEN_RATIO % 1 < self.share
        return (min(self.short, self.longest) if is_short else self.longest) - SPECIAL_TOKENS_AROUND


@dataclass(frozen=True)
class Example:
    """What is read at once in training, but for [CLS] and [SEP] around it.

    `word_starts` are positions in `token_ids`; a word reaches to the next start. A [SEP] between
    two lines is a word of its own.
    """

    token_ids: np.ndarray
    word_starts: np.ndarray


def encode_texts(texts: Iterable[str], tokenizer: Tokenizer, settings: dict) -> list[Example]:
    """Return the examples that texts make.

    Args:
        texts: one a line.
        tokenizer: of the encoder.
        settings: by name: `max_length`, `short_length`, `short_share`, `words`, `packing`.
    """
    lines = encode_lines(texts, tokenizer, settings["words"])
    lengths = Lengths(*(settings[name] for name in ("max_length", "short_length", "short_share")))
    names = name_special_tokens(tokenizer)
    separator = tokenizer.token_to_id(names["sep"]) if settings["packing"] else None
    return list(make_examples(lines, lengths, separator))


def encode_lines(texts: Iterable[str], tokenizer: Tokenizer, words: str) -> Iterator[Line]:
    """Yield the tokens of each text, in order.

    Args:
        texts: one a line.
        tokenizer: of the encoder.
        words: as in `find_word_starts`.
    """
    splits_words = isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
    # "[MASK]" in a text is plain text: a mask token would be a hidden word without a label.
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for batch in batches(texts):
        encodings = tokenizer.encode_batch(batch, add_special_tokens=False)
        for text, encoding in zip(batch, encodings, strict=True):
            if encoding.ids:
                begins = find_word_starts(text, encoding, words, splits_words)
                yield Line(np.array(encoding.ids, np.int32), begins)


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of texts of bounded size together: what is encoded in one call."""
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def make_examples(
    lines: Iterable[Line], lengths: Lengths, separator: int | None
) -> Iterator[Example]:
    """Cut lines that are too long at the borders of words, and put short ones together.

    A line that fits into an example is never cut: it starts the next one where there is not room
    enough for all of it, as FULL-SENTENCES of RoBERTa (Liu et al., 2019).

    Args:
        lines: in the order of the text.
        lengths: of examples.
        separator: id of [SEP], which goes between lines; None: each line has examples of its own.
    """
    held: dict[int, list[Line]] = {}  # by the room of their example
    for number, line in enumerate(lines):
        room = lengths.room(number)
        for part in cut_line(line, room):
            parts = held.setdefault(room, [])
            size = sum(map(len, parts)) + len(parts)  # with a separator after each
            if parts and (separator is None or size + len(part) > room):
                yield join(parts, separator)
                parts.clear()
            parts.append(part)
    for parts in held.values():
        if parts:
            yield join(parts, separator)


def cut_line(line: Line, room: int) -> Iterator[Line]:
    """Yield parts of `room` tokens at the most, cut where a word begins.

    A single word that is longer is cut all the same.
    """
    starts = np.append(np.flatnonzero(line.begins), len(line))
    first = 0
    while first < len(line):
        end = starts[np.searchsorted(starts, first + room, side="right") - 1]
        end = int(end) if end > first else first + room
        yield Line(line.token_ids[first:end], line.begins[first:end])
        first = end


def join(parts: list[Line], separator: int | None) -> Example:
    """Return the example of one part, or of several with separators between."""
    joined = parts[:1]
    for part in parts[1:]:
        joined += [Line(np.array([separator]), np.array([True])), part]
    begins = np.concatenate([line.begins for line in joined])
    begins[0] = True  # of a word that was cut, too
    token_ids = np.concatenate([line.token_ids for line in joined])
    return Example(token_ids.astype(np.int32), np.flatnonzero(begins).astype(np.int32))

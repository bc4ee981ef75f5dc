"""Stop strings as an automaton over tokens, which a search follows within its graph.

A stop string is found as soon as the text, decoded as if it ended here, contains it. It may be cut
into any tokens. Spaces are those of the decoded text: " The" is not found in a text that begins
with "The", and "it's" is found in WordPiece's "it ' s".

The automaton remembers only the tail of a text that may still become a stop string. Characters that
are in no stop string are replaced by one of their class, so most tokens are equal to others.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from generation.spaces import CLOSING, DECIMAL_POINTS, JOINING, OPENING, SPACELESS, close_gaps

# A space before or after these depends on the characters around it, as one at the start does.
SENSITIVE = JOINING + DECIMAL_POINTS + " "
# Characters of all classes, with spares where a stop string has one; and one of no class.
POOL, UNKNOWN = "abcdefghijklmnopqrstuvwxyz0123456789中国你好０１⺀⺁、([{)]}!?%-'/.,:", "\ue000"
# Byte-level tokens spell each byte of UTF-8 as a character; these bytes as their own character.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = sorted(set(range(256)) - set(PRINTABLE))
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(256 + number): byte for number, byte in enumerate(OTHERS)}


class Stops(NamedTuple):
    """The automaton, which takes one token after another.

    Attributes:
        kinds: `[vocabulary]`: tokens with the same effect have the same number.
        nexts: `[states, kinds]`: the state after one more token. A text begins in state 0; in the
            last state it holds a stop string.
        strings: that end a text.
    """

    kinds: np.ndarray
    nexts: np.ndarray
    strings: tuple[str, ...]

    def cut(self, text: str) -> str:
        """Return a text up to its first stop string."""
        return re.split("|".join(map(re.escape, self.strings)), text, maxsplit=1)[0]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of tokens until a stop string is found, or of all, `[texts]`."""
        state = np.zeros(len(rows), np.int32)
        lengths = np.full(len(rows), rows.shape[1])
        for place, tokens in enumerate(rows.T):
            state = self.nexts[state, self.kinds[tokens]]
            found = (state == len(self.nexts) - 1) & (lengths == rows.shape[1])
            lengths[found] = place + 1
        return lengths


def find_stops(tokenizer: Tokenizer, strings: Sequence[str], vocabulary: int) -> Stops | None:
    """Return the automaton of stop strings; None: there are none.

    Args:
        tokenizer: of the targets.
        strings: that end a text.
        vocabulary: tokens of the model.
    """
    if not strings:
        return None
    word_piece = type(tokenizer.model).__name__ == "WordPiece"
    searched = [string if word_piece else as_bytes(string) for string in strings]
    tails = Tails(searched, close_gaps if word_piece else None)
    firsts, laters = token_texts(tokenizer, word_piece)
    special = {n for n, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    numbers: dict[tuple[str, str] | None, int] = {None: 0}  # None: decoding skips the token
    kinds = np.zeros(vocabulary, np.int32)
    for token, texts in enumerate(zip(firsts[:vocabulary], laters, strict=False)):
        pair = None if token in special else (tails.plain(texts[0]), tails.plain(texts[1]))
        kinds[token] = numbers.setdefault(pair, len(numbers))
    table = tails.follow([pair for pair in numbers if pair is not None])
    stays = np.arange(len(table) + 1)[:, None]
    stopped = np.full((1, table.shape[1]), len(table))
    nexts = np.concatenate([stays, np.concatenate([table, stopped])], axis=1)
    nexts[nexts < 0] = len(table)
    return Stops(kinds, nexts.astype(np.int32), tuple(strings))


def as_bytes(text: str) -> str:
    """Return a text with a character for each byte of its UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def token_texts(tokenizer: Tokenizer, word_piece: bool) -> tuple[list[str], list[str]]:
    """Return the text of each token at the start of a text, and after another token.

    Except for WordPiece each character is a byte, because a character may be several tokens.
    """
    # After an anchor token, because the first token of a text may lose its space.
    anchor = tokenizer.encode("a", add_special_tokens=False).ids
    start, numbers = len(tokenizer.decode(anchor)), range(tokenizer.get_vocab_size())
    firsts = tokenizer.decode_batch([[number] for number in numbers])
    laters = [text[start:] for text in tokenizer.decode_batch([[*anchor, n] for n in numbers])]
    if word_piece:
        return firsts, laters
    names = [tokenizer.id_to_token(number) or "" for number in numbers]
    return (
        [spell(*both) for both in zip(names, firsts, strict=True)],
        [spell(*both) for both in zip(names, laters, strict=True)],
    )


def spell(token: str, text: str) -> str:
    """Return the bytes of a token's text, also where these are only a part of a character."""
    if "\ufffd" not in text:
        return as_bytes(text)
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", token):
        return chr(int(byte[1], 16))
    if all(character in BYTE_OF for character in token):
        return "".join(chr(BYTE_OF[character]) for character in token)
    return as_bytes(text)


@functools.lru_cache(maxsize=1 << 16)
def class_of(character: str) -> tuple:
    """Return the properties by which `close_gaps` treats the spaces around a character."""
    patterns = (r"\s", r"\w", r"\d", SPACELESS.pattern)
    groups = (OPENING, CLOSING, JOINING, DECIMAL_POINTS)
    return (
        *(bool(re.match(pattern, character)) for pattern in patterns),
        *(character in group for group in groups),
    )


class Tails:
    """The tails of texts that may become a stop string, and their continuation by tokens.

    A tail is a context, which decides about spaces, and a text that, without its spaces, begins a
    stop string. With the stop string "it's" the text "let it '" has the tail ("", "it '"). With
    " it" it has ("a'", ""): after a letter and a "'" the space before a next "it" is removed.

    Args:
        strings: that end a text.
        close: removes spaces between tokens; None: the texts have none to remove.
    """

    def __init__(self, strings: Sequence[str], close: Callable[[str], str] | None) -> None:
        self.strings, self.close = list(strings), close
        self.squeezed = [self.squeeze(string) for string in strings]
        self.characters = set("".join(strings))
        self.needs_context = bool(close) and any(s[0] in SENSITIVE for s in strings)
        self.beginnings = {text[:end] for text in self.squeezed for end in range(len(text) + 1)}
        self.alike: dict[tuple[str, str], str] = {}
        self.stand_ins: dict[tuple, str] = {}
        for character in POOL:
            if character not in self.characters:
                self.stand_ins.setdefault(class_of(character), character)

    def squeeze(self, text: str) -> str:
        """Return a text without the spaces that may still be removed."""
        return text.replace(" ", "") if self.close else text

    def plain(self, text: str) -> str:
        """Return a text whose characters outside of stop strings are replaced by their class."""
        if self.close is None:
            return "".join(c if c in self.characters else UNKNOWN for c in text)
        kept = self.characters | {" "}
        text = "".join(c if c in kept else self.stand_in(c) for c in text)
        letter = self.stand_in("a")
        return text if letter in self.characters else re.sub(f"{letter}+", letter, text)

    def stand_in(self, character: str) -> str:
        """Return the representative of a character's class, if possible not in a stop string."""
        return self.stand_ins.setdefault(class_of(character), character)

    def holds(self, text: str) -> bool:
        """Tell whether a text that ends here holds a stop string."""
        written = self.close(text) if self.close else text
        return any(string in written for string in self.strings)

    def split(self, text: str) -> tuple[str, str]:
        """Return the tail of a text: its context, and the longest beginning of a stop string."""
        tails = ((text[:at], text[at:]) for at in range(len(text) + 1))
        likely = (
            ("" if end and end[0] not in SENSITIVE else self.context(before), end)
            for before, end in tails
            if self.squeeze(end) in self.beginnings
        )
        context, end = next(tail for tail in likely if self.may_begin(*tail))
        seen = self.squeeze(end)
        if context and (len(seen) > 1 or seen and seen not in JOINING + DECIMAL_POINTS):
            # The spaces are settled: contexts that treat them alike are one.
            written = self.close(context + end)[len(context) :] if self.close else end
            context = self.alike.setdefault((end, written), context)
        return context, end

    def may_begin(self, context: str, end: str) -> bool:
        """Tell whether a text is the beginning of a stop string, whatever comes next."""
        if self.close is None:
            return True
        if end[:1] == " " and not self.needs_context:
            return False
        # The space before a "'" at the end is removed if a letter comes next.
        for after in ("", self.stand_in("a")):
            written = self.close(context + end + after)
            written = written[len(context) : len(written) - len(after)]
            if any(string.startswith(written) for string in self.strings):
                return True
        return False

    def context(self, before: str) -> str:
        """Return the end of a text that decides about the spaces after it; empty: nothing does."""
        if not self.needs_context or not before:
            return ""
        last, earlier = before[-1], before[:-1].rstrip(" ")[-1:]
        if last in JOINING and re.match(r"\w", earlier):
            return self.stand_in("a") + last
        if last in DECIMAL_POINTS and re.match(r"\d", earlier):
            return self.stand_in("0") + last
        return self.stand_in(last)

    def continuations(self, end: str) -> set[str] | None:
        """Return the characters that continue a tail towards a stop string; None: any character."""
        found, text = set(), self.squeeze(end)
        for part in (text[at:] for at in range(len(text))):
            for string in self.squeezed:
                if string == part:  # complete as soon as a space in it is removed
                    return None
                if string.startswith(part):
                    found.add(string[len(part)])
        return found

    def follow(self, kinds: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the next state `[states, kinds]`; -1: a stop string is found.

        Args:
            kinds: texts of a token at the start of a text, and after another token.
        """
        numbers: dict[tuple[str, str] | None, int] = {None: 0}  # None: no token is written
        waiting: list[tuple[str, str] | None] = [None]
        rows: dict[tuple[str, str] | None, np.ndarray] = {}
        firsts = [self.squeeze(later)[:1] for _, later in kinds]

        def number(tail: tuple[str, str]) -> int:
            if tail not in numbers:
                numbers[tail] = len(numbers)
                waiting.append(tail)
            return numbers[tail]

        def step(text: str) -> int:
            return -1 if self.holds(text) else number(self.split(text))

        def follow_one(tail: tuple[str, str] | None) -> np.ndarray:
            if tail in rows:
                return rows[tail]
            if tail is None:
                row = np.array([step(first) for first, _ in kinds])
            elif (nearer := self.continuations(tail[1])) is None or not self.squeeze(tail[1]):
                row = np.array([step(tail[0] + tail[1] + later) for _, later in kinds])
            else:  # most tokens don't continue the tail: as if only its context were there
                text = tail[0] + tail[1]
                bare = text.rstrip(" ") if self.close else text
                row = follow_one((self.context(bare), text[len(bare) :])).copy()
                for place, first in enumerate(firsts):
                    if not first or first in nearer:
                        row[place] = step(text + kinds[place][1])
            rows[tail] = row
            return row

        for tail in waiting:  # which grows
            follow_one(tail)
        return np.stack([rows[tail] for tail in numbers])

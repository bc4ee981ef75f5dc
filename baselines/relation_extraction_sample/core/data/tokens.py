"""Tokens with exact character offsets, and overlapping windows of long texts."""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers.normalizers import BertNormalizer
from tqdm import tqdm

from core.base.errors import InputError

LONGEST_WORD = 1000  # characters; the time grows with their square
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@dataclass(frozen=True)
class Window:
    """A slice of a text that fits into the encoder.

    Attributes:
        token_ids: of the window, special tokens included.
        starts: character offset of each token in the whole text; -1 for special tokens.
        ends: likewise, one past the last character.
        reach: the characters between the token before the window and the one after it.
    """

    token_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    reach: tuple[int, int]

    def __len__(self) -> int:
        return len(self.token_ids)

    def token_span(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return the first and the last token of a character span; None: not in this window."""
        if span[0] < self.reach[0] or span[1] > self.reach[1]:
            return None
        [touched] = ((self.starts < span[1]) & (self.ends > span[0])).nonzero()
        return (int(touched[0]), int(touched[-1])) if len(touched) else None


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Train WordPiece on texts: pieces of words where words have spaces, characters of Chinese.

    Each digit is a token, so that similar years and amounts are cut alike. There are at most
    `vocabulary_size` tokens, unless there are more characters.
    """
    texts = break_words(texts)
    tokenizer = word_piece_tokenizer({"[UNK]": 0})
    words = {
        word
        for text in texts
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(
            tokenizer.normalizer.normalize_str(text)
        )
    }
    # The trainer numbers the inner characters of words in the order of a hash table, and breaks
    # ties by number, so two trainings on the same texts would differ. Given here, their order is
    # fixed.
    inner = sorted({f"##{character}" for word in words for character in word[1:]})
    tokenizer.train_from_iterator(
        texts,
        trainers.WordPieceTrainer(
            vocab_size=vocabulary_size,
            min_frequency=2,  # rarer pieces would never get a useful embedding
            special_tokens=SPECIAL_TOKENS + inner,
            show_progress=False,
        ),
    )
    # A new tokenizer, in which the inner characters are not special tokens.
    return word_piece_tokenizer(tokenizer.get_vocab())


def train_on(examples: Sequence, texts_of: Any, train: Any, size: int) -> tuple[str, int]:
    """Return a tokenizer that was trained on the texts of examples, as JSON, and their number."""
    texts = [*texts_of(examples)] if texts_of else [example.text for example in examples]
    return train(texts, size).to_str(), len(texts)


def break_words(texts: Iterable[str]) -> list[str]:
    """Return texts with spaces in words of thousands of characters, which would train for hours."""
    return [re.sub(r"\S{5000}", r"\g<0> ", text) for text in texts]


def word_piece_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """Return a WordPiece tokenizer with the special tokens of BERT."""
    # By default a "word" of 101 characters is unknown: Thai, say, writes sentences without blanks.
    options = {"unk_token": "[UNK]", "max_input_chars_per_word": LONGEST_WORD}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, **options))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.decoder = decoders.WordPiece()
    if "[CLS]" in vocabulary:
        tokenizer.add_special_tokens(SPECIAL_TOKENS)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
        )
    return tokenizer


def split_into_windows(
    tokenizer: Tokenizer, texts: list[str], max_length: int, overlap: int, progress: str = ""
) -> list[list[Window]]:
    """Return the windows of each text; a text that fits has one.

    Args:
        tokenizer: gives ids and character offsets.
        texts: of any length; nothing is cut off.
        max_length: tokens of a window, special tokens included.
        overlap: tokens that two windows in a row share.
        progress: title of the progress bar; empty: none.

    Raises:
        InputError: a window would have no token that the one before it lacks.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = tokenizer.encode("").ids  # the tokens around a text, for any model
    frame = np.array([special, *2 * [[-1] * len(special)]], np.int32)
    before, after = np.split(frame, [len(special) // 2], axis=1)
    room = max_length - len(special)
    if overlap >= room:  # settings assume two special tokens; some tokenizers add more
        raise InputError(
            f"window_overlap = {overlap} leaves no new token in a window of max_length = "
            f"{max_length}, which has {len(special)} special tokens: set window_overlap lower."
        )
    windows: list[list[Window]] = []
    chunks = range(0, len(texts), 1024)
    for chunk in tqdm(chunks, desc=progress, disable=None if progress else True, leave=False):
        batch = texts[chunk : chunk + 1024]
        for text, rows in zip(batch, token_rows(tokenizer, batch), strict=True):
            _, starts, ends = rows
            windows.append([])
            for first in window_starts(len(starts), room, overlap):
                part, end = slice(first, first + room), first + room
                # A character of several byte-level tokens may be on both sides of a border.
                reach = (
                    int(min(ends[first - 1], starts[first])) if first else 0,
                    int(max(starts[end], ends[end - 1])) if end < len(starts) else len(text),
                )
                framed = np.concatenate([before, rows[:, part], after], axis=1)
                windows[-1].append(Window(framed[0], framed[1], framed[2], reach))
    return windows


def token_rows(tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
    """Return the tokens of each text: ids, starts and ends `[3, tokens]`."""
    if own := getattr(tokenizer, "token_rows", None):  # extras/cache has encoded most words already
        return own(texts)
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [
        np.stack([np.array(encoding.ids, np.int32), *exact_offsets(text, encoding.offsets)])
        for text, encoding in zip(texts, encodings, strict=True)
    ]


def window_starts(tokens: int, room: int, overlap: int) -> list[int]:
    """Return the first token of each window; the last window is full and ends with the text.

    Example:

    >>> window_starts(tokens=10, room=4, overlap=1)
    [0, 3, 6]
    """
    if tokens <= room:
        return [0]
    starts = list(range(0, tokens - room, room - overlap))
    return [*starts, tokens - room]


def exact_offsets(text: str, offsets: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return where each token starts and ends in the text.

    The space that byte-level tokens begin with is left out. Combining accents, which a normalizer
    drops, are included: a span that ends there would lose them.
    """
    pairs = np.fromiter(itertools.chain.from_iterable(offsets), np.int32, 2 * len(offsets))
    starts, ends = pairs[0::2], pairs[1::2]
    firsts = np.minimum(skip(text, str.isspace)[starts], ends)
    if not text.isascii():
        nexts = np.append(starts[1:], np.int32(len(text)))
        lasts = np.minimum(skip(text, lambda c: unicodedata.category(c)[0] == "M")[ends], nexts)
        ends = np.where(ends < nexts, lasts, ends)
    return np.maximum(starts, firsts), ends


def skip(text: str, unwanted: Callable[[str], bool]) -> np.ndarray:
    """Return for each index the next index whose character is wanted; else the end of the text.

    Example:

    >>> skip("a  b ", str.isspace).tolist()
    [0, 3, 3, 3, 5, 5]
    """
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    places = np.arange(len(text) + 1, dtype=np.int32)
    for character in filter(unwanted, set(text)):
        places[:-1][codes == ord(character)] = len(text)
    return np.minimum.accumulate(places[::-1])[::-1]


def load_tokenizer_file(path: Path, read: Callable = Tokenizer.from_file) -> Any:
    """Read a tokenizer.json, or another file of a tokenizer, without its padding and truncation.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        tokenizer = read(str(path))
    except Exception as error:  # the tokenizers raise no other kind
        raise InputError(f"{path} can't be read ({error}): restore it.") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()  # transformers stores those of its last call
    return tokenizer

"""Many encoded texts in a few arrays, and blocks of some of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from task.encode import SPECIAL_TOKENS_AROUND, Example
from task.shards import ShardExamples
from task.tokens import SpecialTokens


@dataclass(frozen=True)
class Block:
    """Some examples, padded to one length: int32 `[examples, length]`.

    `word_starts` is 1 at the tokens that begin a word.
    """

    token_ids: np.ndarray
    word_starts: np.ndarray
    padding_mask: np.ndarray


@dataclass(frozen=True)
class Texts:
    """Encoded texts one after the other, without the tokens around them.

    Attributes:
        token_ids: of all texts, int32.
        word_starts: true at the tokens that begin a word.
        offsets: where each text begins, and the end of the last.
    """

    token_ids: np.ndarray
    word_starts: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, those around it included."""
        return np.diff(self.offsets) + SPECIAL_TOKENS_AROUND

    def block(self, examples: np.ndarray, length: int, special: SpecialTokens) -> Block:
        """Return some texts with the tokens around them, padded to `length`."""
        sizes = np.minimum(self.lengths[examples], length)[:, None]
        places = np.arange(length)
        inside = (places > 0) & (places < sizes - 1)
        source = np.where(inside, self.offsets[examples][:, None] + places - 1, 0)
        token_ids = np.where(inside, self.token_ids[source], special.pad).astype(np.int32)
        token_ids[:, 0] = special.begin
        token_ids[places == sizes - 1] = special.end
        # [CLS] and [SEP] are words of their own, and padding belongs to the last.
        edges = (places == 0) | (places == sizes - 1)
        word_starts = edges | (inside & self.word_starts[source])
        padding_mask = (places < sizes).astype(np.int32)
        return Block(token_ids, word_starts.astype(np.int32), padding_mask)


def from_shard(shard: ShardExamples, first: int = 0, last: int | None = None) -> Texts:
    """Return the examples of a shard from one to another; None: to its end."""
    splits = shard.token_splits
    words = np.diff(shard.word_splits)
    begins = np.zeros(len(shard.token_ids), bool)
    begins[shard.word_starts + np.repeat(splits[:-1], words)] = True
    offsets = splits[first : None if last is None else last + 1]
    tokens = slice(offsets[0], offsets[-1])
    return Texts(shard.token_ids[tokens], begins[tokens], offsets - offsets[0])


def from_examples(examples: Sequence[Example]) -> Texts:
    """Return texts that were just encoded; one at the least."""
    sizes = [len(example.token_ids) for example in examples]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    begins = np.zeros(offsets[-1], bool)
    for example, start in zip(examples, offsets[:-1], strict=True):
        begins[start + example.word_starts] = True
    return Texts(np.concatenate([example.token_ids for example in examples]), begins, offsets)


def join_parts(parts: list[Texts]) -> Texts:
    """Return the texts of several parts, one part after the other."""
    ends = np.cumsum([0, *(len(part.token_ids) for part in parts)])
    offsets = [part.offsets[:-1] + start for part, start in zip(parts, ends, strict=False)]
    return Texts(
        np.concatenate([part.token_ids for part in parts]),
        np.concatenate([part.word_starts for part in parts]),
        np.concatenate([*offsets, ends[-1:]]),
    )

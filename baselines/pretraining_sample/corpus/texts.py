"""Many encoded texts in a few arrays: of shards or of a file; and some of them, padded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.errors import InputError
from corpus.blocks import (
    Reading,
    check_first_records,
    cut_into_blocks,
    describe_skipped,
    explain_no_text,
    find_files,
    find_skipped,
    read_texts,
)
from corpus.encode import SPECIAL_TOKENS_AROUND, Example, encode_texts
from corpus.settings import CorpusSettings
from corpus.shards import read_manifest, read_shard
from corpus.special_tokens import SpecialTokens
from corpus.tfrecord import ShardExamples


@dataclass(frozen=True)
class PaddedTexts:
    """Some texts, padded to one length: int32 `[texts, length]`.

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

    def choose(self, positions: Sequence[int]) -> "Texts":
        """Return the texts at some positions."""
        parts = []
        for begin, end in zip(self.offsets[positions], self.offsets[1:][positions], strict=True):
            words = self.word_starts[begin:end]
            parts.append(Texts(self.token_ids[begin:end], words, np.array([0, end - begin])))
        return join_parts(parts)

    def pad(self, chosen: np.ndarray, length: int, special: SpecialTokens) -> PaddedTexts:
        """Return the chosen texts with the tokens around them, padded to `length`."""
        sizes = np.minimum(self.lengths[chosen], length)[:, None]
        places = np.arange(length)
        inside = (places > 0) & (places < sizes - 1)
        source = np.where(inside, self.offsets[chosen][:, None] + places - 1, 0)
        token_ids = np.where(inside, self.token_ids[source], special.pad).astype(np.int32)
        token_ids[:, 0] = special.begin
        token_ids[places == sizes - 1] = special.end
        # [CLS] and [SEP] are words of their own, and padding belongs to the last.
        edges = (places == 0) | (places == sizes - 1)
        word_starts = edges | (inside & self.word_starts[source])
        padding_mask = (places < sizes).astype(np.int32)
        return PaddedTexts(token_ids, word_starts.astype(np.int32), padding_mask)


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


def read_all_shards(folder: str) -> Texts:
    """Return all texts of the shards in a folder.

    Raises:
        InputError: there are no shards.
    """
    shards = tqdm(read_manifest(folder).shards, desc="read", disable=None, leave=False)
    return join_parts([from_shard(read_shard(folder, shard)) for shard in shards])


def encode_file(path: Path, tokenizer: Tokenizer, settings: CorpusSettings) -> Texts:
    """Return the texts of a file, encoded as prepare.py does.

    Args:
        path: plain text, or JSON records.
        tokenizer: of the run.
        settings: `max_length`, and of the table `preparation` `text_field`, `longest_line`,
            `words`, `packing`, `short_length`, `short_share`.

    Raises:
        InputError: there is no such file, or no text in it.
    """
    chosen = settings.preparation
    files = find_files(str(path.absolute()), "FILE")
    check_first_records(files, chosen.text_field, chosen.longest_line)
    blocks = cut_into_blocks(files, max(file.size for file in files))
    readings = [Reading() for _ in blocks]
    texts = (
        text
        for block, reading in zip(blocks, readings, strict=True)
        for text in read_texts(block, chosen.text_field, chosen.longest_line, reading)
    )
    decisive = {"max_length": settings.max_length, **chosen.model_dump()}
    examples = encode_texts(texts, tokenizer, decisive)
    count, skipped = sum(reading.lines for reading in readings), find_skipped(blocks, readings)
    if not examples:
        raise InputError(f"no text in {path}: {explain_no_text(count, skipped)}")
    if skipped:
        print(describe_skipped(count, skipped))
    return from_examples(examples)

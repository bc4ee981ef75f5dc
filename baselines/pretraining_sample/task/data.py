"""Batches of texts with something to predict: from shards on disk, or from texts in memory."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer
from tqdm import tqdm

from common.errors import InputError
from common.generator import Batch, Generator, bucket_boundaries, cut_batches
from task import storage
from task.corpus import (
    Reading,
    check_first_records,
    cut_into_blocks,
    describe_skipped,
    explain_no_text,
    find_files,
    find_skipped,
    read_texts,
)
from task.encode import SPECIAL_TOKENS_AROUND, encode_lines, make_examples, make_lengths
from task.masking import NO_TOKEN, count_slots, lay_out, make_masking, shorten
from task.settings import Settings
from task.shards import MANIFEST, TOKENIZER, content_hash, read_manifest, read_shard
from task.texts import Texts, from_examples, from_shard, join_parts
from task.tokens import SpecialTokens

# One seed makes three kinds of draws, none like another.
SHARDS, EXAMPLES, MASKS = 1, 2, 3
# Held-out texts are hidden alike for every run: their scores differ by the models alone.
HELD_OUT_SEED = 20181011
BLOCK = 1024

# Shard number, and its examples from one to another.
Slice = tuple[int, int, int]


class ShardGenerator(Generator):
    """Batches of a corpus that may be larger than memory; each epoch hides other tokens.

    The shards of an epoch come in random order, as many at once as hold `pool_examples`. These are
    shuffled together and cut into batches. A pool holds a whole number of batches: the examples
    beyond it belong to the next one, so only the last batch of an epoch is partial. How many
    batches a pool has follows from the manifest: a resumed training opens no shard that is done.

    Args:
        folder: of the shards.
        special: tokens that are no text.
        settings: `max_length`, `buckets`, `pool_examples`, `objective`, `mask_rate`, `mask_share`,
            `random_share`.
        batch_size: as in `Generator`.
        seed: as in `Generator`; what is hidden depends on it, too.

    Raises:
        InputError: there are no shards.
    """

    def __init__(
        self,
        folder: str,
        special: SpecialTokens,
        settings: Settings,
        batch_size: int,
        seed: int = 0,
    ):
        self.manifest = read_manifest(folder)
        self.special = special
        self.objective = settings.objective
        self.masking = make_masking(settings)
        self.pool_examples = settings.pool_examples
        self.batch_size = batch_size
        self.seed = seed
        self.sizes = np.array([shard.examples for shard in self.manifest.shards])
        tokens = np.flatnonzero(self.manifest.lengths)
        self.boundaries = bucket_boundaries(
            tokens + SPECIAL_TOKENS_AROUND, settings.buckets, self.manifest.lengths[tokens]
        )

    @property
    def size(self) -> int:
        """Examples of an epoch."""
        return int(self.sizes.sum())

    def pools(self, epoch: int) -> list[list[Slice]]:
        """Return what is read at once, pool after pool, of an epoch."""
        order = np.random.default_rng([self.seed, epoch, SHARDS]).permutation(len(self.sizes))
        ends, begin = [], 0
        reached = np.cumsum(self.sizes[order])
        for before, after in zip([0, *reached], reached, strict=False):
            if after - begin > self.pool_examples and before > begin:
                begin = before - before % self.batch_size
                ends.append(begin)
        borders = np.unique([0, *ends, self.size]).tolist()
        return [
            self.slices(order, first, last)
            for first, last in zip(borders, borders[1:], strict=False)
        ]

    def slices(self, order: np.ndarray, first: int, last: int) -> list[Slice]:
        """Return where the examples from `first` to `last` of shards in some order are."""
        ends = np.cumsum(self.sizes[order])
        starts = ends - self.sizes[order]
        return [
            (int(shard), int(max(first - start, 0)), int(min(last, end) - start))
            for shard, start, end in zip(order, starts, ends, strict=True)
            if start < last and first < end
        ]

    def read_pool(self, pool: list[Slice]) -> Texts:
        """Read the shards of a pool."""
        parts = []
        for shard, first, last in pool:
            examples = read_shard(self.manifest.folder, self.manifest.shards[shard])
            parts.append(from_shard(examples, first, last))
        return join_parts(parts)

    def plan_pool(self, texts: Texts, epoch: int, number: int) -> list[tuple[np.ndarray, int]]:
        """Return the examples and the padded length of each batch of a pool."""
        random = np.random.default_rng([self.seed, epoch, EXAMPLES, number])
        order = random.permutation(len(texts))
        lengths = self.boundaries[np.searchsorted(self.boundaries, texts.lengths[order])]
        return cut_batches(order, lengths, self.boundaries, self.batch_size, random)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / tokens to predict in the whole batch, so that the
        weighted sum of the examples' losses is the mean over tokens; 0 for those that fill up.
        """
        number = 0
        for pool_number, pool in enumerate(self.pools(epoch)):
            count = -(-sum(last - first for _, first, last in pool) // self.batch_size)
            if number + count <= skip:
                number += count
                continue
            texts = self.read_pool(pool)
            for examples, length in self.plan_pool(texts, epoch, pool_number):
                if number >= skip:
                    filled = np.resize(examples, self.batch_size)
                    batch = self.make_batch(filled, length, texts, (epoch, MASKS, number))
                    yield {**batch, "loss_weight": token_weights(batch, len(examples))}
                number += 1

    def make_batch(
        self,
        examples: np.ndarray,
        length: int,
        texts: Texts | None = None,
        draw: Sequence[int] = (0, MASKS),
    ) -> Batch:
        """Return the arrays of some examples of a pool, padded to `length` tokens.

        Args:
            examples: positions `[batch_size]`.
            length: a bucket boundary.
            texts: the pool; None: the preview.
            draw: what the random draws depend on, besides the seed.
        """
        texts = self.preview if texts is None else texts
        block = texts.block(examples, length, self.special)
        random = np.random.default_rng([self.seed, *draw])
        return lay_out(block, self.objective, self.masking, self.special, random)

    @cached_property
    def preview(self) -> Texts:
        """Some texts, to see what batches look like."""
        first = self.manifest.shards[0]
        examples = read_shard(self.manifest.folder, first)
        return from_shard(examples, 0, min(BLOCK, first.examples))

    def first_batch(self, epoch: int | None) -> tuple[np.ndarray, int]:
        return np.arange(min(self.batch_size, len(self.preview))), int(self.boundaries[-1])

    def batches_of_each_shape(self) -> list[Batch]:
        """Return a batch of each bucket, from few texts: those that are too long are cut."""
        batches = []
        for length in self.boundaries:
            examples = np.resize(np.arange(len(self.preview)), self.batch_size)
            batch = self.make_batch(examples, int(length))
            batches.append({**batch, "loss_weight": token_weights(batch, self.batch_size)})
        return batches

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        """Return the shapes and types of a batch of so many rows: static if there is one bucket."""
        length = slots = None
        if len(self.boundaries) == 1:
            length = int(self.boundaries[0])
            slots = count_slots(self.objective, self.masking.rate, length)
        sizes = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), length)
        sizes |= dict.fromkeys(("masked_positions", "masked_labels"), slots)
        return with_weight(rows, sizes)


class HeldOutGenerator(Generator):
    """Batches of texts to be scored on: what is hidden of each is drawn once and for all.

    Args:
        texts: all in memory.
        special: tokens that are no text.
        settings: as in `ShardGenerator`.
        batch_size: as in `Generator`.
    """

    def __init__(self, texts: Texts, special: SpecialTokens, settings: Settings, batch_size: int):
        self.objective = settings.objective
        self.masking = make_masking(settings)
        longest = int(texts.lengths.max())
        blocks = []
        for number, first in enumerate(range(0, len(texts), BLOCK)):
            examples = np.arange(first, min(first + BLOCK, len(texts)))
            block = texts.block(examples, longest, special)
            random = np.random.default_rng([HELD_OUT_SEED, number])
            blocks.append(lay_out(block, self.objective, self.masking, special, random))
        self.layout = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
        super().__init__(texts.lengths, batch_size, settings.buckets)

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        rows = {name: array[examples] for name, array in self.layout.items()}
        return shorten(rows, self.objective, self.masking.rate, length)

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        static = len(self.boundaries) == 1
        sizes = {name: array.shape[1] if static else None for name, array in self.layout.items()}
        return with_weight(rows, sizes)


def with_weight(rows: int, sizes: dict[str, int | None]) -> dict[str, tf.TensorSpec]:
    """Return the shapes and types of integers `[rows, size]` by name, and of `loss_weight`."""
    integers = {name: tf.TensorSpec([rows, size], np.int32) for name, size in sizes.items()}
    return {**integers, "loss_weight": tf.TensorSpec([rows], np.float32)}


def token_weights(batch: Batch, real: int) -> np.ndarray:
    """Return 1 / tokens to predict for the first `real` examples of a batch, 0 for the others."""
    tokens = np.sum(batch["masked_labels"][:real] != NO_TOKEN)
    weights = np.zeros(len(batch["masked_labels"]), np.float32)
    weights[:real] = 1 / max(tokens, 1)
    return weights


def shard_folder(settings: Settings, part: str) -> str:
    """Return the folder, or the URL, of the shards of `train` or `dev`."""
    return f"{storage.place(settings.shards)}/{part}"


def hash_shards(settings: Settings) -> dict[str, str]:
    """Return the hashes of what a run learns from and is scored on; all of it must be there."""
    return {f"{part}_hash": name_shards(settings, part)["data_hash"] for part in ("train", "dev")}


def name_shards(settings: Settings, part: str) -> dict[str, str]:
    """Return `file` and `data_hash` of shards, as `common.records.name_file` does of a file.

    Raises:
        InputError: there are no shards, or they are not finished.
    """
    manifest = read_manifest(shard_folder(settings, part))
    # Not of the manifest, which also says what versions and files the shards were made with.
    hashes = "\n".join(shard.hash for shard in manifest.shards)
    return {"file": f"shards/{part}/{MANIFEST}", "data_hash": content_hash(hashes.encode())}


def read_tokenizer(settings: Settings) -> Tokenizer:
    """Return the tokenizer that the shards were prepared with.

    Raises:
        InputError: train and dev were not prepared with the same one.
    """
    folders = [shard_folder(settings, part) for part in ("train", "dev")]
    manifests = [read_manifest(folder) for folder in folders]
    if manifests[0].tokenizer_hash != manifests[1].tokenizer_hash:
        raise InputError(
            f"{folders[0]} and {folders[1]} were prepared with different tokenizers: prepare both "
            "anew, with python prepare.py --overwrite true."
        )
    longest = max(int(manifest.settings["max_length"]) for manifest in manifests)
    if longest > settings.max_length:
        raise InputError(
            f"the shards have examples of {longest} tokens, and max_length = {settings.max_length}:"
            " set it as it was for prepare.py, or prepare them anew."
        )
    content = storage.read_bytes(f"{folders[0]}/{TOKENIZER}")
    return Tokenizer.from_str(content.decode("utf-8"))


def read_all(folder: str) -> Texts:
    """Return all texts of the shards in a folder.

    Raises:
        InputError: there are no shards.
    """
    shards = tqdm(read_manifest(folder).shards, desc="read", disable=None, leave=False)
    return join_parts([from_shard(read_shard(folder, shard)) for shard in shards])


def encode_file(path: Path, tokenizer: Tokenizer, settings: Settings) -> Texts:
    """Return the texts of a file, encoded as prepare.py does.

    Args:
        path: plain text, or JSON records.
        tokenizer: of the run.
        settings: `text_field`, `longest_line`, `words`, `packing`, `max_length`, `short_length`,
            `short_share`.

    Raises:
        InputError: there is no such file, or no text in it.
    """
    files = find_files(str(path.absolute()), "FILE")
    check_first_records(files, settings.text_field, settings.longest_line)
    blocks = cut_into_blocks(files, max(file.size for file in files))
    readings = [Reading() for _ in blocks]
    lines = encode_lines(
        (
            text
            for block, reading in zip(blocks, readings, strict=True)
            for text in read_texts(block, settings.text_field, settings.longest_line, reading)
        ),
        tokenizer,
        settings.words,
    )
    separator = tokenizer.token_to_id("[SEP]") if settings.packing else None
    examples = list(make_examples(lines, make_lengths(settings.model_dump()), separator))
    count, skipped = sum(reading.lines for reading in readings), find_skipped(blocks, readings)
    if not examples:
        raise InputError(f"no text in {path}: {explain_no_text(count, skipped)}")
    if skipped:
        print(describe_skipped(count, skipped))
    return from_examples(examples)

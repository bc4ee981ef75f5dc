"""Batches of texts with something to predict: from shards on disk, or from texts in memory."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import tensorflow as tf

from core.batches import Batch, DataGenerator
from core.fast.buckets import bucket_boundaries, cut_batches
from corpus.encode import SPECIAL_TOKENS_AROUND
from corpus.shards import read_manifest, read_shard
from corpus.special_tokens import SpecialTokens
from corpus.texts import Texts, from_shard, join_parts
from task.masking import NO_TOKEN, lay_out, shorten
from task.settings import Settings

# One seed makes three kinds of draws, none like another.
SHARDS, EXAMPLES, MASKS = 1, 2, 3
# Held-out texts are hidden alike for every run: their scores differ by the models alone.
HELD_OUT_SEED = 20181011
TEXTS_AT_ONCE = 1024

# Shard number, and its examples from one to another.
Slice = tuple[int, int, int]


class ShardGenerator(DataGenerator):
    """Batches of a corpus that may be larger than memory; each epoch hides other tokens.

    The shards of an epoch come in random order, as many at once as hold `pool_examples`. These are
    shuffled together and cut into batches. A pool holds a whole number of batches: the examples
    beyond it belong to the next one, so only the last batch of an epoch is partial. How many
    batches a pool has follows from the manifest: a resumed training opens no shard that is done.

    Args:
        folder: of the shards.
        special: tokens that are not text.
        settings: `buckets`, `pool_examples`, those that `lay_out` reads, and the `seed` of the
            order and of what is hidden.
        batch_size: as in `DataGenerator`.

    Raises:
        InputError: there are no shards.
    """

    def __init__(
        self, folder: str, special: SpecialTokens, settings: Settings, batch_size: int
    ) -> None:
        self.manifest = read_manifest(folder)
        self.special = special
        self.settings = settings
        self.batch_size = batch_size
        self.seed = settings.seed
        self.sizes = np.array([shard.examples for shard in self.manifest.shards])
        tokens = np.flatnonzero(self.manifest.lengths)
        self.boundaries = bucket_boundaries(
            tokens + SPECIAL_TOKENS_AROUND, self.manifest.lengths[tokens], settings.buckets
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
            if after - begin > self.settings.pool_examples and before > begin:
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
        return cut_batches(order, lengths, self.batch_size, random)

    def batches(  # type: ignore[override]
        self, epoch: int, skip: int = 0
    ) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / tokens to predict in the whole batch, so that the
        weighted sum of the examples' losses is the mean over tokens; 0 for those that fill up.

        Args:
            epoch: a number, as a corpus is not predicted.
            skip: batches that are consumed already.
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
        padded = texts.pad(examples, length, self.special)
        random = np.random.default_rng([self.seed, *draw])
        return lay_out(padded, self.settings, self.special, random)

    @property
    def examples(self) -> Texts:
        """Some of what is learned from, to score it."""
        return self.preview

    @cached_property
    def preview(self) -> Texts:
        """Some texts, to see what batches look like."""
        first = self.manifest.shards[0]
        examples = read_shard(self.manifest.folder, first)
        return from_shard(examples, 0, min(TEXTS_AT_ONCE, first.examples))

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
        example = self.make_batch(np.zeros(1, int), int(self.boundaries[-1]))
        static = len(self.boundaries) == 1
        sizes = {name: array.shape[1] if static else None for name, array in example.items()}
        return with_weight(rows, sizes)


class HeldOutGenerator(DataGenerator):
    """Batches of texts to be scored on: what is hidden of each is drawn once and for all.

    Args:
        texts: all in memory.
        special: tokens that are not text.
        settings: `prediction_batch_size`; others as in `ShardGenerator`.
    """

    def __init__(self, texts: Texts, special: SpecialTokens, settings: Settings) -> None:
        self.examples, self.settings = texts, settings
        longest = int(texts.lengths.max())
        layouts = []
        for number, first in enumerate(range(0, len(texts), TEXTS_AT_ONCE)):
            chosen = np.arange(first, min(first + TEXTS_AT_ONCE, len(texts)))
            padded = texts.pad(chosen, longest, special)
            random = np.random.default_rng([HELD_OUT_SEED, number])
            layouts.append(lay_out(padded, settings, special, random))
        self.layout = {
            name: np.concatenate([part[name] for part in layouts]) for name in layouts[0]
        }
        super().__init__(texts.lengths.tolist(), settings.prediction_batch_size, settings.buckets)

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        rows = {name: array[examples] for name, array in self.layout.items()}
        return shorten(rows, self.settings, length)

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        static = len(self.boundaries) == 1 and not self.exact
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

"""Batches of texts with tokens to predict: from shards on disk, or from texts in memory."""

import itertools
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
# With the same settings, the same tokens of held-out texts are hidden: only the models differ.
HELD_OUT_SEED = 20181011
TEXTS_AT_ONCE = 1024

# Shard number, and its examples from one to another.
Slice = tuple[int, int, int]


class ShardGenerator(DataGenerator):
    """Batches of a corpus that may be larger than memory; each epoch hides other tokens.

    The shards of an epoch come in random order. As many as hold `pool_examples` are read at once,
    shuffled together and cut into batches. A pool holds a whole number of batches, and the examples
    left over belong to the next pool, so only the last batch of an epoch is partial. The manifest
    tells how many batches a pool has, so a resumed training opens no shard that is done.

    Args:
        folder: of the shards.
        special: tokens that are not text.
        settings: `buckets`, `pool_examples`, those that `lay_out` reads, and the `seed` of the
            order and of the hidden tokens.
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
        """Return the pools of an epoch: slices of shards that are read at once.

        Worked example: shards of 5, 5 and 5 examples in this order, `pool_examples` 8, batches of
        4. Two shards are more than 8, so the first pool ends with the first shard, at 5, rounded
        down to whole batches: 4. The second would end at 10, rounded down: 8. The third has the
        other 7.
        """
        order = np.random.default_rng([self.seed, epoch, SHARDS]).permutation(len(self.sizes))
        ends, begin = [], 0
        reached = np.cumsum(self.sizes[order])
        for before, after in itertools.pairwise([0, *reached]):
            # This shard does not fit any more: end the pool before it, at a whole batch.
            if after - begin > self.settings.pool_examples and before > begin:
                begin = before - before % self.batch_size
                ends.append(begin)
        borders = np.unique([0, *ends, self.size]).tolist()
        return [self.slices(order, first, last) for first, last in itertools.pairwise(borders)]

    def slices(self, order: np.ndarray, first: int, last: int) -> list[Slice]:
        """Return the slices of shards that hold the examples `first` to `last` of an order."""
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
        """Yield the batches of an epoch, without the first `skip`; `loss_divisor` is not used.

        Each has `loss_weight` `[batch_size]`: 1 / tokens to predict in the whole batch, so that the
        weighted sum of the examples' losses is the mean over tokens; 0 for filled-up examples.

        Args:
            epoch: a number; there is no prediction on a corpus.
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
        positions: np.ndarray,
        length: int,
        texts: Texts | None = None,
        draw: Sequence[int] = (0, MASKS),
    ) -> Batch:
        """Return the arrays of the examples at `positions` of a pool, padded to a length.

        Args:
            positions: `[batch_size]`.
            length: a bucket boundary.
            texts: the pool; None: the preview.
            draw: seeds the random draws, together with the seed of the settings.
        """
        texts = self.preview if texts is None else texts
        padded = texts.pad(positions, length, self.special)
        random = np.random.default_rng([self.seed, *draw])
        return lay_out(padded, self.settings, self.special, random)

    @property
    def examples(self) -> Texts:
        """Some training texts, to score them too."""
        return self.preview

    @cached_property
    def preview(self) -> Texts:
        """Some texts, to show the layout of batches."""
        first = self.manifest.shards[0]
        examples = read_shard(self.manifest.folder, first)
        return from_shard(examples, 0, min(TEXTS_AT_ONCE, first.examples))

    def first_batch(self, epoch: int | None) -> tuple[np.ndarray, int]:
        return np.arange(min(self.batch_size, len(self.preview))), int(self.boundaries[-1])

    def batches_of_each_shape(self) -> list[Batch]:
        """Return a batch of each bucket, from a few texts; texts that are too long are cut."""
        batches = []
        for length in self.boundaries:
            examples = np.resize(np.arange(len(self.preview)), self.batch_size)
            batch = self.make_batch(examples, int(length))
            batches.append({**batch, "loss_weight": token_weights(batch, self.batch_size)})
        return batches

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        """Return the shapes and types of a batch of so many rows: static if there is one bucket."""
        example = self.make_batch(np.zeros(1, int), int(self.boundaries[-1]))
        return specs_of(rows, example, len(self.boundaries) == 1)


class HeldOutGenerator(DataGenerator):
    """Batches of texts that are scored; the hidden tokens of each are drawn once.

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

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        rows = {name: array[positions] for name, array in self.layout.items()}
        return shorten(rows, self.settings, length)

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        static = len(self.boundaries) == 1 and not self.fits_batch
        return specs_of(rows, self.layout, static)


def specs_of(rows: int, arrays: Batch, static: bool) -> dict[str, tf.TensorSpec]:
    """Return the shapes and types of a batch; the number of columns is fixed only if `static`."""
    specs = {
        name: tf.TensorSpec([rows, array.shape[1] if static else None], np.int32)
        for name, array in arrays.items()
    }
    return {**specs, "loss_weight": tf.TensorSpec([rows], np.float32)}


def token_weights(batch: Batch, real: int) -> np.ndarray:
    """Return 1 / tokens to predict for the first `real` examples of a batch, 0 for the others."""
    tokens = np.sum(batch["masked_labels"][:real] != NO_TOKEN)
    weights = np.zeros(len(batch["masked_labels"]), np.float32)
    weights[:real] = 1 / max(tokens, 1)
    return weights

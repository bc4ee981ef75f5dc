"""Batches of examples without labels beside those with labels."""

from collections.abc import Iterator

import tensorflow as tf

from core.batches import Batch, DataGenerator

UNLABELLED = "unlabelled/"  # begins the names of arrays of examples without labels


class WithUnlabelled(DataGenerator):
    """Batches of one generator, each with a batch of another one, whose examples have no labels.

    Its arrays are named `unlabelled/...`. The next of its batches stands beside each of the first,
    so that this order, too, depends on seed and position alone.

    Args:
        labelled: says what an epoch is.
        unlabelled: of the same batch size; begun anew when it has ended.
    """

    def __init__(self, labelled: DataGenerator, unlabelled: DataGenerator) -> None:
        self.labelled, self.unlabelled = labelled, unlabelled
        self.batch_size = labelled.batch_size

    def __len__(self) -> int:
        return len(self.labelled)

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        position = divmod((epoch or 0) * len(self) + skip, len(self.unlabelled))
        pairs = zip(self.labelled.batches(epoch, skip), self.unlabelled.stream(*position))  # noqa: B905
        for batch, other in pairs:
            yield {**batch, **{f"{UNLABELLED}{name}": array for name, array in other.items()}}

    def signature(self, rows: int) -> dict[str, tf.TensorSpec]:
        other = self.unlabelled.signature(rows)
        return {
            **self.labelled.signature(rows),
            **{f"{UNLABELLED}{name}": spec for name, spec in other.items()},
        }

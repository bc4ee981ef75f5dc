"""Batches that combine labelled and unlabelled examples."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from core.base.errors import InputError
from core.batches import Batch, DataGenerator

UNLABELLED = "unlabelled/"  # prefix of the arrays of unlabelled examples


def read_unlabelled(batches: Any, path: str) -> Any:
    """Return batches of a file without labels, encoded as those of the training file are.

    Args:
        batches: of the training file. `learns_unlabelled` says that the last argument of their
            `of` is whether there are labels; extras/doctor has batches that answer by themselves.
        path: of the file.

    Raises:
        InputError: the task can't learn from examples without labels.
    """
    if own := getattr(batches, "read_unlabelled", None):
        return own(path)
    if not getattr(batches, "learns_unlabelled", False):
        raise InputError(
            f"unlabelled_file = {path!r}, but this task compares scores that need labels: leave it "
            "empty, and virtual_adversary uses the training file."
        )
    return batches.of(batches.read_file(path, False), *batches.arguments, False)


class WithUnlabelled(DataGenerator):
    """Batches of one generator, each combined with a batch of unlabelled examples.

    The unlabelled arrays are named `unlabelled/...`. Each labelled batch gets the next unlabelled
    one, so this order also depends only on seed and position.

    Args:
        labelled: defines an epoch.
        unlabelled: of the same batch size; starts again at its end.
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

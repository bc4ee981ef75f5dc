"""Two texts that are compared with each other are read in both orders.

A judge of two answers tends to like the first one, or the longer one that it read last. In training
a random half of the records is swapped in each epoch: the two texts change places, and so do
the labels that are about them. Prediction averages both orders, which makes it the same whichever
answer comes first. Source: Zheng et al. 2023, https://arxiv.org/abs/2306.05685, who ask a judge in
both orders.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.batches import Batch
from core.training import Training
from extras.competition.settings import Settings
from task.data import ExampleGenerator
from task.records import Example, Labels

DRAW = 7  # separates these random numbers from others of the same seed
IN_OTHER_ORDER = "in_other_order"  # where a generator keeps its examples in the other order


def swap(example: Example, names: dict[str, str]) -> Example:
    """Return an example with its last two texts, and the labels about them, in the other order."""
    return replace(
        example,
        text_a=example.text_b,
        text_b=example.text_a,
        labels=tuple(names.get(label, label) for label in example.labels),
        probabilities=tuple((names.get(name, name), own) for name, own in example.probabilities),
    )


def check_labels(labels: Labels, names: dict[str, str]) -> None:
    """Refuse records of one text, and labels that no training example has.

    Raises:
        InputError: says which setting does not fit.
    """
    if not labels.pairs:
        raise InputError(
            "competition.swap_training and swap_prediction change the order of two texts, but the "
            "records have one: name both with competition.text_columns, or set the two to false."
        )
    if unknown := [name for name in names if name not in labels.names]:
        shown = ", ".join(labels.names[:10]) + ", ..." * (len(labels.names) > 10)
        raise InputError(
            f"competition.swap_labels names {unknown[0]!r}, which no training example has: the "
            f"labels are {shown}."
        )


class SwappingGenerator(ExampleGenerator):
    """Batches of training in which a random half of the records is swapped in each epoch.

    Which ones depends on (seed, epoch) only. The position of a record in the other order is its own
    plus the number of all records. Both orders have as many tokens.

    Args:
        plain: the batches in the order of the file.
        names: label -> the one that it becomes.
    """

    # What is made of other examples, such as unlabelled ones, is never swapped.
    of = ExampleGenerator.of

    def __init__(self, plain: ExampleGenerator, names: dict[str, str]) -> None:
        # Not `plan`, which extras/cache has put there: it is asked for below.
        self.__dict__ |= {name: own for name, own in vars(plain).items() if name != "plan"}
        swapped = [swap(example, names) for example in plain.examples]
        self.plain, self.swapped = plain, ExampleGenerator.of(swapped, *plain.arguments)

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        planned = self.plain.plan(epoch)
        if epoch is None:
            return planned
        turned = np.zeros(self.size, np.int64)
        order = np.random.default_rng([self.seed, epoch, DRAW]).permutation(self.size)
        turned[order[: self.size // 2]] = self.size
        return [(positions + turned[positions], length) for positions, length in planned]

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        own, turned = positions % self.size, positions >= self.size
        plain, swapped = (one.make_batch(own, length) for one in (self.plain, self.swapped))
        return {
            name: np.where(turned.reshape(-1, *[1] * (array.ndim - 1)), swapped[name], array)
            for name, array in plain.items()
        }


def swap_in_training(training: Training) -> None:
    """Let the batches of a training turn a half of the records round in each epoch.

    Raises:
        InputError: the records have one text, or no label of this name.
    """
    plain: Any = training.batches
    if not isinstance(plain, ExampleGenerator):  # one batch of check.py, which is made already
        return
    names = training.settings.competition.swapped_names
    check_labels(plain.labels, names)
    training.batches = SwappingGenerator(plain, names)


def average_orders(
    rows: np.ndarray, generator: ExampleGenerator, predict: Callable[[Any], np.ndarray]
) -> np.ndarray:
    """Return the mean of what is predicted of both orders of the texts, `[examples, labels]`.

    Args:
        rows: what is predicted of the examples as they are.
        generator: of the examples; it keeps them in the other order, too, once they are encoded.
        predict: from a generator to `[examples, labels]`.

    Raises:
        InputError: the records have one text, or no label of this name.
    """
    settings: Settings = generator.settings
    names, labels = settings.competition.swapped_names, generator.labels
    check_labels(labels, names)
    if IN_OTHER_ORDER not in vars(generator):
        swapped = [swap(example, names) for example in generator.examples]
        vars(generator)[IN_OTHER_ORDER] = ExampleGenerator.of(swapped, *generator.arguments)
    other = predict(vars(generator)[IN_OTHER_ORDER])
    order = [labels.names.index(names.get(name, name)) for name in labels.names]
    return (rows + other[:, order]) / 2

"""Training records that are scored beside dev: they tell what a model has learned by heart."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.data.data_generator import DataGenerator
from core.train.scoring import Evaluation

DRAW = 4  # tells these random numbers from others of the same seed


def add_train_scores(
    most: int,
    seed: int,
    train_batches: DataGenerator,
    score_dev: "functools.partial[Evaluation]",
) -> Callable[[], Evaluation]:
    """Return what scores dev, and then training records by what was tuned on dev.

    The scores of dev get `beside`: numbers of the training records, `train_f1` for one.

    Args:
        most: records, but never more than dev has.
        seed: chooses them.
        train_batches: of the `examples` that are learned from.
        score_dev: a function of batches, and of the scores whose thresholds hold, with the batches
            of dev.
    """
    score, dev_batches = score_dev.func, score_dev.args[0]
    known: Any = train_batches
    sample = choose_examples(known.examples, min(most, len(dev_batches.examples)), seed)
    batches = type(dev_batches).of(sample, *dev_batches.arguments)

    def score_both() -> Evaluation:
        dev = score_dev()
        numbers = {
            f"train_{name}": value
            for name, value in score(batches, dev.scores).scores.items()
            if isinstance(value, int | float) and name != "threshold"
        }
        return replace(dev, scores={**dev.scores, "beside": numbers})

    return score_both


def choose_examples(examples: Any, most: int, seed: int) -> Any:
    """Return some examples, in their order; those of a group that is ranked stay together.

    Args:
        examples: a sequence, or what has `choose`, as the texts of pre-training and the examples of
            extras/cache.
        most: so many, or a few more to complete a group.
        seed: chooses them.
    """
    groups = np.arange(len(examples))
    if isinstance(examples, Sequence) and getattr(examples[0], "group", None) is not None:
        groups = np.unique([example.group for example in examples], return_inverse=True)[1]
    order = np.random.default_rng([seed, DRAW]).permutation(groups.max() + 1)
    sizes = np.bincount(groups)[order]
    chosen = order[: np.searchsorted(np.cumsum(sizes), most) + 1]
    positions = np.flatnonzero(np.isin(groups, chosen))
    if hasattr(examples, "choose"):
        return examples.choose(positions)
    return [examples[position] for position in positions]

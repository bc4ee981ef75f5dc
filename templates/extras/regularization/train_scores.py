"""Training records that are scored with dev: they tell how much a model knows by heart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.scores.evaluation import DevScorer, Evaluation
from core.training import Training

DRAW = 4  # separates these random numbers from others of the same seed


class TrainScorer(DevScorer):
    """Scores dev, and then training records with the thresholds that were tuned on dev.

    The scores of dev get `beside`: numbers of the training records, such as `train_f1`.

    Args:
        training: its scorer scores dev; its batches have the `examples` that are learned from.
        most: at most so many records, and never more than dev has.
        seed: chooses them.
    """

    def __init__(self, training: Training, most: int, seed: int) -> None:
        self.scorer = training.scorer
        known: Any = training.batches
        dev_batches = training.scorer.batches
        sample = choose_examples(known.examples, min(most, len(dev_batches.examples)), seed)
        super().__init__(
            self.scorer.predictor,
            type(dev_batches).of(sample, *dev_batches.arguments),
            training.settings,
        )

    def score_dev(self) -> Evaluation:
        dev = self.scorer.score_dev()
        numbers = {
            f"train_{name}": value
            for name, value in self.score(self.batches, dev.scores).scores.items()
            if isinstance(value, int | float) and name != "threshold"
        }
        return replace(dev, scores={**dev.scores, "beside": numbers})

    def score(self, batches: Any, tuned: dict | None = None) -> Evaluation:
        return self.scorer.score(batches, tuned)


def choose_examples(examples: Any, most: int, seed: int) -> Any:
    """Return some examples in order; groups of a ranking stay together.

    Args:
        examples: a sequence, or an object with `choose`, such as the texts of pre-training and the
            examples of extras/cache.
        most: their number, or a few more to complete a group.
        seed: chooses them.
    """
    groups = np.arange(len(examples))
    if isinstance(examples, Sequence) and getattr(examples[0], "group", None) is not None:
        # Not an array of strings: each would take the room of the longest.
        names = [example.group for example in examples]
        number = {name: place for place, name in enumerate(sorted({*names}))}
        groups = np.array([number[name] for name in names])
    order = np.random.default_rng([seed, DRAW]).permutation(groups.max() + 1)
    sizes = np.bincount(groups)[order]
    chosen = order[: np.searchsorted(np.cumsum(sizes), most) + 1]
    positions = np.flatnonzero(np.isin(groups, chosen))
    if hasattr(examples, "choose"):
        return examples.choose(positions)
    return [examples[position] for position in positions]

"""Fit the weights of a blend, and estimate what it gains on records that did not fit them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.model_selection import GroupKFold
from tqdm import tqdm

from core.scores.evaluation import Evaluation
from extras.blends.blends import blend_parts, stack_parts
from extras.blends.stack import Stack
from extras.blends.stacking import fit_stack

# Each try scores all records once. The fit moves in steps that records can tell apart.
TRIES_PER_RUN = 30
SMALLEST_SHARE = 0.02
NESTED_FOLDS = 5
TURNS = 2
# What makes one prediction of those of several runs: their weights, or a stack.
Mix = np.ndarray | Stack
# From the weights of the runs to the score of their blend.
Score = Callable[[np.ndarray], float]


def fit_weights(score: Score, count: int) -> np.ndarray:
    """Return the weights `[count]`, from 0 to 1 with sum 1, whose blend scores best.

    A metric of counts has no gradient, so the simplex method of Nelder and Mead (1965) looks for
    them. It starts from the equal mean and from each run without the others. Of equally good
    weights those nearest to the equal mean are taken: they depend least on the records.

    Args:
        score: of the blend with some weights.
        count: of the runs.
    """
    equal = np.full(count, 1 / count)
    found: dict[tuple[float, ...], float] = {}

    tries = TRIES_PER_RUN * count
    progress = tqdm(total=tries, desc="fitting", leave=False, disable=None)

    def loss(point: np.ndarray) -> float:
        weights = shares_of(point)
        key = tuple(weights)
        if key not in found:
            found[key] = score(weights)
        progress.update()
        return -found[key]

    optimize.minimize(
        loss,
        equal,
        method="Nelder-Mead",
        options={
            "initial_simplex": np.vstack([equal, np.eye(count)]),
            "maxfev": tries,
            "xatol": SMALLEST_SHARE / 2,
            "fatol": 1e-6,
        },
    )
    progress.close()
    best = max(found.values())
    tied = [np.array(weights) for weights, value in found.items() if value == best]
    return min(tied, key=lambda weights: float(np.abs(weights - equal).sum()))


def shares_of(point: np.ndarray) -> np.ndarray:
    """Return the weights that a point means: not negative, none too small to count, with sum 1.

    >>> shares_of(np.array([3.0, -1.0, 0.01])).tolist()
    [0.75, 0.25, 0.0]
    """
    shares = np.abs(point)
    if not shares.sum():
        return np.full(len(point), 1 / len(point))
    shares = np.where(shares < SMALLEST_SHARE * shares.sum(), 0.0, shares)
    return shares / shares.sum()


@dataclass(frozen=True)
class Parts:
    """What several runs predict for the same records.

    Attributes:
        examples: the records, with gold.
        groups: the group of each record; records of one group share a text.
        candidates: record id -> candidates, of each run.
        evaluate: scores the candidates of some of the examples; its second argument are scores
            whose thresholds are used, None: choose the best ones.
        monitor: the name of the score that counts.
        tunes_quickly: whether the thresholds can be chosen anew for all weights that are tried.
        stacking: what a stack asks of the task; None: weights are fitted only.
    """

    examples: Sequence[Any]
    groups: np.ndarray
    candidates: Sequence[dict]
    evaluate: Callable[[Sequence[Any], dict, dict | None], Evaluation]
    monitor: str
    tunes_quickly: bool = True
    stacking: Any = None

    def blend(
        self, mix: Mix, tuned: dict | None = None, rows: np.ndarray | None = None
    ) -> Evaluation:
        """Return the scores of a blend on the records, or on some `rows` of them."""
        chosen = self.choose(rows)
        used = [n for n in range(len(self.candidates)) if isinstance(mix, Stack) or mix[n]]
        parts = [{own.id: self.candidates[n][own.id] for own in chosen} for n in used]
        if isinstance(mix, Stack):
            return self.evaluate(chosen, stack_parts(parts, mix, self.stacking), tuned)
        return self.evaluate(chosen, blend_parts(parts, mix[used]), tuned)

    def choose(self, rows: np.ndarray | None) -> Sequence[Any]:
        """Return the examples, or some `rows` of them."""
        return self.examples if rows is None else [self.examples[row] for row in rows]

    def score(self, mix: Mix, rows: np.ndarray | None = None, tuned: dict | None = None) -> float:
        """Return the score that counts; arguments as in `blend`."""
        value = self.blend(mix, tuned, rows).scores[self.monitor]
        return float(value) if np.isfinite(value) else -np.inf

    def fit(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the weights that are best for the records, or for some `rows` of them."""
        count = len(self.candidates)
        if self.tunes_quickly:
            return fit_weights(lambda weights: self.score(weights, rows), count)
        # In turns: thresholds for the weights, then weights for the thresholds.
        weights = np.full(count, 1 / count)
        tried = [weights, *np.eye(count)]
        for _ in range(TURNS):
            tuned = self.blend(weights, rows=rows).scores
            weights = fit_weights(partial(self.score, rows=rows, tuned=tuned), count)
            tried.append(weights)
        return max(tried, key=partial(self.score, rows=rows))

    def fit_stack(self, rows: np.ndarray | None = None) -> Stack:
        """Return a stack that is fitted on the records, or on some `rows` of them."""
        scores_of, gold_of = self.stacking.scores_of, self.stacking.gold_of
        records, gold = [], []
        for example in self.choose(rows):
            parts = [scores_of(candidates[example.id]) for candidates in self.candidates]
            names = {name: None for part in parts for group in part.values() for name in group}
            records.append(parts)
            gold.append(gold_of(example, names))
        return fit_stack(self.stacking.kind, records, gold)

    def best_single(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the weights that take only the best run."""
        return max(np.eye(len(self.candidates)), key=lambda weights: self.score(weights, rows))


def score_held_out(
    parts: Parts, fit: Callable[..., Mix]
) -> Iterator[tuple[list[dict], list[dict]]]:
    """Yield the predictions of the blend and of the best run for each fold of the records.

    The weights or the stack, the thresholds and which run is best are chosen on the other folds.
    So the difference of both is what a blend gains on new records; on the records that fitted it,
    it always gains.

    Args:
        parts: all records.
        fit: from rows to weights, or to a stack.
    """
    folds = min(NESTED_FOLDS, len(np.unique(parts.groups)))
    order = np.random.default_rng(1).permutation(parts.groups.max() + 1)[parts.groups]
    for rest, held_out in GroupKFold(folds).split(order, groups=order):
        predictions = []
        for choose in (fit, parts.best_single):
            mix = choose(rest)
            tuned = parts.blend(mix, rows=rest).scores
            predictions.append(parts.blend(mix, tuned, held_out).predictions)
        yield predictions[0], predictions[1]

"""Score the records of any predictions file, without a run."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.extras import need
from task.data import Example, Labels
from task.decode import read_prediction
from task.metrics import all_names, score
from task.settings import Settings

ROUNDING = 1e-6
# Place and record.
Row = tuple[str, dict]


def read_record(place: str, record: dict, gold: Example) -> Row:
    """Return a record with its place; of what task it is shows when it is scored."""
    return place, record


def score_predictions(golds: Sequence[Example], rows: Sequence[Row], settings: Settings) -> dict:
    """Return every score that such predictions have.

    Scores of probabilities and rankings need the `probabilities` and the `score` that predict.py
    writes; without them there are only the scores of labels.

    Args:
        golds: the records with gold.
        rows: the prediction for each.
        settings: those of config.toml, without a run.

    Raises:
        InputError: a record is no prediction.
    """
    if settings.output == "number":
        return score_numbers(golds, rows, settings)
    predictions = [read_prediction(*row) for row in rows]
    named: list[Any] = [record.get("probabilities") for _, record in rows]
    given = named[0] if isinstance(named[0], dict) else {}
    names = list(given) or all_names([gold.labels for gold in golds], [*chain(*predictions)])
    labels = make_labels(golds, names, settings)
    scores = [record.get("score") for _, record in rows]
    ranked = all(type(value) in (int, float) for value in scores)
    positive = np.array(scores, float) if ranked and labels.positive else None
    found: dict = {}
    complete = given and all(is_whole(own, names) for own in named)
    if complete:
        check_probabilities(rows)
    if complete and getattr(settings, "competition", None):
        candidates = {g.id: np.array([*own.values()]) for g, own in zip(golds, named, strict=True)}
        further = need("competition", "label_scores")
        found = further.score_labels(golds, candidates, predictions, labels, settings)
    return found | score(golds, predictions, positive, labels)


def is_whole(probabilities: Any, names: list[str]) -> bool:
    """Return whether probabilities are numbers, one of each label, in this order."""
    if not isinstance(probabilities, dict) or [*probabilities] != names:
        return False
    return all(type(value) in (int, float) for value in probabilities.values())


def check_probabilities(rows: Sequence[Row]) -> None:
    """Check that all probabilities are between 0 and 1; averages may be 1 and a rounding error.

    Raises:
        InputError: one is not, or is no number (NaN).
    """
    for place, record in rows:
        for name, value in record["probabilities"].items():
            if not 0 <= value <= 1 + ROUNDING:
                raise InputError(
                    f"{place}: the probability of {name!r} is {value}: it must be between 0 and 1."
                )


def check_numbers(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Check that each record has the numbers of all columns.

    Raises:
        InputError: one is missing, or is no finite number.
    """
    for place, record in rows:
        numbers = record.get("targets")
        given = numbers if isinstance(numbers, dict) else {}
        values: list[Any] = [given.get(name) for name in names]
        if any(type(value) not in (int, float) or not math.isfinite(value) for value in values):
            wanted = ", ".join(f'"{name}": ...' for name in names)
            raise InputError(
                f'{place}: "targets" must be {{{wanted}}} with a finite number for each.'
            )


def make_labels(golds: Sequence[Example], names: list[str], settings: Settings) -> Labels:
    """Return the labels of a file; in a ranking without `positive_label` the positive one is 1.

    Raises:
        InputError: `positive_label` is none of them.
    """
    positive, first = settings.positive_label or None, golds[0]
    if positive is None and first.group is not None and not first.several and "1" in names:
        positive = "1"
    if positive is not None and positive not in names:
        raise InputError(
            f"positive_label = {positive!r} is in neither file: set it to a label, or to ''."
        )
    counts = tuple(float(sum(name in gold.labels for gold in golds)) for name in names)
    pairs = first.text_b is not None
    return Labels(tuple(names), first.several, positive, counts, len(golds), pairs)


def score_numbers(golds: Sequence[Example], rows: Sequence[Row], settings: Settings) -> dict:
    """Return the scores of numbers; kappa is that of the `grades` of the predictions."""
    evaluation, numbers = (
        need("competition", f"number_{name}") for name in ("evaluation", "scores")
    )
    names, gold = golds[0].labels, need("competition", "targets").gold_numbers(golds)
    check_numbers(rows, names)
    predicted = np.array([evaluation.read_numbers(*row, names) for row in rows])
    groups = [example.group for example in golds]
    table = settings.competition  # type: ignore[attr-defined]
    if table.is_listwise:
        score_lists = need("competition", "list_scores").score_lists
        return score_lists(gold[:, 0], predicted[:, 0], groups, table.k)
    scores = numbers.score_numbers(gold, predicted, names, groups, {}, [0.0] * len(names), table.k)
    grades = [record.get("grades", {}) for _, record in rows]
    graded = [name for name in names if all(name in own for own in grades)]
    kappas = {}
    for name in graded:
        right = np.rint(gold[:, names.index(name)])
        kappas[name] = numbers.quadratic_kappa(right, np.array([own[name] for own in grades]))
        if "per_target" in scores:
            scores["per_target"][name]["qwk"] = kappas[name]
    if kappas and len(kappas) == len(names):
        scores["qwk"] = float(np.mean([*kappas.values()]))
    return scores

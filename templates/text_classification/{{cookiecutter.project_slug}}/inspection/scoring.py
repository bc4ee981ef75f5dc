"""Score the records of any predictions file, without a run."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.extras import need
from core.data.records import whole_number
from library.label_metrics import all_names
from task.metrics import score
from task.records import Example, Labels, read_example
from task.settings import Settings

ROUNDING = 1e-6
ROUNDED = 0.01  # of each probability: what two decimals leave out
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
    predictions = [read_labels(*row, settings) for row in rows]
    several = golds[0].several
    for (place, _), own in zip(rows, predictions, strict=True):
        if not several and len(own) != 1:
            raise InputError(f'{place}: the gold has one "label" for each record: name one.')
    named = [read_probabilities(*row, settings, several) for row in rows]
    first = next(filter(None, named), {})  # of the first record that has any
    names = sorted(first) or all_names([gold.labels for gold in golds], [*chain(*predictions)])
    labels = make_labels(golds, names, settings)
    complete = first and not find_gap(golds, rows, named, {*first})
    found: dict = {}
    if complete and getattr(settings, "competition", None):
        rows_of = [np.array([own[name] for name in names]) for own in named]
        candidates = {gold.id: row for gold, row in zip(golds, rows_of, strict=True)}
        further = need("competition", "label_scores")
        found = further.score_labels(golds, candidates, predictions, labels, settings)
    return found | score(golds, predictions, read_scores(rows, labels), labels)


def read_labels(place: str, record: dict, settings: Settings) -> tuple[str, ...]:
    """Return the labels of a prediction under the names that gold has, of aliases and paths too.

    Raises:
        InputError: they are none.
    """
    given = {name: record[name] for name in ("label", "labels") if name in record}
    if not given or any(isinstance(value, dict) for value in given.values()):
        raise InputError(f'{place}: write the prediction as "label": ... or "labels": [...].')
    try:
        return read_example({"id": 0, "text_a": "-", **given}, 0, True, settings).labels
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def read_scores(rows: Sequence[Row], labels: Labels) -> np.ndarray | None:
    """Return the `score` of each record, by which a ranking is sorted; None: some have none.

    Raises:
        InputError: one is no finite number (NaN).
    """
    scores: list[Any] = [record.get("score") for _, record in rows]
    if labels.positive is None or any(type(value) not in (int, float) for value in scores):
        return None
    for (place, _), value in zip(rows, scores, strict=True):
        if not math.isfinite(value):
            raise InputError(f'{place}: the "score" is {value}: write a finite number.')
    return np.array(scores, float)


def read_probabilities(
    place: str, record: dict, settings: Settings, several: bool
) -> dict[str, float]:
    """Return the probability of each label; empty: the record has none.

    Averages may be 1 and a rounding error, and rounded ones sum to about 1.

    Raises:
        InputError: one is not between 0 and 1, or those of one label sum to something else.
    """
    given = record.get("probabilities")
    if not isinstance(given, dict):
        return {}
    if table := getattr(settings, "competition", None):
        given = need("competition", "paths").rename(given, table.aliases)
    for name, value in given.items():
        if type(value) not in (int, float) or not 0 <= value <= 1 + ROUNDING:
            raise InputError(
                f"{place}: the probability of {name!r} is {value}: it must be between 0 and 1."
            )
    total = sum(given.values())
    if given and not several and abs(total - 1) > min(0.5, ROUNDED * len(given)):
        raise InputError(
            f"{place}: the probabilities sum to {total:.4g}: those of one label must sum to 1."
        )
    return given


def find_gap(
    golds: Sequence[Example], rows: Sequence[Row], named: Sequence[dict], wanted: set[str]
) -> bool:
    """Say if a record lacks a probability, so that there are no scores of probabilities."""
    for gold, (place, _), own in zip(golds, rows, named, strict=True):
        if lacking := sorted({*wanted, *gold.labels} - own.keys()) or sorted(own.keys() - wanted):
            of = f"{place} has no probability of {lacking[0]!r}"
            if lacking[0] in own:
                of = f"{place} has a probability of {lacking[0]!r}, and others have none"
            print(f"note: no scores of probabilities, because {of}: give all records all labels.\n")
            return True
    return False


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


def read_grades(place: str, record: dict, names: Sequence[str]) -> dict[str, int]:
    """Return the grades of a record, whole numbers by column; empty: it has none.

    Raises:
        InputError: they are something else.
    """
    grades = record.get("grades", {})
    own = grades if isinstance(grades, dict) else {"": None}
    known = {name: whole_number(value) for name, value in own.items()}
    if any(type(value) is not int or name not in names for name, value in known.items()):
        wanted = ", ".join(f'"{name}": ...' for name in names)
        raise InputError(f'{place}: "grades" must be {{{wanted}}} with a whole number for each.')
    return known


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
    grades = [read_grades(*row, names) for row in rows]
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

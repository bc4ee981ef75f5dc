"""Score predicted numbers, and show them as text: for runs, the floor, submissions, reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.files import read_json
from core.base.words import excerpt
from core.data.records import name_file
from core.report.report import ErrorExample, ErrorItem
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation
from extras.competition.cuts import apply_cuts, steady_cuts
from extras.competition.list_scores import (
    add_probabilities,
    choose_list_metric,
    describe_candidate,
    find_list_errors,
    score_lists,
)
from extras.competition.number_scores import NUMBER_METRICS, find_grades, score_numbers
from extras.competition.settings import Settings
from extras.competition.targets import gold_numbers

MOST_ERRORS = 200


def choose_number_metric(metric: str, labels: Any, examples: Sequence[Any]) -> str:
    """Return the deciding score; `auto` is RMSE, or MCRMSE for several targets.

    Args:
        metric: the setting.
        labels: from `collect_targets`.
        examples: those that are scored.

    Raises:
        InputError: such numbers have no such score.
    """
    if labels.are_lists:
        return choose_list_metric(metric, examples)
    if metric == "auto":
        metric = "rmse" if len(labels.names) == 1 else "mcrmse"
    gold = gold_numbers(examples)
    graded = len(find_grades(gold, labels.scaling, labels.names)) == len(labels.names)
    grouped = examples[0].group is not None and gold.min() >= 0
    lacking = {
        "qwk": None if graded else "targets that are whole numbers",
        **dict.fromkeys(
            ("ndcg", "ndcg_at_k"), None if grouped else "groups, and no target below 0"
        ),
    }.get(metric, None if metric in NUMBER_METRICS else 'output = "labels"')
    if lacking:
        choices = ", ".join(["auto", *NUMBER_METRICS])
        raise InputError(f"metric = {metric!r} needs {lacking}: choose one of {choices}.")
    return NUMBER_METRICS[metric]


def evaluate_numbers(
    examples: Sequence[Any],
    candidates: dict,
    labels: Any,
    path: Path,
    settings: Settings,
    cuts: dict[str, list[float]] | float | None,
    shown: int,
) -> Evaluation:
    """Score the predicted numbers for the examples of a file.

    Args:
        examples: gold.
        candidates: record id -> numbers `[targets]`.
        labels: from `collect_targets`.
        path: where the examples were read from.
        settings: `competition.k`, ranks that count in `ndcg_at_k`.
        cuts: between grades, by target; a number: there are none; None: those with the best kappa
            on these examples.
        shown: how many examples to show as text.
    """
    gold = gold_numbers(examples)
    predicted = np.array([candidates[example.id] for example in examples])
    if labels.are_lists:
        return evaluate_lists(examples, candidates, labels, path, settings, shown)
    grades = find_grades(gold, labels.scaling, labels.names)
    if cuts is None:
        cuts = {
            name: steady_cuts(gold[:, column], predicted[:, column], grades[name])
            for column, name in enumerate(labels.names)
            if name in grades
        }
    cuts = cuts if isinstance(cuts, dict) else {}
    groups = [example.group for example in examples]
    lowest, k = labels.scaling["lowest"], settings.competition.k
    known = {name: own for name, own in cuts.items() if name in grades}
    scores = score_numbers(gold, predicted, labels.names, groups, known, lowest, k)
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            "threshold": 0.0,
            **scores,
            **({"cuts": cuts} if cuts else {}),
        },
        predictions=number_records(examples, candidates, labels, cuts),
        shown=[describe(example, candidates[example.id]) for example in examples[:shown]],
    )


def evaluate_lists(
    examples: Sequence[Any],
    candidates: dict,
    labels: Any,
    path: Path,
    settings: Settings,
    shown: int,
) -> Evaluation:
    """Score how the records of each group are ranked; arguments as in `evaluate_numbers`."""
    gold = gold_numbers(examples)[:, 0]
    predicted = np.array([candidates[example.id][0] for example in examples])
    groups = [example.group for example in examples]
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            "threshold": 0.0,
            **score_lists(gold, predicted, groups, settings.competition.k),
        },
        predictions=number_records(examples, candidates, labels, {}),
        shown=[describe_candidate(e, candidates[e.id]) for e in examples[:shown]],
    )


def number_records(
    examples: Sequence[Any], candidates: dict, labels: Any, cuts: dict[str, list[float]] | float
) -> list[dict]:
    """Return the records of the predictions file: numbers by target, and grades where cuts are."""
    cuts = cuts if isinstance(cuts, dict) else {}
    records = []
    for example in examples:
        numbers = candidates[example.id].tolist()
        record = {"id": example.id, "targets": dict(zip(labels.names, numbers, strict=True))}
        grades = {
            name: int(apply_cuts(np.array(number), cuts[name], lowest))
            for name, number, lowest in zip(
                labels.names, numbers, labels.scaling["lowest"], strict=True
            )
            if name in cuts
        }
        records.append({**record, "grades": grades} if grades else record)
    if labels.are_lists:
        scores = np.array([candidates[example.id][0] for example in examples])
        return add_probabilities(records, examples, scores)
    return records


def read_tuned(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the means of the cuts, or of the thresholds, of several runs by name.

    Those of a fold are those of its cross-validation. Empty: a run has only a single threshold.
    """
    tuned: list[dict] = []
    for folder in folders:
        # During the training of the folds each fold has only its own values.
        is_fold = "fold" in read_json(folder / "config.json")
        scores = is_fold and read_scores(folder.parent) or read_scores(folder)
        dev = scores.get("dev", {})
        tuned.append(dev.get("cuts", dev.get("thresholds", {})))
    return {
        name: np.mean([own[name] for own in tuned], axis=0).tolist()
        for name in tuned[0]
        if all(name in own for own in tuned)
    }


def read_numbers(place: str, record: dict, names: Sequence[str]) -> list[float]:
    """Return the numbers of a record of a predictions file.

    Raises:
        InputError: the record is not such a prediction; the message names its place.
    """
    targets = record.get("targets")
    if not isinstance(targets, dict) or not all(
        isinstance(targets.get(name), int | float) for name in names
    ):
        raise InputError(f"{place}: not a prediction of numbers: write the file with evaluate.py.")
    return [float(targets[name]) for name in names]


def describe(example: Any, predicted: np.ndarray) -> str:
    """Return a text with its gold and its predicted numbers."""
    gold, found = (
        ", ".join(f"{name} {value:.4g}" for name, value in zip(example.labels, own, strict=True))
        for own in (example.numbers, predicted)
    )
    return f"{' ‖ '.join(map(excerpt, example.texts))}\n  gold:      {gold}\n  predicted: {found}\n"


def find_number_errors(examples: Sequence[Any], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return the examples with the largest errors, in deviations, for the report; worst first."""
    if "probability" in predictions[0]:
        return find_list_errors(examples, predictions)
    records = {record["id"]: record for record in predictions}
    gold = gold_numbers(examples)
    names = examples[0].labels
    found = np.array([read_numbers("dev.jsonl", records[e.id], names) for e in examples])
    spread = np.where(gold.std(axis=0) > 0, gold.std(axis=0), 1)
    distance = (np.abs(found - gold) / spread).mean(axis=1)
    reports = []
    for row in np.argsort(-distance, kind="stable")[:MOST_ERRORS]:
        items = [
            ErrorItem(kind, f"{name} {value:.4g}", [], None)
            for kind, values in (("missed", gold[row]), ("invented", found[row]))
            for name, value in zip(names, values, strict=True)
        ]
        reports.append(ErrorExample(examples[row].id, examples[row].line_of_text, items))
    return reports

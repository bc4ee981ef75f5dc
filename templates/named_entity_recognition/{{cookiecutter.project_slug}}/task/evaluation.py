"""Score what was predicted, and say it in words."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from core.base.files import read_json
from core.data.records import name_file
from core.report.report import ErrorExample, ErrorItem
from core.runs.scores import read_scores
from core.runs.members import tuned_threshold
from core.scores.evaluation import Evaluation
from core.scores.thresholds import precision_recall
from task.data import Example
from task.decode import (
    Candidates,
    Thresholds,
    keep_entities,
    prediction_records,
    read_prediction,
    texts_of,
)
from task.metrics import rank_candidates, score, tune_thresholds
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    settings: Settings,
    thresholds: Thresholds | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates that were predicted for the examples of a file.

    Args:
        examples: gold; they were read from `path`.
        candidates: from `predict_entities`.
        settings: `threshold`, `beta`.
        thresholds: from `load_thresholds`; None: those that score best on these examples.
        shown: examples to put into words.
    """
    facts: dict = {**name_file(path), "records": len(examples)}
    if thresholds is None:
        one, own = tune_thresholds(
            examples, candidates, settings.threshold == "per_type", settings.beta
        )
        thresholds = defaultdict(lambda: one, own)
        facts |= {"threshold": one, "thresholds": own}
        if not own:  # else no point of the curve is what was chosen
            _, ranked, hits, gold = rank_candidates(examples, candidates)
            facts["precision_recall"] = precision_recall(ranked.tolist(), hits.tolist(), gold, one)
    predictions = keep_entities(candidates, thresholds)
    entities = {name: [entity for entity, _ in scored] for name, scored in predictions.items()}
    return Evaluation(
        scores={**facts, **score(examples, entities, settings.beta)},
        predictions=prediction_records(examples, predictions),
        shown=[describe(example, sorted(entities[example.id])) for example in examples[:shown]],
    )


def monitor_of(settings: Settings) -> str:
    """Return the name of the score that chooses the best epoch."""
    return "f1" if settings.beta == 1 else "f_beta"


def name_score(settings: Settings) -> str:
    """Return that name in words."""
    return "F1" if settings.beta == 1 else f"F{settings.beta:g}"


def thresholds_of(scores: dict | None) -> Thresholds | None:
    """Return the thresholds that were tuned with some scores; None: there are no scores yet."""
    if scores is None:
        return None
    one = scores["threshold"]
    return defaultdict(lambda: one, scores["thresholds"])


def load_thresholds(folders: Sequence[Path]) -> Thresholds:
    """Return the thresholds of some runs, their mean for each type.

    Raises:
        InputError: a run has none.
    """
    kinds: set[str] = set()
    every = []
    for folder in folders:
        one = tuned_threshold([folder])
        # A fold has those of its cross-validation, once that is finished.
        is_fold = "fold" in read_json(folder / "config.json")
        scores = (is_fold and read_scores(folder.parent)) or read_scores(folder)
        own = scores["dev"].get("thresholds") or {}
        every.append(defaultdict(lambda one=one: one, own))
        kinds |= {*own}
    usual = tuned_threshold(folders)
    means = {kind: sum(own[kind] for own in every) / len(every) for kind in kinds}
    return defaultdict(lambda: usual, means)


def describe(example: Example, predicted: Sequence, most: int = 8) -> str:
    """Return a text with its gold entities beside the predicted ones, `most` of each."""

    def words(entities: Sequence) -> str:
        more = [f"and {len(entities) - most} more"] if len(entities) > most else []
        return "; ".join(texts_of(entities[:most], example.text) + more)

    gold, found = words(example.entities), words(predicted)
    return f"{example.text}\n  gold:      {gold}\n  predicted: {found}\n"


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from the records of predictions."""
    predicted = {record["id"]: read_prediction("dev.jsonl", record) for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], set(example.entities)
        kinds = {entity: "missed" for entity in sorted(gold - found.keys())}
        kinds |= {entity: "correct" if entity in gold else "invented" for entity in found}
        items = [
            ErrorItem(kind, entity.type, [(*entity.span, entity.type)], found.get(entity))
            for entity, kind in kinds.items()
        ]
        reports.append(ErrorExample(example.id, example.text, items))
    return reports

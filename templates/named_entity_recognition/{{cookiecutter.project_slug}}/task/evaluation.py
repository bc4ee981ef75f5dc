"""Score predictions, and show some of them as text."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from core.base.files import project_path, read_json
from core.base.words import excerpt
from core.data.records import name_file
from core.prediction.predictor import Predictor
from core.runs.members import tuned_threshold
from core.runs.scores import read_scores
from core.scores.evaluation import DevScorer, Evaluation
from core.scores.thresholds import precision_recall
from formats.records import prediction_records
from task.data import EntityGenerator
from task.decode import Candidates, Thresholds, keep_entities, predict_entities
from task.metrics import list_candidates, score, tune_thresholds
from task.records import Entity, Example
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    settings: Settings,
    thresholds: Thresholds | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates of all examples of a file.

    Args:
        examples: read from `path`, with their gold.
        candidates: from `predict_entities`.
        path: named in the scores.
        settings: `threshold`, `beta`.
        thresholds: from `load_thresholds`; None: the best ones for these examples.
        shown: how many examples to show as text.
    """
    facts: dict = {**name_file(path), "records": len(examples)}
    if thresholds is None:
        one, per_type = tune_thresholds(
            examples, candidates, settings.threshold == "per_type", settings.beta
        )
        thresholds = defaultdict(lambda: one, per_type)
        facts |= {"threshold": one, "thresholds": per_type}
        if not per_type:  # the curve has one threshold for all types
            ranked, hits, gold = list_candidates(examples, candidates)
            facts["precision_recall"] = precision_recall(ranked.tolist(), hits.tolist(), gold, one)
    predictions = keep_entities(candidates, thresholds)
    entities = {record: [entity for entity, _ in scored] for record, scored in predictions.items()}
    return Evaluation(
        scores={**facts, **score(examples, entities, settings.beta)},
        predictions=prediction_records(examples, predictions),
        shown=[describe(example, sorted(entities[example.id])) for example in examples[:shown]],
    )


class EntityScorer(DevScorer):
    """Scores dev with the current weights of a training.

    Args:
        flat: as in `predict_entities`; others as in `DevScorer`.
    """

    def __init__(
        self, predictor: Predictor, batches: EntityGenerator, settings: Settings, flat: bool
    ) -> None:
        super().__init__(predictor, batches, settings)
        self.flat = flat

    def score(self, batches: EntityGenerator, tuned: dict | None = None) -> Evaluation:
        """Score the records of batches by the thresholds of `tuned`, or by their own best ones."""
        candidates, settings = predict_entities(self.predictor, batches, self.flat), self.settings
        path, thresholds = project_path(settings.dev_file), thresholds_of(tuned)
        shown = settings.shown_examples
        return evaluate(batches.examples, candidates, path, settings, thresholds, shown)


def monitor_of(settings: Settings) -> str:
    """Return the name of the score that chooses the best epoch."""
    return "f1" if settings.beta == 1 else "f_beta"


def name_score(settings: Settings) -> str:
    """Return the name that is printed for this score."""
    return "F1" if settings.beta == 1 else f"F{settings.beta:g}"


def thresholds_of(scores: dict | None) -> Thresholds | None:
    """Return the thresholds that some scores hold; None stays None: they are tuned."""
    if scores is None:
        return None
    one = scores["threshold"]
    return defaultdict(lambda: one, scores["thresholds"])


def load_thresholds(folders: Sequence[Path]) -> Thresholds:
    """Return the thresholds of some runs: for each type their mean.

    Raises:
        InputError: a run has none.
    """
    kinds: set[str] = set()
    every = []
    for folder in folders:
        one = tuned_threshold([folder])
        # A fold has the thresholds of its cross-validation, once that is finished.
        is_fold = "fold" in read_json(folder / "config.json")
        scores = (is_fold and read_scores(folder.parent)) or read_scores(folder)
        own = scores["dev"].get("thresholds") or {}
        # A type without a threshold of its own has the one of all types.
        every.append(defaultdict(lambda one=one: one, own))
        kinds |= {*own}
    usual = tuned_threshold(folders)
    means = {kind: sum(own[kind] for own in every) / len(every) for kind in kinds}
    return defaultdict(lambda: usual, means)


def describe(example: Example, predicted: Sequence[Entity], most: int = 8) -> str:
    """Return a text with its gold and its predicted entities, at most `most` of each."""

    def words(entities: Sequence[Entity]) -> str:
        text = example.text
        listed = [f"{text[slice(*e.span)]} ({e.type})" for e in entities[:most]]
        more = [f"and {len(entities) - most} more"] if len(entities) > most else []
        return excerpt("; ".join(listed + more), most=800)

    gold, found = words(example.entities), words(predicted)
    spans = [entity.span for entity in (*example.entities, *predicted)]
    shown = excerpt(example.text, spans)
    return f"{shown}\n  gold:      {gold}\n  predicted: {found}\n"

"""Score predictions, and show some of them as text."""

from collections.abc import Sequence
from pathlib import Path

from core.base.files import project_path
from core.base.words import excerpt
from core.data.records import Id, name_file
from core.scores.evaluation import DevScorer, Evaluation
from formats.records import prediction_records
from library.graph import Graph, sort_key
from task.data import EventGenerator
from task.decode import keep_events, predict_events
from task.metrics import score, tune_threshold
from task.records import Event, Example


def evaluate(
    examples: Sequence[Example],
    graphs: dict[Id, Graph],
    path: Path,
    metric: str,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the graphs of all examples of a file.

    Args:
        examples: read from `path`, with their gold.
        graphs: from `predict_events`.
        path: named in the scores.
        metric: chooses the threshold; DuEE's uses that of argument classification.
        threshold: of `eased` probabilities; None: the best one for these examples.
        shown: how many examples to show as text.
    """
    tuned: dict = {"threshold": threshold}
    if threshold is None:
        # DuEE's metric rewards every overlapping guess: its best threshold would accept everything.
        tuned_by = "argument_classification" if metric == "duee" else metric
        tuned = tune_threshold(examples, graphs, tuned_by)
    events = keep_events(graphs, tuned["threshold"])
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, events)},
        predictions=prediction_records(examples, graphs, events),
        shown=[describe(example, events[example.id]) for example in examples[:shown]],
    )


class EventScorer(DevScorer):
    """Scores dev with the current weights of a training."""

    def score(self, batches: EventGenerator, tuned: dict | None = None) -> Evaluation:
        """Score batches with the threshold in `tuned` (only extras pass it), or with the best."""
        graphs, settings = predict_events(self.predictor, batches), self.settings
        path, threshold = project_path(settings.dev_file), (tuned or {}).get("threshold")
        return evaluate(
            batches.examples, graphs, path, settings.metric, threshold, settings.shown_examples
        )


def describe(example: Example, predicted: Sequence[Event], most: int = 6) -> str:
    """Return a text with its gold and its predicted events, at most `most` of each."""

    def words(events: Sequence[Event]) -> str:
        listed = []
        for event in sorted(events, key=sort_key)[:most]:
            parts = [
                ("" if role is None else f"{role}=") + example.text[slice(*span)]
                for role, span in event.nodes()
            ]
            listed.append(f"{event.type}: {' | '.join(parts)}")
        more = [f"and {len(events) - most} more"] if len(events) > most else []
        return excerpt("; ".join(listed + more), most=800)

    gold, found = words(example.events), words(predicted)
    spans = [span for event in (*example.events, *predicted) for _, span in event.nodes()]
    shown = excerpt(example.text, spans)
    return f"{shown}\n  gold:      {gold}\n  predicted: {found}\n"

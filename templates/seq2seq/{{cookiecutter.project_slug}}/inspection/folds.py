"""What a cross-validation (extras/folds) asks of the task."""

from collections.abc import Hashable, Iterator, Sequence

from core.base.files import project_path
from core.data.records import Id
from core.scores.evaluation import Evaluation
from generation.texts import Written
from task.evaluation import evaluate
from task.records import Example
from task.settings import Settings


def fold_keys(examples: Sequence[Example]) -> Iterator[tuple[tuple[str, ...], Hashable]]:
    """Yield the texts of each example, which keep it in one fold with others, and its kind.

    Examples with equal sources share a fold; all are of one kind.
    """
    return (((example.source,), 0) for example in examples)


def score_held_out(
    settings: Settings, examples: Sequence[Example], written: dict[Id, Written]
) -> Evaluation:
    """Score all training examples by the texts of the models that never saw them."""
    return evaluate(examples, written, project_path(settings.train_file), settings)

"""What a cross-validation (extras/folds) asks of the task."""

from collections.abc import Hashable, Iterator, Sequence

from core.base.files import project_path
from core.scores.evaluation import Evaluation
from task.decode import Candidates
from task.evaluation import evaluate
from task.records import Example
from task.settings import Settings


def fold_keys(examples: Sequence[Example]) -> Iterator[tuple[tuple[str, ...], Hashable]]:
    """Yield the texts of each example, which keep it in one fold with others, and its kind.

    Each fold gets its share of each kind.
    """
    return (((example.text,), len(example.triples)) for example in examples)


def score_held_out(
    settings: Settings, examples: Sequence[Example], candidates: Candidates
) -> Evaluation:
    """Score all training examples by the candidates of the models that never saw them."""
    return evaluate(examples, candidates, project_path(settings.train_file))

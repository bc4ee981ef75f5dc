"""What a cross-validation (extras/folds) asks of the task."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from core.base.extras import need
from core.base.files import project_path
from core.scores.evaluation import Evaluation
from floor import score_floor
from task.data import Example, collect_targets
from task.decode import Candidates
from task.evaluation import evaluate
from task.settings import Settings


def fold_keys(examples: Sequence[Example]) -> Iterator[tuple[tuple[str, ...], Hashable]]:
    """Yield the texts of each example, which keep it in one fold with others, and its kind.

    Each fold gets its share of each kind.
    """
    kinds: Iterator[Hashable] = (example.labels for example in examples)
    if hasattr(examples[0], "numbers"):
        kinds = iter(need("competition", "targets").strata(examples))
    return zip(map(shared_texts, examples), kinds, strict=True)


def shared_texts(example: Example) -> tuple[str, ...]:
    """Return the texts of an example, and its groups: no two folds may share one of these.

    The choices of a question are no such texts: many questions have the choice "Yes".
    """
    own = example.texts[:-1] if getattr(example, "choice", "") else example.texts
    texts = tuple(text for text in own if text.strip()) or (f"\n{example.id}",)
    groups = (("group", example.group), ("fold group", example.fold_group))
    return (*texts, *(f"{name}\n{group}" for name, group in groups if group is not None))


def score_held_out(
    settings: Settings, examples: Sequence[Example], candidates: Candidates
) -> Evaluation:
    """Score all training examples by the candidates of the models that never saw them."""
    labels = collect_targets(examples, settings)
    return evaluate(examples, candidates, labels, project_path(settings.train_file), settings)


def score_floor_held_out(
    settings: Settings, examples: Sequence[Example], fold_of: np.ndarray
) -> dict[str, Evaluation]:
    """Score the classical model in the same way, and print that; empty: it is not to be trained.

    Args:
        settings: `floor`.
        examples: all training examples.
        fold_of: the fold that holds out each of them.
    """
    return score_floor(settings, examples, examples, fold_of) if settings.floor else {}

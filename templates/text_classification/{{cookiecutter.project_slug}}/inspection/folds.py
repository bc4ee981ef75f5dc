"""What a cross-validation (extras/folds) asks of the task."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from scipy import sparse

from core.base.extras import need
from core.base.files import project_path
from core.base.words import excerpt
from core.data.checks import normalise
from core.scores.evaluation import Evaluation
from floor import score_floor
from task.decode import Candidates
from task.evaluation import evaluate
from task.metrics import choose_metric
from task.records import Example, collect_targets
from task.settings import Settings

# A column of texts keeps records together unless it ties more than so many of them into one group:
# this share, but at least so many. Such a column is a rule, a topic, or a code, rather than a text.
MOST_TIED, FEW_TIED = 0.1, 20


def fold_keys(examples: Sequence[Example]) -> Iterator[tuple[tuple[str, ...], Hashable]]:
    """Yield what keeps each example in one fold with others, and its kind.

    These are its groups, and its texts from the columns that `tying_columns` names. Each fold gets
    its share of each kind.
    """
    kinds: Iterator[Hashable] = (example.labels for example in examples)
    if hasattr(examples[0], "numbers"):
        kinds = iter(need("competition", "targets").strata(examples))
    columns = tying_columns(examples)
    keys = (texts_and_groups(example, columns) for example in examples)
    return zip(keys, kinds, strict=True)


def texts_and_groups(example: Example, columns: Sequence[int]) -> tuple[str, ...]:
    """Return what no two folds may share: all texts together, those of some columns, the groups."""
    texts = own_texts(example)
    tying = [texts[column] for column in columns if column < len(texts)]
    whole = ["\n".join(texts)] if len(tying) < len(texts) else []
    found = [text for text in (*tying, *whole) if text.strip()] or [f"\n{example.id}"]
    groups = (("group", example.group), ("fold group", example.fold_group))
    return (*found, *(f"{name}\n{group}" for name, group in groups if group is not None))


def own_texts(example: Example) -> tuple[str, ...]:
    """Return the texts of an example, but no choice: many questions have the choice "Yes"."""
    return example.texts[:-1] if getattr(example, "choice", "") else example.texts


def tying_columns(examples: Sequence[Example]) -> list[int]:
    """Return the columns of texts that keep records together; say which ones do not.

    Columns are tried in turn, the one with the most different texts first. A column is added if
    then no group of records that share a text is larger than `MOST_TIED` allows.
    """
    texts = [own_texts(example) for example in examples]
    columns = range(max(map(len, texts)))
    if len(columns) < 2:
        return [*columns]
    numbers = number_texts(texts, len(columns))
    whole = numbers.max() + 1 + np.unique(numbers, axis=1, return_inverse=True)[1].ravel()
    tying: list[int] = []
    for column in sorted(columns, key=lambda one: -len(np.unique(numbers[one]))):
        largest = largest_group(np.stack([whole, *numbers[[*tying, column]]]))
        if largest <= max(MOST_TIED * len(texts), FEW_TIED):
            tying.append(column)
            continue
        shown = excerpt(next((own[column] for own in texts if len(own) > column), ""), most=40)
        print(
            f"text {column + 1} of the records, such as {shown!r}, keeps none of them together: "
            f"it would tie {largest} of {len(texts)}. To keep some together, name their column "
            "with competition.fold_group_column."
        )
    return sorted(tying)


def number_texts(texts: Sequence[tuple[str, ...]], columns: int) -> np.ndarray:
    """Return a number for each text `[columns, records]`; equal texts have the same one."""
    known: dict[str, int] = {}
    numbers = np.empty((columns, len(texts)), int)
    for row, own in enumerate(texts):
        for column in range(columns):
            text = normalise(own[column]) if column < len(own) else ""
            # An absent or empty text is like no other: normalised ones have no line break.
            numbers[column, row] = known.setdefault(text or f"\n{row}", len(known))
    return numbers


def largest_group(numbers: np.ndarray) -> int:
    """Return how many records the largest group has of those that share a number.

    >>> largest_group(np.array([[1, 2, 3, 4], [5, 5, 6, 6]]))  # two and two
    2
    >>> largest_group(np.array([[1, 2, 2, 4], [5, 5, 6, 6]]))  # the second and the third tie them
    4
    """
    records, nodes = numbers.shape[1], numbers.shape[1] + numbers.max() + 1
    rows = np.tile(np.arange(records), len(numbers))
    ends = records + numbers.ravel()
    links = sparse.csr_array((np.ones(len(rows)), (rows, ends)), (nodes, nodes))
    groups = sparse.csgraph.connected_components(links, directed=False)[1]
    return int(np.bincount(groups[:records]).max())


def settle_metric(settings: Settings, examples: Sequence[Example]) -> Settings:
    """Return settings by which all folds are scored alike: `auto` depends on the examples."""
    metric = choose_metric(settings.metric, collect_targets(examples, settings), examples)
    return settings.model_copy(update={"metric": metric.removeprefix("neg_")})


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

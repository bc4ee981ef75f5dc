"""Cross-validation: each example is scored by the model of the fold that held it out."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold

from common.callbacks import Evaluation
from common.data_checks import normalise
from common.errors import InputError
from common.files import write_json, write_json_lines
from common.run_folder import Run, read_scores

AnyExample = TypeVar("AnyExample")


def assign_folds(texts: Sequence[tuple[str, ...]], folds: int, seed: int) -> np.ndarray:
    """Return the fold `[examples]`, from 0, that holds each example out.

    Examples that share a text share a fold, and so do those that are linked by others: no fold is
    scored on a text that its model has learned from.

    Args:
        texts: of each example, one or more; case and white space make no difference.
        folds: how many.
        seed: of the assignment, which depends on nothing else.

    Raises:
        InputError: there are fewer groups of texts than folds.
    """
    number: dict[str, int] = {}
    pairs = [
        (row, number.setdefault(normalise(text), len(number)))
        for row, group in enumerate(texts)
        for text in group
    ]
    rows, columns = np.array(pairs).T
    holds = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(texts), len(number)))
    links = sparse.bmat([[None, holds], [holds.T, None]])
    _, component = sparse.csgraph.connected_components(links, directed=False)
    groups = component[: len(texts)]
    count = len(np.unique(groups))
    if count < folds:
        raise InputError(
            f"folds = {folds}, but the training file has {count} groups of records that share no "
            f"text: set folds to {count} at the most."
        )
    fold_of = np.empty(len(texts), int)
    splitter = GroupKFold(folds, shuffle=True, random_state=seed)
    for fold, (_, held_out) in enumerate(splitter.split(groups, groups=groups)):
        fold_of[held_out] = fold
    return fold_of


def open_folds(
    run: Run, examples: Sequence[AnyExample], fold_of: np.ndarray
) -> Iterator[tuple[Run, list[AnyExample], list[AnyExample]]]:
    """Yield the run of each fold, the examples that it learns from, and those it holds out.

    Args:
        run: of the whole cross-validation, from `open_run`.
        examples: all of the training file.
        fold_of: from `assign_folds`.
    """
    for fold in range(fold_of.max() + 1):
        kept = [example for example, own in zip(examples, fold_of, strict=True) if own != fold]
        held_out = [example for example, own in zip(examples, fold_of, strict=True) if own == fold]
        yield run.open_fold(fold + 1), kept, held_out


def finish_folds(run: Run, evaluation: Evaluation, monitor: str, facts: dict) -> list[dict]:
    """Write the out-of-fold scores and predictions, and mark the cross-validation as finished.

    Args:
        run: of the whole cross-validation.
        evaluation: of all examples, each by the model that held it out.
        monitor: the score that decides.
        facts: what a score must be read with; from `circumstances`.
    """
    scores = [read_scores(folder) for folder in run.fold_folders()]
    write_json_lines(run.folder / "predictions" / "dev.jsonl", evaluation.predictions)
    write_json(
        run.folder / "scores.json",
        {
            **facts,
            "monitor": monitor,
            "dev": evaluation.scores,
            "folds": [{monitor: fold["dev"][monitor]} for fold in scores],
            "minutes": round(sum(fold["minutes"] for fold in scores), 2),
            "finished": max(fold["finished"] for fold in scores),
        },
    )
    return evaluation.predictions

"""Cross-validation: each example is scored by the model of the fold that held it out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold

from core.base.errors import InputError
from core.base.files import write_json, write_json_lines
from core.base.settings import RecordSettings
from core.data.data_checks import normalise
from core.runs.run_folder import Run, finish_run, fold_folders, read_scores
from core.train.scoring import Evaluation

AnyExample = TypeVar("AnyExample")


def assign_folds(texts: Sequence[tuple[str, ...]], folds: int, seed: int) -> np.ndarray:
    """Return the fold `[examples]`, from 0, that holds each example out.

    Examples that share a text share a fold, and so do those that are linked by others: no fold is
    scored on a text that its model has learned from.

    Args:
        texts: of each example, one or more; case and white space make no difference.
        folds: how many; the assignment depends on `seed` and on nothing else.

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


def cross_validate(
    settings: RecordSettings,
    run: Run,
    examples: Sequence[AnyExample],
    texts: Sequence[tuple[str, ...]],
    train: Callable[[Run, list[AnyExample], list[AnyExample]], None],
    predict: Callable[[Path, list[AnyExample]], dict[str, Any]],
) -> dict[str, Any]:
    """Train on all folds but one, in turn; predict each example by the model that never saw it.

    Args:
        run: of the whole cross-validation; `examples` are all of the training file.
        texts: of each example; those that share one share a fold.
        train: trains the run of a fold on the examples that it keeps, and scores those that it
            holds out.
        predict: from the folder of a trained run and examples to what is found, by record id.
    """
    fold_of = assign_folds(texts, settings.folds, settings.seed)
    found: dict[str, Any] = {}
    for number in range(settings.folds):
        fold = run.open_fold(number + 1)
        kept = [example for example, own in zip(examples, fold_of, strict=True) if own != number]
        held = [example for example, own in zip(examples, fold_of, strict=True) if own == number]
        if not fold.finished:
            print(f"{fold.name}: {len(kept)} examples to learn from, {len(held)} held out")
            train(fold, kept, held)
            finish_run(fold)
        found |= predict(fold.folder, held)
    return found


def finish_folds(run: Run, evaluation: Evaluation, monitor: str, facts: dict) -> list[dict]:
    """Write the out-of-fold scores and predictions, and mark the cross-validation as finished.

    `evaluation` is of all examples, each by the model that held it out.
    """
    scores = [read_scores(folder) for folder in fold_folders(run.folder)]
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

"""Cross-validation: each example is scored by the model of the fold that held it out."""

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from core.base.errors import InputError
from core.base.files import read_json, write_json, write_json_lines
from core.data.checks import normalise
from core.runs.provenance import provenance
from core.runs.run import Run
from core.scores.evaluation import Evaluation
from extras.folds.settings import Settings

# The texts of an example, which link it to others, and its kind, spread evenly over the folds.
Key = tuple[tuple[str, ...], Hashable]


@dataclass
class Fold(Run):
    """The run of one fold of a cross-validation."""

    cross_validation: Run = field(kw_only=True)

    def begin(self) -> None:
        self.cross_validation.begin()
        super().begin()


def open_fold(cross_validation: Run, number: int) -> Fold:
    """Return the run of a fold, numbered from 1; an interrupted one continues where it was."""
    folder = cross_validation.folder / f"fold_{number}"
    if cross_validation.new_config is None and (folder / "config.json").is_file():
        return Fold(folder, cross_validation=cross_validation)
    config = cross_validation.new_config or read_json(cross_validation.folder / "config.json")
    new_config = {**config, "fold": number}
    return Fold(folder, new_config=new_config, cross_validation=cross_validation)


def choose(examples: Sequence[Any], positions: np.ndarray) -> Sequence[Any]:
    """Return the examples at some positions; examples of extras/cache stay in their file."""
    if hasattr(examples, "choose"):
        return examples.choose(positions)
    return [examples[position] for position in positions]


def keep_scores_of_folds(
    run: Run, folds: list[dict], evaluation: Evaluation, settings: Settings
) -> None:
    """Write the scores of all held-out examples, and those of each fold.

    Args:
        folds: the scores of each.
    """
    monitor = folds[0]["monitor"]
    run.position.seconds = 60 * sum(fold["minutes"] for fold in folds)
    run.position.epoch = max(fold["epochs"] for fold in folds)
    write_json_lines(run.folder / "predictions" / "dev.jsonl", evaluation.predictions)
    write_json(
        run.folder / "scores.json",
        {
            **provenance(settings),
            "monitor": monitor,
            "dev": evaluation.scores,
            "folds": [{monitor: fold["dev"][monitor]} for fold in folds],
        },
    )


def assign_folds(keys: Sequence[Key], folds: int, seed: int) -> np.ndarray:
    """Return the fold `[examples]`, from 0, that holds each example out.

    Examples with the same text share a fold, and so do linked examples, so no fold is scored on a
    text that its model was trained on. Each fold has its share of each kind.

    Args:
        keys: texts of each example, compared without case and white space, and its kind.
        folds: their number; the assignment depends only on `seed`.

    Raises:
        InputError: fewer groups of texts than folds.
    """
    groups = link_texts(keys)
    count = len(np.unique(groups))
    if count < folds:
        mend = f"set it to {count} at the most" if count > 1 else "set it to 0, and name a dev_file"
        raise InputError(
            f"folds.count = {folds}, but the training file has {count} "
            f"{'group' if count == 1 else 'groups'} of records that share no text: {mend}."
        )
    kinds = [kind for _, kind in keys]
    # A kind with fewer records than folds can't be in each fold, so all such kinds count as one.
    common = [kind for kind, number in Counter(kinds).most_common() if number >= folds]
    number_of = {kind: number for number, kind in enumerate(common, start=1)}
    strata = np.array([number_of.get(kind, 0) for kind in kinds])
    if len(np.unique(strata)) > 1:
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
        fold_of = held_out_by(splitter, strata, groups)
        if len(np.unique(fold_of)) == folds:  # otherwise there are too few groups of each kind
            return fold_of
    # The largest group goes first, into the smallest fold, because shuffling ignores sizes.
    order = np.random.default_rng(seed).permutation(count)
    return held_out_by(GroupKFold(folds), strata, order[groups])


def link_texts(keys: Sequence[Key]) -> np.ndarray:
    """Return the group `[examples]` of each example; examples linked by texts share a group."""
    number: dict[str, int] = {}
    pairs = [
        (row, number.setdefault(normalise(text), len(number)))
        for row, (texts, _) in enumerate(keys)
        for text in texts
    ]
    rows, columns = np.array(pairs).T
    holds = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(keys), len(number)))
    links = sparse.bmat([[None, holds], [holds.T, None]])
    return sparse.csgraph.connected_components(links, directed=False)[1][: len(keys)]


def held_out_by(
    splitter: GroupKFold | StratifiedGroupKFold, strata: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Return the fold `[examples]` of each example, from a scikit-learn splitter."""
    fold_of = np.empty(len(groups), int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rare kinds
        for fold, (_, held_out) in enumerate(splitter.split(groups, strata, groups)):
            fold_of[held_out] = fold
    return fold_of


def describe_folds(fold_of: np.ndarray, groups: np.ndarray) -> None:
    """Print how many examples each fold holds out, and warn if one holds out too many."""
    sizes, largest = np.bincount(fold_of), max(np.bincount(groups))
    print(f"{len(sizes)} folds of {', '.join(map(str, sizes))} records")
    if max(sizes) > 2 * len(fold_of) / len(sizes):
        mend = int(2 * len(fold_of) / largest)
        ways = [f"set folds.count to {mend}"] if 2 <= mend < len(sizes) else []
        ways.append("set folds.count to 0 and name a dev_file that shares no text")
        print(
            f"warning: the largest fold holds out {max(sizes)} of {len(fold_of)} records, for "
            f"{largest} are linked by texts that they share, and stay together: "
            f"{', or '.join(ways)}."
        )

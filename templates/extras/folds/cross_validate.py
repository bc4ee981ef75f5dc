"""Train once for each fold; every training record is scored by the model that never saw it.

python extras/folds/cross_validate.py --folds.count 5 [--KEY VALUE ...]     flags as of train.py
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs

import numpy as np  # noqa: E402

import train  # noqa: E402
from core.base.errors import InputError, command  # noqa: E402
from core.base.settings import read_settings  # noqa: E402
from core.base.workers import all_workers  # noqa: E402
from core.devices.strategy import make_strategy  # noqa: E402
from core.runs.finishing import end_training, finish_run  # noqa: E402
from core.runs.opening import open_run  # noqa: E402
from core.runs.scores import read_scores  # noqa: E402
from extras.folds.folds import (  # noqa: E402
    assign_folds,
    choose,
    describe_folds,
    keep_scores_of_folds,
    link_texts,
    open_fold,
)
from inspection import folds as task_folds  # noqa: E402
from task.prediction import load_runs, predict  # noqa: E402
from task.settings import Settings  # noqa: E402


@command
def main() -> None:
    """Train on all folds but one, in turn; predict each example by the model that held it out."""
    settings = read_settings(Settings)
    count = settings.folds.count
    if not count:
        raise InputError("folds.count = 0 asks for no fold: name them with --folds.count 5.")
    examples, _ = train.read_files(settings)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    if all_workers().count > 1:
        raise InputError(
            f"folds.count = {count} trains one fold after another on one machine: leave the "
            "cluster, or train each worker's own runs with strategy = single."
        )
    keys = list(task_folds.fold_keys(examples))
    fold_of = assign_folds(keys, count, settings.seed)
    describe_folds(fold_of, link_texts(keys))
    # Text classification has a classical model to compare with: it is cross-validated too.
    score_floor = getattr(task_folds, "score_floor_held_out", None)
    floor = [score_floor(settings, examples, fold_of)] if score_floor else []
    settle_metric = getattr(task_folds, "settle_metric", None)
    alike = settle_metric(settings, examples) if settle_metric else settings
    folds = [open_fold(run, number + 1) for number in range(count)]
    found: dict = {}
    for number, fold in enumerate(folds):
        kept = choose(examples, np.flatnonzero(fold_of != number))
        held_out = choose(examples, np.flatnonzero(fold_of == number))
        if fold.new_config is not None or "finished" not in read_scores(fold.folder):
            print(f"{fold.name}: {len(kept)} examples to learn from, {len(held_out)} held out")
            train.train(alike, strategy, fold, examples, kept, held_out)
            end_training(fold)
            finish_run(fold)
        found |= predict(load_runs([fold.folder], strategy), held_out)
    evaluation = task_folds.score_held_out(settings, examples, found)
    keep_scores_of_folds(run, [read_scores(fold.folder) for fold in folds], evaluation, settings)
    train.report(settings, run, examples, *floor)


if __name__ == "__main__":
    main()

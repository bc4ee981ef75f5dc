"""Train a classifier on train_file, score dev_file after each epoch, keep the best in runs/<name>.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
python train.py --folds.count 5          with extras/folds: five trainings, each scored on its fifth
"""

import functools

from core.base.errors import command
from core.base.extras import ask
from core.base.files import project_path
from core.base.settings import read_settings
from core.report.report import write_report
from core.runs.finishing import end_training, finish_run
from core.runs.opening import open_run
from core.devices.strategy import make_strategy
from floor import keep_floor, score_floor
from task.data import check_kind, collect_targets, fold_keys, read_examples
from task.evaluation import evaluate, find_errors
from task.metrics import choose_metric
from task.settings import Settings
from task.training import load_runs, predict, train


@command
def main() -> None:
    """Read, train the classical model, train once or once for each fold, report."""
    settings = read_settings(Settings)
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    examples, dev_examples = (read_examples(p, True, settings) for p in (train_path, dev_path))
    labels = collect_targets(examples, settings)
    check_kind(dev_examples, labels, dev_path)
    metric = choose_metric(settings.metric, labels, dev_examples)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    floor = score_floor(settings, labels, examples, dev_examples) if settings.floor else {}
    shown = metric.removeprefix("neg_")  # an error decides by what is less
    for name, evaluation in floor.items():
        print(f"floor: {name} {shown} {evaluation.scores[shown]:.4f}")
    keys = fold_keys(examples)
    score = functools.partial(
        evaluate, dev_examples, labels=labels, path=dev_path, settings=settings
    )
    if not ask(
        "cross_validate", settings, strategy, run, examples, keys, train, load_runs, predict, score
    ):
        train(settings, strategy, run, examples, examples, dev_examples, dev_path)
    errors = find_errors(dev_examples, end_training(run), labels)
    below: tuple = ({}, [])
    beside = ""
    if floor:
        dev = floor["dev"]
        below = dev.scores, find_errors(dev_examples, dev.predictions, labels)
        beside = f", the floor's {dev.scores[shown]:.4f}"
        keep_floor(settings, metric, floor)
    write_report(run.folder, settings.task, errors, below)
    finish_run(run)
    best = abs(run.best_score()) if shown != metric else run.best_score()
    print(f"best dev {shown} {best:.4f}{beside}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

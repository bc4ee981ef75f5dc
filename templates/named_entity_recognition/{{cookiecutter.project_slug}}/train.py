"""Train on train_file, score dev_file after each epoch, keep the best in runs/<run_name>.

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
from task.data import read_examples
from task.evaluation import evaluate, find_errors, name_score
from task.settings import Settings
from task.training import load_runs, predict, train


@command
def main() -> None:
    """Read, train once or, with extras/folds, once for each fold, report."""
    settings = read_settings(Settings)
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    examples, dev_examples = (read_examples(path, settings) for path in (train_path, dev_path))
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    keys = (((example.text,), len(example.entities)) for example in examples)
    score = functools.partial(evaluate, dev_examples, path=dev_path, settings=settings)
    if not ask(
        "cross_validate", settings, strategy, run, examples, keys, train, load_runs, predict, score
    ):
        train(settings, strategy, run, examples, examples, dev_examples, dev_path)
    predictions = end_training(run)
    write_report(run.folder, settings.task, find_errors(dev_examples, predictions))
    finish_run(run)
    print(f"best dev {name_score(settings)} {run.best_score():.4f}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

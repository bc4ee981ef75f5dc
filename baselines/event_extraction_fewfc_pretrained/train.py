"""Train on train_file, score dev_file after each epoch, keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
python train.py --folds 5                cross-validate: five trainings, each scored on its fifth
"""

from pathlib import Path

from common.errors import command
from common.folds import assign_folds, finish_folds, open_folds
from common.report import write_report
from common.run_folder import Run, circumstances, finish_run, open_run
from common.settings import project_path, read_settings
from common.strategy import Strategy, make_strategy
from task.data import Example, read_examples
from task.evaluation import evaluate, find_errors
from task.loading import load_runs
from task.settings import Settings
from task.training import train


@command
def main() -> None:
    """Read, train once or once for each fold, report."""
    settings = read_settings(Settings)
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    examples = read_examples(train_path)
    scored = examples if settings.folds else read_examples(dev_path)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    if settings.folds:
        predictions = cross_validate(settings, strategy, run, examples, train_path)
    else:
        train(settings, strategy, run, examples, examples, scored, dev_path)
        predictions = finish_run(run)
    write_report(run.folder, "Event extraction", find_errors(scored, predictions))
    print(f"best dev {settings.metric} F1 {run.best_score():.4f}; see {run.name}/report.html")


def cross_validate(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    examples: list[Example],
    path: Path,
) -> list[dict]:
    """Train on all folds but one, in turn; score each example by the model that never saw it."""
    fold_of = assign_folds([(example.text,) for example in examples], settings.folds, settings.seed)
    candidates = {}
    for fold, kept, held_out in open_folds(run, examples, fold_of):
        if not fold.finished:
            print(f"{fold.name}: {len(kept)} examples to learn from, {len(held_out)} held out")
            train(settings, strategy, fold, examples, kept, held_out, path)
            finish_run(fold)
        candidates |= load_runs([fold.folder], strategy).predict(held_out, "predict")
    evaluation = evaluate(examples, candidates, path, settings.metric)
    return finish_folds(run, evaluation, f"{settings.metric}_f1", circumstances(settings))


if __name__ == "__main__":
    main()

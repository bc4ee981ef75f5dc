"""Train a pointer to answers on train_file, score dev_file after each epoch, keep the best.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
python train.py --folds 5                cross-validate: five trainings, each scored on its fifth
"""

from pathlib import Path

from core.base.errors import command
from core.base.files import project_path
from core.base.settings import read_settings
from core.report.folds import cross_validate, finish_folds
from core.report.report import write_report
from core.runs.run_folder import Run, finish_run, open_run, provenance
from core.train.devices import Strategy, make_strategy
from task.data import Example, read_examples
from task.decode import Candidates
from task.evaluation import evaluate, find_errors
from task.settings import Settings
from task.training import load_runs, predict, train


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
        predictions = train_folds(settings, strategy, run, examples, train_path)
    else:
        train(settings, strategy, run, examples, examples, scored, dev_path)
        predictions = finish_run(run)
    errors = find_errors(scored, predictions, settings.metric)
    write_report(run.folder, "Reading comprehension", errors)
    print(f"best dev F1 {run.best_score():.4f}; see {run.name}/report.html")


def train_folds(
    settings: Settings, strategy: Strategy, run: Run, examples: list[Example], path: Path
) -> list[dict]:
    """Train on all folds but one, in turn; score each question by the model that never saw it."""

    def train_fold(fold: Run, kept: list[Example], held_out: list[Example]) -> None:
        train(settings, strategy, fold, examples, kept, held_out, path)

    def predict_fold(folder: Path, held_out: list[Example]) -> Candidates:
        return predict(load_runs([folder], strategy), held_out)

    passages = [(example.context,) for example in examples]
    candidates = cross_validate(settings, run, examples, passages, train_fold, predict_fold)
    evaluation = evaluate(examples, candidates, path, settings)
    return finish_folds(run, evaluation, "f1", provenance(settings))


if __name__ == "__main__":
    main()

"""Train a classifier on train_file, score dev_file after each epoch, keep the best in runs/<name>.

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
from floor import keep_floor, score_floor
from task.data import Example, Labels, check_kind, collect_labels, read_examples, shared_texts
from task.decode import Candidates
from task.evaluation import evaluate, find_errors
from task.metrics import choose_metric
from task.settings import Settings
from task.training import load_runs, predict, train


@command
def main() -> None:
    """Read, train the classical model, train once or once for each fold, report."""
    settings = read_settings(Settings)
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    examples = read_examples(train_path)
    labels = collect_labels(examples, settings.positive_label)
    scored = examples if settings.folds else read_examples(dev_path)
    check_kind(scored, labels, dev_path)
    metric = choose_metric(settings.metric, labels, scored)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    floor = score_floor(settings, labels, examples, scored) if settings.floor else {}
    for name, evaluation in floor.items():
        print(f"floor: {name} {metric} {evaluation.scores[metric]:.4f}")
    if settings.folds:
        predictions = train_folds(settings, strategy, run, examples, labels, metric)
    else:
        train(settings, strategy, run, examples, labels, examples, scored, dev_path)
        predictions = finish_run(run)
    write_report(run.folder, "Text classification", find_errors(scored, predictions))
    beside = ""
    if floor:
        keep_floor(settings, metric, floor)
        beside = f", the floor's {floor['dev'].scores[metric]:.4f}"
    print(f"best dev {metric} {run.best_score():.4f}{beside}; see {run.name}/report.html")


def train_folds(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    examples: list[Example],
    labels: Labels,
    metric: str,
) -> list[dict]:
    """Train on all folds but one, in turn; score each example by the model that never saw it."""
    path = project_path(settings.train_file)

    def train_fold(fold: Run, kept: list[Example], held_out: list[Example]) -> None:
        train(settings, strategy, fold, examples, labels, kept, held_out, path)

    def predict_fold(folder: Path, held_out: list[Example]) -> Candidates:
        return predict(load_runs([folder], strategy), held_out)

    texts = [shared_texts(example) for example in examples]
    candidates = cross_validate(settings, run, examples, texts, train_fold, predict_fold)
    evaluation = evaluate(examples, candidates, labels, path)
    return finish_folds(run, evaluation, metric, provenance(settings))


if __name__ == "__main__":
    main()

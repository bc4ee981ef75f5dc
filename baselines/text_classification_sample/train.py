"""Train a classifier on train_file, score dev_file after each epoch, keep the best in runs/<name>.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
python train.py --folds 5                cross-validate: five trainings, each scored on its fifth
"""

from common.errors import command
from common.folds import assign_folds, finish_folds, open_folds
from common.report import write_report
from common.run_folder import Run, circumstances, finish_run, open_run
from common.settings import project_path, read_settings
from common.strategy import Strategy, make_strategy
from task.data import Example, Labels, check_kind, collect_labels, read_examples, shared_texts
from task.evaluation import evaluate, find_errors
from task.floor import keep_floor, score_floor
from task.loading import load_runs
from task.metrics import choose_metric
from task.settings import Settings
from task.training import train


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
        predictions = cross_validate(settings, strategy, run, labels, examples, metric)
    else:
        texts = [text for example in examples for text in example.texts]
        train(settings, strategy, run, labels, texts, examples, scored, dev_path)
        predictions = finish_run(run)
    write_report(run.folder, "Text classification", find_errors(scored, predictions))
    beside = ""
    if floor:
        keep_floor(settings, metric, floor)
        beside = f", the floor's {floor['dev'].scores[metric]:.4f}"
    print(f"best dev {metric} {run.best_score():.4f}{beside}; see {run.name}/report.html")


def cross_validate(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    labels: Labels,
    examples: list[Example],
    metric: str,
) -> list[dict]:
    """Train on all folds but one, in turn; score each example by the model that never saw it."""
    path = project_path(settings.train_file)
    fold_of = assign_folds(
        [shared_texts(example) for example in examples], settings.folds, settings.seed
    )
    texts = [text for example in examples for text in example.texts]
    candidates = {}
    for fold, kept, held_out in open_folds(run, examples, fold_of):
        if not fold.finished:
            print(f"{fold.name}: {len(kept)} examples to learn from, {len(held_out)} held out")
            train(settings, strategy, fold, labels, texts, kept, held_out, path)
            finish_run(fold)
        candidates |= load_runs([fold.folder], strategy).predict(held_out, "predict")
    evaluation = evaluate(examples, candidates, labels, path)
    return finish_folds(run, evaluation, metric, circumstances(settings))


if __name__ == "__main__":
    main()

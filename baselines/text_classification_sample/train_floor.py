"""Train the classical model alone: TF-IDF and a linear model, in seconds, into runs/floor.

python train_floor.py [--KEY VALUE ...]        train.py does it too, unless --floor false
"""

from core.base.errors import command
from core.base.files import project_path
from core.base.settings import read_settings
from floor import keep_floor, score_floor
from task.data import check_kind, collect_targets, read_examples
from task.metrics import choose_metric
from task.settings import Settings


@command
def main() -> None:
    """Read, train, score, keep."""
    settings = read_settings(Settings)
    dev_path = project_path(settings.dev_file)
    examples = read_examples(project_path(settings.train_file), True, settings)
    dev_examples = read_examples(dev_path, True, settings)
    labels = collect_targets(examples, settings)
    check_kind(dev_examples, labels, dev_path)
    metric = choose_metric(settings.metric, labels, dev_examples)
    floor = score_floor(settings, labels, examples, dev_examples)
    keep_floor(settings, metric, floor)
    for name, evaluation in floor.items():
        shown = metric.removeprefix("neg_")
        print(f"{name} {shown} {evaluation.scores[shown]:.4f}")
    print("see runs/floor; to compare: python compare.py RUN floor")


if __name__ == "__main__":
    main()

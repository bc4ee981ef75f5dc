"""Train only the classical model, TF-IDF and a linear model, in seconds, into runs/floor.

python train_floor.py [--KEY VALUE ...]        train.py trains it too, unless --floor false
"""

from core.base.errors import command
from core.base.settings import read_settings
from floor import keep_floor, score_floor
from task.metrics import choose_metric
from task.records import collect_targets
from task.settings import Settings
from train import read_files


@command
def main() -> None:
    """Read, train, score, keep."""
    settings = read_settings(Settings)
    examples, dev_examples = read_files(settings)
    metric = choose_metric(settings.metric, collect_targets(examples, settings), dev_examples)
    keep_floor(settings, score_floor(settings, examples, dev_examples, always=True), metric)
    print("see runs/floor; to compare: python compare.py RUN floor")


if __name__ == "__main__":
    main()

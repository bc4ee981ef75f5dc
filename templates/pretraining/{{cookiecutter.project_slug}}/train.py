"""Pre-train an encoder on the shards that prepare.py wrote; keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
"""

from core.base.errors import command
from core.base.settings import read_settings
from core.report.report import write_report
from core.runs.finishing import end_training, finish_run
from core.runs.opening import open_run
from core.devices.strategy import make_strategy
from corpus.shards import hash_shards
from task.evaluation import find_errors
from task.settings import METRIC, Settings
from task.training import train


@command
def main() -> None:
    """Train once, report."""
    settings = read_settings(Settings)
    run = open_run(settings, hash_shards(settings))
    print(settings.describe())
    train(settings, make_strategy(settings), run)
    predictions = end_training(run)
    write_report(run.folder, settings.task, find_errors(predictions))
    finish_run(run)
    print(f"best dev {METRIC} {run.best_score():.4f}; see {run.name}/report.html")
    print(f"for other projects: python export.py {settings.run_name} FOLDER")


if __name__ == "__main__":
    main()

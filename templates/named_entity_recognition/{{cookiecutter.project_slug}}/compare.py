"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two scores, with its 95 % interval
python compare.py                    all runs in a table: needs extras/runs_table
"""

from typing import Any

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from core.base.settings import read_settings, saved_settings
from inspection.errors import read_prediction
from library.thresholds import f_beta
from task.evaluation import name_score
from task.metrics import count_matches, score_types
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Count the matches of two scored folders, and score each type."""
    comparison = need("comparison")
    file = run.folder / "config.json"  # the reference has none
    known = file.is_file()
    settings = saved_settings(Settings, read_json(file)) if known else read_settings(Settings, [])
    golds = read_examples(comparison.shared_gold_file(run, other), settings)
    counts, tables = [], []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        entities = {gold.id: read_prediction(*records[gold.id]) for gold in golds}
        matches = [count_matches(gold, entities[gold.id]) for gold in golds]
        counts.append(np.array([sum(own.values(), np.zeros(3, int)) for own in matches]))
        tables.append(score_types(matches))
    labels = comparison.compare_labels(*tables)
    shown = {"labels": labels, "title": "type", "per_type": labels, "label_metric": "F1"}
    shown["metric"] = name_score(settings)

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        correct, predicted, gold = (column.sum(axis) for column in columns)
        return f_beta(correct, predicted, gold, settings.beta)

    return comparison.compare_columns(*counts, statistic, **shown)


if __name__ == "__main__":
    main()

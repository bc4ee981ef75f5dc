"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, with its 95 % interval
python compare.py                    all runs in a table: needs extras/runs_table
"""

from typing import Any

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.runs.scores import read_scores
from inspection.errors import read_prediction
from task.metrics import count_matches, score_labels
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Count the matches of two scored folders by the metric of the first."""
    comparison = need("comparison")
    golds = read_examples(comparison.shared_gold_file(run, other))
    monitor = read_scores(run.folder).get("monitor", "argument_classification_f1")
    metric = monitor.removesuffix("_f1")
    title, table = "role", "per_role"
    if metric.startswith("trigger"):
        title, table = "trigger of", "per_trigger"
    counts, tables = [], []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        events = {gold.id: read_prediction(*records[gold.id])[0] for gold in golds}
        counts.append(np.array([count_matches(gold, events[gold.id], metric) for gold in golds]))
        tables.append(score_labels(golds, events, table))
    labels = comparison.compare_labels(*tables)
    shown = {"labels": labels, "title": title, "metric": f"{metric} F1", "label_metric": "F1"}
    return comparison.compare_columns(*counts, **shown, **{table: labels})


if __name__ == "__main__":
    main()

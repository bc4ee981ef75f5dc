"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, with its 95 % interval
"""

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.runs.scores import read_scores
from inspection.errors import read_prediction
from task.data import read_examples
from task.metrics import count_matches, score_labels


@command
def main() -> None:
    """Count the matches of both by the metric of the first, resample the records, print."""
    comparison = need("comparison")
    run, other = comparison.read_arguments(__doc__)
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
    total = comparison.paired_bootstrap(counts[0], counts[1])
    labels = comparison.compare_labels(*tables)
    comparison.print_comparison(
        run, other, total, labels, title, f"{metric} F1", "F1", **{table: labels}
    )


if __name__ == "__main__":
    main()

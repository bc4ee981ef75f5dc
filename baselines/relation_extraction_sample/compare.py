"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, and what chance makes of it
python compare.py                    all runs in a table: needs extras/runs_table
"""

from typing import Any

import numpy as np

from core.base.errors import command
from core.base.extras import need
from inspection.errors import read_prediction
from task.metrics import count_matches, score
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Count the matches of two scored folders, and score each predicate."""
    comparison = need("comparison")
    golds = read_examples(comparison.shared_gold_file(run, other))
    counts, scores = [], []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        triples = {gold.id: read_prediction(*records[gold.id]) for gold in golds}
        matches = [count_matches(gold, triples[gold.id]).values() for gold in golds]
        counts.append(np.array([np.sum([(0, 0, 0), *match], axis=0) for match in matches]))
        scores.append(score(golds, triples)["per_predicate"])
    labels = comparison.compare_labels(*scores)
    shown = {"title": "predicate", "per_predicate": labels}
    return comparison.compare_columns(*counts, labels=labels, **shown)


if __name__ == "__main__":
    main()

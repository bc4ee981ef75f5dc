"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, with its 95 % interval
python compare.py                    all runs in a table: needs extras/runs_table
"""

from typing import Any

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from inspection.comparison import compare_kinds, read_answer
from task.metrics import score_records
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Score the answers of two scored folders, question by question."""
    comparison = need("comparison")
    golds = read_examples(comparison.shared_gold_file(run, other))
    metric = read_json(run.folder / "scores.json")["dev"].get("metric", "squad")
    scores = []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        pairs = ((gold, *records[gold.id]) for gold in golds)
        texts = {gold.id: read_answer(place, record, gold) for gold, place, record in pairs}
        scores.append(score_records(golds, texts, metric))
    first, second = scores
    kinds = compare_kinds(golds, first, second)
    shown = {"labels": kinds, "title": "answer", "per_answer": kinds}
    return comparison.compare_columns(first[:, 1:], second[:, 1:], np.mean, **shown)


if __name__ == "__main__":
    main()

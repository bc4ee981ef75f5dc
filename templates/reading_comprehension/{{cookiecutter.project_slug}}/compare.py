"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, with its 95 % interval
"""

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from inspection.comparison import compare_kinds, read_answer
from task.data import read_examples
from task.metrics import score_records


@command
def main() -> None:
    """Score the answers of both, resample the questions, print."""
    comparison = need("comparison")
    run, other = comparison.read_arguments(__doc__)
    golds = read_examples(comparison.shared_gold_file(run, other))
    metric = read_json(run.folder / "scores.json")["dev"].get("metric", "squad")
    scores = []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        pairs = ((gold, *records[gold.id]) for gold in golds)
        texts = {gold.id: read_answer(place, record, gold) for gold, place, record in pairs}
        scores.append(score_records(golds, texts, metric))
    first, second = scores
    total = comparison.paired_bootstrap(first[:, 1:], second[:, 1:], np.mean)
    kinds = compare_kinds(golds, first, second)
    comparison.print_comparison(run, other, total, kinds, "answer", per_answer=kinds)


if __name__ == "__main__":
    main()

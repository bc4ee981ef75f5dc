"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two F1 scores, and what chance makes of it
"""

from core.base.errors import command
from core.base.files import read_json
from core.report.comparison import (
    mean_score,
    paired_bootstrap,
    print_comparison,
    read_arguments,
    read_predictions,
    shared_gold_file,
)
from task.comparison import compare_kinds, read_answer
from task.data import read_examples
from task.metrics import score_records


@command
def main() -> None:
    """Score the answers of both, draw the questions again and again, print."""
    run, other = read_arguments(__doc__)
    golds = read_examples(shared_gold_file(run, other))
    metric = read_json(run.folder / "scores.json")["dev"].get("metric", "squad")
    scores = []
    for scored in (run, other):
        records = read_predictions(scored, [gold.id for gold in golds])
        texts = {gold.id: read_answer(*records[gold.id], gold) for gold in golds}
        scores.append(score_records(golds, texts, metric))
    first, second = scores
    total = paired_bootstrap(first[:, 1:], second[:, 1:], mean_score)
    kinds = compare_kinds(golds, first, second)
    print_comparison(run, other, total, kinds, "answer", per_answer=kinds)


if __name__ == "__main__":
    main()

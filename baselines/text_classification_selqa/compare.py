"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        python compare.py RUN floor: with the classical model
"""

import argparse
from dataclasses import asdict

from common.bootstrap import paired_bootstrap
from common.comparison import (
    find_scored,
    print_comparison,
    read_predictions,
    shared_gold_file,
)
from common.errors import command
from common.files import read_json, write_json
from task.comparison import (
    compare_labels,
    count_resamples,
    read_prediction,
    read_score,
    score_parts,
)
from task.data import read_examples
from task.metrics import RANKING_METRICS, all_names, count_matches, label_rates


@command
def main() -> None:
    """Print the difference of the two scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)
    known = read_json(run.folder / "scores.json")
    metric, positive = known["monitor"], known["dev"].get("positive_label")

    golds = read_examples(shared_gold_file(run, other))
    found = [read_predictions(scored, [gold.id for gold in golds]) for scored in (run, other)]
    predictions = [[read_prediction(*rows[gold.id]) for gold in golds] for rows in found]
    ranked = metric in RANKING_METRICS
    scores = [[read_score(*rows[gold.id]) for gold in golds] if ranked else [] for rows in found]
    labels = [gold.labels for gold in golds]
    names = all_names(labels, [name for rows in predictions for row in rows for name in row])
    parts = [
        score_parts(metric, golds, *system, names, positive)
        for system in zip(predictions, scores, strict=True)
    ]
    (first, statistic), (second, _) = parts
    total = paired_bootstrap(first, second, statistic, resamples=count_resamples(first))
    rows = compare_labels(
        *(label_rates(count_matches(labels, system, names), names) for system in predictions)
    )
    print_comparison(run, other, total, rows, "label", metric, label_metric="F1")
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {"metric": metric, **asdict(total), "verdict": total.verdict, "per_label": rows}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

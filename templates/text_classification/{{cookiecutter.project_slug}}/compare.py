"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        python compare.py RUN floor: with the classical model
"""

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from score_parts import count_resamples, read_score, score_parts
from task.data import read_examples
from task.decode import read_prediction
from task.metrics import RANKING_METRICS, all_names, count_matches, label_rates


@command
def main() -> None:
    """Print the difference of the two scores and what chance makes of it."""
    comparison = need("comparison")
    run, other = comparison.read_arguments(__doc__)
    known = read_json(run.folder / "scores.json")
    metric, positive = known["monitor"], known["dev"].get("positive_label")
    ranked = metric in RANKING_METRICS

    golds = read_examples(comparison.shared_gold_file(run, other))
    found = [
        comparison.read_predictions(scored, [gold.id for gold in golds]) for scored in (run, other)
    ]
    predictions = [[read_prediction(*rows[gold.id]) for gold in golds] for rows in found]
    scores = [[read_score(*rows[gold.id]) for gold in golds] if ranked else [] for rows in found]
    labels = [gold.labels for gold in golds]
    names = all_names(labels, [name for rows in predictions for row in rows for name in row])
    (first, statistic), (second, _) = (
        score_parts(metric, golds, *system, names, positive)
        for system in zip(predictions, scores, strict=True)
    )
    total = comparison.paired_bootstrap(first, second, statistic, resamples=count_resamples(first))
    rows = comparison.compare_labels(
        *(label_rates(count_matches(labels, system, names), names) for system in predictions)
    )
    facts = {"monitor": metric, "per_label": rows}
    comparison.print_comparison(
        run, other, total, rows, "label", metric, label_metric="F1", **facts
    )


if __name__ == "__main__":
    main()

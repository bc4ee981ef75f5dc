"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        python compare.py RUN floor: with the classical model
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from core.base.settings import read_settings, saved_settings
from inspection.score_parts import count_resamples, read_score, score_parts
from task.data import Example, read_examples
from task.decode import read_prediction
from task.metrics import OWN_METRICS, RANKING_METRICS, all_names, count_matches, label_scores
from task.prediction import restore_labels
from task.settings import Settings


@command
def main() -> None:
    """Print the difference of the two scores, and how much of it may be chance."""
    comparison = need("comparison")
    run, other = comparison.read_arguments(__doc__)
    known = read_json(run.folder / "scores.json")
    metric, positive = known["monitor"], known["dev"].get("positive_label")
    ranked = metric in RANKING_METRICS

    settings = settings_of(run.folder, other.folder)
    golds = read_examples(comparison.shared_gold_file(run, other), settings=settings)
    found = [
        comparison.read_predictions(scored, [gold.id for gold in golds]) for scored in (run, other)
    ]
    if metric not in OWN_METRICS:
        compare_further(comparison, run, other, metric, golds, found, settings)
        return
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
        *(label_scores(count_matches(labels, system, names), names) for system in predictions)
    )
    facts = {"monitor": metric, "per_label": rows}
    comparison.print_comparison(
        run, other, total, rows, "label", metric, label_metric="F1", **facts
    )


def settings_of(*folders: Path) -> Settings:
    """Return the settings of the first folder that is a run; else those of config.toml."""
    for path in (folder / "config.json" for folder in folders):
        if path.is_file():
            return saved_settings(Settings, read_json(path), path)
    return read_settings(Settings, [])


def compare_further(
    comparison: Any,
    run: Any,
    other: Any,
    metric: str,
    golds: Sequence[Example],
    found: list[dict],
    settings: Settings,
) -> None:
    """Compare by a score of extras/competition, which has no rows by label.

    Args:
        comparison: the extra.
        run: is compared with `other`.
        metric: name of the score.
        golds: the records; `found`: the predictions of the two, by id.
        settings: of a run.

    Raises:
        InputError: neither is a run, so the labels are unknown.
    """
    competition = need("competition", "resampling")
    if hasattr(golds[0], "numbers"):
        parts = [competition.number_parts(metric, golds, rows) for rows in found]
    else:
        places = (scored.folder / "labels.json" for scored in (run, other))
        path = next((path for path in places if path.is_file()), run.folder / "labels.json")
        labels = restore_labels(read_json(path))
        parts = [competition.label_parts(metric, golds, rows, labels, settings) for rows in found]
    (first, statistic), (second, _) = parts
    resamples = competition.count_draws(metric)
    total = comparison.paired_bootstrap(first, second, statistic, resamples=resamples)
    comparison.print_comparison(run, other, total, {}, "label", metric, monitor=metric)


if __name__ == "__main__":
    main()

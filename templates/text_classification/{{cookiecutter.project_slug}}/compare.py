"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        python compare.py RUN floor: with the classical model
python compare.py                    all runs in a table: needs extras/runs_table
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import InputError, command
from core.base.extras import need
from core.base.files import read_json
from core.base.settings import read_settings, saved_settings
from core.runs.members import members
from floor import describe_data, find_folder
from inspection.errors import read_prediction
from inspection.score_parts import count_resamples, read_score, score_parts
from library.label_metrics import RANKING_METRICS, all_names, count_matches, label_scores
from task.metrics import OWN_METRICS
from task.prediction import restore_labels
from task.records import Example, read_examples
from task.settings import FLOOR, Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Score two scored folders by the metric of the first; also each label."""
    comparison = need("comparison")
    if other.name == FLOOR:
        other = floor_of(comparison, run)
    known = read_json(run.folder / "scores.json")
    metric, positive = known["monitor"], known["dev"].get("positive_label")
    ranked = metric in RANKING_METRICS

    settings = settings_of(run.folder, other.folder)
    golds = read_examples(comparison.shared_gold_file(run, other), settings=settings)
    found = [
        comparison.read_predictions(scored, [gold.id for gold in golds]) for scored in (run, other)
    ]
    if hasattr(golds[0], "numbers"):
        return compare_numbers(comparison, metric, golds, found, settings)
    predictions = [[read_prediction(*rows[gold.id]) for gold in golds] for rows in found]
    labels = [gold.labels for gold in golds]
    said = [name for rows in predictions for row in rows for name in row]
    names = all_names(labels, [*said, positive] if positive else said)
    rows = comparison.compare_labels(
        *(label_scores(count_matches(labels, system, names), names) for system in predictions)
    )
    shown = {"labels": rows, "title": "label", "metric": metric, "label_metric": "F1"}
    shown |= {"monitor": metric, "per_label": rows}
    if metric in OWN_METRICS:
        asked = golds if ranked else []
        scores = [[read_score(*rows[gold.id]) for gold in asked] for rows in found]
        (first, statistic), (second, _) = (
            score_parts(metric, golds, *system, names, positive)
            for system in zip(predictions, scores, strict=True)
        )
        draws = count_resamples(first)
        return comparison.compare_columns(first, second, statistic, draws, **shown)
    first, second, draws = compare_probabilities(run, other, metric, golds, found, settings)
    return comparison.Compared(first.score, second.score, first.rows, draws, shown)


def floor_of(comparison: Any, run: Any) -> Any:
    """Return the scored folder of the classical model of a run's data.

    Raises:
        InputError: there is only one of other data.
    """
    path = run.folder / "config.json"
    # The reference has no config.json: it is scored on the sample.
    made_of = describe_data(read_json(path)) if path.is_file() else {"dev_hash": run.data_hash}
    folder = find_folder(made_of)
    if folder is None:
        raise InputError(
            f"runs/{FLOOR} is of other data, labels or settings than {run.name}: train the floor "
            f"of its files with python train_floor.py and the settings of {run.name}."
        )
    return replace(comparison.find_scored(str(folder)), name=FLOOR)


def settings_of(*folders: Path) -> Settings:
    """Return the settings of the first folder that is a run; else those of config.toml."""
    for path in (folder / "config.json" for folder in folders):
        if path.is_file():
            return saved_settings(Settings, read_json(path), path)
    return read_settings(Settings, [])


def compare_numbers(
    comparison: Any, metric: str, golds: Sequence[Example], found: list[dict], settings: Settings
) -> Any:
    """Compare by a score of numbers; arguments as of `compare_probabilities`."""
    competition = need("competition", "resampling")
    systems, rows = competition.compare_numbers(metric, golds, found, settings)
    draws = competition.count_draws(metric, len(golds) * len(golds[0].labels))
    shown = {"labels": rows, "title": "target", "metric": metric, "monitor": metric}
    shown |= {"per_target": rows} if rows else {}
    scores = (system.score for system in systems)
    return comparison.Compared(*scores, systems[0].rows, draws, shown)


def compare_probabilities(
    run: Any,
    other: Any,
    metric: str,
    golds: Sequence[Example],
    found: list[dict],
    settings: Settings,
) -> tuple[Any, Any, int]:
    """Return a score of probabilities of both, and how often to draw the records.

    Args:
        run: is compared with `other`.
        metric: name of the score.
        golds: the records; `found`: the predictions of the two, by id.
        settings: of a run.

    Raises:
        InputError: neither is a run, so the labels are unknown.
    """
    competition = need("competition", "resampling")
    labels = restore_labels(read_json(find_labels(run.folder, other.folder)))
    first, second = (
        competition.label_score(metric, golds, rows, labels, settings) for rows in found
    )
    return first, second, competition.count_draws(metric, len(golds) * len(labels.names))


def find_labels(*folders: Path) -> Path:
    """Return the labels.json of the first scored folder that has one, or whose runs have."""
    for folder in folders:
        if (path := folder / "labels.json").is_file():
            return path
    for folder in folders:
        if (folder / "config.json").is_file():
            return members(folder)[0] / "labels.json"  # of a cross-validation, or of a blend
    return folders[0] / "labels.json"


if __name__ == "__main__":
    main()

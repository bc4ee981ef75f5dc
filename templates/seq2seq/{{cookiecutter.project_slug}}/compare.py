"""Compare a run with the shipped reference, or with any other scored folder, on the dev file.

python compare.py RUN [OTHER]        the difference of two scores, with its 95 % interval
python compare.py                    all runs in a table: needs extras/runs_table
"""

from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import command
from core.base.extras import need
from core.base.files import read_json
from core.base.settings import read_settings, saved_settings
from core.report.report import name_score
from inspection.comparison import STATISTICS, check_same_scores, compare_lengths, read_columns
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Read the numbers behind the score of two scored folders."""
    comparison = need("comparison")
    if extractor := settings_of(run.folder, other.folder).extractor:
        return extractor.compare(comparison, run, other)
    metric = check_same_scores(run, other)
    golds = read_examples(comparison.shared_gold_file(run, other))
    columns, matches = [], []
    for scored in (run, other):
        records = comparison.read_predictions(scored, [gold.id for gold in golds])
        rows = [records[gold.id] for gold in golds]
        columns.append(np.array([read_columns(place, row, metric) for place, row in rows]))
        right = [read_columns(place, row, "exact_match")[0] for place, row in rows]
        matches.append(np.array(right))
    lengths = compare_lengths(golds, metric, columns, matches)
    shown = {"labels": lengths, "title": "sources", "metric": name_score(metric)}
    facts = {"monitor": metric, "per_length": lengths}
    return comparison.compare_columns(*columns, STATISTICS[metric], **shown, **facts)


def settings_of(*folders: Path) -> Settings:
    """Return the settings of the first run of this task; those of config.toml if there is none."""
    for path in (folder / "config.json" for folder in folders):
        if path.is_file() and (values := read_json(path)).get("task") == Settings.task:
            return saved_settings(Settings, values, path)
    return read_settings(Settings, [])


if __name__ == "__main__":
    main()

"""Compare a run with the shipped reference, or with any other scored folder, on the dev file."""

import argparse
from dataclasses import asdict

import numpy as np

from common.bootstrap import paired_bootstrap
from common.comparison import (
    find_scored,
    print_comparison,
    read_predictions,
    shared_gold_file,
)
from common.errors import command
from common.files import write_json
from common.run_folder import read_scores
from task.comparison import compare_labels, deciding_metric, read_events
from task.data import read_examples
from task.metrics import count_matches, score


@command
def main() -> None:
    """Print the difference of the two scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)

    golds = read_examples(shared_gold_file(run, other))
    metric = deciding_metric(read_scores(run.folder))
    table = "per_trigger" if metric.startswith("trigger") else "per_role"
    counts, tables = [], []
    for scored in (run, other):
        records = read_predictions(scored, [gold.id for gold in golds])
        events = {gold.id: read_events(*records[gold.id]) for gold in golds}
        counts.append(np.array([count_matches(gold, events[gold.id], metric) for gold in golds]))
        tables.append(score(golds, events)[table])

    total = paired_bootstrap(*counts)
    labels = compare_labels(*tables)
    title = "trigger of" if table == "per_trigger" else "role"
    print(f"metric {metric}")
    print_comparison(run, other, total, labels, title)
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {"metric": metric, **asdict(total), "verdict": total.verdict, table: labels}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

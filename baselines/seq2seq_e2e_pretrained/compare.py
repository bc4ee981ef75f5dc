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
from common.report import name_score
from task.comparison import STATISTICS, check_same_scores, compare_lengths, read_columns
from task.data import read_examples


@command
def main() -> None:
    """Print the difference of the two scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)
    metric = check_same_scores((run.folder, other.folder), (run.name, other.name))

    golds = read_examples(shared_gold_file(run, other))
    columns, matches = [], []
    for scored in (run, other):
        records = read_predictions(scored, [gold.id for gold in golds])
        rows = [records[gold.id] for gold in golds]
        columns.append(np.array([read_columns(*row, metric) for row in rows]))
        matches.append(np.array([read_columns(*row, "exact_match")[0] for row in rows]))

    total = paired_bootstrap(*columns, STATISTICS[metric])
    lengths = compare_lengths(golds, metric, *columns, matches)
    print_comparison(run, other, total, lengths, "sources", name_score(metric))
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {**asdict(total), "metric": metric, "verdict": total.verdict, "per_length": lengths}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

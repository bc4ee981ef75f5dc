"""Compare a run with the shipped reference, or with any other scored folder, on the dev texts."""

import argparse
from dataclasses import asdict

from common.bootstrap import paired_bootstrap
from common.comparison import find_scored, print_comparison
from common.errors import command
from common.files import write_json
from task.comparison import check_same_texts, compare_lengths, read_columns
from task.metrics import accuracy
from task.settings import METRIC


@command
def main() -> None:
    """Print the difference of the two scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)
    check_same_texts(run, other)

    columns = [read_columns(scored) for scored in (run, other)]
    total = paired_bootstrap(*columns, accuracy)
    lengths = compare_lengths(*columns)
    print_comparison(run, other, total, lengths, "texts", METRIC)
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {**asdict(total), "metric": METRIC, "verdict": total.verdict, "per_length": lengths}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

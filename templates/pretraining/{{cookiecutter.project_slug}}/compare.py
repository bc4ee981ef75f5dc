"""Compare a run with the shipped reference, or with any other scored folder, on the dev texts.

python compare.py RUN [OTHER]        the difference of two accuracies, with its 95 % interval
python compare.py                    all runs in a table: needs extras/runs_table
"""

from typing import Any

from core.base.errors import command
from core.base.extras import need
from inspection.comparison import check_same_texts, compare_lengths, read_columns
from task.metrics import accuracy
from task.settings import Settings


@command
def main() -> None:
    """Compare the two on the command line; without any, show all runs."""
    need("comparison").run_command(compare, __doc__, Settings.task)


def compare(run: Any, other: Any) -> Any:
    """Read the predictions of two scored folders."""
    comparison = need("comparison")
    check_same_texts(run, other)
    own, others = read_columns(run), read_columns(other)
    lengths = compare_lengths(own, others)
    shown = {
        "labels": lengths,
        "title": "texts",
        "metric": accuracy.__name__,
        "per_length": lengths,
    }
    return comparison.compare_columns(own, others, accuracy, **shown)


if __name__ == "__main__":
    main()

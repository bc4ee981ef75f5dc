"""Compare a run with the shipped reference, or with any other scored folder, on the dev texts.

python compare.py RUN [OTHER]        the difference of two accuracies, with its 95 % interval
"""

from core.base.errors import command
from core.base.extras import need
from inspection.comparison import check_same_texts, compare_lengths, read_columns
from task.metrics import accuracy
from task.settings import METRIC


@command
def main() -> None:
    """Read the predictions of both, resample the texts, print."""
    comparison = need("comparison")
    run, other = comparison.read_arguments(__doc__)
    check_same_texts(run, other)
    own, others = read_columns(run), read_columns(other)
    lengths = compare_lengths(own, others)
    total = comparison.paired_bootstrap(own, others, accuracy)
    comparison.print_comparison(run, other, total, lengths, "texts", METRIC, per_length=lengths)


if __name__ == "__main__":
    main()

"""Write the labels that one run, or several together, give the records of a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their probabilities are averaged
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.base.files import check_destination
from submission import write_submission
from task.data import check_kind, read_examples
from task.decode import prediction_records, read_threshold
from task.training import load_runs, predict, restore_labels


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; labels are not needed")
    parser.add_argument("out", type=Path, help="file to write: JSON Lines, or a table (.tsv, .csv)")
    arguments = parser.parse_args()

    check_destination(arguments.out, arguments.file)
    runs = load_runs(arguments.runs)
    examples = read_examples(arguments.file, require_labels=False, settings=runs.settings)
    labels = restore_labels(runs.labels)
    check_kind(examples, labels, arguments.file, scored=False)
    candidates = predict(runs, examples)
    records = prediction_records(examples, candidates, labels, read_threshold(runs.folders, labels))
    write_submission(arguments.out, records, ranked=examples[0].group is not None)
    print(f"{arguments.out}: {len(records)} records")


if __name__ == "__main__":
    main()

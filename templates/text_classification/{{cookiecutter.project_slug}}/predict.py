"""Write the labels or numbers that one run, or several together, predict: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their probabilities are averaged
python predict.py RUN FILE OUT.csv --sample sample_submission.csv        a table like the sample
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import ask
from core.base.files import check_destination
from library.predictions import prediction_records
from submission import check_submission, refuse_sample, write_submission
from task.prediction import load_runs, predict, read_threshold, restore_labels
from task.records import Example, check_kind, read_examples


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; labels are not needed")
    parser.add_argument("out", type=Path, help="file to write: JSON Lines, or a table (.tsv, .csv)")
    parser.add_argument(
        "--sample", type=Path, help="sample_submission.csv: header, ids, kind of cells; or none"
    )
    parser.add_argument("--columns", default="", help="a header, the id first: id,a=x: a holds x")
    parser.add_argument("--values", default="auto", help="what the cells hold: see README.md")
    arguments = ask("read_flags", parser) or parser.parse_args()

    check_destination(arguments.out, arguments.file)
    if arguments.out.suffix.lower() == ".txt":
        raise InputError(
            f"{arguments.out} is to hold records or a table: let it end in .jsonl or .csv."
        )
    runs = load_runs(arguments.runs)
    refuse_sample(arguments.out, arguments.sample, runs.settings)
    examples = read_examples(arguments.file, require_labels=False, settings=runs.settings)
    labels = restore_labels(runs.labels)
    check_kind(examples, labels, arguments.file, scored=False)
    threshold = read_threshold(runs)
    wishes = (arguments.sample, arguments.columns, arguments.values)
    check_submission(arguments.out, examples, labels, runs, wishes)

    def describe(some: Sequence[Example]) -> list[dict]:
        return prediction_records(some, predict(runs, some), labels, threshold)

    records = ask("predict_in_chunks", describe, examples) or describe(examples)
    groups = [example.group for example in examples] if examples[0].group is not None else ()
    write_submission(arguments.out, records, groups, labels, runs, wishes)
    print(f"{arguments.out}: {len(records)} records")


if __name__ == "__main__":
    main()

"""Write the entities that one run, or several together, find in a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import ask
from core.base.files import check_destination, write_json_lines
from formats.conll import is_conll
from formats.records import prediction_records
from formats.submission import write_submission
from task.decode import keep_entities
from task.evaluation import load_thresholds
from task.prediction import load_runs, predict
from task.records import Example, Schema, read_examples


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument(
        "file", type=Path, help="in the format of the training file; entities are not needed"
    )
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--format",
        choices=("input", "records"),
        default="input",
        help="input: the format of the file (CoNLL, doccano or ours); records: ours, with scores",
    )
    arguments = ask("read_flags", parser) or parser.parse_args()

    check_destination(arguments.out, arguments.file)
    has_columns = arguments.format == "input" and is_conll(arguments.file)
    if not has_columns and arguments.out.suffix.lower() in (".csv", ".tsv", ".txt"):
        raise InputError(f"{arguments.out} is to hold records: let its name end in .jsonl.")
    if has_columns and arguments.out.suffix.lower() in (".json", ".jsonl"):
        raise InputError(
            f"{arguments.out} is to hold columns, as {arguments.file} does: let its name end in "
            ".conll, or write records with --format records."
        )
    runs = load_runs(arguments.runs)
    thresholds, settings = load_thresholds(runs.folders), runs.settings
    examples = read_examples(arguments.file, settings, require_entities=False)

    def describe(some: Sequence[Example]) -> list[dict]:
        return prediction_records(some, keep_entities(predict(runs, some), thresholds))

    records = ask("predict_in_chunks", describe, examples) or describe(examples)
    if arguments.format == "records":
        write_json_lines(arguments.out, records)
    else:
        scheme = Schema(**runs.labels).scheme
        write_submission(arguments.out, arguments.file, settings, scheme, examples, records)
    count = sum(len(record["entities"]) for record in records)
    print(f"{arguments.out}: {len(records)} records, {count} entities")


if __name__ == "__main__":
    main()

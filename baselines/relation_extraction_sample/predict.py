"""Write the triples that one run, or several together, find in a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import ask
from core.base.files import check_destination, write_json_lines
from core.runs.members import tuned_threshold
from task.decode import above
from task.prediction import load_runs, predict
from task.records import Example, prediction_records, read_examples


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; triples are not needed")
    parser.add_argument("out", type=Path, help="file to write, JSON Lines")
    arguments = ask("read_flags", parser) or parser.parse_args()

    check_destination(arguments.out, arguments.file)
    if arguments.out.suffix.lower() in (".csv", ".tsv", ".txt"):
        raise InputError(f"{arguments.out} is to hold records: let its name end in .jsonl.")
    examples = read_examples(arguments.file, require_triples=False)
    runs = load_runs(arguments.runs)

    def describe(some: Sequence[Example]) -> list[dict]:
        return prediction_records(some, above(predict(runs, some), tuned_threshold(runs.folders)))

    records = ask("predict_in_chunks", describe, examples) or describe(examples)
    write_json_lines(arguments.out, records)
    triples = sum(len(record["triples"]) for record in records)
    print(f"{arguments.out}: {len(records)} records, {triples} triples")


if __name__ == "__main__":
    main()

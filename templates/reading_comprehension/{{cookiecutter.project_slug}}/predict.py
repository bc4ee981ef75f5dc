"""Write the answers that one run, or several together, give to a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import ask
from core.base.files import check_destination, write_json, write_json_lines
from core.runs.members import tuned_threshold
from formats.records import prediction_records
from task.prediction import load_runs, predict
from task.records import Example, read_examples


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; answers are not needed")
    parser.add_argument(
        "out", type=Path, help="OUT.json: {id: answer}, as SQuAD and CMRC2018; else n-best"
    )
    arguments = ask("read_flags", parser) or parser.parse_args()

    check_destination(arguments.out, arguments.file)
    if (ending := arguments.out.suffix.lower()) in (".csv", ".tsv", ".txt"):
        raise InputError(
            f"{arguments.out} would be no table or text: let it end in .json or .jsonl."
        )
    examples = read_examples(arguments.file, require_answers=False)
    runs = load_runs(arguments.runs)
    threshold = tuned_threshold(runs.folders)

    def describe(some: Sequence[Example]) -> list[dict]:
        return prediction_records(some, predict(runs, some), threshold, runs.settings.n_best)

    records = ask("predict_in_chunks", describe, examples) or describe(examples)
    if ending == ".json":
        write_json(arguments.out, {record["id"]: record["text"] for record in records})
    else:
        write_json_lines(arguments.out, records)
    answers = sum(record["answer"] is not None for record in records)
    print(f"{arguments.out}: {len(records)} questions, {answers} answers")


if __name__ == "__main__":
    main()

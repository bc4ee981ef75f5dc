"""Write the entities that one run, or several together, find in a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.base.files import check_destination, write_json_lines
from task.data import Schema, read_examples
from task.decode import keep_entities, prediction_records
from task.evaluation import load_thresholds
from task.submission import write_submission
from task.training import load_runs, predict


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="as the training file; entities are not needed")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--format",
        choices=("input", "records"),
        default="input",
        help="input: as the file is, CoNLL, doccano or ours; records: ours, with texts and scores",
    )
    arguments = parser.parse_args()

    check_destination(arguments.out, arguments.file)
    runs = load_runs(arguments.runs)
    thresholds, settings = load_thresholds(runs.folders), runs.settings
    examples = read_examples(arguments.file, settings, require_entities=False)
    entities = keep_entities(predict(runs, examples), thresholds)
    if arguments.format == "records":
        write_json_lines(arguments.out, prediction_records(examples, entities))
    else:
        scheme = Schema(**runs.labels).scheme
        write_submission(arguments.out, arguments.file, settings, scheme, examples, entities)
    count = sum(map(len, entities.values()))
    print(f"{arguments.out}: {len(examples)} records, {count} entities")


if __name__ == "__main__":
    main()

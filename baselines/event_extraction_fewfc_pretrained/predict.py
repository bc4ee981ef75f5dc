"""Write the events that one run, or several together, find in a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from pathlib import Path

from common.errors import command
from common.files import check_destination, write_json_lines
from common.run_folder import tuned_threshold
from task.data import read_examples
from task.decode import duee_records, keep_events, prediction_records
from task.loading import load_runs


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; events are not needed")
    parser.add_argument("out", type=Path, help="file to write, JSON Lines")
    parser.add_argument(
        "--format",
        choices=("records", "duee"),
        default="records",
        help="records: as the data, with texts and scores; duee: as DuEE's competitions want it",
    )
    arguments = parser.parse_args()

    check_destination(arguments.out)
    examples = read_examples(arguments.file, require_events=False)
    model = load_runs(arguments.runs)
    candidates = model.predict(examples, "predict")
    events = keep_events(candidates, tuned_threshold(model.folders))
    records = prediction_records(examples, candidates, events)
    write_json_lines(
        arguments.out, duee_records(records) if arguments.format == "duee" else records
    )
    count = sum(map(len, events.values()))
    print(f"{arguments.out}: {len(records)} records, {count} events")


if __name__ == "__main__":
    main()

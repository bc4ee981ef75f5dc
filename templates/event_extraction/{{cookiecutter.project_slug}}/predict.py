"""Write the events that one run, or several together, find in a file: the submission.

python predict.py RUN [RUN ...] FILE OUT        several runs: their scores are averaged
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.base.files import check_destination, write_json_lines
from core.runs.run_folder import tuned_threshold
from task.data import read_examples
from task.decode import duee_records, keep_events, prediction_records
from task.training import load_runs, predict


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

    check_destination(arguments.out, arguments.file)
    examples = read_examples(arguments.file, require_events=False)
    runs = load_runs(arguments.runs)
    graphs = predict(runs, examples)
    events = keep_events(graphs, tuned_threshold(runs.folders))
    records = prediction_records(examples, graphs, events)
    write_json_lines(
        arguments.out, duee_records(records) if arguments.format == "duee" else records
    )
    count = sum(map(len, events.values()))
    print(f"{arguments.out}: {len(records)} records, {count} events")


if __name__ == "__main__":
    main()

"""Write the triples that a run finds in a file: the submission.

python predict.py RUN FILE OUT
"""

import argparse
from pathlib import Path

from common.errors import command
from common.files import check_destination, write_json_lines
from task.data import read_examples
from task.decode import above, predict_triples, prediction_records
from task.loading import load_run


@command
def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; triples are not needed")
    parser.add_argument("out", type=Path, help="file to write, JSON Lines")
    arguments = parser.parse_args()

    check_destination(arguments.out)
    examples = read_examples(arguments.file, require_triples=False)
    model = load_run(arguments.run)
    candidates = predict_triples(model.predictor, model.generator(examples), progress="predict")
    records = prediction_records(examples, above(candidates, model.threshold))
    write_json_lines(arguments.out, records)
    triples = sum(len(record["triples"]) for record in records)
    print(f"{arguments.out}: {len(records)} records, {triples} triples")


if __name__ == "__main__":
    main()

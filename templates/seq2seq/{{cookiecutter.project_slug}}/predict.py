"""Write the predictions of one run, or of an ensemble, for a file: the submission.

python predict.py RUN [RUN ...] FILE OUT [--beams 8 ...]        several runs: an ensemble

OUT.jsonl holds records with id, prediction and score; OUT.txt one prediction per line.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import ask
from core.base.files import check_destination, write_json_lines, write_text
from generation.settings import add_generation_flags, check_n_best, read_generation_flags
from task.decode import prediction_records
from task.prediction import load_runs, predict
from task.records import Example, read_examples


@command
def main() -> None:
    """Read, generate, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file; targets are not needed")
    parser.add_argument("out", type=Path, help="file to write, .jsonl or .txt")
    add_generation_flags(parser)
    arguments = ask("read_flags", parser) or parser.parse_args()

    changes = read_generation_flags(arguments)
    check_destination(arguments.out, arguments.file)
    if (ending := arguments.out.suffix.lower()) in (".csv", ".tsv"):
        raise InputError(f"{arguments.out} would be no table: let its name end in .jsonl or .txt.")
    runs = load_runs(arguments.runs, changes=changes)
    check_n_best(runs.settings.generation)
    examples = read_examples(arguments.file, require_targets=False, settings=runs.settings)
    extractor, *others = (settings.extractor for settings in runs.every)
    if any(other != extractor for other in others):
        raise InputError(
            "these runs write different things: name runs with equal extraction.kind and names."
        )
    make_records = extractor.prediction_records if extractor else prediction_records

    def describe(some: Sequence[Example]) -> list[dict]:
        return make_records(some, predict(runs, some))

    records = ask("predict_in_chunks", describe, examples) or describe(examples)
    if ending == ".txt":
        # One line is one record, so line breaks within a text become spaces.
        lines = [" ".join(record["prediction"].split()) for record in records]
        write_text(arguments.out, "".join(f"{line}\n" for line in lines))
    else:
        write_json_lines(arguments.out, records)
    said = extractor.describe_records(records) if extractor else f"{len(records)} texts"
    print(f"{arguments.out}: {said}")


if __name__ == "__main__":
    main()

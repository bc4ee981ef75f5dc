"""Write what trained runs say of unlabelled records, as records to learn from.

python extras/distillation/label.py RUN [RUN ...] FILE OUT.jsonl      several runs: an ensemble
python extras/distillation/label.py CROSS_VALIDATION FILE FOLDER      a file for each fold, by the
                                                                      model that held it out
"""

import argparse
import contextlib
import inspect
import io
import math
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path[0] = str(PROJECT)  # the project, whose code this needs

import predict  # noqa: E402
from core.base.errors import InputError, command  # noqa: E402
from core.base.extras import need  # noqa: E402
from core.base.files import (  # noqa: E402
    check_destination,
    file_hash,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
    write_whole,
)
from core.base.settings import saved_settings  # noqa: E402
from core.runs.members import (  # noqa: E402
    blended_runs,
    find_run,
    find_runs,
    fold_folders,
    members,
)
from core.runs.scores import read_scores  # noqa: E402
from extras.distillation.pseudo_labels import is_empty, label_record, record_of  # noqa: E402
from extras.distillation.teachers import mean_of, note_path, note_teachers  # noqa: E402
from task.prediction import load_runs  # noqa: E402
from task.prediction import predict as predict_examples  # noqa: E402
from task.records import read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

ENTITIES = "Named-entity recognition"
CLASSIFIES = Settings.task == "Text classification"
WRITES = Settings.task == "Seq2seq"
SPANS = Settings.task in ("Relation extraction", ENTITIES, "Event extraction")
FLOOR = 0.05
OF_TYPES = ("types", "predicates")  # of labels.json
RECORDS = (".jsonl", ".json")


@command
def main() -> None:
    """Predict, keep what is sure enough, write."""
    arguments = parse_arguments()
    if arguments.out.suffix:
        check_destination(arguments.out, arguments.file)
        write_labelled(arguments, arguments.runs, arguments.out)
        return
    folds = [folder for run in arguments.runs for folder in fold_folders(find_run(run))]
    if len(arguments.runs) > 1 or not folds:
        raise InputError(
            f"{arguments.out} has no ending, so it is a folder with a file for each fold: name one "
            "cross-validation, or a file such as pseudo.jsonl."
        )
    arguments.out.mkdir(exist_ok=True)
    for number, folder in enumerate(folds, start=1):
        path = arguments.out / f"fold_{number}.jsonl"
        check_destination(path, arguments.file)
        write_labelled(arguments, [str(folder)], path)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="in the format of train_file; gold is not read")
    parser.add_argument("out", type=Path, help="file to write (.jsonl), or a folder: one a fold")
    parser.add_argument(
        "--above",
        type=float,
        default=0.0,
        help="keep records whose teacher is at least so sure; of items with probabilities it is "
        "sure at 0.05 as at 0.95",
    )
    parser.add_argument(
        "--hard", action="store_true", help="labels, triples, ... without probabilities"
    )
    parser.add_argument("--temperature", type=float, default=1.0, help="above 1: softer targets")
    parser.add_argument(
        "--floor",
        type=float,
        help=f"probability that triples, entities or events need ({FLOOR:g}; with --hard: as "
        "predict.py)",
    )
    parser.add_argument(
        "--weigh", action="store_true", help="give each record its teacher's probability as weight"
    )
    parser.add_argument(
        "--n_best", type=int, default=1, help="texts of each record, with weights to learn from"
    )
    arguments = parser.parse_args()
    if arguments.out.suffix.lower() not in ("", *RECORDS):
        raise InputError(f"{arguments.out} is to hold records: let its name end in .jsonl.")
    soft = CLASSIFIES or SPANS or arguments.n_best > 1
    if arguments.floor is not None and (not SPANS or not 0 <= arguments.floor < 1):
        raise InputError(
            f"--floor {arguments.floor:g} is a probability, from 0 to less than 1, that triples, "
            "entities or events must have: choose another one, or leave it out for other tasks."
        )
    if arguments.n_best != 1 and (not WRITES or arguments.n_best < 1 or arguments.hard):
        raise InputError(
            f"--n_best {arguments.n_best} asks a writer for several texts with weights: leave it "
            "out here, or choose one from 1 on without --hard."
        )
    if not 0 <= arguments.above <= 1:
        raise InputError(f"--above {arguments.above:g} is no probability: choose one from 0 to 1.")
    if not 0 < arguments.temperature < math.inf:
        raise InputError(f"--temperature {arguments.temperature:g} must be above 0, such as 2.")
    if arguments.temperature != 1 and (arguments.hard or not soft):
        raise InputError(
            "--temperature softens the probabilities of labels, triples, entities, events, or of "
            "--n_best texts: leave it out here."
        )
    return arguments


def write_labelled(arguments: argparse.Namespace, runs: Sequence[str], out: Path) -> None:
    """Write the records that some runs are sure enough of, and which runs these are."""
    folders = find_runs(runs)
    for folder in folders:
        if "finished" not in read_scores(folder):
            print(f"warning: {folder.name} is not finished: label anew when its training ends.")
    records = read_records(arguments.file, folders[0] / "config.json")
    kept, unsure, unknown, empty = [], 0, 0, 0
    if SPANS and not (arguments.hard and arguments.floor is None):
        from inspection.distillation import teacher_records

        floor = FLOOR if arguments.floor is None else arguments.floor
        examples = examples_of(arguments.file, folders[0] / "config.json")
        refuse_other_types(folders)
        # One after the other: their encoders may differ. A blend weighs its runs itself.
        names = [
            name
            for run in runs
            for name in ([run] if blended_runs(find_run(run)) else members(run))
        ]
        parts = [predict_examples(load_runs([name]), examples) for name in names]
        predicted: Iterable[dict] = teacher_records(examples, parts, mean_of, floor, arguments.hard)
    else:
        refuse_other_scores(arguments, folders[0] / "config.json")
        predicted = predictions(runs, arguments.file, arguments.n_best)
    for record, prediction in zip(records, predicted, strict=True):
        labelled, sure = label_record(record, prediction, arguments.hard, arguments.temperature)
        if sure is None and "targets" in prediction and (arguments.above or arguments.weigh):
            raise InputError(
                "--above and --weigh are for labels, and these runs predict numbers, of which they "
                "can't say how sure they are: leave them out."
            )
        if is_empty(labelled):
            empty += 1
            continue
        unknown += sure is None
        if sure is not None and sure < arguments.above:
            unsure += 1
            continue
        if arguments.weigh and sure is not None:
            labelled["weight"] = round(sure, 4)
        kept.append(labelled)
    if not kept:
        why = f"is labelled with a probability of {arguments.above:g}: lower --above"
        if empty and not unsure:
            why = "gets a text from these runs: train them longer"
        raise InputError(f"no record of {arguments.file} {why}.")
    facts = {
        "labelled": {"file": arguments.file.name, "data_hash": file_hash(arguments.file)},
        "command": " ".join(["python", *sys.argv]),
        "records": len(kept),
    }

    def write(temporary: Path) -> None:
        write_json_lines(temporary, kept)
        # The note comes first: without it nobody knows what the teachers have seen.
        write_json(note_path(out), note_teachers(temporary, folders, facts))

    write_whole(out, write)
    print(describe(out, len(kept), unsure, unknown, empty, arguments.above))


def refuse_other_scores(arguments: argparse.Namespace, config: Path) -> None:
    """Refuse `--above` and `--weigh` where the score of a text is no mean over its tokens.

    Raises:
        InputError: the search of the run has another length penalty.
    """
    if not WRITES or not (arguments.above or arguments.weigh):
        return
    settings: Any = saved_settings(Settings, read_json(config), config)
    table = settings.generation
    if table.length_penalty != "mean" or table.length_power != 1:
        raise InputError(
            "--above and --weigh need the mean probability of the tokens of a text, but "
            f"{config.parent.name} has generation.length_penalty = {table.length_penalty!r} and "
            f"length_power = {table.length_power:g}, which score texts otherwise: leave them out."
        )


def refuse_other_types(folders: Sequence[Path]) -> None:
    """Refuse teachers of which one knows types or predicates that another one lacks.

    Raises:
        InputError: what one lacks would count as if it had found nothing.
    """
    known = []
    for folder in folders:
        labels = read_json(folder / "labels.json")
        known.append({name for key in OF_TYPES for name in labels.get(key, ())})
    for folder, own in zip(folders, known, strict=True):
        if own != known[0]:
            raise InputError(
                f"{folders[0].name} and {folder.name} know different types, "
                f"{min(own ^ known[0])!r} for one: label with runs that were trained on the same."
            )


def predictions(runs: Sequence[str], file: Path, n_best: int = 1) -> Iterator[dict]:
    """Yield what predict.py of this project writes of each record of a file.

    Args:
        runs: names of runs.
        file: with the records.
        n_best: texts of each record; above 1 the search has at least as many beams.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "predictions.jsonl"
        command_line, sys.argv = sys.argv, ["predict.py", *runs, str(file), str(out)]
        if Settings.task == ENTITIES:  # in our format, with scores
            sys.argv += ["--format", "records"]
        if WRITES:
            sys.argv += generation_flags(runs, n_best)
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                predict.main()
        finally:
            sys.argv = command_line
            # All but the line about a file that is deleted here.
            print(
                *(line for line in said.getvalue().splitlines(True) if str(out) not in line),
                sep="",
                end="",
            )
        yield from (record for _, record in read_json_lines(out))


def generation_flags(runs: Sequence[str], n_best: int) -> list[str]:
    """Return the flags of predict.py for so many texts of each record.

    Raises:
        InputError: the runs write triples, entities or events.
    """
    config = find_runs(runs[:1])[0] / "config.json"
    settings: Any = saved_settings(Settings, read_json(config), config)
    if settings.extractor and n_best > 1:
        raise InputError("--n_best is for texts, and these runs extract: leave it out.")
    if n_best == settings.generation.n_best == 1:
        return []
    return ["--n_best", str(n_best), "--beams", str(max(n_best, settings.generation.beams))]


def read_records(path: Path, config: Path) -> list[dict[str, Any]]:
    """Return the records of a file as JSON Lines have them.

    Those of a table, or with fields of other names, have no labels.

    Args:
        path: of the file.
        config: the config.json of a run, whose settings name the columns.
    """
    settings: Any = saved_settings(Settings, read_json(config), config)
    if path.suffix.lower() in (".json", ".jsonl"):
        tables = need("competition", "tables") if hasattr(settings, "competition") else None
        if tables is None or not tables.has_own_columns(path, settings):
            # Gold under names of its own is not read, nor kept beside the prediction.
            table = getattr(settings, "competition", None)
            gold = {*table.target_names, table.label_column} if table else set()
            records = (record for _, record in read_json_lines(path))
            return [{n: v for n, v in one.items() if n not in gold} for one in records]
    return [record_of(one) for one in examples_of(path, config)]  # of a table, or of columns


def examples_of(path: Path, config: Path) -> Sequence[Any]:
    """Return the examples of a file without gold, read as the settings of a run say."""
    # `read_examples` of a task names what it needs in its own way.
    names = inspect.signature(read_examples).parameters
    own = {name: False for name in names if name.startswith("require")}
    if "settings" in names:
        own["settings"] = saved_settings(Settings, read_json(config), config)
    return read_examples(path, **own)


def describe(out: Path, kept: int, unsure: int, unknown: int, empty: int, above: float) -> str:
    """Return in words what was written."""
    parts = [f"{kept} records to learn from"]
    if above:
        parts.append(f"{unsure} left out, of which the teacher is less sure than {above:g}")
    if empty:
        parts.append(f"{empty} left out, for which the teacher writes no text")
    if unknown and above:
        parts.append(f"{unknown} kept of which it can't say how sure it is, as nothing was found")
    return f"{out}: " + "; ".join(parts)


if __name__ == "__main__":
    main()

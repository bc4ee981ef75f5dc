"""Fit the weights of a blend of trained runs; the blend is a run that needs no training.

python extras/blends/fit.py RUN RUN [RUN ...] --name NAME     weights that are best for dev
python extras/blends/fit.py RUN RUN --name NAME --equal       the mean, with its own threshold
python extras/blends/fit.py RUN RUN --name NAME --stack       a model of scikit-learn in their place

Cross-validations of the same training file are fitted on their held-out records instead.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parents[2]
sys.path[0] = str(PROJECT)  # the project, whose code this needs

import compare  # noqa: E402
from core.base.errors import InputError, command  # noqa: E402
from core.base.files import (  # noqa: E402
    file_hash,
    project_path,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
)
from core.base.settings import flatten, read_settings  # noqa: E402
from core.prediction.loading import TrainedRuns  # noqa: E402
from core.runs.members import check_shared, find_run, fold_folders, members  # noqa: E402
from core.runs.provenance import provenance  # noqa: E402
from core.runs.scores import read_scores  # noqa: E402
from core.scores.evaluation import Evaluation  # noqa: E402
from extras.blends.blends import hash_of_weights, predict_parts  # noqa: E402
from extras.blends.fitting import Mix, Parts, score_held_out  # noqa: E402
from extras.blends.stack import Stack  # noqa: E402
from extras.comparison.comparison import Scored, find_scored, shared_gold_file  # noqa: E402
from extras.folds.folds import choose, link_texts  # noqa: E402
from inspection import blends as task_blends  # noqa: E402
from inspection.folds import fold_keys  # noqa: E402
from task.prediction import load_runs, predict  # noqa: E402
from task.settings import Settings  # noqa: E402


@command
def main() -> None:
    """Predict with each run, fit, estimate the gain, write the run."""
    arguments = parse_arguments()
    runs = [find_run(name) for name in arguments.runs]
    target = new_folder(arguments.name)
    check_runs(runs)
    if arguments.stack and not task_blends.Stacking:
        raise InputError("--stack is not for texts, which have weights: leave it out.")
    first = load_runs([runs[0]])
    texts = hasattr(task_blends, "predict_together")
    folds = not texts and all(map(fold_folders, runs))
    on_held_out = folds and len({*map(train_hash, runs)}) == 1
    path = project_path(first.settings.train_file) if on_held_out else dev_file(runs)
    refuse_learned(runs, path, on_held_out)
    examples = task_blends.read_gold(path, first.settings)
    groups = link_texts(list(fold_keys(examples)))
    if len(np.unique(groups)) < 2 and not arguments.equal:
        raise InputError(f"{path} has one text, a fit needs several: add some, or take --equal.")
    if texts:
        candidates = predict_texts(runs, examples)
    else:
        read = predict_held_out if on_held_out else predict_all
        candidates = [read(run, examples) for run in runs]

    def evaluate(some: Sequence[Any], found: dict, tuned: dict | None) -> Evaluation:
        return task_blends.score_blend(first, some, found, path, tuned)

    monitor = read_scores(runs[0])["monitor"]
    quickly = task_blends.TUNES_QUICKLY
    stacking = task_blends.Stacking(first.labels) if arguments.stack else None
    parts = Parts(examples, groups, candidates, evaluate, monitor, quickly, stacking)
    fit = parts.fit_stack if arguments.stack else parts.fit
    mix = np.full(len(runs), 1 / len(runs)) if arguments.equal else fit()
    evaluation = parts.blend(mix)
    describe(parts, runs, mix, evaluation)
    config = blend_config(arguments.name, runs, mix, on_held_out)
    gain = {} if arguments.equal else {"gain": estimate_gain(parts, fit, config, evaluation)}
    write_run(target, config, evaluation, {"monitor": monitor, **gain}, first)
    print(f"runs/{arguments.name} is a run: python predict.py {arguments.name} FILE OUT")


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("--name", required=True, help="the blend becomes runs/NAME")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--equal", action="store_true", help="fit no weights: take the mean")
    how.add_argument("--stack", action="store_true", help="fit a logistic or ridge regression")
    return parser.parse_args()


def new_folder(name: str) -> Path:
    """Return the folder that a new run gets.

    Raises:
        InputError: the name is none for a run, or there is such a run.
    """
    folder = PROJECT / "runs" / read_settings(Settings, ["--run_name", name]).run_name
    if folder.exists():
        raise InputError(f"runs/{name} exists: choose another --name, or delete that folder.")
    return folder


def check_runs(runs: Sequence[Path]) -> None:
    """Refuse runs that can't be blended.

    Raises:
        InputError: fewer than two, one twice, or two with different labels or columns of texts.
    """
    if len(runs) < 2:
        raise InputError("a blend needs at least two runs: name them one after the other.")
    for run in runs:
        if [own.resolve() for own in runs].count(run.resolve()) > 1:
            raise InputError(f"{run.name} is named twice: name each run once.")
    ignored = [
        "counts",
        "records",
        "scaling",
        "answer_lengths",
        *getattr(task_blends, "OWN_LABELS", ()),
    ]  # of the training records, not of what is predicted
    labels = [read_json(members(run)[0] / "labels.json") for run in runs]
    for run, own in zip(runs, labels, strict=True):
        for name in {*own, *labels[0]} - {*ignored}:
            if own.get(name) != labels[0].get(name):
                raise InputError(
                    f"{runs[0].name} and {run.name} have different {name.replace('_', ' ')} in "
                    "labels.json: only scores of the same ones can be blended, so train both on "
                    "the same labels."
                )
    # A file is read once for all, so they must read the same columns.
    check_shared([members(run)[0] for run in runs], Settings, task_blends.READ_SETTINGS)
    for run in runs:
        if "finished" not in read_scores(run):
            print(
                f"warning: {run.name} is not finished: if its training goes on, the blend has to "
                "be fitted again."
            )


def refuse_learned(runs: Sequence[Path], path: Path, on_held_out: bool) -> None:
    """Refuse to fit weights on records that a run has learned: the best one would be that run.

    Args:
        runs: to be blended.
        path: of the records on which the weights are fitted.
        on_held_out: each is predicted by the fold that held it out.

    Raises:
        InputError: names the run, or the file that is not the one which the folds learned from.
    """
    hashed = file_hash(path) if path.is_file() else ""
    if on_held_out and hashed != train_hash(runs[0]):
        raise InputError(
            f"{path} is missing, or has changed since {runs[0].name} was trained on it: restore it."
        )
    for run in runs if not on_held_out else ():
        for member in members(run):
            if "fold" in read_json(run / "config.json") or hashed in learned_hashes(member):
                raise InputError(
                    f"{run.name}, or a run that it learned from, has learned records of "
                    f"{path.name}, on which the weights would be fitted: take runs that were "
                    "scored on another file, or cross-validations of one training file, of which "
                    "each record is predicted by the fold that held it out. Those of texts, single "
                    "folds and blends of them can't be fitted."
                )


def train_hash(run: Path) -> str:
    """Return the hash of the file that a run learned from."""
    return read_json(run / "config.json").get("train_hash", "")


def learned_hashes(run: Path) -> set[str]:
    """Return the hashes of all files that a run learned from, or the runs that taught it."""
    config = flatten(read_json(run / "config.json"))
    added = [project_path(file) for file in config.get("distillation.files", ())]
    teachers = run / "teachers.json"  # extras/distillation writes it
    known = [config, *(read_json(teachers)["teachers"] if teachers.is_file() else ())]
    found = {file_hash(path) for path in added if path.is_file()}
    return found.union(*([one.get("train_hash"), *one.get("added_hashes", ())] for one in known))


def dev_file(runs: Sequence[Path]) -> Path:
    """Return the dev file that all runs were scored on.

    Raises:
        InputError: they were scored on different files, or it is gone or changed.
    """
    scored = [find_scored(str(run)) for run in runs]
    return [shared_gold_file(scored[0], other) for other in scored][0]


def predict_all(run: Path, examples: Sequence[Any]) -> dict:
    """Return record id -> what a run finds in the record."""
    print(f"{run.name} predicts {len(examples)} records")
    return predict(load_runs([run]), examples)


def predict_texts(runs: Sequence[Path], examples: Sequence[Any]) -> list[dict]:
    """Return, for each run, record id -> its scores of the texts of all runs."""
    print(f"{len(runs)} runs write and score texts for {len(examples)} records")
    load = getattr(task_blends, "load_part", load_runs)
    return predict_parts([load([run]) for run in runs], examples, predict)


def predict_held_out(run: Path, examples: Sequence[Any]) -> dict:
    """Return record id -> what the fold that held the record out finds in it."""
    found: dict = {}
    for fold in fold_folders(run):
        # As they were held out: the folds of other settings or another version may be others.
        records = read_json_lines(fold / "predictions" / "dev.jsonl")
        ids = {str(record["id"]) for _, record in records}
        rows = [number for number, example in enumerate(examples) if str(example.id) in ids]
        held_out = choose(examples, np.array(rows, int))
        print(f"{run.name}/{fold.name} predicts the {len(held_out)} records that it held out")
        found |= predict(load_runs([fold]), held_out)
    if len(found) < len(examples):
        raise InputError(
            f"the folds of {run.name} held out {len(found)} of {len(examples)} records: train this "
            "cross-validation again."
        )
    return found


def describe(parts: Parts, runs: Sequence[Path], mix: Mix, evaluation: Evaluation) -> None:
    """Print the score and the weight of each run, and the score of the blend."""
    stacked = isinstance(mix, Stack)
    weights = [""] * len(runs) if isinstance(mix, Stack) else [f"{share:.2f}" for share in mix]
    fitted = "stack" if stacked else "weights"
    print(f"{'' if stacked else 'weight':>8}{parts.monitor:>32}   on the records of the {fitted}")
    for run, weight, single in zip(runs, weights, np.eye(len(runs)), strict=True):
        print(f"{weight:>8}{parts.score(single):>32.4f}   {run.name}")
    print(f"{'stack' if stacked else 'blend':>8}{evaluation.scores[parts.monitor]:>32.4f}")


def blend_config(name: str, runs: Sequence[Path], mix: Mix, on_held_out: bool) -> dict[str, Any]:
    """Return the content of config.json: the settings of the first run, and the blend."""
    config = read_json(runs[0] / "config.json")
    for other in ("fold", "folds", "blend", "overwrite"):
        config.pop(other, None)
    fitted = {"stack": mix.as_dict()} if isinstance(mix, Stack) else {"weights": mix.tolist()}
    return config | {
        "run_name": name,
        "blend": {
            "runs": [Path(os.path.relpath(run, PROJECT)).as_posix() for run in runs],
            **fitted,
            "files_hash": hash_of_weights(runs),
            "fitted_on": "held-out records" if on_held_out else "dev",
        },
    }


def estimate_gain(
    parts: Parts, fit: Callable[..., Mix], config: dict, evaluation: Evaluation
) -> dict[str, float]:
    """Return and print what the blend gains over its best run on records that chose neither."""
    titles = "blend", "best_run"
    records: list[list[dict]] = [[], []]
    for pair in score_held_out(parts, fit):
        for own, new in zip(records, pair, strict=True):
            own.extend(new)
    facts = {name: evaluation.scores[name] for name in ("file", "data_hash")}
    with tempfile.TemporaryDirectory() as temporary:
        scored = []
        for title, own in zip(titles, records, strict=True):
            folder = Path(temporary) / title
            write_json(folder / "config.json", config)
            scores = {"monitor": parts.monitor, "dev": evaluation.scores}
            write_json(folder / "scores.json", scores)
            write_json_lines(folder / "predictions" / "dev.jsonl", own)
            scored.append(Scored(title, folder, **facts))
        found = compare.compare(*scored).difference()
    print(
        f"expected gain over the best run: {found.difference:+.4f}, 95 % interval "
        f"{found.low:+.4f} to {found.high:+.4f}, on records that fitted neither the blend "
        "nor its thresholds"
    )
    if found.high < 0:
        print("warning: the best run is better than the blend: predict with that run.")
    return {"difference": found.difference, "low": found.low, "high": found.high}


def write_run(
    target: Path, config: dict, evaluation: Evaluation, facts: dict, runs: TrainedRuns
) -> None:
    """Write the folder of the blend, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".blend-") as temporary:
        folder = Path(temporary) / target.name
        write_json(folder / "config.json", config)
        write_json_lines(folder / "predictions" / "dev.jsonl", evaluation.predictions)
        finished = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
        scores = {**provenance(runs.settings), **facts, "dev": evaluation.scores, **finished}
        write_json(folder / "scores.json", scores)
        if target.exists():  # it was not when this call began
            raise InputError(f"another process has made runs/{target.name}: choose another --name.")
        os.rename(folder, target)


if __name__ == "__main__":
    main()

"""What do pseudo-labels, distillation, a second stage and blends gain over a few labels?

A part of the training records keeps its labels, another part for each seed. The others are read
as texts without labels. Each variant is a training of the same project, with the commands of the
extras `distillation`, `folds` and `blends`:

gold          the labelled records
gold_longer   the same, with as many steps as the students make
folds         five folds of the labelled records, predicting together
soft          a student of the five folds: labelled records, and what the folds say of the others
hard          the same with plain labels that the folds are at least 90 % sure of
second_stage  starts from `soft`, and learns the labelled records again
blend         gold, soft and second_stage with weights fitted on dev: its dev score is too good
all_gold      all records with their labels: what more labels would give

python benchmarks/more_than_labels.py --encoder FOLDER --from FOLDER: finished trainings are not
repeated, an interrupted one is resumed. It writes benchmarks/results/more_than_labels.json, from
which `baselines scores` makes a table of docs/ablation.md.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from generator.baselines import describe_encoder, find_baselines  # noqa: E402
from generator.files import copy_tree, read_json, read_json_lines, write_json  # noqa: E402
from generator.recipes import KEPT, bake_recipe, prepare_data  # noqa: E402
from generator.run_scripts import project_code_hash, read_scores, run_folder  # noqa: E402

RESULTS = ROOT / "benchmarks/results/more_than_labels.json"
EXTRAS = "blends, comparison, distillation, doctor, folds"
LABELS = ("entities", "triples", "events", "label", "labels", "answers", "targets")
SPLITS = ("dev", "test")
SURE = "0.9"


def main() -> None:
    """Train and score all variants of all seeds; write the results after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--baseline", default="named_entity_recognition_wnut17")
    parser.add_argument("--encoder", type=Path, required=True, help="folder of its encoder")
    parser.add_argument("--from", dest="local", type=Path, help="local copy of the data set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--part", type=float, default=0.1, help="of the records that has labels")
    parser.add_argument("--epochs", type=int, default=3, help="of trainings with all records")
    parser.add_argument("--precision", default="float32", help="of all trainings")
    arguments = parser.parse_args()
    project = make_project(arguments)
    for seed in arguments.seeds:
        divide(project, seed, arguments.part)
        for variant, parts in commands(arguments, seed).items():
            if (seed, variant) not in {(row["seed"], row["variant"]) for row in read_rows(project)}:
                began = time.time()
                for part in parts:
                    run(project, part)
                record(arguments, project, seed, variant, time.time() - began)


def make_project(arguments: argparse.Namespace) -> Path:
    """Return the project in build/, with its data; its runs stay."""
    [baseline] = find_baselines(ROOT, [arguments.baseline])
    project = ROOT / "build" / f"{baseline.name}_more"
    # Those of tables belong to other extras, such as averages, for which some trainings are short.
    kept = {name: value for name, value in baseline.settings.items() if "." not in name}
    with tempfile.TemporaryDirectory() as folder:
        answers = {"project_slug": project.name, "extras": EXTRAS}
        made = bake_recipe(ROOT, replace(baseline, settings=kept), Path(folder), answers)
        copy_tree(made, project, keep=(*KEPT, "more"))
    prepare_data(baseline, project, arguments.local.resolve() if arguments.local else None)
    return project


def divide(project: Path, seed: int, part: float) -> None:
    """Write the labelled and the unlabelled records of a seed into the project's folder `more`."""
    [data] = sorted((project / "data").iterdir())
    records = read_json_lines(data / "train.jsonl")
    chosen = set(random.Random(seed).sample(range(len(records)), round(part * len(records))))
    bare = [{k: v for k, v in one.items() if k not in LABELS} for one in records]
    files = {
        "labelled": [one for number, one in enumerate(records) if number in chosen],
        "texts": [one for number, one in enumerate(bare) if number not in chosen],
    }
    (project / "more").mkdir(exist_ok=True)
    for name, kept in files.items():
        lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept)
        (project / "more" / f"{name}_{seed}.jsonl").write_text(lines, encoding="utf-8")


def commands(arguments: argparse.Namespace, seed: int) -> dict[str, list[list[str]]]:
    """Return the commands of each variant, in their order; a run is named VARIANT_SEED."""
    few, texts = f"more/labelled_{seed}.jsonl", f"more/texts_{seed}.jsonl"
    longer = str(round(arguments.epochs / arguments.part))
    shared = [*("--seed", str(seed), "--devices.precision", arguments.precision)]
    shared += ["--encoder", str(arguments.encoder.resolve())]

    def train(name: str, *flags: str, file: str = few) -> list[str]:
        named = ["--run_name", f"{name}_{seed}", "--train_file", file]
        return ["train.py", *named, *flags, *shared]

    def label(name: str, *flags: str) -> list[str]:
        script = "extras/distillation/label.py"
        return [script, f"folds_{seed}", texts, f"more/{name}_{seed}.jsonl", *flags]

    def student(name: str) -> list[str]:
        files = json.dumps([f"more/{name}_{seed}.jsonl"])
        return train(name, "--distillation.files", files, "--epochs", str(arguments.epochs))

    folds = train("folds", "--folds.count", "5")[1:]
    fit = ["extras/blends/fit.py", *(f"{n}_{seed}" for n in ("gold", "soft", "second_stage"))]
    whole = find_data(arguments.baseline)
    return {
        "gold": [train("gold")],
        "gold_longer": [train("gold_longer", "--epochs", longer)],
        "folds": [["extras/folds/cross_validate.py", *folds]],
        "soft": [label("soft"), student("soft")],
        "hard": [label("hard", "--hard", "--above", SURE), student("hard")],
        "second_stage": [train("second_stage", "--distillation.init_from", f"soft_{seed}")],
        "blend": [[*fit, "--name", f"blend_{seed}"]],
        "all_gold": [train("all_gold", "--epochs", str(arguments.epochs), file=whole)],
    }


def find_data(name: str) -> str:
    """Return the training file of a baseline, inside its project."""
    [baseline] = find_baselines(ROOT, [name])
    return f"data/{baseline.data_set}/train.jsonl"


def run(project: Path, command: list[str]) -> None:
    """Run a script, unless the run that it makes is finished."""
    named = dict(zip(command, command[1:], strict=False))
    name = named.get("--run_name") or named.get("--name")
    if not name or "finished" not in read_scores(run_folder(project, name)):
        subprocess.run([sys.executable, *command], cwd=project, check=True)


def read_rows(project: Path) -> list[dict]:
    """Return the rows so far.

    Raises:
        SystemExit: they are of other code.
    """
    found = read_json(RESULTS) if RESULTS.is_file() else {"rows": []}
    if found["rows"] and found["code_hash"] != project_code_hash(project):
        sys.exit(f"error: {RESULTS.name} is of other code: delete it to train all again.")
    return found["rows"]


def record(
    arguments: argparse.Namespace, project: Path, seed: int, variant: str, seconds: float
) -> None:
    """Score a run on dev and test, and add its row to the results."""
    name = f"{variant}_{seed}"
    [data] = sorted((project / "data").iterdir())
    for split in SPLITS:
        file = os.path.relpath(data / f"{split}.jsonl", project)
        subprocess.run([sys.executable, "evaluate.py", name, file], cwd=project, check=True)
    scores = read_scores(run_folder(project, name))
    first = read_scores(run_folder(project, f"gold_{seed}"))
    monitor = first["monitor"]
    [baseline] = find_baselines(ROOT, [arguments.baseline])
    conditions = {
        "question": "points that more than labels gains over a few labels",
        "baseline": arguments.baseline,
        "part": arguments.part,
        "epochs_of_students": arguments.epochs,
        "precision": arguments.precision,
        "monitor": monitor,
        "code_hash": project_code_hash(project),
        **describe_encoder(baseline, arguments.encoder),
        **{key: first[key] for key in ("hardware", "versions") if key in first},
        "data_hashes": {split: first.get(split, {}).get("data_hash") for split in SPLITS},
    }
    row = {"seed": seed, "variant": variant, "minutes": round(seconds / 60, 1)}
    row |= {split: scores[split][monitor] for split in SPLITS}
    write_json(RESULTS, {**conditions, "rows": [*read_rows(project), row]})


if __name__ == "__main__":
    main()

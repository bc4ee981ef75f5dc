"""Do a baseline's scores hold for its code of today? Train its first steps again and compare.

A training of hours is not repeated for every change of the code that leaves its numbers alone. The
first steps run through all of it: data, batches, model, gradients, optimizer, scoring of dev.
"""

import json
import math
import shutil
from pathlib import Path

from generator.baselines import find_baselines
from generator.errors import InputError
from generator.files import write_json
from generator.reproduce import (
    describe_encoder,
    prepare_data,
    read_json_lines,
    read_scores,
    run_folder,
)
from generator.run_project import project_code_hash, run_script
from generator.scores import PERCENT, update_readmes

STEPS = 20
RUN_NAME = "first_steps"
# Sums in another order differ by 1e-6 in a step; another training differs by 1e-2 in a few.
SAME_LOSS = 1e-4
# Of 1: a handful of records on the border of a threshold.
SAME_SCORE = 0.01


def confirm_baseline(
    root: Path, name: str, local: Path | None = None, encoder: Path | None = None
) -> None:
    """Compare the first steps with those of the scored code, or note them if it is unchanged.

    Args:
        root: the repository.
        name: the baseline.
        local: a local copy of the data set.
        encoder: a local folder with the encoder that the baseline names.

    Raises:
        InputError: the baseline has no scores or no first steps, or the steps differ.
    """
    [baseline] = find_baselines(root, [name])
    project = baseline.folder(root)
    scores = read_scores(project)
    if not scores:
        raise InputError(f"baselines/{name} has no scores yet: run `baselines reproduce {name}`.")
    code = project_code_hash(project)
    if code != scores["code_hash"] and "first_steps" not in scores:
        raise InputError(
            f"baselines/{name}/scores.json is for older code and holds no first steps: run "
            f"`baselines reproduce {name}`."
        )
    weights = describe_encoder(baseline, encoder).get("encoder_weights")
    if weights != scores.get("encoder_weights"):
        raise InputError(
            f"baselines/{name} was scored with other weights of its encoder: check --encoder."
        )
    prepare_data(baseline, project, local)
    steps = train_first_steps(project, scores["seed"], scores["monitor"], encoder)
    if code == scores["code_hash"]:
        scores |= {"first_steps": steps, "confirmed_code": []}
    else:
        compare_steps(name, scores["first_steps"], steps, scores["monitor"])
        scores["confirmed_code"] = [code]
    write_json(project / "scores.json", scores)
    update_readmes(root)
    print(f"{name}: {steps}")


def train_first_steps(
    project: Path, seed: int, monitor: str, encoder: Path | None
) -> dict[str, float]:
    """Train the first steps in a run that is deleted again; return its losses and dev score."""
    flags = ["--encoder", str(encoder.resolve())] if encoder else []
    flags += ["--run_name", RUN_NAME, "--overwrite", "true", "--shown_examples", "0"]
    run_script(project, "train.py", "--steps", str(STEPS), "--seed", str(seed), *flags)
    folder = run_folder(project, RUN_NAME)
    row = read_json_lines(folder / "metrics.jsonl")[-1]
    shutil.rmtree(folder)
    wanted = {f"dev_{monitor}", *(key for key in row if key.endswith("loss"))}
    return {"step": row["step"], **{key: row[key] for key in sorted(wanted)}}


def compare_steps(name: str, before: dict, now: dict, monitor: str) -> None:
    """Refuse first steps that are others than those of the scored code."""
    scale = 100 if monitor in PERCENT else 1
    for key, value in before.items():
        if key.startswith("dev_"):
            same = math.isclose(now[key], value, rel_tol=0, abs_tol=SAME_SCORE * scale)
        else:
            same = math.isclose(now.get(key, math.nan), value, rel_tol=SAME_LOSS)
        if not same:
            raise InputError(
                f"{name}: {key} is {now.get(key)} after {STEPS} steps and was {value} when it was "
                f"scored: run `baselines reproduce {name}`. All: {json.dumps(now)}"
            )

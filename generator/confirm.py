"""Are a baseline's scores still valid for today's code? Train its first steps and compare.

A change that keeps the numbers should not need hours of training. The first steps run all of the
code: data, batches, model, gradients, optimizer, scoring of dev.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from generator import InputError
from generator.baselines import SAME_PRECISION, describe_encoder, find_baselines, own_encoder
from generator.document_tables import update_documents
from generator.files import read_json_lines, write_json
from generator.recipes import prepare_data, working_project
from generator.run_scripts import (
    PREPARATION,
    project_code_hash,
    read_scores,
    run_folder,
    run_script,
)
from generator.score_names import FIRST_STEPS, PERCENT

RUN_NAME = "first_steps"
# Another summation order differs by 1e-6 in a step; another training by 1e-2 in a few steps.
SAME_LOSS = 1e-4
# For scores up to 1: a few records at a threshold may change.
SAME_SCORE = 0.01
# With these instructions an Intel and an AMD processor gave the same digits. Some trainings amplify
# rounding: in a step of MPNet the difference of one token grew tenfold from layer to layer.
ALIKE = ("ONEDNN_MAX_CPU_ISA", "AVX2")


def confirm_baseline(
    root: Path, name: str, local: Path | None = None, encoder: Path | None = None
) -> None:
    """Compare the first steps with those that were recorded; none yet: record them.

    Args:
        root: the repository.
        name: the baseline.
        local: a local copy of the data set.
        encoder: a local folder with the encoder that the baseline names.

    Raises:
        InputError: the baseline has no scores or no first steps, or the steps differ with either
            rounding.
    """
    [baseline] = find_baselines(root, [name])
    results = baseline.results(root)
    scores = read_scores(results)
    if not scores:
        raise InputError(f"baselines/{name} has no scores yet: run `baselines reproduce {name}`.")
    project = working_project(root, baseline)
    code = project_code_hash(project)
    if code != scores["code_hash"] and "first_steps" not in scores:
        raise InputError(
            f"the scores of baselines/{name} are for older code and hold no first steps: run "
            f"`baselines reproduce {name}`."
        )
    encoder = encoder or own_encoder(baseline, root)
    weights = describe_encoder(baseline, encoder).get("encoder_weights")
    if weights != scores.get("encoder_weights"):
        raise InputError(
            f"baselines/{name} was scored with other weights of its encoder: check --encoder."
        )
    if scores.get("recipe", baseline.recipe) != baseline.recipe:
        raise InputError(
            f"baselines/{name} was scored with other settings than generator/baselines.toml has: "
            f"run `baselines reproduce {name}`."
        )
    prepare_data(baseline, project, local)
    if (project / PREPARATION).is_file():
        run_script(project, PREPARATION)
    asked = project, scores["seed"], scores["monitor"], encoder
    steps = train_first_steps(*asked)
    recorded = "first_steps" in scores
    if recorded:  # also by the same code: Keras or TensorFlow may be others
        try:
            compare_steps(name, scores, steps)
        except InputError as error:
            print(f"{error}\nOnce more, with {'='.join(ALIKE)}:")
            with rounding_alike():
                steps = train_first_steps(*asked)
            compare_steps(name, scores, steps)
    scores = {"first_steps": steps, **scores}
    scores["confirmed_code"] = [code] if code != scores["code_hash"] else []
    write_json(results / "scores.json", scores)
    update_documents(root)
    said = "equal" if recorded else "recorded"
    print(f"{name}: first {FIRST_STEPS} steps {said}, {steps}")


def train_first_steps(
    project: Path, seed: int, monitor: str, encoder: Path | None
) -> dict[str, float]:
    """Train the first steps in a temporary run; return its losses and dev score."""
    flags = ["--devices.precision", SAME_PRECISION]
    flags += ["--encoder", str(encoder.resolve())] if encoder else []
    flags += ["--run_name", RUN_NAME, "--overwrite", "true", "--shown_examples", "0"]
    run_script(project, "train.py", "--steps", str(FIRST_STEPS), "--seed", str(seed), *flags)
    folder = run_folder(project, RUN_NAME)
    row = read_json_lines(folder / "metrics.jsonl")[-1]
    shutil.rmtree(folder)
    wanted = {f"dev_{monitor}", *(key for key in row if key.endswith("loss"))}
    return {"step": row["step"], **{key: row[key] for key in sorted(wanted)}}


@contextlib.contextmanager
def rounding_alike() -> Iterator[None]:
    """Let trainings use only the instructions of `ALIKE`."""
    variable, instructions = ALIKE
    before = os.environ.get(variable)
    os.environ[variable] = instructions
    try:
        yield
    finally:
        del os.environ[variable]
        os.environ |= {} if before is None else {variable: before}


def compare_steps(name: str, scores: dict, now: dict) -> None:
    """Refuse first steps that differ from those of the scored code."""
    scale = 100 if scores["monitor"] in PERCENT else 1
    for key, value in scores["first_steps"].items():
        if key.startswith("dev_"):
            same = math.isclose(now[key], value, rel_tol=0, abs_tol=SAME_SCORE * scale)
        else:
            same = math.isclose(now.get(key, math.nan), value, rel_tol=SAME_LOSS)
        if not same:
            machine = scores.get("hardware", "another machine")
            raise InputError(
                f"{name}: {key} is {now.get(key)} after {FIRST_STEPS} steps and was {value} when it"
                f" was scored on {machine}: if this is another processor, which rounds otherwise, "
                f"confirm it there, else run `baselines reproduce {name}`. All: {json.dumps(now)}"
            )

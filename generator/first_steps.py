"""The first steps of a training: what they are now, and what they were when it was scored."""

import json
import math
import shutil
from pathlib import Path

from generator.errors import InputError
from generator.run_project import read_json_lines, run_folder, run_script
from generator.score_names import PERCENT

STEPS = 20
RUN_NAME = "first_steps"
# Sums in another order differ by 1e-6 in a step; another training differs by 1e-2 in a few.
SAME_LOSS = 1e-4
# Of 1: a handful of records on the border of a threshold.
SAME_SCORE = 0.01


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

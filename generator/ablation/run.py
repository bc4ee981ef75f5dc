"""Train a baseline with one changed setting at a time, and log each training."""

import hashlib
import json
import math
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from generator import InputError
from generator.ablation import timed_training
from generator.ablation.log import append_row, is_final, lock, read_rows, training_key
from generator.ablation.report import write_report
from generator.ablation.studies import Study, find_studies
from generator.baselines import describe_encoder, own_encoder
from generator.data_sets.registry import SPLITS
from generator.files import read_json_lines, read_toml, sha256
from generator.recipes import prepare_data, working_project
from generator.reproduce import SCORED_SPLITS, numbers
from generator.run_scripts import (
    project_code_hash,
    project_environment,
    read_scores,
    run_folder,
)

STEP_FILE = "steps.jsonl"
TOLD_TO_END = 143  # exit code of a training that saved on SIGTERM
# Prints the first variant that the project refuses or that changes nothing.
CHECK_SETTINGS = """
import json, sys
from core.base.errors import InputError
from core.base.settings import read_settings
from task.settings import Settings

reference = None
for variant, flags in json.loads(sys.argv[1]).items():
    try:
        settings = read_settings(Settings, flags)
    except InputError as error:
        sys.exit(f"{variant}: {error}")
    if settings == reference:
        sys.exit(f"{variant} changes nothing: give it other settings than the baseline's.")
    reference = reference or settings
"""


@dataclass(frozen=True)
class Experiment:
    """A study, with the project and the data that it trains on.

    Attributes:
        study: the variants and seeds.
        project: the folder of its baseline.
        data: the folder of the data, inside the project.
        encoder: a local folder with the encoder that the baseline names.
        facts: the `CONDITIONS` of its rows.
    """

    study: Study
    project: Path
    data: str
    encoder: Path | None
    facts: dict

    def row(self, variant: str, seed: int) -> dict:
        """Return the first fields of a training's row."""
        return {
            "study": self.study.name,
            "variant": variant,
            "seed": seed,
            "settings": self.study.settings_of(variant),
            **self.facts,
        }

    def flags(self, variant: str) -> list[str]:
        """Return a variant's settings as flags."""
        flags = ["--encoder", str(self.encoder.resolve())] if self.encoder else []
        for name, value in {**self.study.held, **self.study.settings_of(variant)}.items():
            flags += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
        return flags


def ablate(
    root: Path,
    names: list[str] | None = None,
    local: Path | None = None,
    encoder: Path | None = None,
    seeds: list[int] | None = None,
    only: list[str] | None = None,
    keep: bool = False,
) -> None:
    """Train all variants of studies with all seeds, seed by seed, except those already logged.

    Several processes may share a study: each takes a training that no other process has taken.

    Args:
        root: the repository.
        names: the studies; all by default.
        local: a local copy of the data set, for one study.
        encoder: a local folder with the encoder that the baseline names, for one study.
        seeds: by default those of each study.
        only: these variants.
        keep: don't delete the folders of the runs.

    Raises:
        InputError: something is missing, or a project refuses the settings of a variant.
    """
    studies = find_studies(root, names)
    if len(studies) > 1 and (local or encoder):
        raise InputError("--from and --encoder belong to one study: name it.")
    check_variants(studies, only)
    experiments = [prepare(root, study, local, encoder) for study in studies]
    for experiment in experiments:
        check_settings(experiment)
    jobs = [
        (experiment, variant, seed)
        for experiment in experiments
        for seed in seeds or experiment.study.seeds
        for variant in experiment.study.variants
        if not only or variant in only
    ]
    # Like Ctrl-C; a job scheduler or `timeout` sends this signal.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_jobs(root, jobs, keep)
    finally:
        signal.signal(signal.SIGTERM, before)
    write_report(root)


def check_variants(studies: list[Study], only: list[str] | None) -> None:
    """Refuse a variant name that no study has."""
    known = list(dict.fromkeys(variant for study in studies for variant in study.variants))
    for variant in only or []:
        if variant not in known:
            raise InputError(f"there is no variant {variant!r}: the names are {', '.join(known)}.")


def prepare(root: Path, study: Study, local: Path | None, encoder: Path | None) -> Experiment:
    """Fetch a study's data and record what its scores depend on."""
    baseline = study.find_baseline(root)
    encoder = encoder or own_encoder(baseline, root)
    weights = describe_encoder(baseline, encoder)
    project = working_project(root, baseline, extras="all")
    data = prepare_data(baseline, project, local)
    hashes = {split: sha256((project / data / f"{split}.jsonl").read_bytes()) for split in SPLITS}
    facts = {
        "code_hash": project_code_hash(project),
        "baseline_settings": hash_settings(project),
        "data": hashes,
        **weights,
    }
    return Experiment(study, project, data, encoder, facts)


def hash_settings(project: Path) -> str:
    """Return a hash of what a project's config.toml sets, whatever its comments say."""
    settings = read_toml(project / "config.toml")
    return sha256(json.dumps(settings, sort_keys=True).encode())


def check_settings(experiment: Experiment) -> None:
    """Let the project check the settings of every variant before hours of training.

    Raises:
        InputError: the project refuses some.
    """
    flags = {variant: experiment.flags(variant) for variant in experiment.study.variants}
    done = subprocess.run(
        [sys.executable, "-c", CHECK_SETTINGS, json.dumps(flags)],
        cwd=experiment.project,
        env=project_environment(),
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["the project can't read its settings"]
        raise InputError(f"generator/ablations.toml, {experiment.study.name}, {reason[-1]}")


def run_jobs(root: Path, jobs: list[tuple[Experiment, str, int]], keep: bool) -> None:
    """Train what the log lacks, with a progress bar."""
    elsewhere = 0
    with tqdm(jobs, desc="ablate", unit="training") as progress:
        for experiment, variant, seed in progress:
            name = f"{experiment.study.name}, {variant}, seed {seed}"
            progress.set_postfix_str(name)
            begun = experiment.row(variant, seed)
            log = run_folder(experiment.project, f"{run_name(begun)}.log")
            log.parent.mkdir(exist_ok=True)
            with open(log, "ab") as output:
                # The script inherits the lock, so no other process trains in this folder while it
                # runs.
                if not lock(output.fileno(), wait=False):
                    elsewhere += 1
                    continue
                row = find_row(root, begun)
                if row is None:
                    row = train_and_score(experiment, begun, output)
                    append_row(root, row)
                    write_report(root)
                    if row["failure"]:
                        progress.write(f"{name}: {row['failure']}")
            if is_final(row):
                log.unlink(missing_ok=True)
                if not keep:
                    shutil.rmtree(run_folder(experiment.project, run_name(begun)), True)
    if elsewhere:
        print(f"{elsewhere} of {len(jobs)} trainings are another process's at this moment.")


def run_name(row: dict) -> str:
    """Return the name of a training's run; it changes with anything that affects the result."""
    key = hashlib.sha256(json.dumps(training_key(row)).encode()).hexdigest()[:8]
    return f"ablation_{row['study']}_{row['variant']}_{row['seed']}_{key}"


def find_row(root: Path, begun: dict) -> dict | None:
    """Return the row of a training that is already final."""
    key = training_key(begun)
    rows = (row for row in read_rows(root) if training_key(row) == key and is_final(row))
    return next(rows, None)


def train_and_score(experiment: Experiment, begun: dict, output: BinaryIO) -> dict:
    """Train one variant with one seed, or resume it; return its row.

    Args:
        experiment: of the variant.
        begun: the first fields of the row.
        output: an open file for the output of the scripts.

    Raises:
        InputError: the training received SIGTERM.
    """
    project, name = experiment.project, run_name(begun)
    folder = run_folder(project, name)
    failure = None
    if "finished" not in read_scores(folder):
        script = str(Path(timed_training.__file__).resolve())
        flags = ["--seed", str(begun["seed"]), "--run_name", name, "--shown_examples", "0"]
        flags += experiment.flags(begun["variant"])
        clock = str(run_folder(project, name).relative_to(project) / STEP_FILE)
        failure = run_logged(project, [script, clock, "train.py", *flags], output)
        if failure is None and "finished" not in read_scores(folder):
            raise InputError(f"{name} was told to end: run the same command to go on.")
    diverged = find_divergence(folder, failure)
    if failure is None and diverged is None and "test" not in read_scores(folder):
        arguments = ["evaluate.py", f"runs/{name}", f"{experiment.data}/test.jsonl"]
        failure = run_logged(project, arguments, output)
    return {
        **begun,
        **read_run(folder),
        "failure": diverged or failure,
        "diverged": diverged is not None,
        "command": shlex.join(["baselines", "ablate", experiment.study.name]),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def run_logged(project: Path, arguments: list[str], output: BinaryIO) -> str | None:
    """Run Python in a project's folder; on SIGTERM it saves first.

    Args:
        project: the folder.
        arguments: of Python.
        output: an open file for its output.

    Returns:
        Why it failed; None: it succeeded.
    """
    before = os.fstat(output.fileno()).st_size
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=project,
        env=project_environment(),
        stdout=output,
        stderr=subprocess.STDOUT,
        # Ctrl-C would interrupt it in the middle of a step, so it gets SIGTERM.
        start_new_session=True,
    )
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        try:
            process.wait()
        except KeyboardInterrupt:
            process.kill()
            process.wait()
        raise
    if code in (0, TOLD_TO_END):  # a run that received SIGTERM is unfinished, as its scores say
        return None
    # The log must not contain the path of the repository.
    return explain_failure(code, Path(output.name), before).replace(f"{project}{os.sep}", "")


def explain_failure(code: int, log: Path, begin: int) -> str:
    """Return why a script ended: the last line it printed, or the signal that killed it.

    Args:
        code: its exit code.
        log: the file with its output.
        begin: where its output begins in the file.
    """
    if code < 0:
        # Linux kills a process that needs too much memory.
        out_of_memory = ", as for want of memory" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{out_of_memory}"
    lines = log.read_bytes()[begin:].decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f"exit code {code}: {said[-1].removeprefix('error: ') if said else 'nothing was said'}"


def find_divergence(folder: Path, failure: str | None) -> str | None:
    """Return after which step a run's loss became not a number; None: never.

    Args:
        folder: of the run.
        failure: why its training failed; earlier versions continued.
    """
    if failure and "not finite" in failure:
        return failure.partition(": ")[2]
    path = folder / "metrics.jsonl"
    for row in read_json_lines(path) if path.is_file() else []:
        if not math.isfinite(row.get("loss", 0.0)):
            return f"the loss is not finite after {row['step']} steps"
    return None


def read_run(folder: Path) -> dict:
    """Return scores and measurements of a run; missing ones are absent or None."""
    scores = read_scores(folder)
    kept = ("monitor", "epochs", "minutes", "versions", "hardware")
    found = {name: scores[name] for name in kept if name in scores}
    found |= {split: numbers(scores[split]) for split in SCORED_SPLITS if split in scores}
    metrics, steps = folder / "metrics.jsonl", folder / STEP_FILE
    rows = read_json_lines(metrics) if metrics.is_file() else []
    timed = read_json_lines(steps) if steps.is_file() else []
    return found | {
        "steps": rows[-1]["step"] if rows else 0,
        **measured_steps(timed),
    }


def measured_steps(rows: list[dict]) -> dict:
    """Return the medians of all timed steps, and the peak memory.

    Args:
        rows: from `timed_training`, one per epoch.
    """
    seconds = [value for row in rows for value in row["seconds"]]
    cpu_seconds = [value for row in rows for value in row["cpu_seconds"]]
    peaks = [row["peak_bytes"] for row in rows if row.get("peak_bytes")]
    return {
        "timed_steps": len(seconds),
        "seconds_per_step": median(seconds),
        "cpu_seconds_per_step": median(cpu_seconds),
        "peak_mib": round(max(peaks) / 2**20) if peaks else None,
    }


def median(values: list[float]) -> float | None:
    """Return the median of seconds; None: there are none."""
    return round(statistics.median(values), 4) if values else None

"""All runs of a project: their scores, differences to the best one, settings and curves.

Only runs with the same dev records and the same deciding score are compared. A folder that can't
be read is named in one line, and the others are shown.
"""

import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from tqdm import tqdm

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import PROJECT, read_json, read_json_lines
from core.base.settings import CONFIG, flatten, with_new_names
from core.runs.opening import FREE_SETTINGS
from extras.runs_table.notes import read_note
from extras.runs_table.shown import print_groups, write_page

# From two scored folders to a `Compared` of extras/comparison.
Compare = Callable[[Any, Any], Any]
FOLD = re.compile(r"fold_\d+")
# What config.json holds besides settings.
FACTS = re.compile(r"code\..*|fold|.*_hash")


@dataclass
class Row:
    """A scored run.

    Attributes:
        name: the folder, as compare.py takes it: relative to runs/.
        scored: the folder as extras/comparison knows it.
        monitor: name of the deciding score.
        metric: the kind of that score, where a task has several of one name.
        score: on dev; `low` and `high` are the ends of its 95 % interval, None: not known.
        difference: to the best run, `(difference, low, high)`; None: not known, or the best one.
        verdict: that difference in words, or `best`.
        settings: name -> value of config.json, those of tables with a dot; empty: not known. Of a
            blend only its weights, because its runs have the settings.
        asked: all of config.json, which says what the score is; of a blend that of its first run.
        changed: the settings that differ from the best run's; of the best, from config.toml's.
        curve: `(step, score on dev)` of each scoring.
        finished: whether the training has ended.
        minutes: of training; None: not known.
        train_hash: of the training file; `code_hash`: of the code. Empty: not known.
        note: of the user.
        fault: why it is not compared; empty: it is.
    """

    name: str
    scored: Any
    monitor: str
    metric: str
    score: float
    low: float | None = None
    high: float | None = None
    difference: tuple[float, float, float] | None = None
    verdict: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)
    curve: list[tuple[int, float]] = field(default_factory=list)
    finished: bool = True
    minutes: float | None = None
    train_hash: str = ""
    code_hash: str = ""
    note: str = ""
    fault: str = ""


def show_runs(compare: Compare, task: str) -> None:
    """Print a table of all runs, and write runs/index.html.

    Args:
        compare: of the task.
        task: its name.

    Raises:
        InputError: there is no run.
    """
    rows, faults = read_runs(task)
    if not rows and not faults:
        raise InputError("runs/ has no run yet: train one with: python train.py")
    groups = group_rows(rows)
    with tqdm(total=len(rows), desc="comparing", leave=False, disable=None) as progress:
        for group in groups:
            compare_group(group, compare, progress.update)
            note_changes(group)
    faults += [f"{row.name}: {row.fault}" for row in rows if row.fault]
    faults = [line.replace(f"{PROJECT}{os.sep}", "") for line in faults]
    print_groups(groups, faults)
    write_page(PROJECT / "runs" / "index.html", groups, faults)
    print("runs/index.html shows the same, with curves: open it in a browser.")


# ------------------------------------------------------------------------------- reading


def read_runs(task: str) -> tuple[list[Row], list[str]]:
    """Return the scored runs, and one line about each folder that is none."""
    rows, faults = [], []
    for folder in find_folders():
        name = folder.relative_to(PROJECT / "runs").as_posix()
        try:
            rows.append(read_run(name, folder, task))
        except InputError as error:
            faults.append(f"{name}: {error}")
        except OSError as error:
            faults.append(f"{name}: can't be read ({error.strerror}).")
    return rows, faults


def find_folders() -> list[Path]:
    """Return the folders in runs/, and the runs in those, such as the trials of a search."""
    return [found for folder in subfolders(PROJECT / "runs") for found in runs_in(folder)]


def runs_in(folder: Path) -> list[Path]:
    """Return a folder and the runs in it, however deep.

    The folds of a cross-validation are one run. A folder of which only the inner ones are runs is
    left out. Links are followed only in runs/ itself, because they may lead in a circle.
    """
    crossed = is_run(folder)
    further = [one for one in subfolders(folder) if not one.is_symlink()]
    further = [one for one in further if not (crossed and FOLD.fullmatch(one.name))]
    inner = [found for one in further for found in runs_in(one) if is_run(found)]
    return [folder, *inner] if crossed or not inner else inner


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, without hidden ones; none if it is absent or closed to us."""
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        return []


def is_run(folder: Path) -> bool:
    """Return whether a folder has what a training writes first, or scores."""
    return (folder / "config.json").is_file() or (folder / "scores.json").is_file()


def read_run(name: str, folder: Path, task: str) -> Row:
    """Return what a run's files say of it.

    Raises:
        InputError: it is no scored run of this task, or a file is damaged.
    """
    if not is_run(folder):
        raise InputError("no run of this project, for it has neither config.json nor scores.json.")
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    check_task(config, task)
    if not (folder / "scores.json").is_file():
        note = read_note(folder)
        what = note or "the same training command goes on"
        raise InputError(f"unfinished, and not scored yet: {what.rstrip('.')}.")
    scores = read_json(folder / "scores.json")
    dev = scores["dev"] if isinstance(scores.get("dev"), dict) else {}
    named = scores.get("monitor"), dev.get("file"), dev.get("data_hash")
    score = dev.get(named[0]) if all(isinstance(one, str) for one in named) else None
    if not is_number(score):
        raise InputError(
            f'{folder / "scores.json"} has no "dev" with "file", "data_hash" and the score that '
            '"monitor" names: restore it, or train again.'
        )
    monitor, file, data_hash = map(str, named)
    minutes = scores.get("minutes")
    return Row(
        name=name,
        # Without hashing the weights, which takes long and is for those that load them.
        scored=need("comparison").Scored(name, folder, file, data_hash),
        monitor=monitor,
        metric=str(dev.get("metric", "")),
        score=float(score),
        settings=read_values(config),
        asked=flatten(with_new_names({**config, "blend": {}})) if config else {},
        curve=read_curve(folder / "metrics.jsonl", monitor),
        finished="finished" in scores or not config,
        minutes=float(minutes) if is_number(minutes) else None,
        train_hash=str(config.get("train_hash", "")),
        code_hash=str(scores.get("code_hash", "")),
        note=read_note(folder),
    )


def check_task(config: dict, task: str) -> None:
    """Refuse the run of another project's task.

    Raises:
        InputError: names the task.
    """
    if (other := config.get("task", task)) != task:
        raise InputError(f"a run of another task, {other}.")


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value of a JSON file is a finite number."""
    is_bool = isinstance(value, bool)
    return isinstance(value, int | float) and not is_bool and math.isfinite(value)


def read_values(config: dict) -> dict[str, Any]:
    """Return the settings in config.json that can change a score, under their present names.

    Those of a blend belong to its runs: it has only their weights.
    """
    if "blend" in config:
        return {"blend": describe_blend(config["blend"])}
    values = flatten(with_new_names(config))
    return {
        name: value
        for name, value in values.items()
        if name not in FREE_SETTINGS and not FACTS.fullmatch(name)
    }


def describe_blend(blend: Any) -> str:
    """Return in words what a blend is made of.

    Raises:
        InputError: its part of config.json is broken.
    """
    try:
        names = [Path(run).name for run in blend["runs"]]
        if "stack" in blend:
            return "stack of " + ", ".join(names)
        parts = zip(map(float, blend["weights"]), names, strict=True)
        return " + ".join(f"{weight:.2f} {name}" for weight, name in parts)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError('config.json has a broken "blend": write it again with fit.py.') from error


def read_curve(path: Path, monitor: str) -> list[tuple[int, float]]:
    """Return `(step, score on dev)` of each scoring; a row that is cut off ends it."""
    curve: list[tuple[int, float]] = []
    try:
        for _, row in read_json_lines(path) if path.is_file() else ():
            step, score = row.get("step"), row.get(f"dev_{monitor}")
            if is_number(step) and is_number(score):
                curve.append((int(step), float(score)))
    except InputError:  # of a run that is being trained, or was killed
        pass
    return curve


# ----------------------------------------------------------------------------- comparing


def group_rows(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the runs that can be compared with each other, best first; the largest group first."""
    groups: dict[tuple, list[Row]] = {}
    order = sorted(rows, key=lambda row: (-row.score, row.name))
    # A floor has no settings: it joins the runs of the same score.
    for row in sorted(order, key=lambda row: not row.asked):
        known = (row.monitor, row.metric, row.scored.data_hash)
        own = tuple(str(row.asked.get(name)) for name in settings_of_score(row.monitor))
        same = [key for key in groups if key[: len(known)] == known]
        key = (*known, *own) if row.asked or len(same) != 1 else same[0]
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        group.sort(key=order.index)
    return sorted(groups.values(), key=len, reverse=True)


def settings_of_score(monitor: str) -> tuple[str, ...]:
    """Return the settings that change what a score is."""
    of_gold = need("comparison").SETTINGS_OF_GOLD
    if monitor.endswith("_at_k") or monitor == "top_k_accuracy":
        return ("competition.k", *of_gold)
    if monitor == "f_beta":
        return ("beta", "competition.beta", "positive_label", *of_gold)
    return ("positive_label", *of_gold)


def compare_group(group: list[Row], compare: Compare, progress: Callable[[], object]) -> None:
    """Give each run its interval, and its difference to the best run that can be compared."""
    best = None
    for row in group:
        compare_row(row, best, compare)
        if best is None and not row.fault:
            best, row.verdict = row, "best"
        progress()
    for row in group[: group.index(best)] if best else ():
        # Without settings of its own, as a floor has none, it needs those of another run.
        compare_row(row, best, compare)
    if best is None and group:  # the dev file itself is absent: one line says it
        for row in group[1:]:
            row.fault = ""


def compare_row(row: Row, best: Row | None, compare: Compare) -> None:
    """Give a run its interval, and its difference to the best one, or the reason for having none.

    Args:
        row: the run.
        best: another run; None: it is compared with nothing.
        compare: of the task.
    """
    row.fault = ""
    try:
        compared = compare(row.scored, (best or row).scored)
        own = replace(compared, second=score_nothing).difference()
        found = compared.difference()
    except InputError as error:
        row.fault = str(error)
        return
    row.low, row.high = own.low, own.high
    if best:
        row.difference, row.verdict = (found.difference, found.low, found.high), found.verdict


def score_nothing(counts: np.ndarray) -> np.ndarray:
    """Return zeros `[draws]`: the difference to them is the score itself."""
    return np.zeros(len(counts))


def note_changes(group: list[Row]) -> None:
    """Give each run the settings by which it differs from the best one; that, from config.toml."""
    best = next((row for row in group if row.verdict == "best"), group[0])
    if "blend" in best.settings or not best.settings:  # it has no settings to compare with
        best = next((row for row in group if len(row.settings) > 1), best)
    try:
        now = flatten(tomllib.loads(CONFIG.read_text("utf-8-sig")))
    except (OSError, ValueError):  # the table needs no config.toml
        now = {}
    if now.get("devices.precision") == "auto":
        del now["devices.precision"]
    for row in group:
        others = now if row is best else best.settings
        row.changed = {
            name: value
            for name, value in row.settings.items()
            if name == "blend" or name in others and others[name] != value
        }
        if row is not best and best.train_hash and row.train_hash not in ("", best.train_hash):
            row.changed.setdefault("train_file", "other content")

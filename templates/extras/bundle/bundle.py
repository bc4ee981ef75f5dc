"""Bundle runs for a host without internet: project, weights, wheels, notebook and Dockerfile.

python extras/bundle/bundle.py RUN [RUN ...] --to DIR
python extras/bundle/bundle.py RUN --to DIR --weights float16 --python 3.11 \\
    --platform manylinux_2_28_x86_64 --leave-out tensorflow

DIR is written whole or not at all; an existing DIR is refused. The same command goes on after an
interruption.
"""

import argparse
import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)

BEGUN = time.perf_counter()
# `core` sets TensorFlow up, so it comes first.
from core.base.errors import InputError, command  # noqa: E402, I001
from core.base.extras import need, present  # noqa: E402
from core.base.files import delete, project_path, read_json, write_text  # noqa: E402
from core.runs.members import check_members, find_runs  # noqa: E402

import predict as script  # noqa: E402
from filelock import FileLock, Timeout  # noqa: E402
from packaging.requirements import Requirement  # noqa: E402
from packaging.utils import canonicalize_name  # noqa: E402
from task.prediction import SHARED_SETTINGS  # noqa: E402
from task.settings import Settings  # noqa: E402

from extras.bundle import trial  # noqa: E402
from extras.bundle.packages import (  # noqa: E402
    Asked,
    Lock,
    trained_versions,
    wanted_requirements,
)
from extras.bundle.notebook import Facts, write_notebook  # noqa: E402
from extras.bundle.parts import (  # noqa: E402
    APART,
    check_finished,
    copy_project,
    copy_runs,
    in_words,
    list_sizes,
    name_runs,
    with_parts,
)
from extras.bundle.target import Target, make_target, version_here  # noqa: E402
from extras.bundle.wheels import Wheels, check_pip  # noqa: E402

PLATFORM = "manylinux_2_28_x86_64"  # of Kaggle and of the usual images of containers
CUDA = "tensorflow[and-cuda]"
TRIAL_RECORDS = 128
EXPECTED_RECORDS = 10_000
UNFINISHED = ".unfinished"  # of the folder next to DIR that becomes DIR


@command
def main() -> None:
    """Refuse, copy, try out, fetch, rename, tell."""
    arguments = read_arguments()
    destination = arguments.to.absolute()
    check_free(destination)
    need("chunks")
    folders = find_runs(arguments.runs)
    named = name_runs(arguments.runs)
    copied = with_parts(named)
    has_blend = copied != named
    # The runs of a blend may differ: each reads the records by itself.
    for together in [[folder] for folder in folders] if has_blend else [folders]:
        check_members(together, Settings, SHARED_SETTINGS)
    check_finished(folders)
    versions = trained_versions(folders)
    trained_on = ".".join(versions.pop("python", version_here()).split(".")[:2])
    target = make_target(arguments.python or trained_on, arguments.platform)
    asked = ask_for_packages(arguments, target, versions)
    file = find_records(arguments.file, folders)

    work = destination.with_name(f"{destination.name}{UNFINISHED}")
    lock = hold(work)
    for left in (path for path in work.iterdir() if path.name not in ("wheels", ".lock")):
        delete(left)
    half = arguments.weights == "float16"
    copy_project(work / "project", has_blend)
    if kept := copy_runs(copied, folders, work / "project", half):
        print(f"float16: {kept} arrays have values that it can't hold, and stay float32")
    times = try_both(work, file, arguments, [*named], half)
    write_text(work / "project/requirements.txt", asked.text())
    write_text(work / "requirements.lock", fill_wheels(work, asked, arguments.no_wheels).text())
    tested = read_json(folders[0] / "config.json").get("test_file", "")
    suffix, has_wheels = Path(tested).suffix or ".jsonl", not arguments.no_wheels
    whole = has_wheels and not asked.left_out
    write_notebook(
        work, Facts(destination.name, [*named], target.python, suffix, has_wheels, whole)
    )
    lock.release()
    delete(work / ".lock")
    check_free(destination)
    os.replace(work, destination)
    describe(destination, times, arguments.expect, file)


def read_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="that is made")
    what = "float16 halves the files; they are read as float32, or what the run was trained with"
    parser.add_argument(
        "--weights", choices=("as-trained", "float16"), default="as-trained", help=what
    )
    what = "version of the host's Python, like 3.11; that of the training unless told"
    parser.add_argument("--python", default="", help=what)
    parser.add_argument("--platform", default=PLATFORM, help=f"of the host; {PLATFORM} unless told")
    parser.add_argument("--cuda", action="store_true", help="wheels of CUDA too, for GPUs: 3 GB")
    what = "packages that the host has: their wheels are left out, and those that only they need"
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="PACKAGE", help=what)
    parser.add_argument("--no-wheels", action="store_true", help="leave out all wheels")
    what = "whose first records are predicted, to measure; the dev file of the run unless told"
    parser.add_argument("--file", type=Path, help=what)
    what = f"so many of them, {TRIAL_RECORDS} unless told"
    parser.add_argument("--records", type=int, default=TRIAL_RECORDS, metavar="N", help=what)
    what = f"say how long N records take; {EXPECTED_RECORDS} unless told"
    parser.add_argument("--expect", type=int, default=EXPECTED_RECORDS, metavar="N", help=what)
    arguments = parser.parse_args()
    if min(arguments.records, arguments.expect) < 1:
        raise InputError("--records and --expect are numbers of records, from 1 on.")
    return arguments


def check_free(folder: Path) -> None:
    """Refuse an existing folder before any work.

    Raises:
        InputError: it exists, or it can't be made.
    """
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists already: name a new folder, or delete that one.")
    parent = next(parent for parent in folder.parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder} can't be made in {parent}: name another place.")


def find_records(given: Path | None, folders: Sequence[Path]) -> Path:
    """Return the file that is predicted to measure: the given one, or one that the run has read.

    Raises:
        InputError: there is none.
    """
    config = read_json(folders[0] / "config.json")
    files = [project_path(config[key]) for key in ("dev_file", "test_file") if config.get(key)]
    for file in [given] if given else files:
        if file.is_file():
            return file
        if given:
            raise InputError(f"--file {given} is not a file: name one that predict.py reads.")
    raise InputError(
        "the dev file of the run is not here: name one that predict.py reads with --file FILE."
    )


def hold(work: Path) -> FileLock:
    """Make the folder that becomes DIR, and keep other processes out of it.

    Raises:
        InputError: another process fills it.
    """
    work.mkdir(parents=True, exist_ok=True)
    lock = FileLock(work / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise InputError(f"{work} is being filled by another process: wait for it.") from error
    return lock


def try_both(
    work: Path, file: Path, arguments: argparse.Namespace, runs: Sequence[str], half: bool
) -> trial.Times:
    """Predict some records with the project and with the bundle; print what differs.

    Returns:
        What the bundle took.

    Raises:
        InputError: the bundle predicts otherwise, and its weights are those of the runs.
    """
    outs = [work / "ours.jsonl", work / "bundled.jsonl"]
    with contextlib.redirect_stdout(io.StringIO()):
        trial.try_out(script, arguments.records, [*arguments.runs, str(file), str(outs[0])], BEGUN)
    words = [str(work / "project"), str(arguments.records), *runs, str(file), str(outs[1])]
    done = subprocess.run(
        [sys.executable, trial.__file__, *words],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error is said"])[-1]
        raise InputError(f"the bundle's own predict.py fails ({last}): {work} is kept.")
    times = trial.read_times(done.stdout)
    where = f"the first {times.records} records of {file.name}"
    if outs[0].read_bytes() == outs[1].read_bytes():
        print(f"tried: the same bytes as the project's predict.py for {where}")
    else:
        largest, changed = trial.compare_answers(*map(trial.read_answers, outs))
        said = f"a number changes by {largest:.1e} at most, {changed} records change otherwise"
        print(f"tried: {said}, for {where}")
        if not half:
            raise InputError(f"the bundle predicts otherwise than the project: {work} is kept.")
    for out in outs:
        delete(out)
    return times


def ask_for_packages(
    arguments: argparse.Namespace, target: Target, versions: dict[str, str]
) -> Asked:
    """Return which packages the bundle needs.

    Raises:
        InputError: pip is absent, or `--leave-out` names a package that prediction does not need.
    """
    wanted = wanted_requirements(PROJECT, sorted({*present()} - {*APART}))
    wanted += [Requirement(CUDA)] if arguments.cuda else []
    left_out = {canonicalize_name(name) for name in arguments.leave_out}
    asked = Asked(wanted, target, versions, frozenset(left_out))
    if unknown := left_out - asked.lock(everything=True).packages.keys():
        names = " ".join(sorted(unknown))
        raise InputError(f"--leave-out {names}: prediction needs no such package.")
    if not arguments.no_wheels:
        check_pip()
    return asked


def fill_wheels(work: Path, asked: Asked, no_wheels: bool) -> Lock:
    """Fetch the wheels; return the lock of all packages, those without a wheel among them."""
    lock = asked.lock(everything=True)
    if no_wheels:
        delete(work / "wheels")
    else:
        wheels = Wheels(work / "wheels", asked.target, [*asked.lock().packages.values()])
        fetched = asked.lock(wheels.find)
        wheels.keep_only({*fetched.packages})
        # The metadata of the wheels decides; what is installed here fills in what the host has.
        others = lock.packages if asked.left_out else {}
        lock = Lock({**others, **fetched.packages}, fetched.conflicts)
    for sentence in lock.conflicts:
        print(f"warning: {sentence}.")
    return lock


def describe(folder: Path, times: trial.Times, records: int, file: Path) -> None:
    """Print the size of every part, and how long a number of records takes."""
    rows = list_sizes(folder)
    rows.append(("together", sum(size for _, size in rows)))
    width = max(len(name) for name, _ in rows)
    for name, size in rows:
        print(f"  {name:<{width}} {in_words(size):>12}")
    each = times.seconds / max(times.records, 1) * 1000
    print(
        f"{records:,} records take {times.minutes(records):.1f} minutes on this machine: "
        f"{times.start:.0f} s to start and {each:.1f} ms a record, measured with {times.records} "
        f"records of {file.name} on {times.hardware}; another machine differs"
    )
    print(f"{folder}: see README.md there")


if __name__ == "__main__":
    main()

"""The trainings of a search: each is a run of train.py in a process of its own.

So a trial is what train.py would have trained, the memory of a device is free after each, and a
training that fails ends neither the search nor the other trials.
"""

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from filelock import FileLock

from core.base.errors import InputError, ToldToEnd
from core.base.files import PROJECT, delete
from core.runs.manifest import note_files
from core.runs.scores import read_scores
from extras.search.settings import Settings
from extras.search.space import as_flags

LOGS = "logs"
TOLD = {130, 143, -signal.SIGINT, -signal.SIGTERM}  # exit codes of a training that was told to end
WEIGHTS = "best.weights.h5"


def train_run(settings: Settings, name: str, values: dict[str, Any]) -> tuple[float | None, str]:
    """Train a run, or go on with it; return its score on dev, and why it has none.

    Args:
        settings: of the search.
        name: of the run, relative to runs/.
        values: settings of this run, by name.

    Raises:
        ToldToEnd: the training was told to end; it goes on the next time.
    """
    folder = PROJECT / "runs" / name
    if "finished" not in read_scores(folder):
        wait_for_survivor(folder)
        log = folder.parent / LOGS / f"{folder.name}.txt"
        code = run_train(as_flags(settings, {**values, "run_name": name}), log)
        if code in TOLD:
            raise ToldToEnd("told to end: all is saved; run the same command again to go on.")
        if code:
            return None, explain_failure(log, code)
    scores = read_scores(folder)
    return float(scores["dev"][scores["monitor"]]), ""


def wait_for_survivor(folder: Path) -> None:
    """Wait until no process trains a run: one may outlive a search that was killed."""
    if folder.is_dir():
        lock = FileLock(folder / ".training.lock")
        if not try_lock(lock):
            print(f"{folder.name} is still trained by a process of a search that was killed.")
            lock.acquire()
        lock.release()


def try_lock(lock: FileLock) -> bool:
    """Take a lock if it is free; return whether it was."""
    try:
        lock.acquire(timeout=0)
    except TimeoutError:
        return False
    return True


def run_train(flags: list[str], log: Path) -> int:
    """Run train.py with some flags, its output in a file; return its exit code.

    When this process is told to end, the training is, and saves what it has.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(PROJECT / "train.py"), *flags]
    with open(log, "a", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, cwd=PROJECT, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        before = signal.signal(signal.SIGTERM, end_by_signal)
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)


def end_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    """End this process as a training is ended by SIGTERM."""
    raise ToldToEnd("told to end: all is saved; run the same command again to go on.")


def explain_failure(log: Path, code: int) -> str:
    """Return the last line that a failed training wrote, or the signal that ended it."""
    if code < 0:
        return f"ended by signal {-code}, perhaps because memory was full: see {log}"
    lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"exit code {code}"


def drop_weights(folder: Path) -> None:
    """Delete the weights of a run; its scores, predictions and report stay."""
    if (folder / WEIGHTS).is_file():
        note_files(folder, WEIGHTS, stay=False)
        delete(folder / WEIGHTS)


def check_failures(failures: list[str], others: int) -> None:
    """End a search in which nothing but failures came.

    Args:
        failures: why each trial failed, in their order.
        others: trials that were trained.

    Raises:
        InputError: the first three trials failed.
    """
    if len(failures) >= 3 and not others:
        raise InputError(
            f"{len(failures)} trials failed and none was trained, the last one thus: "
            f"{failures[-1].rstrip('.')}."
        )

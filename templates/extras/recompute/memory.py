"""Which batch fits into memory, and how fast is it? Each is tried in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.data.data_generator import DataGenerator
from core.train.devices import find_precision, keep_freed_memory
from core.train.project import compile_models
from core.train.training import Models
from extras.recompute.settings import Settings

MEBIBYTE = 1 << 20
DOUBLINGS = 5
TIMED_STEPS = 3


def try_batch_sizes(settings: Settings, flags: list[str]) -> None:
    """Print memory and speed of the training step for one batch size after the other.

    Each is twice the one before; the last is the one that no longer fits.

    Args:
        settings: the first `batch_size`.
        flags: of the command line, for the processes that try.

    Raises:
        InputError: a process failed for another reason than memory.
    """
    print("the longest batch of an epoch on one device:\n")
    print(f"{'batch_size':>10}  {'recompute':>9}  {'peak memory':>12}  {'examples/s':>10}")
    for recompute in (False, True):
        needed = 0
        for doubling in range(DOUBLINGS):
            batch_size = settings.batch_size << doubling
            begin = f"{batch_size:>10}  {'yes' if recompute else 'no':>9}  "
            if 2 * needed > free_memory():
                print(f"{begin}{'not tried: more than is free':>24}", flush=True)
                break
            asked = ["--batch_size", str(batch_size), "--recompute.enabled"]
            trial = run_trial([*flags, *asked, str(recompute).lower()])
            if trial is None:
                print(f"{begin}{'does not fit':>24}", flush=True)
                break
            needed = trial["peak"]
            memory, speed = f"{needed / MEBIBYTE:.0f} MiB", trial["examples_per_second"]
            print(f"{begin}{memory:>12}  {speed:>10.1f}", flush=True)


def run_trial(flags: list[str]) -> dict | None:
    """Measure one training step in a process of its own.

    Args:
        flags: settings.

    Returns:
        What `measure_step` prints; None: it does not fit.

    Raises:
        InputError: the process failed for another reason than memory.
    """
    script = str(Path(sys.argv[0]).resolve())
    command = [sys.executable, script, *flags, "--memory_trial"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    killed = done.returncode < 0 or done.returncode == 137  # by the system, for want of memory
    if killed or "out of memory" in done.stderr or "OOM" in done.stderr:
        return None
    raise InputError((done.stderr.strip().splitlines() or ["check.py --memory failed."])[-1])


def measure_step(
    settings: Settings, train_batches: DataGenerator, build: Callable[[], Models]
) -> None:
    """Print the peak memory, the losses and the speed of the longest batch as one line of JSON.

    Args:
        settings: of the project.
        train_batches: of the training examples.
        build: returns the models.
    """
    keep_freed_memory()  # as a training does
    before = peak_memory()
    # For good: the process ends with this trial.
    keras.config.set_dtype_policy(find_precision(settings))
    models = build()
    # Without warm-up, each loss tells of the gradient before it.
    changed = settings.model_copy(update={"warm_up": 0.0})
    compile_models(changed, models, settings.epochs * len(train_batches))
    batch = max(train_batches.batches(0), key=lambda b: sum(array.size for array in b.values()))
    inputs = {name: tf.constant(array) for name, array in batch.items()}
    step = tf.function(models.training.train_step)
    losses = [float(step(inputs)["loss"][0])]
    began = time.perf_counter()
    losses += [float(step(inputs)["loss"][0]) for _ in range(TIMED_STEPS)]
    seconds = (time.perf_counter() - began) / TIMED_STEPS
    found = {
        "batch_size": settings.batch_size,
        "tokens": max(array.shape[1] for array in batch.values() if array.ndim > 1),
        "recompute": settings.recompute.enabled,
        "peak": peak_memory() - before,
        "losses": losses,
        "examples_per_second": settings.batch_size / seconds,
    }
    print(json.dumps(found))


def peak_memory() -> int:
    """Return the most memory that this process has held so far, in bytes.

    Raises:
        InputError: this system does not tell.
    """
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    status = Path("/proc/self/status")
    if status.is_file():
        # Not `getrusage`, which a process begins with the peak of the one that started it.
        return read_kibibytes(status, "VmHWM")
    try:
        import resource
    except ImportError as error:
        raise InputError("--memory needs a GPU, Linux or macOS: Windows does not tell.") from error
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory() -> float:
    """Return the memory that nobody uses, in bytes; infinite where a GPU's is what counts."""
    meminfo = Path("/proc/meminfo")
    if tf.config.list_physical_devices("GPU") or not meminfo.is_file():
        return float("inf")
    return read_kibibytes(meminfo, "MemAvailable")


def read_kibibytes(path: Path, name: str) -> int:
    """Return a row of a file of Linux that counts memory, in bytes."""
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return next(1024 * int(row[1]) for row in rows if row[0] == f"{name}:")

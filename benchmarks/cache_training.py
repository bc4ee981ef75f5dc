"""Does a training keep its speed when its batches come from the files of the extra `cache`?

The projects of three samples train the same steps with their own train.py: with all records in
lists, and from a later start with the cache. The two run in pairs, in alternating order, each
training in its own process. Examples per second cover whole epochs: with waiting for batches,
without scoring dev. The first epoch, which compiles, and the first steps of each epoch, whose
batches were made before, are not counted. The losses of all steps must be equal to the last digit.

python benchmarks/cache_training.py --output benchmarks/results/cache_training.json
"""

import argparse
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from project_parts import bake_sample, open_project, write_results

TASKS = ("text_classification", "relation_extraction", "reading_comprehension")
TRAIN = "train"  # the first word of a process that trains once
WAYS = {"lists": False, "cache": True}
SKIPPED = 8  # steps of an epoch: more batches than the dataset prefetches
BATCH_SIZE = 16
FLAGS = ("--checkpoint_steps", "1000000", "--shown_examples", "0", "--overwrite", "true")
OF_TASK = {"text_classification": ("--floor", "false")}


def main() -> None:
    """Measure all tasks, or train once in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--pairs", type=int, default=5, help="of trainings, for each task")
    parser.add_argument(
        "--epochs", type=int, default=4, help="of each training; the first warms up"
    )
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    if sys.argv[1:2] == [TRAIN]:  # the remaining flags are the project's
        train(Path(sys.argv[2]), sys.argv[3:])
        return
    arguments = parser.parse_args()
    if arguments.epochs < 2:
        parser.error("--epochs: the first is not counted, so 2 are needed")
    results = {
        "question": "examples per second of training, batches from the extra `cache` / from lists",
        "epochs": arguments.epochs,
        **{task: measure(task, arguments) for task in arguments.tasks},
    }
    write_results(results, arguments.output)


def measure(task: str, arguments: argparse.Namespace) -> dict:
    """Train the pairs of one task, and return the results to write."""
    found: dict[str, list[dict]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        project = bake_sample(task, "cache", Path(folder))
        run_training(task, project, "cache", ["--steps", "1"])  # its first start encodes
        for number in range(arguments.pairs):
            for way in sorted(WAYS, reverse=number % 2 == 1):
                epochs = ["--epochs", str(arguments.epochs)]
                found[way].append(run_training(task, project, way, epochs))
            last = {way: own[-1]["examples_a_second"] for way, own in found.items()}
            print(f"{task}, pair {number + 1}:", last, file=sys.stderr, flush=True)
    speeds, cpu = (
        {way: [round(one[key], 4) for one in own] for way, own in found.items()}
        for key in ("examples_a_second", "cpu_seconds")
    )
    losses = [one["losses"] for own in found.values() for one in own]
    return {
        "steps": len(losses[0]),
        "examples_a_second": speeds,
        "cpu_seconds_a_step": cpu,
        "cache_to_lists": ratios(speeds),
        "cpu_cache_to_lists": ratios(cpu),
        "same_losses": all(own == losses[0] for own in losses),
    }


def ratios(measured: dict[str, list[float]]) -> dict:
    """Return the ratio of each pair, and the median to quote."""
    pairs = zip(measured["cache"], measured["lists"], strict=True)
    each = [round(on / off, 3) for on, off in pairs]
    return {"each": each, "median": statistics.median(each)}


def run_training(task: str, project: Path, way: str, flags: list[str]) -> dict:
    """Return the measurements of a training.

    Raises:
        SystemExit: a later start with the cache encoded again.
    """
    on = str(WAYS[way]).lower()
    command = [
        *(sys.executable, __file__, TRAIN, project, "--cache.enabled", on),
        *("--batch_size", str(BATCH_SIZE), *FLAGS, *OF_TASK.get(task, ()), *flags),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    told = [line for line in done.stdout.splitlines() if line.startswith("cache: ")]
    if bool(told) != (way == "cache") or "--epochs" in flags and any("encoded" in t for t in told):
        sys.exit(f"error: {task}, {way}, cannot be compared, for the project says: {told}")
    return json.loads(done.stdout.splitlines()[-1])


def train(project: Path, flags: list[str]) -> None:
    """Run train.py of a project, and print the measurements."""
    open_project(project)
    import keras

    fit, clock = keras.Model.fit, make_clock(keras)

    def timed_fit(self: Any, *arguments: Any, callbacks: Any = (), **others: Any) -> Any:
        # First in the list: other callbacks may score or save at the end of a step.
        return fit(self, *arguments, callbacks=[clock, *callbacks], **others)

    keras.Model.fit = timed_fit
    sys.argv = ["train.py", *flags]
    runpy.run_path(str(project / "train.py"), run_name="__main__")
    found: dict[str, Any] = {"losses": clock.losses}
    if counted := clock.epochs[1:]:
        wall, cpu, steps = map(sum, zip(*counted, strict=True))
        found |= {"examples_a_second": BATCH_SIZE * steps / wall, "cpu_seconds": cpu / steps}
    print(json.dumps(found))


def make_clock(keras: Any) -> Any:
    """Return a callback that records the loss of each step and the seconds of each epoch."""

    class Clock(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.losses: list[float] = []
            self.epochs: list[tuple[float, float, int]] = []  # seconds, CPU seconds, steps

        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            (loss,) = (logs or {})["loss"]  # mean of the epoch so far, `[1]`
            self.losses.append(float(loss))  # waits for the step
            self.ended = time.perf_counter(), time.process_time()
            self.steps = batch + 1 - SKIPPED
            if not self.steps:
                self.since = self.ended

        def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
            if self.steps > 0:
                wall, cpu = (end - begin for begin, end in zip(self.since, self.ended, strict=True))
                self.epochs.append((wall, cpu, self.steps))

    return Clock()


if __name__ == "__main__":
    main()

"""Run a project's script, and record the time and memory of its steps.

python timed_training.py FILE SCRIPT [ARGUMENTS ...]     in the folder of the project

FILE is inside the run's folder. It gets one line of JSON after each epoch.
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any


def make_step_clock(keras: Any, file: Path) -> Any:
    """Return a Keras callback that measures every step from its beginning to its end.

    The time between two steps does not count: waiting for the next batch, scoring dev, writing a
    checkpoint.

    Args:
        keras: the package; a project imports it after setting TensorFlow up.
        file: gets a line after each epoch.
    """

    class StepClock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
            self.seconds: list[float] = []
            self.cpu_seconds: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
            self.since = (time.perf_counter(), time.process_time())

        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            self.seconds.append(round(time.perf_counter() - self.since[0], 6))
            self.cpu_seconds.append(round(time.process_time() - self.since[1], 6))

        def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
            row: dict[str, object] = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
            # Measured before the first scoring of dev, which needs additional memory.
            if not vars(self).get("scored"):
                row["peak_bytes"] = peak_memory()
                self.scored = True
            with open(file, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")

    return StepClock()


def peak_memory() -> int | None:
    """Return the peak memory of this process so far, in bytes; None if unknown."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    # Not `getrusage`: a process starts with the peak of its parent.
    rows = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
    return next((1024 * int(row[1]) for row in rows if row[0] == "VmHWM:"), None)


def main() -> None:
    """Add one callback to `fit`, then run the script as Python would."""
    file, sys.argv = Path(sys.argv[1]), sys.argv[2:]
    sys.path[0] = os.getcwd()
    import keras

    import core  # noqa: F401  sets TensorFlow up, so it comes first

    fit = keras.Model.fit
    clock = make_step_clock(keras, file)

    def timed_fit(self: Any, *arguments: Any, callbacks: Any = (), **others: Any) -> Any:
        # First in the list: other callbacks may score or save between two steps.
        return fit(self, *arguments, callbacks=[clock, *callbacks], **others)

    keras.Model.fit = timed_fit
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

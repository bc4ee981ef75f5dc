"""Run a project's script, and write down how long the steps took and what memory they needed.

python timed_training.py FILE SCRIPT [ARGUMENTS ...]     in the folder of the project

After each epoch FILE, which is inside of the run's folder, gets one line of JSON.
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any


def make_step_clock(keras: Any, file: Path) -> Any:
    """Return a callback of Keras that measures every step from its beginning to its end.

    What lies between two steps counts for nothing: waiting for the next batch, scoring dev, writing
    a checkpoint.

    Args:
        keras: the package, which a project imports when it has set TensorFlow up.
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
            # Before dev is scored for the first time: that needs memory of its own.
            if not vars(self).get("scored"):
                row["peak_bytes"] = peak_memory()
                self.scored = True
            with open(file, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")

    return StepClock()


def peak_memory() -> int | None:
    """Return the most memory that this process has held so far, in bytes; None: nobody tells."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    # Not `getrusage`, which a process begins with the peak of the one that started it.
    rows = (line.split() for line in status.read_text(encoding="utf-8").splitlines())
    return next((1024 * int(row[1]) for row in rows if row[0] == "VmHWM:"), None)


def main() -> None:
    """Let `fit` have one callback more, then run the script as Python would."""
    file, sys.argv = Path(sys.argv[1]), sys.argv[2:]
    sys.path[0] = os.getcwd()
    import keras

    import core  # noqa: F401  it sets TensorFlow up, which must come after it

    fit = keras.Model.fit
    clock = make_step_clock(keras, file)

    def timed_fit(self: Any, *arguments: Any, callbacks: Any = (), **others: Any) -> Any:
        # Before all others: they may score or save between two steps.
        return fit(self, *arguments, callbacks=[clock, *callbacks], **others)

    keras.Model.fit = timed_fit
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

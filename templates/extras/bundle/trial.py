"""Predict the first records of a file with a project's own predict.py, and measure the seconds.

python trial.py PROJECT RECORDS RUN [RUN ...] FILE OUT        prints one line of JSON

It is a process of its own for the project of a bundle.
"""

import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# A prediction that takes so long is not repeated: compiling is a small part of it.
LONG = 20.0  # seconds
MARK = "trial: "


@dataclass
class Times:
    """What was measured of one prediction.

    Attributes:
        records: that were predicted.
        seconds: of predicting them, when everything is compiled.
        start: seconds from the first import to the last answer, without `seconds`.
        hardware: in words.
    """

    records: int = 0
    seconds: float = 0.0
    start: float = 0.0
    hardware: str = ""

    def minutes(self, records: int) -> float:
        """Return how long a number of records takes."""
        return (self.start + self.seconds / max(self.records, 1) * records) / 60


def try_out(script: Any, count: int, words: list[str], begun: float) -> Times:
    """Predict the first records with the module predict.py of a project.

    Args:
        script: the module, imported from that project.
        count: of records.
        words: its command line.
        begun: time of `time.perf_counter` at which its modules began to be imported.
    """
    times, read, predict, former = Times(), script.read_examples, script.predict, sys.argv

    def read_first(*arguments: Any, **options: Any) -> list:
        return [*itertools.islice(read(*arguments, **options), count)]

    def predict_twice(runs: Any, some: list) -> Any:
        found, first = timed(predict, runs, some)
        found, times.seconds = timed(predict, runs, some) if first < LONG else (found, first)
        times.records, times.start = len(some), -times.seconds - first * (first < LONG)
        return found

    script.read_examples, script.predict = read_first, predict_twice
    source = Path(script.__file__ or "").read_text(encoding="utf-8")
    has_formats = '"--format"' in source  # by which scores are written too
    sys.argv = [script.__file__ or "", *words, *(["--format", "records"] if has_formats else [])]
    try:
        getattr(script.main, "__wrapped__", script.main)()
    finally:
        script.read_examples, script.predict, sys.argv = read, predict, former
    times.start = max(0.0, times.start + time.perf_counter() - begun)
    return times


def timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    """Return what a function returns, and its seconds."""
    begun = time.perf_counter()
    found = function(*arguments)
    return found, time.perf_counter() - begun


def read_times(output: str) -> Times:
    """Return what this script printed."""
    [line] = [line for line in output.splitlines() if line.startswith(MARK)]
    return Times(**json.loads(line.removeprefix(MARK)))


# ------------------------------------------------------------------------------ comparison


def read_answers(path: Path) -> list[Any]:
    """Return the lines of a file of predictions, those of JSON as values."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # texts hold U+2028
    return [json.loads(line) if line.startswith("{") else line for line in lines]


def compare_answers(one: list[Any], other: list[Any]) -> tuple[float, int]:
    """Return the largest difference of a number, and how many records differ in anything else."""
    if len(one) != len(other):
        return float("inf"), max(len(one), len(other))
    largest, changed = 0.0, 0
    for first, second in zip(one, other, strict=True):
        ours, theirs = dict(leaves(first)), dict(leaves(second))
        both = [(value, theirs.get(place)) for place, value in ours.items()]
        numbers = [pair for pair in both if all(isinstance(each, float) for each in pair)]
        largest = max([largest, *(abs(a - b) for a, b in numbers)])
        others = any(pair[0] != pair[1] for pair in both if pair not in numbers)
        changed += ours.keys() != theirs.keys() or others
    return largest, changed


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield place and value of everything in a value of JSON that holds nothing else."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{place}/{name}")
    else:
        yield place, value


def main() -> None:
    """Predict with the project that the command line names."""
    begun = time.perf_counter()
    project, count, *words = sys.argv[1:]
    sys.path[0] = project
    import predict as script
    from core.runs.provenance import describe_hardware

    times = try_out(script, int(count), words, begun)
    times.hardware = describe_hardware()
    print(f"{MARK}{json.dumps(asdict(times))}")


if __name__ == "__main__":
    main()

"""What the smoke test shares with those of other tasks: two steps, and nothing stays behind."""

import contextlib
import itertools
import os
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))
RUN = f"smoke_{os.getpid()}"
RECORDS = 24
SMALL = {
    "run_name": RUN,
    "encoder": "tiny",
    "tiny_layers": 1,
    "tiny_width": 32,
    "batch_size": 8,
    "steps": 2,
    "strategy": "single",
    "buckets": 2,
    **({"folds.count": 0} if (PROJECT / "extras/folds").is_dir() else {}),
}


def start(script: str, *arguments: object) -> None:
    """Run a script as `python script arguments` would."""
    before = sys.argv
    sys.argv = [str(PROJECT / script), *map(str, arguments)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.argv = before


def flags(settings: dict[str, object]) -> list[str]:
    """Return settings as a command line has them."""
    return [f"--{name}={value}" for name, value in settings.items()]


@contextlib.contextmanager
def trained(*commands: tuple) -> Iterator[Path]:
    """Run commands that train `RUN`; give its folder, and delete it in the end."""
    had_runs = (PROJECT / "runs").is_dir()
    try:
        for script, *arguments in commands:
            start(script, *arguments)
        yield PROJECT / "runs" / RUN
    finally:
        shutil.rmtree(PROJECT / "runs" / RUN, ignore_errors=True)
        if not had_runs:
            shutil.rmtree(PROJECT / "runs", ignore_errors=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first records of each file of the sample."""
    folder = tmp_path_factory.mktemp("slice")
    for path in (PROJECT / "sample").iterdir():
        with open(path, encoding="utf-8") as lines:
            text = "".join(itertools.islice(lines, RECORDS))
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(files: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of a run of two steps, with `SETTINGS` of the test's module."""
    named = {f"{name}_file": files / f"{name}.jsonl" for name in ("train", "dev")}
    own = getattr(request.module, "SETTINGS", {})
    with trained(("train.py", *flags({**SMALL, **named, **own}))) as folder:
        yield folder

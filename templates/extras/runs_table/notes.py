"""Keep a note with a run; the table of all runs shows it.

python extras/runs_table/notes.py RUN "TEXT"        an empty text removes the note
"""

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs

from core.base.errors import InputError, command
from core.base.files import PROJECT, delete, write_text
from core.runs.members import known_runs

NOTE = "note.txt"


@command
def main() -> None:
    """Write the note of the run on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", metavar="RUN", help="a run's folder, or name in runs/")
    parser.add_argument("text", metavar="TEXT", help="the note; empty: remove it")
    arguments = parser.parse_args()
    write_note(find_run(arguments.run), arguments.text)


def find_run(name: str) -> Path:
    """Return the folder of a run, by its name in runs/ or its path.

    Raises:
        InputError: there is no such run.
    """
    for folder in (PROJECT / "runs" / name, Path(name)):
        if (folder / "config.json").is_file() or (folder / "scores.json").is_file():
            return folder
    raise InputError(f"{name} is not a run: {known_runs('config.json')}.")


def write_note(folder: Path, text: str) -> None:
    """Keep a note with a run, on one line; an empty text removes it."""
    line = " ".join(text.split())
    if line:
        write_text(folder / NOTE, f"{line}\n")
    else:
        delete(folder / NOTE)


def read_note(folder: Path) -> str:
    """Return the note of a run; empty: it has none."""
    path = folder / NOTE
    return path.read_text("utf-8", errors="replace").strip() if path.is_file() else ""


if __name__ == "__main__":
    main()

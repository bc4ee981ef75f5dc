"""Read JSON Lines with line numbers; write files atomically."""

import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonlines
from filelock import BaseFileLock, FileLock, Timeout

from core.base.errors import InputError, gist
from core.base.workers import is_chief

PROJECT = Path(__file__).resolve().parents[2]
TEMPORARY = ".writing-"  # prefix of unfinished files
# What belongs to a project besides its data and runs; no command writes over it.
OWN_FOLDERS = {"core", "task", "extras", "inspection", "sample", "reference", "tests", "library"}
OWN_FOLDERS |= {"generation", "formats", "corpus", "export_formats"}
OWN_SUFFIXES = {".py", ".toml", ".md"}
MANIFEST = "manifest.json"  # in the folder of a run: the hashes of its files


def project_path(path: str) -> Path:
    """Return a path of the settings: relative ones are resolved from the project folder."""
    return PROJECT / path


def read_json_lines(
    path: str | Path, make_object: Callable[[str, list], dict] = lambda _, pairs: dict(pairs)
) -> Iterator[tuple[int, dict]]:
    """Yield `(line number, record)` for every record of a JSON Lines file.

    Empty lines are skipped.

    Args:
        path: the file.
        make_object: from file and line, and the pairs of key and value, to a JSON object.

    Raises:
        InputError: the file is absent, not UTF-8, or a line is not a JSON object.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path, or the setting that names it.")
    # Bytes that are not UTF-8 are kept until their line is parsed, to name the line.
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        # Lines end only at "\n": U+2028 and similar characters are legal inside JSON strings.
        for line, text in enumerate(file, start=1):
            if text.strip():
                yield line, parse_object(text, f"{path}, line {line}", make_object)


def parse_object(text: str, place: str, make_object: Callable[[str, list], dict]) -> dict:
    """Return the JSON object of a line; `place` names file and line."""
    what, fix = "not a JSON object", "write one {...} on each line"
    try:
        text.encode(errors="surrogateescape").decode()
        text = text.rstrip("\r\n")  # else the end of a line that is cut off is column 1 of the next
        value = json.loads(text, object_pairs_hook=functools.partial(make_object, place))
        json.dumps(value, ensure_ascii=False).encode()
        if isinstance(value, dict):
            return value
    except UnicodeDecodeError as error:
        what, fix = f"not UTF-8 ({error.reason})", "save the file as UTF-8, unpacked"
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        what, fix = f"{half} is half of a character", "write both halves"
    except json.JSONDecodeError as error:
        what += f" (column {error.colno}: {error.msg})"
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, nested brackets
        what += f" ({gist(error)})"
    raise InputError(f"{place}: {what}: {fix}.")


def read_json(path: str | Path) -> dict:
    """Read a JSON file.

    Raises:
        InputError: the file is absent or broken.
    """
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing: is this the folder of a finished run?") from error
    except (ValueError, RecursionError) as error:  # the second: nested brackets
        raise InputError(f"{path} is not valid JSON ({error}): restore or delete it.") from error
    if not isinstance(value, dict) or not value:
        raise InputError(f"{path} holds no JSON object, or an empty one: restore or delete it.")
    return value


def write_whole(
    path: str | Path, write: Callable[[Path], object], keep_old: Path | None = None
) -> None:
    """Let `write` fill a temporary file in the same folder, then move it to `path`.

    After a crash or on a full disk the old file is unchanged: the new one appears whole or not at
    all. A link stays a link. A pipe or a device receives the content.

    Args:
        path: the file to create or replace; its folder is created.
        write: receives the path of the temporary file, which has the same suffixes.
        keep_old: where to move the old file.
    """
    if not is_chief():  # of the workers of one training only the chief writes
        return
    path = Path(path)
    is_output = is_standard_output(path)
    through = is_output or path.exists() and not path.is_file()
    target = path if through else path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = None if through else target.parent
        with tempfile.TemporaryDirectory(dir=place, prefix=TEMPORARY) as folder:
            temporary = Path(folder) / path.name
            write(temporary)
            if through:
                with open(1 if is_output else path, "wb", closefd=not is_output) as out:
                    out.write(temporary.read_bytes())
                return
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            if keep_old is not None and target.is_file():
                os.replace(target, keep_old)
            os.replace(temporary, target)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the temporary one
        raise


def check_destination(path: Path, source: Path) -> None:
    """Check that a file can be written, before the work that fills it.

    Raises:
        InputError: it is the source, a folder or a file of a run, or can't be written.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it.")
    above = path.resolve().parents  # cross-validations, blends and searches have no manifest
    of_run = PROJECT / "runs" in above[1:] or any((one / MANIFEST).is_file() for one in above[:2])
    if path.exists() and of_run:
        raise InputError(f"{path} belongs to a run and is there already: name another file.")
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path} is the file that is read: name another one to write.")
    if path.exists() and is_own(path):
        raise InputError(f"{path} is a file of this project: name another one to write.")
    folder, replaced = path.resolve().parent, path.is_file() or not path.exists()
    if not folder.is_dir() or not os.access(folder if replaced else path, os.W_OK):
        raise InputError(f"{path} can't be written: {folder} must be a folder, and open to you.")
    if is_standard_output(path):
        sys.stdout = sys.stderr  # messages are not records


def is_standard_output(path: Path) -> bool:
    """Return whether a path names the standard output, as /dev/stdout does."""
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # there is no such file, or the standard output is closed
        return False


def read_config(path: Path) -> dict[str, Any]:
    """Return what config.toml holds; empty if it can't be read, where that is no error."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}


def is_own(path: Path) -> bool:
    """Return whether a file belongs to this project, or is data that config.toml names."""
    values = read_config(PROJECT / "config.toml")
    tables = [values, *(value for value in values.values() if isinstance(value, dict))]
    named = [
        project_path(one)
        for table in tables
        for name, value in table.items()
        if name.endswith(("_file", "files", "sample_submission"))
        for one in (value if isinstance(value, list) else [value])
        if isinstance(one, str) and one
    ]
    if any(file.exists() and path.samefile(file) for file in named):
        return True
    place = path.resolve()
    if not place.is_relative_to(PROJECT):
        return False
    top = place.relative_to(PROJECT).parts
    return len(top) > 1 and top[0] in OWN_FOLDERS or len(top) == 1 and place.suffix in OWN_SUFFIXES


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_whole(path, lambda temporary: temporary.write_bytes(text.encode("utf-8")))


def write_json(path: str | Path, value: dict) -> None:
    """Write an indented JSON file atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_json_lines(path: str | Path, records: Iterable[dict]) -> None:
    """Write one JSON object per line, atomically."""

    def write(temporary: Path) -> None:
        with jsonlines.open(temporary, "w") as writer:
            writer.write_all(records)

    write_whole(path, write)


def mend_last_line(path: Path) -> None:
    """Take off a last line that a full disk or a crash has cut off, and keep all others."""
    content = path.read_bytes() if path.is_file() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if content != whole and is_chief():
        print(f"warning: the last row of {path} was cut off, and is left out.")
        write_whole(path, lambda temporary: temporary.write_bytes(whole))


def append_json_line(path: str | Path, record: dict) -> None:
    """Add one JSON object to the end of a file."""
    if is_chief():
        with jsonlines.open(path, "a", flush=True) as writer:
            writer.write(record)


def delete(path: str | Path) -> None:
    """Delete a file, or a folder with its content, if it exists."""
    path = Path(path)
    if is_chief() and path.is_dir():
        shutil.rmtree(path)
    elif is_chief():
        path.unlink(missing_ok=True)


# The locks of this process; the system releases them when it ends.
locks: list[BaseFileLock] = []


def take_lock(path: Path) -> None:
    """Hold the lock of a run until this process ends, even if it is killed.

    Raises:
        InputError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    locks.append(FileLock(path, timeout=0, is_singleton=True))
    try:
        locks[-1].acquire()
    except Timeout as error:
        raise InputError(
            f"{path.parent} is being trained by another process: wait until it has ended, or "
            "choose another name with --run_name."
        ) from error
    except (OSError, NotImplementedError) as error:
        print(f"warning: {path} can't be locked ({error}): start no second training there.")


def file_hash(path: str | Path) -> str:
    """Return `sha256:<hex>` of a file, with the digest that `sha256sum` prints."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_files(paths: Iterable[Path]) -> str:
    """Return one hash of several files, in order; that of a folder is that of its files.

    Raises:
        InputError: one is absent.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*")) if path.is_dir() else [path]
    for absent in (file for file in files if not file.is_file()):
        raise InputError(f"{absent} is not a file: check the path, or the setting that names it.")
    return "sha256:" + hashlib.sha256("".join(map(file_hash, files)).encode()).hexdigest()

"""Files and folders: paths, atomic writes, copies, hashes."""

import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from generator import InputError

# Left by Python and its tools in any folder, never part of a project.
CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
ROOT = Path(__file__).resolve().parent.parent
# In an installed wheel: what baking needs of the repository. pyproject.toml puts it there.
PACKAGED = Path(__file__).resolve().parent / "repository"
PROJECT_FOLDER = "{{cookiecutter.project_slug}}"


def require_clone() -> Path:
    """Return the repository's root.

    Raises:
        InputError: the package was installed without the repository around it.
    """
    if not (ROOT / "cookiecutter.json").is_file():
        raise InputError(
            f"{ROOT} is not a clone of the repository: clone it and run `pip install -e .` there."
        )
    return ROOT


def find_repository() -> Path:
    """Return the repository's root, or the copy in an installed wheel, which is only read.

    Raises:
        InputError: there is neither.
    """
    return PACKAGED if (PACKAGED / "cookiecutter.json").is_file() else require_clone()


def check_folder(folder: Path) -> None:
    """Refuse a folder that can't be made because a file is in the way; it is not made yet.

    Raises:
        InputError: it can't.
    """
    there = next(path for path in (folder, *folder.parents, Path()) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file: name a folder.")


def make_folder(folder: Path) -> None:
    """Create a folder, and those above it, unless it is there.

    Raises:
        InputError: that can't be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} can't be made a folder ({error.strerror}): name another one."
        ) from error


def template_project(root: Path, template: str) -> Path:
    """Return the project folder inside a template."""
    return root / "templates" / template / PROJECT_FOLDER


def write_bytes(path: str | Path, content: bytes) -> None:
    """Create or replace a file atomically; a crash keeps the old content.

    Args:
        path: the file; its folder is created.
        content: the new content.

    Raises:
        InputError: there is something else than a file, or no folder for one.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        # It would be replaced by a file: with the rights for it even /dev/null.
        raise InputError(f"{path} is no file: name one to write.")
    make_folder(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        temporary = Path(folder) / path.name
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def write_text(path: str | Path, text: str) -> None:
    """Create or replace a UTF-8 text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, value: dict) -> None:
    """Create or replace an indented JSON file atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> dict:
    """Return what a JSON file holds, an object.

    Raises:
        InputError: the file is broken.
    """
    return parse_file(path, json.loads)


def read_toml(path: Path) -> dict:
    """Return what a TOML file holds; raises as `read_json` does."""
    return parse_file(path, tomllib.loads)


def parse_file(path: Path, parse: Callable[[str], Any]) -> dict:
    """Return what a parser makes of a UTF-8 file."""
    try:
        found = parse(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
        reason = "it holds no object"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise InputError(f"{path} is broken ({reason}): correct it, or restore it.")


def read_json_lines(path: Path) -> list[dict]:
    """Return the records of a JSON Lines file that a run wrote.

    Raises:
        InputError: a line is broken, as the last one is that a full disk has cut off.
    """
    records = []
    # Lines end at "\n" alone: other separators of Unicode are part of the text.
    with open(path, encoding="utf-8", newline="\n") as file:
        try:
            for line in file:
                records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {len(records) + 1} is broken ({error}): remove it, or the run."
            ) from error
    return records


def json_lines(records: Iterable[dict]) -> bytes:
    """Return the bytes of a JSON Lines file: one object per line, text unescaped."""
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return "".join(lines).encode("utf-8")


def sha256(content: bytes) -> str:
    """Return `sha256:<hex>`, the hex that `sha256sum` prints."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def git_blob(content: bytes) -> str:
    """Return git's blob id of this content."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def list_files(folder: Path, but: tuple[str, ...] = ()) -> set[Path]:
    """Return the files in a folder, relative to it, without caches.

    Args:
        folder: may be absent.
        but: files and folders directly in it to leave out.
    """
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        path for path in paths if path.parts[0] not in but and not set(path.parts) & set(CACHES)
    }


def copy_tree(source: Path, target: Path, keep: tuple[str, ...] = ()) -> None:
    """Make `target` equal to `source`.

    Args:
        source: a folder.
        target: the folder that becomes a copy.
        keep: files and folders directly in `target` that stay unchanged.
    """
    wanted = list_files(source)
    for path in list_files(target, but=keep) - wanted:
        (target / path).unlink(missing_ok=True)
        remove_empty_folders(target, (target / path).parent)
    for path in wanted:
        copy_file(source / path, target / path)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file atomically, unless the copy exists."""
    if target.is_file() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing-") as folder:
        shutil.copy(source, Path(folder) / target.name)
        os.replace(Path(folder) / target.name, target)


def remove_empty_folders(root: Path, folder: Path) -> None:
    """Remove a folder and its parents below `root`, as long as they are empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent

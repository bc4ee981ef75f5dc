"""Files and folders: paths, atomic writes, copies, hashes."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from generator import InputError

# Left by Python and its tools in any folder, never part of a project.
CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
ROOT = Path(__file__).resolve().parent.parent
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


def template_project(root: Path, template: str) -> Path:
    """Return the project folder inside a template."""
    return root / "templates" / template / PROJECT_FOLDER


def write_bytes(path: str | Path, content: bytes) -> None:
    """Create or replace a file atomically; a crash keeps the old content.

    Args:
        path: the file; its folder is created.
        content: the new content.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
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

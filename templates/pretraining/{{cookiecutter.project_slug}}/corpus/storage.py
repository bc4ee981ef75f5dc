"""Files on this machine, or at a URL such as gs://bucket/folder: whatever fsspec can reach."""

import glob
import io
import os
from pathlib import Path
from typing import BinaryIO

import fsspec

from core.base.errors import InputError
from core.base.files import delete, project_path, write_whole

BUFFER = 1 << 20


def place(path: str) -> str:
    """Return a path of the settings, which starts at the project's folder; URLs as they are."""
    return path if is_remote(path) else project_path(path).as_posix()


def is_remote(path: str) -> bool:
    """Tell a URL from a path on this machine."""
    return "://" in path


def file_system(url: str) -> fsspec.AbstractFileSystem:
    """Return what reads and writes at a URL.

    Raises:
        InputError: there is nothing for such URLs, or its package is not installed.
    """
    try:
        return fsspec.core.url_to_fs(url)[0]
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{url} can't be reached ({str(error).rstrip('.')}): install the package that fsspec "
            "wants for it, such as gcsfs for gs:// and s3fs for s3://."
        ) from error


def find(pattern: str) -> list[str]:
    """Return the files that a path or a glob names, sorted."""
    if not is_remote(pattern):
        return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    system = file_system(pattern)
    names = system.glob(pattern, detail=True)
    return sorted(
        system.unstrip_protocol(name) for name, about in names.items() if about["type"] == "file"
    )


def size_of(path: str) -> int:
    """Return the bytes of a file."""
    return file_system(path).size(path) if is_remote(path) else os.path.getsize(path)


def open_stream(path: str) -> BinaryIO:
    """Open a file to read lines from any byte on."""
    if not is_remote(path):
        return open(path, "rb", buffering=BUFFER)
    return io.BufferedReader(file_system(path).open(path, "rb"), BUFFER)


def read_bytes(path: str) -> bytes | None:
    """Return all of a file; None: there is none."""
    try:
        return file_system(path).cat_file(path) if is_remote(path) else Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_bytes(path: str, content: bytes) -> None:
    """Write a file, whole or not at all: in a bucket, too, it appears when all of it is there."""
    if is_remote(path):
        system = file_system(path)
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.pipe_file(path, content)
    else:
        write_whole(path, lambda temporary: temporary.write_bytes(content))


def list_folder(folder: str) -> dict[str, int]:
    """Return the names and bytes of the files in a folder, which may be absent."""
    try:
        if is_remote(folder):
            system = file_system(folder)
            system.invalidate_cache()
            files = {about["name"]: about["size"] or 0 for about in system.ls(folder, detail=True)}
        else:
            files = {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name.rpartition("/")[2]: size for name, size in files.items()}


def remove(path: str) -> None:
    """Delete a file."""
    if is_remote(path):
        file_system(path).rm_file(path)
    else:
        delete(path)

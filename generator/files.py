"""Write files whole or not at all; hash them the two ways this repository needs."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_bytes(path: str | Path, content: bytes) -> None:
    """Create or replace a file; after a crash the old content is still there.

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
    """Create or replace a UTF-8 text file, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, value: dict) -> None:
    """Create or replace an indented JSON file, whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def json_lines(records: Iterable[dict]) -> bytes:
    """Return the bytes of a JSON Lines file: one object a line, the text not escaped."""
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return "".join(lines).encode("utf-8")


def sha256(content: bytes) -> str:
    """Return `sha256:<hex>`, the hex that `sha256sum` prints."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def git_blob(content: bytes) -> str:
    """Return the name that git gives to a file of this content."""
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()

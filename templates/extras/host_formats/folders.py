"""Write a folder of files whole or not at all."""

import tempfile
from pathlib import Path

from core.base.errors import InputError
from core.base.files import TEMPORARY


def check_new_folder(folder: Path) -> None:
    """Check that a folder can be made.

    Raises:
        InputError: it is a file or has files, or nothing can be written there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is a file, or a folder with files: name a new folder.")
    if not folder.resolve().parent.is_dir():
        raise InputError(f"{folder} can't be made: {folder.resolve().parent} is not a folder.")


def write_folder(folder: Path, files: dict[str, str]) -> None:
    """Write files into a new folder, which appears when all of them are there.

    Args:
        folder: absent or empty.
        files: path in the folder -> content.
    """
    parent = folder.resolve().parent
    with tempfile.TemporaryDirectory(dir=parent, prefix=TEMPORARY) as temporary:
        made = Path(temporary, folder.name)
        for name, content in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(content.encode("utf-8"))
        made.replace(folder.resolve())

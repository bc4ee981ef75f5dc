"""What is generated inside of a document that people write: the text between two marks."""

from collections.abc import Callable
from pathlib import Path

from generator import InputError
from generator.files import write_text


def update_document(root: Path, path: Path, tables: dict[str, Callable[[Path], str]]) -> None:
    """Replace what stands between the marks of one document; without marks it stays as it is.

    Args:
        root: the repository.
        path: the document.
        tables: name of the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->` -> what writes
            the text between them.

    Raises:
        InputError: there is a first mark without a second.
    """
    text = updated = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = updated.partition(begin)
        _, closed, after = rest.partition(end)
        if found and not closed:
            raise InputError(f"{path}: {begin} is not followed by {end}: add that line.")
        if found:
            updated = f"{before}{begin}\n{table(root)}\n{end}{after}"
    if updated != text:
        write_text(path, updated)

"""Parts of check.py that look for faults in the data."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.base.extras import need
from core.base.files import project_path
from core.base.settings import RecordSettings

AnyExample = TypeVar("AnyExample")


@dataclass(frozen=True)
class Finding:
    """An error, a warning or a note: what, where, and how to fix it."""

    level: str
    what: str
    where: str
    fix: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what} ({self.where}): {self.fix}"


def read_files(
    settings: RecordSettings, read_examples: Callable[[Path, bool], Sequence[AnyExample]]
) -> dict[str, Sequence[AnyExample]]:
    """Return file -> examples, the training file first; the test file is optional.

    `read_examples` gets a path, and whether labels are required: the test file needs none.
    """
    names = (settings.train_file, settings.dev_file)
    files = {name: read_examples(project_path(name), True) for name in names}
    if project_path(settings.test_file).is_file():
        files.setdefault(settings.test_file, read_examples(project_path(settings.test_file), False))
    else:
        print(f"note: test_file = {settings.test_file!r} is not a file, so it is not checked.")
    return files


def draw_histogram(values: Sequence[int] | Counter, unit: str) -> list[str]:
    """Return lengths, or how often each label occurs, as bars of text."""
    return need("doctor", "record_checks").draw_histogram(values, unit)


def normalise(text: str) -> str:
    """Return a text without differences in case, white space and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

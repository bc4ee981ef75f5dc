"""Parts of check.py that look for faults in the data."""

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """An error, a warning or a note: what, where, and how to fix it."""

    level: str
    what: str
    where: str
    fix: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what} ({self.where}): {self.fix}"


def normalise(text: str) -> str:
    """Return a text without differences in case, white space and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

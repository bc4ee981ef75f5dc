"""What the samples share: names kept for dev and test, texts that never repeat, and files."""

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeVar

AnyNames = TypeVar("AnyNames")
# The texts of what was drawn, and a function that makes at most so many records of it.
Drawn = tuple[Iterable[str], Callable[[int], list[dict]]]


def split_names(
    random: Random, names: Iterable[Iterable[str]], between: str = ""
) -> dict[bool, list[str]]:
    """Split names into `{False: seen in training, True: kept for dev and test}`.

    Args:
        random: shuffles them.
        names: each a text, or the parts of one.
        between: joins the parts.
    """
    shuffled = [between.join(name) for name in names]
    random.shuffle(shuffled)
    seen = len(shuffled) * 3 // 4
    return {False: shuffled[:seen], True: shuffled[seen:]}


def draw_splits(
    sizes: dict[str, int], draw: Callable[[str], Drawn]
) -> Iterator[tuple[str, list[dict]]]:
    """Yield each split and its records; no text of one record is that of another.

    Args:
        sizes: the number of records of each split.
        draw: draws once for a split. What repeats a text is thrown away before it makes records,
            so that these may draw numbers of their own.
    """
    known: set[str] = set()
    for split, size in sizes.items():
        records: list[dict] = []
        while len(records) < size:
            texts, make = draw(split)
            alike = {unicodedata.normalize("NFKC", text).casefold() for text in texts}
            if not alike & known:
                known |= alike
                records += make(size - len(records))
        yield split, records


def write_splits(
    folder: Path, sizes: dict[str, int], draw: Callable[[str], Drawn], sort_train: Any = None
) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl; the folder is created.

    Args:
        folder: where to.
        sizes: as `draw_splits` has them, and so is `draw`.
        sort_train: the key that the training records are sorted by; None: they stay as drawn.
    """
    for split, records in draw_splits(sizes, draw):
        if split == "train" and sort_train:
            records.sort(key=sort_train)
        lines = [
            json.dumps({"id": f"sample-{split}-{number:04}", **record}, ensure_ascii=False) + "\n"
            for number, record in enumerate(records, start=1)
        ]
        write_lines(folder / f"{split}.jsonl", lines)


def two_languages(
    names: Callable[[bool, Random], AnyNames], random: Random
) -> dict[bool, AnyNames]:
    """Return the names of English and Chinese: `{False: of English, True: of Chinese}`."""
    return {chinese: names(chinese, random) for chinese in (False, True)}


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, which end with a line break; the folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(lines).encode("utf-8"))

"""Data sets of text classification: candidates, numbers, relations of two marked words."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from extras.host_formats.options import LABELS as OF_LABELS
from extras.host_formats.options import Options
from extras.host_formats.records import Conversion, read_table, text_id
from extras.host_formats.semeval import open_semeval, read_semeval
from extras.host_formats.source_files import SourceError, read_fields, shown

FIELDS = ("question", "candidate", "label")
LABELS = ("0", "1")
EMOBANK_TARGETS = {"valence": "V", "arousal": "A", "dominance": "D"}
EMOBANK_HEADERS = (["id", "split", "V", "A", "D", "text"], ["id", "split", "text"])


def read_selqa(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted candidates.

    A candidate may come again for its question, even with the other label: the ids are counted.

    Raises:
        SourceError: a label is neither 0 nor 1 in a file that has labels.
    """
    rows = [
        (path, where, line) for path in files for where, line in read_fields(path, FIELDS, "label")
    ]
    labelled = {path for path, _, line in rows if line["label"]}
    for path, where, line in rows:
        if path in labelled and line["label"] not in LABELS:
            raise SourceError(f"{where}: the label is {shown(line['label'])} instead of 0 or 1")
    if conversion.pinned:
        # In sorted order, so that the order of the files plays no part.
        rows.sort(key=lambda row: tuple(row[2][name] for name in FIELDS))
    seen: Counter[str] = Counter()
    for _, where, line in rows:
        pair = text_id(line["question"], line["candidate"])
        seen[pair] += 1
        name = pair if seen[pair] == 1 else f"{pair}-{seen[pair]}"
        if name in conversion.wanted:
            record = {"id": name, "text_a": line["question"], "text_b": line["candidate"]}
            if line["label"]:
                record["label"] = line["label"]
            yield where, {**record, "group": text_id(line["question"])}


# ----------------------------------------------------------------------------------------- EmoBank


def read_emobank(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences: text and mean ratings, from 1 to 5.

    An id is made of the official one, which names the document.

    Raises:
        SourceError: a line has too many cells or too few, or a rating is no number.
    """
    for path in files:
        rows = read_table(path, conversion)
        _, header = next(rows, ("", []))
        if header not in EMOBANK_HEADERS:
            raise SourceError(f"{path}: the first line is not {','.join(EMOBANK_HEADERS[0])}")
        for where, cells in rows:
            if len(cells) != len(header):
                raise SourceError(f"{where}: {len(cells)} fields instead of {', '.join(header)}")
            row = dict(zip(header, cells, strict=True))
            name = text_id(row["id"])
            if name in conversion.wanted:
                yield where, {"id": name, "text_a": row["text"], **read_ratings(row, where)}


def read_ratings(row: dict[str, str], where: str) -> dict[str, float]:
    """Return the ratings of a sentence; none: all are left open, as in a test file.

    Raises:
        SourceError: one is no number.
    """
    cells = {name: row.get(column, "").strip() for name, column in EMOBANK_TARGETS.items()}
    if not any(cells.values()):
        return {}
    try:
        ratings = {name: float(cell) for name, cell in cells.items()}
    except ValueError as error:
        raise SourceError(f"{where}: {shown(cells)} are no ratings") from error
    if not all(math.isfinite(rating) for rating in ratings.values()):
        raise SourceError(f"{where}: a rating is not finite")
    return ratings


# --------------------------------------------------------------------------- SemEval-2010 task 8


def read_semeval2010(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences, whose two marked parts are related."""
    options = Options(OF_LABELS)
    for path in files:
        for where, source in open_semeval(path):
            if source["id"] in conversion.wanted:
                record = read_semeval(source, where, options, conversion)
                labels = record.pop("labels", [])
                yield where, {**record, "label": labels[0]} if labels else record

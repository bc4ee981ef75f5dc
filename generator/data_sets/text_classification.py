"""Data sets of text classification: candidates, numbers, marked words, preferences."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from extras.host_formats.options import LABELS as OF_LABELS
from extras.host_formats.options import Options
from extras.host_formats.records import Conversion, read_table, text_id
from extras.host_formats.semeval import open_semeval, read_semeval
from extras.host_formats.source_files import SourceError, read_fields, read_lines, shown

FIELDS = ("question", "candidate", "label")
LABELS = ("0", "1")
EMOBANK_TARGETS = {"valence": "V", "arousal": "A", "dominance": "D"}
EMOBANK_HEADERS = (["id", "split", "V", "A", "D", "text"], ["id", "split", "text"])
ARGUMENTS = ("a1", "a2")
ARGUMENT_HEADERS = (["#id", "label", *ARGUMENTS], ["#id", *ARGUMENTS])
# What the official converter writes for a line end.
LINE_END = " <br/> "


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


# ------------------------------------------------------------------------------------ UKPConvArg1


def read_ukpconvarg(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted pairs: two arguments, and which convinces more.

    The prompt is what both argue for, which only the name of their file says: that of
    `tv-is-better-than-books_books.csv` is "tv is better than books: books".

    Raises:
        SourceError: a line has too many fields or too few, an argument is empty, or the label is
            neither of the two.
    """
    for path in files:
        debate_and_side = path.name.partition(".")[0].split("_")
        prompt = ": ".join(words.replace("-", " ").strip() for words in debate_and_side)
        rows = ((f"{path}, line {number}", line.split("\t")) for number, line in read_lines(path))
        _, header = next(rows, ("", []))
        if header not in ARGUMENT_HEADERS:
            names = ", ".join(ARGUMENT_HEADERS[0])
            raise SourceError(f"{path}: the first line is not {names}, with tabs between them")
        for where, fields in rows:
            if len(fields) != len(header):
                raise SourceError(f"{where}: {len(fields)} fields instead of {', '.join(header)}")
            row = dict(zip(header, fields, strict=True))
            if row["#id"] in conversion.wanted:
                yield where, {"id": row["#id"], "prompt": prompt, **read_arguments(row, where)}


def read_arguments(row: dict[str, str], where: str) -> dict[str, str]:
    """Return both arguments of a pair, and the name of the better one if the file has it.

    Raises:
        SourceError: an argument is empty, or the label is neither of the two.
    """
    for name in ARGUMENTS:
        if not row[name].strip():
            raise SourceError(f"{where}: the argument {name} is empty")
    record = {name: row[name].replace(LINE_END, "\n") for name in ARGUMENTS}
    label = row.get("label", "")
    if label and label not in ARGUMENTS:
        raise SourceError(f"{where}: the label is {shown(label)} instead of a1 or a2")
    return {**record, "label": label} if label else record

"""Data sets of text generation: E2E and the titles of CSL, one record per source."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from extras.host_formats.records import Conversion, read_table, text_id
from extras.host_formats.source_files import SourceError, read_fields

E2E_HEADERS = (["mr", "ref"], ["mr"])
CSL_FIELDS = ("prompt", "abstract", "title")
CSL_PROMPT = "to title"
# Place, source and target; an empty target: the line has none.
Pair = tuple[str, str, str]


def read_pairs(pairs: Iterable[Pair], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sources: each with all its targets, in their order.

    Where no line has a target each line is a record, for each is to be answered.

    Raises:
        SourceError: a source is empty.
    """
    wanted = []
    for where, source, target in pairs:
        name = text_id(source)
        if name in conversion.wanted:
            if not source.strip():
                raise SourceError(f"{where}: the text to start from is empty")
            wanted.append((where, name, source, target))
    if not any(target.strip() for *_, target in wanted):
        for where, name, source, _ in wanted:
            yield where, {"id": name, "source": source}
        return
    records: dict[str, dict] = {}
    places: dict[str, str] = {}
    for where, name, source, target in wanted:
        if name in records:
            what = "lines whose source an earlier line has: all are one record"
            conversion.remark(what, where)
        places.setdefault(name, where)
        record = records.setdefault(name, {"id": name, "source": source})
        if target.strip():
            record.setdefault("targets", []).append(target)
        else:
            conversion.remark("lines without a target, which give none", where)
    for name, record in records.items():
        yield places[name], record


# --------------------------------------------------------------------------------------------- E2E

# CSV files; each line has a meaning representation (mr) and one of its references (ref).


def read_e2e(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted meanings."""
    pairs = (pair for path in files for pair in read_references(path, conversion))
    yield from read_pairs(pairs, conversion)


def read_references(path: Path, conversion: Conversion) -> Iterator[Pair]:
    """Yield place, meaning and reference of each line; a test file may have no references.

    Raises:
        SourceError: a line has too many cells or too few.
    """
    rows = read_table(path, conversion)
    _, header = next(rows, ("", []))
    header = [name.strip().lower() for name in header]
    if header not in E2E_HEADERS:
        raise SourceError(f"{path}: the first line is not mr,ref")
    for where, cells in rows:
        if len(cells) != len(header):
            raise SourceError(f"{where}: {len(cells)} fields instead of {' and '.join(header)}")
        yield where, cells[0], "".join(cells[1:])


# -------------------------------------------------------------------------------------- CSL titles

# `prompt <tab> abstract <tab> title`, one paper per line.


def read_csl_title(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted abstracts."""

    def titles() -> Iterator[Pair]:
        for where, line in (
            row for path in files for row in read_fields(path, CSL_FIELDS, "title")
        ):
            if line["prompt"] != CSL_PROMPT:
                conversion.remark(f"prompts other than {CSL_PROMPT!r}, left out", where)
                continue
            yield where, line["abstract"], line["title"]

    yield from read_pairs(titles(), conversion)

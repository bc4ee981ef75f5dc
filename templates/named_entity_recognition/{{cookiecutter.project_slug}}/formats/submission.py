"""The submission, in the format of the input: columns, doccano's records, or ours."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from core.base.files import read_json_lines, write_json_lines
from formats.conll import (
    NO_TAGS,
    Chunk,
    ConllFile,
    file_scheme,
    is_conll,
    is_tag,
    read_conll,
    write_conll,
)
from formats.settings import ConllTable
from task.records import Example
from task.settings import Settings


def write_submission(
    out: Path,
    source: Path,
    settings: Settings,
    scheme: str,
    examples: Sequence[Example],
    records: Iterable[dict],
) -> None:
    """Write the entities found in a file, in the format of that file.

    A CoNLL file keeps its columns, tokens and empty lines, and an export of doccano all its other
    fields. Other records are written in our format, with texts and scores.

    Args:
        out: the file to write.
        source: the file that `examples` were read from.
        settings: of the run.
        scheme: of tags, if the file has none.
        records: from `prediction_records`, in the order of the examples.
    """
    if is_conll(source):
        file = read_conll(source, settings.conll, False)
        pairs = zip(examples, records, strict=True)
        chunks = [as_chunks(example, record["entities"]) for example, record in pairs]
        write_conll(out, file, chunks, scheme_of(file, settings.conll, scheme))
        return
    sources = (record for _, record in read_json_lines(source))
    both = zip(sources, records, strict=True)
    write_json_lines(out, (fill_record(one, ours["entities"]) or ours for one, ours in both))


def as_chunks(example: Example, found: list[dict]) -> list[Chunk]:
    """Return the entities of a predictions file by the numbers of their first and last token."""
    tokens = example.tokens or ()
    starts = {start: number for number, (start, _) in enumerate(tokens)}
    ends = {end: number for number, (_, end) in enumerate(tokens)}
    return sorted((e["type"], starts[e["span"][0]], ends[e["span"][1]]) for e in found)


def scheme_of(file: ConllFile, table: ConllTable, scheme: str) -> str:
    """Return the scheme to write a file in: its own if it has tags, else the given one."""
    if table.scheme != "auto":
        return table.scheme
    tagged = file.tag is not None and all(
        is_tag(cell) and cell not in NO_TAGS
        for sentence in file.sentences
        for cell in file.column(sentence, file.tag)
    )
    return (file_scheme(file, table) if tagged else None) or scheme


def fill_record(record: dict, found: list[dict]) -> dict | None:
    """Return an exported record of doccano with new entities; None: it has another format.

    Args:
        record: of the input.
        found: entities as in the predictions file.
    """
    entities = record.get("entities")
    ours = isinstance(entities, list) and any("span" in item for item in entities)
    if isinstance(entities, list) and "relations" in record and not ours:
        rows = [
            {
                "id": number,
                "label": item["type"],
                "start_offset": item["span"][0],
                "end_offset": item["span"][1],
            }
            for number, item in enumerate(found)
        ]
        # Relations name entities that are gone.
        return {**record, "entities": rows, "relations": []}
    name = next((name for name in ("label", "labels") if name in record), None)
    if name is None or entities is not None:
        return None
    return {**record, name: [[*item["span"], item["type"]] for item in found]}

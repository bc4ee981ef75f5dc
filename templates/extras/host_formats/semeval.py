"""SemEval-2010 task 8: which of nine relations two marked parts of a sentence have, or none.

A sentence is `8001<tab>"The <e1>audits</e1> were about <e2>waste</e2>."`. In a labelled file its
relation is on the next line, such as `Message-Topic(e1,e2)` or `Other`, and below it a comment. A
submission, and the host's file of keys, have `8001<tab>Message-Topic(e1,e2)` on each line.

The marks stay in the text: a model of texts then knows which two parts are asked about.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extras.host_formats.options import Options
from extras.host_formats.records import Conversion, read_id
from extras.host_formats.source_files import SourceError, field, read_lines, shown

SENTENCE = re.compile(r'([0-9]+)\t"(.*)"')
ANSWER = re.compile(r"([0-9]+)\t([^\s\"]+)")
RELATION = re.compile(r"[^\s\"]+")
COMMENT = "Comment"
MARKS = re.compile(r".*<e1>.+</e1>.*<e2>.+</e2>.*", re.DOTALL)
OTHER = "Other"


def open_semeval(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield `(place, {"id", "sentence", "label"})` of a file; keys have no sentence.

    Raises:
        SourceError: a line is none of such a file.
    """
    begun: tuple[str, dict] | None = None
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        sentence = SENTENCE.fullmatch(line)
        if match := sentence or ANSWER.fullmatch(line):
            if begun:
                yield begun
            begun = where, {"id": match[1], "sentence" if sentence else "label": match[2]}
        elif begun and RELATION.fullmatch(line) and "label" not in begun[1]:
            begun[1]["label"] = line
        elif not begun or not line.startswith(COMMENT):
            raise SourceError(f"{where}: {shown(line)} is no sentence, relation or comment")
    if begun:
        yield begun


def read_semeval(source: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a sentence.

    Raises:
        SourceError: it does not mark two parts.
    """
    sentence = field(source, "sentence", str, where)
    if not MARKS.fullmatch(sentence):
        raise SourceError(f"{where}: the sentence has no <e1>...</e1> before an <e2>...</e2>")
    record: dict[str, Any] = {"id": read_id(source, "id", where), "text_a": sentence}
    return record | ({"labels": [source["label"]]} if "label" in source else {})


def write_semeval(
    source: dict | None, record: dict, options: Options, conversion: Conversion
) -> dict:
    """Return id and relation of a sentence.

    Raises:
        SourceError: it has several relations.
    """
    if "label" not in record:
        raise SourceError(f"record {record['id']}: semeval has one relation for each sentence")
    return {"id": (source or record)["id"], "label": record["label"]}


def semeval_text(sources: list[dict]) -> str:
    """Return a submission: the id and the relation of a sentence on each line."""
    return "".join(f"{source['id']}\t{source['label']}\n" for source in sources)


def relation_of(label: str) -> str:
    """Return a relation without its direction.

    >>> relation_of("Message-Topic(e1,e2)")
    'Message-Topic'
    """
    return label.partition("(")[0]

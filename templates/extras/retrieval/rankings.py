"""Queries and their ranked candidates: read from files, written as JSON Lines and for trec_eval."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import InputError
from core.base.files import read_json_lines, write_json_lines, write_text
from core.data.records import read_field, read_id

# The digits of float32.
DIGITS = 7


@dataclass
class Candidate:
    """A text that may answer a query.

    Attributes:
        id: of the candidate, as a string.
        text: of the candidate.
        cosine: of its vector and the query's.
        score: for the ranking.
    """

    id: str
    text: str
    cosine: float = 0.0
    score: float = 0.0


@dataclass
class Query:
    """A text to search for, and its candidates."""

    id: str
    text: str
    candidates: list[Candidate]

    def rank(self, count: int | None = None) -> None:
        """Sort the candidates by their scores and keep the best; the first of equal ones win."""
        self.candidates = sorted(self.candidates, key=lambda one: -one.score)[:count]


def read_queries(path: Path) -> list[Query]:
    """Read pairs `{"id", "text_a", "text_b", "group"}`: a group is a query with its candidates.

    Raises:
        InputError: a record is not such a pair; the message names its line.
    """
    queries: dict[str, Query] = {}
    known: dict[str, int] = {}
    for line, record in read_json_lines(path):
        try:
            group = str(read_field(record, "group", str | int))
            text = read_field(record, "text_a", str)
            candidate = Candidate(str(read_id(record)), read_field(record, "text_b", str))
            query = queries.setdefault(group, Query(group, text, []))
            if query.text != text:
                raise InputError(
                    f"group {group!r} has two queries: give all its records one text_a."
                )
            if (first := known.setdefault(candidate.id, line)) != line:
                raise InputError(
                    f"id {candidate.id!r} is on line {first} already: make ids differ."
                )
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
        query.candidates.append(candidate)
    if not queries:
        raise InputError(f"{path} holds no record: write one JSON object on each line.")
    return list(queries.values())


def check_ids(ids: Sequence[str], path: Path) -> None:
    """Refuse ids with white space, because it separates the columns of trec_eval's format."""
    for identity in ids:
        if not identity or re.search(r"\s", identity):
            raise InputError(
                f"{path}: the id {identity!r} has white space or nothing in it, which trec_eval's "
                "format can't hold: write another one."
            )


def write_rankings(path: Path, queries: Sequence[Query], system: str) -> Path:
    """Write rankings as JSON Lines and for trec_eval; return the path of the latter file.

    Args:
        path: of the JSON Lines.
        queries: ranked.
        system: name of the run that made the ranking.
    """
    records = [
        {
            "query": query.id,
            "candidates": [
                {"id": one.id, "score": short(one.score), "cosine": short(one.cosine)}
                for one in query.candidates
            ],
        }
        for query in queries
    ]
    write_json_lines(path, records)
    lines = [
        f"{query.id} Q0 {one.id} {rank} {short(one.score)} {system}\n"
        for query in queries
        for rank, one in enumerate(query.candidates, start=1)
    ]
    table = path.with_suffix(".trec")
    write_text(table, "".join(lines))
    return table


def short(number: float) -> float:
    """Return a number with the digits of float32."""
    return float(f"{number:.{DIGITS}g}")

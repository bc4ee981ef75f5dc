"""Queries and their ranked candidates: read from files, written as JSON Lines and for trec_eval."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import read_json_lines, write_json_lines, write_text
from core.data.records import Id, read_field

# The digits of float32.
DIGITS = 7
TABLES = (".csv", ".tsv")


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


def read_pairs(path: Path, settings: Any) -> Iterator[tuple[int, dict]]:
    """Yield `(line, record)` of JSON Lines, or of a table whose columns are those of a run.

    Raises:
        InputError: the file is broken, or a table and extras/competition is absent.
    """
    if path.suffix.lower() not in TABLES:
        yield from read_json_lines(path)
        return
    read_table = need("competition", "tables").read_table

    def keep(record: dict, line: int) -> SimpleNamespace:
        return SimpleNamespace(id=record["id"], line=line, record=record)

    for row in read_table(path, settings, False, keep):
        yield row.line, row.record


def read_queries(path: Path, settings: Any = None) -> list[Query]:
    """Read pairs `{"id", "text_a", "text_b", "group"}`: a group is a query with its candidates.

    Args:
        path: of JSON Lines, or of a table (.csv, .tsv).
        settings: of the run; they name the columns of a table.

    Raises:
        InputError: a record is not such a pair; the message names its line.
    """
    queries: dict[str, Query] = {}
    known: dict[str, int] = {}
    for line, record in read_pairs(path, settings):
        try:
            group = str(read_field(record, "group", Id))
            text = read_field(record, "text_a", str)
            name = str(read_field(record, "id", Id))
            candidate = Candidate(name, read_field(record, "text_b", str))
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


def write_submission(
    path: Path, sample: Path, queries: Sequence[Query], of_groups: bool = False
) -> int:
    """Write a table with the header and the queries of a sample; return the ids of each query.

    Its first column holds the queries, its second the ids of their candidates, best first, with
    blanks between: as many as the longest cell of the sample has. `of_groups` says that the ids
    begin with that of their query, which is left out.

    Raises:
        InputError: the sample has other columns, or queries that were not ranked.
    """
    tables = need("competition", "rows")
    rows = [row for _, row in tables.read_rows(sample)]
    header = [*rows[0]] if rows else []
    if len(header) != 2:
        raise InputError(
            f"{sample} has {len(header)} columns: a sample of rankings has two, the query and the "
            "ids of its candidates."
        )
    ranked = {
        query.id: [
            one.id.removeprefix(f"{query.id}/") if of_groups else one.id for one in query.candidates
        ]
        for query in queries
    }
    asked = [row[header[0]].strip() for row in rows]
    query, count = Counter(asked).most_common(1)[0]
    if count > 1:
        raise InputError(f"{sample} has the query {query!r} twice: keep one row of each.")
    if unknown := [query for query in asked if query not in ranked]:
        raise InputError(f"{sample} has the query {unknown[0]!r}, which was not ranked: rank it.")
    if left := ranked.keys() - {*asked}:
        raise InputError(f"{sample} lacks the query {min(left)!r}, which was ranked: leave it out.")
    count = max(len(row[header[1]].split()) for row in rows)
    if not count:
        raise InputError(
            f"{sample} has empty cells, so how many ids the host wants is unknown: write as many "
            "placeholders into a cell, such as 0 0 0."
        )
    most = max(map(len, ranked.values()))
    if count == 1 < most:
        print(
            f"warning: a cell of {sample} has one id, so one is written for each query, of {most} "
            "that were ranked: if the host wants more, write as many placeholders there."
        )
    if few := [q for q in asked if len(ranked[q]) < count]:
        raise InputError(
            f"query {few[0]!r} has {len(ranked[few[0]])} candidates, and a cell of {sample} "
            f"{count} ids: raise --top."
        )
    delimiter = tables.DELIMITERS.get(path.suffix.lower(), ",")
    cells = [[query, " ".join(ranked[query][:count])] for query in asked]
    write_text(path, tables.table_text([tables.raw_header(sample), *cells], delimiter))
    return count


def short(number: float) -> float:
    """Return a number with the digits of float32."""
    return float(f"{number:.{DIGITS}g}")

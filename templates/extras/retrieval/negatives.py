"""Hard negatives: rank a corpus for each query, and choose texts that are none of its matches.

The best texts of a search are often matches that nobody has labelled. So some may be skipped, or
those that score nearly as well as a known match are left out.
Source: Moreira et al. 2024, https://arxiv.org/abs/2407.15831.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.data.records import Id, read_field
from extras.retrieval.rankings import read_pairs
from extras.retrieval.vectors import BiEncoder

# A word, or one character of a script that writes no blanks between words.
WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W぀-ヿ㐀-鿿가-힯]+")
# Fields of records with the relevance of an answer, a number from 0 on, in place of a label.
RELEVANCE = ("score", "target")
# The rows of the corpus and their scores, best first, of each query.
Ranked = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Labels:
    """The labels of pairs that match, and of those that don't."""

    positive: str
    negative: str


@dataclass(frozen=True)
class Draw:
    """How the negatives of a query are drawn.

    Attributes:
        count: how many.
        skip: so many of the best texts are left out.
        top: so many of the texts after them may be drawn.
        seed: of the draw.
    """

    count: int
    skip: int
    top: int
    seed: int


@dataclass
class Matched:
    """A query with its pairs.

    Attributes:
        group: its name.
        text: of the query.
        records: its pairs, as they are in the file.
        matches: the texts that answer it.
        limit: a negative scores less.
    """

    group: str
    text: str
    records: list[dict] = field(default_factory=list)
    matches: list[str] = field(default_factory=list)
    limit: float = np.inf


def matched_queries(path: Path, settings: Any, labels: Labels) -> list[Matched]:
    """Return the queries of a file of pairs that have a match.

    Args:
        path: records `{"text_a", "text_b"}`; without `group` equal texts are one query, without
            `label` all pairs match; those with a relevance above 0 do.
        settings: of a run, or of the project; they name the columns of a table.
        labels: tell which pairs match.

    Raises:
        InputError: a record is no such pair, only some have a label, or none matches.
    """
    queries: dict[str, Matched] = {}
    labelled: dict[bool, int] = {}
    for line, pair in read_pairs(path, settings):
        relevance = relevance_of(pair)
        record = pair if relevance is None else with_label(pair, relevance, labels)
        labelled.setdefault("label" in record, line)
        if len(labelled) > 1:
            raise InputError(
                f"{path}, line {line}: this record or that of line {min(labelled.values())} has no "
                "label: give all of them one, or none, and then all match."
            )
        try:
            text, answer = (read_field(record, name, str) for name in ("text_a", "text_b"))
            key = name = str(read_field(record, "group", str | int)) if "group" in record else ""
            if not name:
                key, name = text, f"q{len(queries) + 1}"
            query = queries.setdefault(key, Matched(name, text))
            if query.text != text:
                raise InputError(f"group {name!r} has two queries: give its records one text_a.")
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
        query.records.append(record)
        same = str(record.get("label", labels.positive)) == labels.positive
        if same if relevance is None else relevance > 0:
            query.matches.append(answer)
    found = [query for query in queries.values() if query.matches]
    if not found:
        raise InputError(
            f"{path} has no pair with the label {labels.positive!r}: name it by --positive_label."
        )
    if lost := [query for query in queries.values() if not query.matches]:
        print(
            f"warning: {path}: {len(lost)} queries have no matching pair and are left out, with "
            f"their {sum(len(query.records) for query in lost)} pairs; the first is "
            f"{lost[0].group!r}."
        )
    return found


def relevance_of(record: dict) -> float | None:
    """Return how relevant the answer of a pair is, where a number says it; None: a label does."""
    found = [*record.get("targets", {}).values()] or [record.get(name) for name in RELEVANCE]
    numbers = [value for value in found if isinstance(value, int | float)]
    return float(numbers[0]) if numbers else None


def with_label(record: dict, relevance: float, labels: Labels) -> dict:
    """Return a record with the label of its relevance; one that is neither 0 nor 1 stays."""
    name = {0.0: labels.negative, 1.0: labels.positive}.get(relevance, f"{relevance:g}")
    return {**{n: v for n, v in record.items() if n not in ("targets", *RELEVANCE)}, "label": name}


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; of Chinese, Japanese and Korean the characters.

    >>> words_of("The RED boat, 小船")
    ['the', 'red', 'boat', '小', '船']
    """
    return WORD.findall(text.lower())


def rank_by_bm25(
    queries: Sequence[Matched], corpus: Sequence[tuple[Id, str]], count: int
) -> Ranked:
    """Return the best texts of each query by BM25; texts that share no word with it are left out.

    Raises:
        InputError: the package bm25s is not installed.
    """
    try:
        import bm25s
    except ImportError as error:
        raise InputError(
            "BM25 needs the package bm25s: pip install -r extras/retrieval/requirements.txt; or "
            "name a bi-encoder with --run."
        ) from error
    index, shown = bm25s.BM25(), {"show_progress": sys.stderr.isatty(), "leave_progress": False}
    index.index([words_of(text) for _, text in corpus], **shown)
    asked = [words_of(query.text) for query in queries]
    rows, scores = index.retrieve(asked, k=count, **shown)
    return [(r[s > 0], s[s > 0]) for r, s in zip(rows, scores, strict=True)]


def limit_scores(encoder: BiEncoder, queries: Sequence[Matched], share: float | None) -> None:
    """Set the limit of each query: a share of the cosine of its worst match; None: no limit."""
    if share is None:
        return
    matches = encoder.encode([text for query in queries for text in query.matches], "matches")
    wanted = encoder.encode([query.text for query in queries], "queries")
    ends = np.cumsum([len(query.matches) for query in queries])
    for query, own, vector in zip(queries, np.split(matches, ends[:-1]), wanted, strict=True):
        query.limit = share * float((own @ vector).min())


def choose_negatives(
    queries: Sequence[Matched], corpus: Sequence[tuple[Id, str]], ranked: Ranked, draw: Draw
) -> list[list[int]]:
    """Return the rows of the corpus that are negatives of each query, best first.

    The draw depends on the seed and the query: other queries in the file change nothing. No text
    of the query's own pairs is chosen, nor one that equals it but for case and blanks.
    """
    found = []
    for query, (rows, scores) in zip(queries, ranked, strict=True):
        known = {plain(record["text_b"]) for record in query.records}
        free = [place for place, row in enumerate(rows) if plain(corpus[row][1]) not in known]
        pool = free[draw.skip : draw.skip + draw.top]
        pool = [place for place in pool if scores[place] < query.limit]
        random = Random(f"{draw.seed}/{query.text}")
        chosen = sorted(random.sample(pool, min(draw.count, len(pool))))
        found.append([int(rows[place]) for place in chosen])
    return found


def plain(text: str) -> str:
    """Return a text without differences of case and blanks."""
    return " ".join(text.lower().split())


def training_records(
    queries: Sequence[Matched],
    corpus: Sequence[tuple[Id, str]],
    negatives: Sequence[Sequence[int]],
    labels: Labels,
) -> Iterator[dict]:
    """Yield the pairs of each query as they are, with group and label, then its negatives."""
    for query, rows in zip(queries, negatives, strict=True):
        for number, record in enumerate(query.records):
            own = {"id": f"{query.group}/{number}", "label": labels.positive, **record}
            yield {**own, "group": query.group}
        for row in rows:
            identity, text = corpus[row]
            pair = {"id": f"{query.group}//{identity}", "group": query.group}
            yield {**pair, "text_a": query.text, "text_b": text, "label": labels.negative}

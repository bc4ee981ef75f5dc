"""Relevance of candidates to queries, rankings, and the scores of trec_eval."""

import importlib.util
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import read_json_lines
from core.data.records import Id, read_field

RECORDS = (".jsonl", ".csv", ".tsv")  # other files are in trec_eval's format
Judgements = dict[str, dict[str, int]]  # query -> id -> relevance
Ranking = dict[str, dict[str, float]]  # query -> id -> score


def read_gold(path: Path, positive: str) -> tuple[Judgements, dict[str, str]]:
    """Return the relevance of candidates to each query, and the query of each candidate of pairs.

    The relevance is 1 for the positive label and 0 for others, or the label if all labels are whole
    numbers.

    Raises:
        InputError: names the line that is of no such file.
    """
    gold: Judgements = {}
    if path.suffix not in RECORDS:
        for line, words in read_table(path, 4):
            place = f"{path}, line {line}"
            try:
                relevance = int(words[3])
            except ValueError:
                raise InputError(
                    f"{place}: {words[3]!r} is not a whole number: write one."
                ) from None
            add_once(gold.setdefault(words[0], {}), words[2], relevance, place)
        return gold, {}
    pairs, owners = [], {}
    for line, record in read_rows(path):
        place = f"{path}, line {line}"
        try:
            names = ("group", "label")
            group, label = (str(read_field(record, name, Id)) for name in names)
            pairs.append((group, str(read_field(record, "id", Id)), label, place))
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        owners[pairs[-1][1]] = group
    graded = all(label.isdecimal() for *_, label, _ in pairs)
    if not graded and positive not in {label for *_, label, _ in pairs}:
        raise InputError(f"{path}: no pair has the label {positive!r}: set --positive_label.")
    for group, identity, label, place in pairs:
        relevance = int(label) if graded else int(label == positive)
        add_once(gold.setdefault(group, {}), identity, relevance, place)
    return gold, owners


def read_rows(path: Path) -> Iterator[tuple[int, dict]]:
    """Yield `(line, record)` of JSON Lines, or of a table with columns of the same names."""
    if path.suffix == ".jsonl":
        yield from read_json_lines(path)
    else:
        yield from need("competition", "tables").read_rows(path)


def read_ranking(path: Path, owners: dict[str, str], positive: str = "1") -> Ranking:
    """Return the score of each candidate of each query.

    Args:
        path: from rerank.py or predict.py.
        owners: id of a candidate -> its query, for predictions, which don't name it.
        positive: label whose probability ranks predictions; without it their "score" does.

    Raises:
        InputError: a line is not of a ranking; the message names it.
    """
    ranking: Ranking = {}
    if path.suffix not in RECORDS:
        for line, words in read_table(path, 6):
            place = f"{path}, line {line}"
            try:
                score = finite(words[4])
            except ValueError:
                raise InputError(f"{place}: {words[4]!r} is not a number: write one.") from None
            add_once(ranking.setdefault(words[0], {}), words[2], score, place)
        return ranking
    for line, record in read_rows(path):
        place = f"{path}, line {line}"
        try:
            if "candidates" in record:
                found = {one["id"]: finite(one["score"]) for one in record["candidates"]}
                add_once(ranking, record["query"], found, place)
            else:
                identity = str(record["id"])
                # Of a label, of a list, or of a bi-encoder.
                score = record.get("probabilities", {}).get(positive)
                score = record.get("targets", record)["score"] if score is None else score
                own = ranking.setdefault(owners[identity], {})
                add_once(own, identity, finite(score), place)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{place}: not a ranking of the pairs of GOLD: write it with "
                "rerank.py, or with predict.py for that file."
            ) from error
    return ranking


def finite(score: Any) -> float:
    """Return a score as a number; raises ValueError for NaN and infinity, which rank nothing."""
    number = float(score)
    if not math.isfinite(number):
        raise ValueError(f"{score} is not finite")
    return number


def add_once(values: dict, name: str, value: Any, place: str) -> None:
    """Add a value under a new name.

    Raises:
        InputError: the name has one already, on a line before.
    """
    if name in values:
        raise InputError(f"{place}: {name!r} is there already: keep one of its lines.")
    values[name] = value


def read_table(path: Path, columns: int) -> list[tuple[int, list[str]]]:
    """Return line number and words of each line of a trec_eval file.

    Raises:
        InputError: a line has a wrong number of words; the message names it.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path.")
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    rows = [(line, text.split()) for line, text in enumerate(lines, start=1) if text.strip()]
    for line, words in rows:
        if len(words) != columns:
            raise InputError(
                f"{path}, line {line}: {len(words)} columns, and trec_eval's format has {columns}: "
                "correct the line."
            )
    return rows


def relevant_queries(gold: Judgements) -> list[str]:
    """Return the queries with a relevant candidate."""
    return [query for query, judged in gold.items() if max(judged.values()) > 0]


def score_ranking(gold: Judgements, ranking: Ranking, ranks: Sequence[int]) -> dict[str, float]:
    """Return MRR, and recall, MAP and NDCG at some ranks: means over queries.

    trec_eval computes them. A query without a ranking has 0. Among equal scores trec_eval ranks the
    id first that comes last in the alphabet.

    Raises:
        InputError: trec_eval is not installed, or the ranking has other queries.
    """
    if importlib.util.find_spec("pytrec_eval") is None:
        raise InputError(
            "scores need trec_eval: pip install -r extras/retrieval/requirements.txt in this "
            "project."
        )
    import pytrec_eval

    wanted = relevant_queries(gold)
    if not set(wanted) & ranking.keys():
        raise InputError(
            "no query of GOLD that has something relevant was ranked: name its ranking."
        )
    cuts = ",".join(str(rank) for rank in ranks)
    measures = {"recip_rank", f"recall.{cuts}", f"map_cut.{cuts}", f"ndcg_cut.{cuts}"}
    found = pytrec_eval.RelevanceEvaluator(gold, measures).evaluate(ranking)
    names = {"MRR": "recip_rank"}
    for title, measure in (("recall", "recall"), ("MAP", "map_cut"), ("NDCG", "ndcg_cut")):
        names |= {f"{title}@{rank}": f"{measure}_{rank}" for rank in ranks}
    return {
        title: sum(found.get(query, {}).get(measure, 0.0) for query in wanted) / len(wanted)
        for title, measure in names.items()
    }

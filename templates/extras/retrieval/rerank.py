"""Rank candidates with a bi-encoder, and the best of them with a cross-encoder.

python extras/retrieval/rerank.py RUN PAIRS OUT [--top K] [--reranker RUN ...]
python extras/retrieval/rerank.py RUN QUERIES OUT --corpus TEXTS [--vectors FILE.npy] ...

PAIRS are records {"id", "text_a", "text_b", "group"}: a group is a query with its candidates.
QUERIES and TEXTS are records {"id", "text"}. OUT is a .jsonl file; a .trec file next to it has the
ranking in the format of trec_eval. With the extra `competition` all of them may be tables.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project with the needed code

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import PROJECT, check_destination, read_json_lines, write_json_lines  # noqa: E402
from core.runs.members import find_runs  # noqa: E402
from extras.retrieval.rankings import (  # noqa: E402
    Candidate,
    Query,
    check_ids,
    read_queries,
    write_rankings,
    write_submission,
)
from extras.retrieval.vectors import (  # noqa: E402
    BiEncoder,
    read_texts,
    search_texts,
)


@command
def main() -> None:
    """Read, retrieve, rerank, write."""
    arguments = read_arguments()
    encoder, top = BiEncoder(arguments.run), arguments.top
    if arguments.corpus:
        queries = search(encoder, arguments.file, arguments.corpus, arguments.vectors, top)
    else:
        queries = read_queries(arguments.file, encoder.runs.settings)
        check_ids([query.id for query in queries], arguments.file)
        check_ids([one.id for query in queries for one in query.candidates], arguments.file)
        score_candidates(encoder, queries)
        for query in queries:
            query.rank(top)
    if arguments.reranker:
        rerank(queries, arguments.reranker, encoder.best_label)
    if arguments.submission:
        table = getattr(encoder.runs.settings, "competition", None)
        of_groups = not arguments.corpus and bool(table and table.candidate_column)
        kept = write_submission(arguments.submission, arguments.sample, queries, of_groups)
        print(f"{arguments.submission}: {len(queries)} queries, {kept} ids each")
    table = write_rankings(arguments.out, queries, encoder.folder.name)
    pairs = sum(len(query.candidates) for query in queries)
    print(f"{arguments.out}: {len(queries)} queries, {pairs} candidates; for trec_eval: {table}")


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line.

    Raises:
        InputError: they don't fit together.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN", help="folder of a bi-encoder's run, or name in runs/")
    parser.add_argument("file", metavar="FILE", type=Path, help="pairs in groups, or queries")
    parser.add_argument("out", metavar="OUT", type=Path, help="file to write, ending in .jsonl")
    parser.add_argument("--top", type=int, metavar="K", help="keep so many candidates a query")
    parser.add_argument("--reranker", nargs="+", metavar="RUN", help="of classifiers of pairs")
    parser.add_argument("--corpus", type=Path, help="texts that are searched")
    parser.add_argument("--vectors", type=Path, help="of the corpus, from embed.py")
    parser.add_argument("--submission", type=Path, metavar="OUT.csv", help="a table to submit")
    parser.add_argument("--sample", type=Path, help="of it: sample_submission.csv")
    arguments = parser.parse_args()
    outs = [arguments.out, arguments.out.with_suffix(".trec")]
    outs += [arguments.submission] if arguments.submission else []
    given = arguments.file, arguments.corpus, arguments.vectors, arguments.sample
    for source in filter(None, given):
        for out in outs:
            check_destination(out, source)
    if bool(arguments.submission) != bool(arguments.sample):
        raise InputError("--submission and --sample belong together: name both.")
    if arguments.out.suffix != ".jsonl":
        raise InputError(
            f"{arguments.out}: let the name end in .jsonl; a .trec file is written next to it."
        )
    if arguments.top is not None and arguments.top < 1:
        raise InputError(f"--top {arguments.top} keeps nothing: make it 1 or more.")
    if arguments.corpus and arguments.top is None:
        raise InputError("--corpus needs --top: how many texts are kept for each query?")
    if arguments.vectors and not arguments.corpus:
        raise InputError("--vectors are those of a corpus: name it with --corpus.")
    find_runs(arguments.reranker or [])  # before the bi-encoder works in vain
    return arguments


def search(
    encoder: BiEncoder, queries_path: Path, corpus: Path, vectors_path: Path | None, top: int
) -> list[Query]:
    """Return each query with the nearest texts of a corpus.

    Raises:
        InputError: the corpus has fewer texts than requested, or the vectors are of other texts.
    """
    texts = list(read_texts(corpus))
    asked = list(read_texts(queries_path))
    check_ids([str(identity) for identity, _ in texts], corpus)
    check_ids([str(identity) for identity, _ in asked], queries_path)
    if top > len(texts):
        raise InputError(
            f"--top {top}, but {corpus} has {len(texts)} texts: set it to at most {len(texts)}."
        )
    queries, wanted = list[Query](), [text for _, text in asked]
    nearest = search_texts(encoder, wanted, texts, top, vectors_path)
    for (identity, text), (rows, cosines) in zip(asked, nearest, strict=True):
        found = [
            Candidate(str(texts[row][0]), texts[row][1], float(cosine), float(cosine))
            for row, cosine in zip(rows, cosines, strict=True)
        ]
        queries.append(Query(str(identity), text, found))
    return queries


def score_candidates(encoder: BiEncoder, queries: Sequence[Query]) -> None:
    """Set each candidate's cosine of its vector and the query's."""
    wanted = encoder.encode([query.text for query in queries], "queries")
    candidates = [one for query in queries for one in query.candidates]
    vectors = encoder.encode([one.text for one in candidates], "candidates")
    owners = [number for number, query in enumerate(queries) for _ in query.candidates]
    for one, cosine in zip(candidates, (wanted[owners] * vectors).sum(axis=1), strict=True):
        one.cosine = one.score = float(cosine)


def rerank(queries: Sequence[Query], runs: Sequence[str], label: str) -> None:
    """Score each candidate with pair classifiers, by predict.py, and rank again.

    Args:
        queries: with candidates.
        runs: of the classifiers.
        label: of pairs that belong together; its probability is the score.

    Raises:
        InputError: predict.py refused them and said why, or they give no scores.
    """
    pairs = [(query, one) for query in queries for one in query.candidates]
    records = (
        {"id": str(number), "text_a": query.text, "text_b": one.text, "group": query.id}
        for number, (query, one) in enumerate(pairs)
    )
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "pairs.jsonl"), Path(folder, "scores.jsonl")
        write_json_lines(source, records)
        command_line = [sys.executable, str(PROJECT / "predict.py"), *runs, str(source), str(out)]
        if subprocess.run(command_line, stdout=subprocess.DEVNULL).returncode:
            raise InputError(f"predict.py can't rank pairs with {', '.join(runs)}: see above why.")
        # Not "score": without a positive label that is the probability of whatever is predicted.
        found = [record for _, record in read_json_lines(out)]
        scores: list[Any] = [score_of(record, label) for record in found]
    if None in scores:
        raise InputError(
            f"{', '.join(runs)} gives no score to rank by: name a classifier of pairs that knows "
            f"the label {label!r}, as the bi-encoder does."
        )
    for (_, one), score in zip(pairs, scores, strict=True):
        one.score = score
    for query in queries:
        query.rank()


def score_of(record: dict, label: str) -> float | None:
    """Return what a prediction is ranked by: the score of a list, or the probability of a label."""
    score = record.get("targets", {}).get("score")
    return record.get("probabilities", {}).get(label, score)


if __name__ == "__main__":
    main()

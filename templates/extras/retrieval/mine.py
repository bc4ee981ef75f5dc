"""Find hard negatives: texts of a corpus that look like answers to a query, and are none.

python extras/retrieval/mine.py PAIRS OUT --corpus TEXTS                       by BM25
python extras/retrieval/mine.py PAIRS OUT --corpus TEXTS --run RUN             by a bi-encoder

PAIRS are records {"text_a", "text_b"}, with "group" and "label" if there are other pairs than
matching ones. TEXTS are records {"id", "text"}. OUT has the pairs and their negatives, to train on.
"""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project with the needed code

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import check_destination, write_json_lines  # noqa: E402
from core.base.settings import read_settings  # noqa: E402
from extras.retrieval.negatives import (  # noqa: E402
    Draw,
    Labels,
    choose_negatives,
    limit_scores,
    matched_queries,
    rank_by_bm25,
    training_records,
)
from extras.retrieval.vectors import BiEncoder, read_texts, search_texts  # noqa: E402
from task.settings import Settings  # noqa: E402


@command
def main() -> None:
    """Read the pairs and the corpus, rank, choose, write."""
    arguments = read_arguments()
    encoder = BiEncoder(arguments.run) if arguments.run else None
    settings = encoder.runs.settings if encoder else read_settings(Settings, [])
    labels = Labels(arguments.positive_label, arguments.negative_label)
    queries = matched_queries(arguments.pairs, settings, labels)
    corpus, wanted = list(read_texts(arguments.corpus)), arguments.negatives
    # The known texts of a query are often among the first, and don't count.
    most = max(len(query.records) for query in queries)
    count = min(arguments.skip + arguments.top + most, len(corpus))
    if encoder:
        texts = [query.text for query in queries]
        ranked = [*search_texts(encoder, texts, corpus, count, arguments.vectors)]
        limit_scores(encoder, queries, arguments.below)
    else:
        ranked = rank_by_bm25(queries, corpus, count)
    drawn = Draw(wanted, arguments.skip, arguments.top, arguments.seed)
    found = choose_negatives(queries, corpus, ranked, drawn)
    if not any(found):
        what = "--below, or --top" if arguments.below is not None else "--top, or lower --skip"
        advice = f"raise {what}"
        if not encoder and all(len(rows) < count for rows, _ in ranked):  # BM25 has found them all
            advice = "BM25 finds texts that share a word, and no other one does: name a bi-encoder "
            advice += f"with --run{', or lower --skip' if arguments.skip else ''}"
        raise InputError(f"no text is a negative of any query of {arguments.pairs}: {advice}.")
    write_json_lines(arguments.out, training_records(queries, corpus, found, labels))
    mined, few = sum(map(len, found)), sum(len(own) < wanted for own in found)
    print(f"{arguments.out}: {len(queries)} queries, {mined} negatives")
    if few:
        first = "" if arguments.below is None else "--below, or "
        print(f"fewer than {wanted} for {few} of the queries: raise {first}--top, or lower --skip")


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line.

    Raises:
        InputError: they don't fit together.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="queries and their answers")
    parser.add_argument("out", metavar="OUT", type=Path, help="file to write, ending in .jsonl")
    parser.add_argument("--corpus", type=Path, required=True, help="texts to choose from")
    parser.add_argument("--run", metavar="RUN", help="bi-encoder to search with, in place of BM25")
    parser.add_argument("--vectors", type=Path, help="of the corpus, from embed.py")
    parser.add_argument("--negatives", type=int, default=7, help="of each query (7)")
    parser.add_argument("--top", type=int, default=50, help="draw from so many texts (50)")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the best (0)")
    parser.add_argument(
        "--below",
        type=float,
        help="with --run: only texts that score less than this share of the worst match's score",
    )
    parser.add_argument("--negative_label", default="0", help="of those that do not (0)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--positive_label", default="1", help="of pairs that belong together (1)")
    arguments = parser.parse_args()
    for source in filter(None, (arguments.pairs, arguments.corpus, arguments.vectors)):
        check_destination(arguments.out, source)
    if arguments.out.suffix != ".jsonl":
        raise InputError(f"{arguments.out} is to hold records: let its name end in .jsonl.")
    if arguments.negatives < 1 or arguments.top < arguments.negatives or arguments.skip < 0:
        raise InputError(
            f"--negatives {arguments.negatives}, --top {arguments.top}, --skip {arguments.skip}: "
            "choose 1 or more of at least as many texts, and skip 0 or more."
        )
    for name in ("vectors", "below"):
        if getattr(arguments, name) is not None and not arguments.run:
            raise InputError(f"--{name} needs the bi-encoder that makes vectors: name it by --run.")
    return arguments


if __name__ == "__main__":
    main()

"""Score rankings with trec_eval: python extras/retrieval/score.py GOLD RANKING [RANKING ...]

GOLD is the file of the ranked pairs with labels, or a file of judgements in trec_eval's format
(query, 0, id, relevance). A RANKING is a file of rerank.py, .jsonl or .trec, or of predict.py for
the pairs of GOLD. --k sets the ranks.
"""

import argparse
import functools
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project with the needed code

from core.base.errors import InputError, command  # noqa: E402
from core.base.words import column  # noqa: E402
from extras.retrieval.ranking_scores import (  # noqa: E402
    read_gold,
    read_ranking,
    relevant_queries,
    score_ranking,
)


@command
def main() -> None:
    """Read, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gold", metavar="GOLD", type=Path, help="pairs with labels, or judgements")
    parser.add_argument("rankings", metavar="RANKING", type=Path, nargs="+")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 10, 100], help="ranks")
    parser.add_argument("--positive_label", default="1", help="of pairs that belong together")
    arguments = parser.parse_args()
    if min(arguments.k) < 1:
        raise InputError(f"--k {min(arguments.k)} is not a rank: the first is 1.")
    gold, owners = read_gold(arguments.gold, arguments.positive_label)
    read = functools.partial(read_ranking, owners=owners, positive=arguments.positive_label)
    rows = [score_ranking(gold, read(path), arguments.k) for path in arguments.rankings]
    names = [str(path) for path in arguments.rankings]
    print(f"{'':<12}{''.join(column(Path(name).stem, 19, right=True) for name in names)}")
    for measure in rows[0]:
        print(f"{measure:<12}{''.join(f'{row[measure]:>20.4f}' for row in rows)}")
    judged = len(relevant_queries(gold))
    print(f"{judged} queries; {len(gold) - judged} without a relevant candidate are left out")


if __name__ == "__main__":
    main()

"""Compare a run with the shipped reference, or with any other scored folder, on the dev file."""

import argparse
from dataclasses import asdict

import numpy as np

from common.bootstrap import paired_bootstrap
from common.comparison import (
    find_scored,
    print_comparison,
    read_predictions,
    shared_gold_file,
)
from common.errors import command
from common.files import write_json
from task.comparison import compare_predicates, read_triples
from task.data import read_examples
from task.metrics import count_matches, score


@command
def main() -> None:
    """Print the difference of the two F1 scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)

    golds = read_examples(shared_gold_file(run, other))
    counts, scores = [], []
    for scored in (run, other):
        records = read_predictions(scored, [gold.id for gold in golds])
        triples = {gold.id: read_triples(*records[gold.id]) for gold in golds}
        matches = [count_matches(gold, triples[gold.id]).values() for gold in golds]
        counts.append(np.array([np.sum([(0, 0, 0), *match], axis=0) for match in matches]))
        scores.append(score(golds, triples)["per_predicate"])

    total = paired_bootstrap(*counts)
    predicates = compare_predicates(*scores)
    print_comparison(run, other, total, predicates, "predicate")
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {**asdict(total), "verdict": total.verdict, "per_predicate": predicates}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

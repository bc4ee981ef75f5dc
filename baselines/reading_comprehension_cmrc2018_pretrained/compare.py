"""Compare a run with the shipped reference, or with any other scored folder, on the dev file."""

import argparse
from dataclasses import asdict

from common.bootstrap import mean_score, paired_bootstrap
from common.comparison import (
    find_scored,
    print_comparison,
    read_predictions,
    shared_gold_file,
)
from common.errors import command
from common.files import read_json, write_json
from task.comparison import compare_kinds, read_answer
from task.data import read_examples
from task.metrics import score_records


@command
def main() -> None:
    """Print the difference of the two F1 scores and what chance makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    arguments = parser.parse_args()
    run, other = find_scored(arguments.run), find_scored(arguments.other)

    golds = read_examples(shared_gold_file(run, other))
    metric = read_json(run.folder / "scores.json")["dev"].get("metric", "squad")
    scores = []
    for scored in (run, other):
        records = read_predictions(scored, [gold.id for gold in golds])
        texts = {gold.id: read_answer(*records[gold.id], gold) for gold in golds}
        scores.append(score_records(golds, texts, metric))

    total = paired_bootstrap(*(each[:, 1:] for each in scores), statistic=mean_score)
    kinds = compare_kinds(golds, *scores)
    print_comparison(run, other, total, kinds, "answer")
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {**asdict(total), "verdict": total.verdict, "per_answer": kinds}
    write_json(run.folder / "comparison.json", result)


if __name__ == "__main__":
    main()

"""Score a run on a file with gold triples.

python evaluate.py RUN FILE                 adds the scores to RUN/scores.json
python evaluate.py RUN RUN [RUN ...] FILE   their scores together, as predict.py averages them
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.runs.members import tuned_threshold
from core.scores.keep import keep_scores
from core.scores.precision_recall import print_precision_recall_f1
from task.evaluation import evaluate
from task.prediction import load_runs, predict
from task.records import read_examples


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold triples")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    runs = load_runs(arguments.runs)
    candidates = predict(runs, examples)
    evaluation = evaluate(examples, candidates, arguments.file, tuned_threshold(runs.folders))
    keep_scores(arguments.runs, arguments.file, evaluation, runs)
    print_precision_recall_f1(
        "predicate", {**evaluation.scores["per_predicate"], "all": evaluation.scores}
    )


if __name__ == "__main__":
    main()

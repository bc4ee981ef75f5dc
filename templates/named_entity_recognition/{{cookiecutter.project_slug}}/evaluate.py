"""Score a run on a file with gold entities.

python evaluate.py RUN FILE                 adds the scores to RUN/scores.json
python evaluate.py RUN RUN [RUN ...] FILE   their scores together, as predict.py averages them
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.scores.keep import keep_scores
from core.scores.precision_recall import print_precision_recall_f1
from task.evaluation import evaluate, load_thresholds
from task.prediction import load_runs, predict
from task.records import read_examples


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="file with gold entities")
    arguments = parser.parse_args()

    runs = load_runs(arguments.runs)
    settings, thresholds = runs.settings, load_thresholds(runs.folders)
    examples = read_examples(arguments.file, settings)
    evaluation = evaluate(examples, predict(runs, examples), arguments.file, settings, thresholds)
    keep_scores(arguments.runs, arguments.file, evaluation, runs)
    scores = evaluation.scores
    print_precision_recall_f1("type", {**scores["per_type"], "all": scores})
    print(f"\nmacro F1  {scores['macro_f1']:.4f}\n")
    print_precision_recall_f1("overlap", scores["overlap"])
    if settings.beta != 1:
        print(f"\nF{settings.beta:g}  {scores['f_beta']:.4f}")


if __name__ == "__main__":
    main()

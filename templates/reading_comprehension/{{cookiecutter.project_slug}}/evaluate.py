"""Score a run on a file with gold answers.

python evaluate.py RUN FILE                 adds the scores to RUN/scores.json
python evaluate.py RUN RUN [RUN ...] FILE   their scores together, as predict.py averages them
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.runs.members import tuned_threshold
from core.scores.keep import keep_scores
from task.evaluation import evaluate
from task.prediction import load_runs, predict
from task.records import read_examples


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold answers")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    runs = load_runs(arguments.runs)
    candidates = predict(runs, examples)
    threshold = tuned_threshold(runs.folders)
    evaluation = evaluate(examples, candidates, arguments.file, runs.settings, threshold)
    keep_scores(arguments.runs, arguments.file, evaluation, runs)
    scores = evaluation.scores
    print(f"{'answer (' + scores['definition'] + ')':<32}{'EM':>10}{'F1':>10}{'gold':>8}")
    for kind, row in {**scores["per_answer"], "all": scores}.items():
        print(f"{kind:<32}{row['exact_match']:>10.4f}{row['f1']:>10.4f}{row['gold']:>8}")


if __name__ == "__main__":
    main()

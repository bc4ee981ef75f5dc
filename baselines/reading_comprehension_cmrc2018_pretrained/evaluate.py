"""Score a run on a file with gold answers.

python evaluate.py RUN FILE        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from common.callbacks import keep_scores
from common.errors import command
from common.run_folder import circumstances, tuned_threshold
from task.data import read_examples
from task.evaluation import evaluate
from task.loading import load_runs


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/; all folds count as one")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold answers")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    model = load_runs([arguments.run])
    threshold = tuned_threshold(model.folders)
    candidates = model.predict(examples)
    evaluation = evaluate(examples, candidates, arguments.file, model.settings, threshold)
    keep_scores(arguments.run, arguments.file.stem, evaluation, circumstances(model.settings))
    scores = evaluation.scores
    print(f"{'answer (' + scores['definition'] + ')':<32}{'EM':>10}{'F1':>10}{'gold':>8}")
    total = {**scores, "gold": scores["records"]}
    for kind, row in [*scores["per_answer"].items(), ("all", total)]:
        print(f"{kind:<32}{row['exact_match']:>10.4f}{row['f1']:>10.4f}{row['gold']:>8}")


if __name__ == "__main__":
    main()

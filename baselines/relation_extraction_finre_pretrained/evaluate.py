"""Score a run on a file with gold triples.

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
    parser.add_argument("file", type=Path, help="JSON Lines file with gold triples")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    model = load_runs([arguments.run])
    candidates = model.predict(examples, "predict")
    threshold = tuned_threshold(model.folders)
    evaluation = evaluate(examples, candidates, arguments.file, threshold)
    keep_scores(arguments.run, arguments.file.stem, evaluation, circumstances(model.settings))
    scores = evaluation.scores
    print(f"{'predicate':<32}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for predicate, row in [*sorted(scores["per_predicate"].items()), ("all", scores)]:
        print(
            f"{predicate:<32}{row['precision']:>10.4f}{row['recall']:>10.4f}{row['f1']:>10.4f}"
            f"{row['gold']:>8}"
        )


if __name__ == "__main__":
    main()

"""Score a run on a file with gold labels.

python evaluate.py RUN FILE        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from common.callbacks import keep_scores
from common.errors import command
from common.run_folder import circumstances, tuned_threshold
from task.data import check_kind, read_examples
from task.evaluation import evaluate
from task.floor import find_floor
from task.loading import load_runs


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/; all folds count as one")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold labels")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    model = load_runs([arguments.run])
    check_kind(examples, model.labels, arguments.file)
    candidates = model.predict(examples, "predict")
    threshold = tuned_threshold(model.folders)
    evaluation = evaluate(examples, candidates, model.labels, arguments.file, threshold)
    keep_scores(arguments.run, arguments.file.stem, evaluation, circumstances(model.settings))

    scores = evaluation.scores
    print(f"{'label':<32}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for label, row in scores["per_label"].items():
        print(
            f"{label:<32}{row['precision']:>10.4f}{row['recall']:>10.4f}{row['f1']:>10.4f}"
            f"{row['gold']:>8}"
        )
    for name, value in scores.items():
        if isinstance(value, float) and name != "threshold":
            floor = find_floor(scores["data_hash"], name)
            beside = "" if floor is None else f"   (floor {floor:.4f})"
            print(f"{name:<12}{value:>8.4f}{beside}")


if __name__ == "__main__":
    main()

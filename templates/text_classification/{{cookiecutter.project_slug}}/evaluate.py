"""Score a run on a file with gold labels.

python evaluate.py RUN FILE                 adds the scores to RUN/scores.json
python evaluate.py RUN RUN [RUN ...] FILE   their scores together, as predict.py averages them
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.base.files import read_json
from core.base.words import column
from core.scores.keep import keep_scores
from core.scores.precision_recall import print_precision_recall_f1
from floor import find_floor
from task.evaluation import evaluate
from task.prediction import load_runs, predict, read_threshold, restore_labels
from task.records import check_kind, read_examples


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold labels")
    arguments = parser.parse_args()

    runs = load_runs(arguments.runs)
    examples = read_examples(arguments.file, settings=runs.settings)
    labels = restore_labels(runs.labels)
    check_kind(examples, labels, arguments.file)
    candidates, threshold = predict(runs, examples), read_threshold(runs)
    evaluation = evaluate(examples, candidates, labels, arguments.file, runs.settings, threshold)
    keep_scores(arguments.runs, arguments.file, evaluation, runs)
    scores, config = evaluation.scores, read_json(runs.folders[0] / "config.json")
    if "per_label" in scores:
        print_precision_recall_f1("label", scores["per_label"])
    for name, value in scores.items():
        if isinstance(value, float) and name != "threshold":
            floor = find_floor(config, scores["data_hash"], name)
            compared = "" if floor is None else f"   (floor {floor:.4f})"
            print(f"{column(name, 15)}{value:>8.4f}{compared}")
    if lacking := scores.get("labels_without_auc"):
        print(f"left out of roc_auc and pr_auc, all or no records have them: {', '.join(lacking)}")


if __name__ == "__main__":
    main()

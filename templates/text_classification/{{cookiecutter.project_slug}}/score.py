"""Score any predictions file on a file with gold labels or numbers; no run is needed.

python score.py PREDICTIONS GOLD [--KEY VALUE ...]   the scores that evaluate.py gives for them
"""

from core.base.errors import command
from core.base.extras import need
from core.base.settings import read_settings
from core.base.words import column
from core.scores.precision_recall import print_precision_recall_f1
from inspection.scoring import read_record, score_predictions
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__, settings=True)
    settings = read_settings(Settings, arguments.flags)
    golds = read_examples(arguments.gold, settings=settings)
    rows = scoring.read_answers(arguments.predictions, golds, read_record)
    scores = score_predictions(golds, [rows[gold.id] for gold in golds], settings)
    scoring.finish(arguments, scores)
    if "per_label" in scores:
        print_precision_recall_f1("label", scores["per_label"])
    for name, value in scores.items():
        if isinstance(value, float):
            print(f"{column(name, 15)}{value:>8.4f}")
    if lacking := scores.get("labels_without_auc"):
        print(f"left out of roc_auc and pr_auc, all or no records have them: {', '.join(lacking)}")


if __name__ == "__main__":
    main()

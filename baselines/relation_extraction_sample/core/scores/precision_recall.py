"""Precision, recall and F1 of counts."""

from core.base.words import column

WIDTH = 31  # cells of a label


def precision_recall_f1(correct: float, predicted: int, gold: int) -> dict[str, float | int]:
    """Return precision, recall and F1 of three counts; a quotient of zero items is 0."""
    return {
        "precision": float(correct / predicted) if predicted else 0.0,
        "recall": float(correct / gold) if gold else 0.0,
        "f1": float(2 * correct / (predicted + gold)) if predicted + gold else 0.0,
        "correct": int(correct) if correct == int(correct) else round(float(correct), 4),
        "predicted": int(predicted),
        "gold": int(gold),
    }


def print_precision_recall_f1(title: str, rows: dict[str, dict]) -> None:
    """Print a table of precision, recall and F1 by label; `title` says what a label is."""
    print(f"{column(title, WIDTH)}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for label, row in rows.items():
        numbers = "".join(f"{row[name]:>10.4f}" for name in ("precision", "recall", "f1"))
        print(f"{column(label, WIDTH)}{numbers}{row['gold']:>8}")

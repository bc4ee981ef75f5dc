"""Read the triples of predictions files, and set two scores side by side."""

from common.errors import InputError
from task.data import Triple


def read_triples(place: str, record: dict) -> list[Triple]:
    """Return the triples of a record of a predictions file."""
    try:
        return [
            Triple(tuple(item["subject"]), item["predicate"], tuple(item["object"]))
            for item in record["triples"]
        ]
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def compare_predicates(run: dict[str, dict], other: dict[str, dict]) -> dict[str, dict]:
    """Return both F1 scores of each predicate, the largest difference first."""
    rows = {}
    for predicate in run | other:
        nothing = {"f1": 0.0, "correct": 0}
        first, second = run.get(predicate, nothing), other.get(predicate, nothing)
        rows[predicate] = {
            "run_score": first["f1"],
            "other_score": second["f1"],
            "difference": first["f1"] - second["f1"],
            "run_correct": first["correct"],
            "other_correct": second["correct"],
            "gold": max(row.get("gold", 0) for row in (first, second)),
        }
    return dict(sorted(rows.items(), key=lambda item: (-abs(item[1]["difference"]), item[0])))

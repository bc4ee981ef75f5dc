"""Read the events of predictions files, and set two scores side by side."""

from common.errors import InputError
from task.data import Event
from task.metrics import METRICS


def deciding_metric(scores: dict) -> str:
    """Return the metric that a run was tuned for."""
    metric = scores.get("monitor", "").removesuffix("_f1")
    return metric if metric in METRICS else "argument_classification"


def read_events(place: str, record: dict) -> list[Event]:
    """Return the events of a record of a predictions file."""
    try:
        return [
            Event(
                item["type"],
                tuple(item["trigger"]) if item["trigger"] else None,
                tuple(sorted((part["role"], tuple(part["span"])) for part in item["arguments"])),
            )
            for item in record["events"]
        ]
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def compare_labels(run: dict[str, dict], other: dict[str, dict]) -> dict[str, dict]:
    """Return both F1 scores of each role or event type, the largest difference first."""
    rows = {}
    for label in run | other:
        nothing = {"f1": 0.0, "correct": 0}
        first, second = run.get(label, nothing), other.get(label, nothing)
        rows[label] = {
            "run_score": first["f1"],
            "other_score": second["f1"],
            "difference": first["f1"] - second["f1"],
            "run_correct": first["correct"],
            "other_correct": second["correct"],
            "gold": max(row.get("gold", 0) for row in (first, second)),
        }
    return dict(sorted(rows.items(), key=lambda item: (-abs(item[1]["difference"]), item[0])))

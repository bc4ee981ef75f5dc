"""The end of a run: note its minutes and epochs, and delete its checkpoints."""

from datetime import UTC, datetime

from core.base.files import delete, read_json_lines
from core.runs.checkpoints import UNFINISHED
from core.runs.run import Run
from core.runs.scores import change_scores, read_scores


def end_training(run: Run) -> list[dict]:
    """Note how long a run was trained; return its dev predictions."""
    metrics = run.folder / "metrics.jsonl"
    rows = [row for _, row in read_json_lines(metrics)] if metrics.is_file() else []
    facts = {
        "epochs": rows[-1]["epoch"] if rows else run.position.epoch,  # `steps` may end within one
        "minutes": round(run.position.seconds / 60, 2),
    }
    if sentence := explain_still_score(rows, read_scores(run.folder).get("monitor", "")):
        facts["chose_nothing"] = sentence
        print(f"warning: {sentence}")
    change_scores(run.folder, lambda scores: scores | facts)
    return [record for _, record in read_json_lines(run.folder / "predictions" / "dev.jsonl")]


def explain_still_score(rows: list[dict], monitor: str) -> str:
    """Return a warning that the score never moved, so it chose no weights; empty: it moved.

    Args:
        rows: of metrics.jsonl.
        monitor: name of the score.
    """
    found = [row[f"dev_{monitor}"] for row in rows if f"dev_{monitor}" in row]
    if len({*found}) != 1 or len(found) == 1 and found[0]:
        return ""
    advice = "dev_file is too small or too easy to compare epochs: add records to it."
    if not found[0]:
        advice = "python check.py says whether a model can reach its gold; if so, train longer."
    return (
        f"dev {monitor} was {found[0]:.4f} at every scoring, so it could not choose an epoch; the "
        f"loss on dev did, where it has gold: {advice}"
    )


def finish_run(run: Run) -> None:
    """Mark a run as finished, and delete its checkpoints; call this last."""
    finished = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
    change_scores(run.folder, lambda scores: scores | finished)
    for name in UNFINISHED:
        delete(run.folder / name)

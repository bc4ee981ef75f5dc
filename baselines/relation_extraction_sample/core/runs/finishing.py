"""The end of a run: note its minutes and epochs, and delete its checkpoints."""

from datetime import UTC, datetime

from core.base.files import delete, read_json_lines, write_json
from core.runs.checkpoints import UNFINISHED
from core.runs.run import Run
from core.runs.scores import read_scores


def end_training(run: Run) -> list[dict]:
    """Note how long a run was trained; return its dev predictions."""
    metrics = run.folder / "metrics.jsonl"
    rows = [row for _, row in read_json_lines(metrics)] if metrics.is_file() else []
    scores = read_scores(run.folder) | {
        "epochs": rows[-1]["epoch"] if rows else run.position.epoch,  # `steps` may end within one
        "minutes": round(run.position.seconds / 60, 2),
    }
    write_json(run.folder / "scores.json", scores)
    return [record for _, record in read_json_lines(run.folder / "predictions" / "dev.jsonl")]


def finish_run(run: Run) -> None:
    """Mark a run as finished, and delete its checkpoints; call this last."""
    finished = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
    write_json(run.folder / "scores.json", read_scores(run.folder) | finished)
    for name in UNFINISHED:
        delete(run.folder / name)

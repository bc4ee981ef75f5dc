"""Add the scores of a file to a run."""

from pathlib import Path

from core.base.files import write_json, write_json_lines
from core.runs.members import members
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation


def keep_scores(run: str, path: Path, evaluation: Evaluation, facts: dict) -> None:
    """Add the scores and predictions of another file to a run, by the name of the file.

    Those on dev, which chose the weights, stay: another dev.jsonl, or another file of the same
    name, has the name of its folder before its own.

    Args:
        run: its folder or its name in runs/; a cross-validation keeps them as a whole.
    """
    folder, *others = members(run)
    folder, name = folder.parent if others else folder, path.stem
    scores = read_scores(folder)
    files, own = scores.get("files", {}), evaluation.scores
    if name == "dev" or files.get(name, own)["data_hash"] != own["data_hash"]:
        name = f"{path.resolve().parent.name}_{name}"
    write_json_lines(folder / "predictions" / f"{name}.jsonl", evaluation.predictions)
    write_json(folder / "scores.json", {**scores, "files": {**files, name: {**own, **facts}}})

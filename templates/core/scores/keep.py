"""Add the scores of a file to a run."""

from collections.abc import Sequence
from pathlib import Path

from core.base.files import write_json_lines
from core.runs.members import find_run
from core.runs.scores import change_scores
from core.scores.evaluation import Evaluation


def keep_scores(runs: Sequence[str], path: Path, evaluation: Evaluation, facts: dict) -> None:
    """Add the scores and predictions of another file to a run, by the name of the file.

    The scores on dev, which chose the weights, are kept. Another dev.jsonl, or a second file of the
    same name, gets the names of its folders in front of its own.

    Args:
        runs: its folder, or its name in runs/; a cross-validation keeps one set of scores. Of
            several runs together, which have no folder, nothing is kept.
    """
    if len(runs) > 1:
        print("several runs have no folder, so these scores are not kept; extras/blends makes one")
        return
    folder, own = find_run(runs[0]), evaluation.scores

    def add(scores: dict) -> dict:
        files, name = scores.get("files", {}), path.stem
        for parent in path.resolve().parents:
            if name != "dev" and files.get(name, own)["data_hash"] == own["data_hash"]:
                break
            name = f"{parent.name}_{name}"
        write_json_lines(folder / "predictions" / f"{name}.jsonl", evaluation.predictions)
        return {**scores, "files": {**files, name: {**own, **facts}}}

    change_scores(folder, add)

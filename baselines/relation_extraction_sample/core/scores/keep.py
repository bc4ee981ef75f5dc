"""Add the scores of a file to a run."""

from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError
from core.base.files import write_json_lines
from core.prediction.loading import TrainedRuns
from core.runs.manifest import weights_hash
from core.runs.members import find_run
from core.runs.provenance import provenance
from core.runs.scores import change_scores
from core.scores.evaluation import Evaluation


def keep_scores(
    names: Sequence[str], path: Path, evaluation: Evaluation, runs: TrainedRuns
) -> None:
    """Add the scores and predictions of another file to a run, by the name of the file.

    The scores on dev, which chose the weights, are kept. Another dev.jsonl, or a second file of the
    same name, gets the names of its folders in front of its own.

    Args:
        names: a run's folder, or its name in runs/; a cross-validation keeps one set of scores. Of
            several runs together, which have no folder, nothing is kept.
        runs: as they were loaded.

    Raises:
        InputError: a training that goes on has found better weights meanwhile.
    """
    if len(names) > 1:
        print("several runs have no folder, so these scores are not kept; extras/blends makes one")
        return
    if [weights_hash(folder) for folder in runs.folders] != runs.weights:
        raise InputError(
            f"{names[0]} got better weights after this command had loaded it: evaluate it again."
        )
    folder, own = find_run(names[0]), evaluation.scores

    def add(scores: dict) -> dict:
        files, name = scores.get("files", {}), path.stem
        for parent in path.resolve().parents:
            if name != "dev" and files.get(name, own)["data_hash"] == own["data_hash"]:
                break
            name = f"{parent.name}_{name}"
        write_json_lines(folder / "predictions" / f"{name}.jsonl", evaluation.predictions)
        return {**scores, "files": {**files, name: {**own, **provenance(runs.settings)}}}

    change_scores(folder, add)

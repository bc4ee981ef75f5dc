"""Two steps of every baseline: does it still train, predict and evaluate?"""

import itertools
import shutil
import tempfile
from pathlib import Path

from tqdm import tqdm

from generator.bake import LEFTOVERS
from generator.baselines import Baseline, find_baselines
from generator.encoders import ENCODER, own_encoder_folder
from generator.errors import InputError
from generator.run_project import PREPARATION, run_scripts

RECORDS = 8


def smoke_baselines(root: Path, names: list[str] | None = None) -> None:
    """Run two steps of baselines, each in a temporary copy.

    Args:
        root: the repository.
        names: the baselines; all by default.

    Raises:
        InputError: a baseline is not built, or one of its scripts failed.
    """
    with tqdm(find_baselines(root, names), desc="smoke") as progress:
        for baseline in progress:
            progress.set_postfix_str(baseline.name)
            with tempfile.TemporaryDirectory() as folder:
                smoke_baseline(root, baseline, Path(folder) / baseline.name)


def smoke_baseline(root: Path, baseline: Baseline, project: Path) -> None:
    """Copy a baseline, shorten its data and run its scripts."""
    source = baseline.folder(root)
    if not (source / "train.py").is_file():
        raise InputError(f"baselines/{baseline.name} has no train.py: run `baselines build`.")
    shutil.copytree(source, project, ignore=shutil.ignore_patterns(*LEFTOVERS, "data", ENCODER))
    data = source / "data" / (baseline.data_set or "")
    held = baseline.data_set or baseline.local_files
    files = shorten_data(data if held and data.is_dir() else source / "sample", project / "smoke")
    # Two steps are an epoch, with one scoring; each bucket would be a graph of its own to trace.
    made = own_encoder_folder(baseline, root)
    encoder = str(made.resolve()) if made and made.is_dir() else "tiny"
    small = ["--steps", "2", "--encoder", encoder, "--tiny_layers", "1", "--buckets", "1"]
    # Batches are filled up, and what fills them is computed too.
    small += ["--batch_size", "4", "--prediction_batch_size", str(RECORDS)]
    train = ["train.py", *small, "--run_name", "smoke", *files]
    if (project / PREPARATION).is_file():
        commands = [
            [PREPARATION, *files, "--packing", "false", "--processes", "1"],
            [*train, "--packing", "false"],
            ["evaluate.py", "runs/smoke", "smoke/train.txt"],
            ["export.py", "runs/smoke", "smoke/encoder"],
        ]
    else:
        commands = [
            train,
            ["predict.py", "runs/smoke", "smoke/test.jsonl", "smoke/predictions.jsonl"],
            ["evaluate.py", "runs/smoke", "smoke/test.jsonl"],
        ]
    run_scripts(project, commands)


def shorten_data(source: Path, target: Path) -> list[str]:
    """Copy the first lines of each split and return the flags that name the copies."""
    target.mkdir()
    flags = []
    for split in ("train", "dev", "test"):
        for path in source.glob(f"{split}.*"):
            with open(path, encoding="utf-8") as file:
                lines = itertools.islice(file, RECORDS)
                (target / path.name).write_text("".join(lines), encoding="utf-8")
            kind = "file" if path.suffix == ".jsonl" else "text"
            if (split, kind) != ("test", "text"):
                flags += [f"--{split}_{kind}", f"smoke/{path.name}"]
    return flags

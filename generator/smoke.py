"""Two training steps of every baseline: does it still train, predict and evaluate?"""

import itertools
import json
import tempfile
from pathlib import Path

from tqdm import tqdm

from generator.baselines import Baseline, find_baselines, own_encoder_folder
from generator.recipes import bake_recipe
from generator.run_scripts import PREPARATION, run_scripts

RECORDS = 8


def smoke_baselines(root: Path, names: list[str] | None = None) -> None:
    """Run two steps of baselines, each baked into a temporary folder.

    Args:
        root: the repository.
        names: the baselines; all by default.

    Raises:
        InputError: a recipe does not fit its template, or one of the scripts failed.
    """
    with tqdm(find_baselines(root, names), desc="smoke") as progress:
        for baseline in progress:
            progress.set_postfix_str(baseline.name)
            with tempfile.TemporaryDirectory() as folder:
                smoke_baseline(root, baseline, Path(folder))


def smoke_baseline(root: Path, baseline: Baseline, parent: Path) -> None:
    """Bake a baseline into a folder of `parent`, and run its scripts on a few records."""
    project = bake_recipe(root, baseline, parent)
    data = root / "build" / baseline.name / "data" / (baseline.data_set or "")
    held = baseline.data_set or baseline.local_files
    whole = bool(held) and data.is_dir()
    files = shorten_data(data if whole else project / "sample", project / "smoke")
    if not whole:
        add_fields(project / "smoke", baseline)
    # Two steps are an epoch with one scoring. One bucket, because each needs its own graph.
    made = own_encoder_folder(baseline, root)
    encoder = str(made.resolve()) if made and made.is_dir() else "tiny"
    small = ["--steps", "2", "--encoder", encoder, "--tiny_layers", "1", "--buckets", "1"]
    # Batches are padded with examples, which are computed too.
    small += ["--batch_size", "4", "--prediction_batch_size", str(RECORDS)]
    train = ["train.py", *small, "--run_name", "smoke", *files]
    if (project / PREPARATION).is_file():
        packing = ["--preparation.packing", "false"]
        commands = [
            [PREPARATION, *files, *packing, "--preparation.processes", "1"],
            [*train, *packing],
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
    """Copy the first lines of each split; return flags with the paths of the copies."""
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


def add_fields(folder: Path, baseline: Baseline) -> None:
    """Add the numbers or choices that a recipe predicts to a sample, which has only labels."""
    columns = str(baseline.settings.get("competition.target_columns", ""))
    names = [name.strip() for name in columns.split(",") if name.strip()]
    given = baseline.settings.get("competition.choice_columns")
    choices = [str(name) for name in given] if isinstance(given, list) else []
    if names or choices:
        for path in folder.glob("*.jsonl"):
            records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for number, record in enumerate(records):
                record |= dict.fromkeys(names, number % 5)
                if choices:
                    record["prompt"] = record.pop("text_a")
                    record |= {name: f"{name} {number}" for name in choices}
                    record["label"] = choices[number % len(choices)]
            lines = [json.dumps(record, ensure_ascii=False) for record in records]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")

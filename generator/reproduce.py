"""Reproduce a baseline: fetch its data, train and score every seed, record the scores."""

import shutil
from pathlib import Path

from generator.baselines import Baseline, find_baselines
from generator.data_sets.get import get_data_set
from generator.data_sets.registry import SPLITS, find_data_set
from generator.encoders import ENCODER, describe_encoder, own_encoder
from generator.errors import InputError
from generator.files import json_lines, sha256, write_bytes, write_json
from generator.first_steps import train_first_steps
from generator.run_project import (
    PREPARATION,
    project_code_hash,
    read_json_lines,
    read_scores,
    run_folder,
    run_script,
)
from generator.scores import update_readmes

SCORED_SPLITS = ("dev", "test")
# Of each seed, besides its scores: seeds may be trained on different days.
ROW_KEYS = ("minutes", "hardware", "measured", "code_hash")
# What a prediction may hold besides texts, of any task: ids, offsets, labels and numbers.
SHIPPED_KEYS = {
    *("id", "score", "triples", "subject", "predicate", "object"),
    *("answer", "events", "type", "trigger", "arguments", "role", "span"),
    *("label", "labels", "probabilities", "group", "exact_match", "statistics"),
}
# Of a project that makes an encoder.
EXPORT = "export.py"


def parse_seeds(text: str | None) -> list[int] | None:
    """Read seeds such as `1,2,3`.

    Raises:
        InputError: something else than whole numbers was given.
    """
    try:
        return [int(part) for part in text.split(",")] if text else None
    except ValueError as error:
        raise InputError(f"--seeds {text} is no list of numbers: write --seeds 1,2,3.") from error


def reproduce_baseline(
    root: Path,
    name: str,
    local: Path | None = None,
    seeds: list[int] | None = None,
    encoder: Path | None = None,
) -> None:
    """Train and score a baseline; what is finished already is not repeated.

    Args:
        root: the repository.
        name: the baseline.
        local: a local copy of the data set.
        seeds: the seeds, which join those scored before under the same conditions; by default
            those of the baseline, all anew.
        encoder: a local folder with the encoder that the baseline names.

    Raises:
        InputError: something is missing, or a script failed.
    """
    [baseline] = find_baselines(root, [name])
    project = baseline.folder(root)
    if not (project / "train.py").is_file():
        raise InputError(f"baselines/{name} has no train.py: run `baselines build` first.")
    encoder = encoder or own_encoder(baseline, root)
    weights = describe_encoder(baseline, encoder)
    data = prepare_data(baseline, project, local)
    code = project_code_hash(project)
    if (project / PREPARATION).is_file():
        run_script(project, PREPARATION)
    trained = seeds or list(baseline.seeds)
    for seed in trained:
        train_seed(project, seed, encoder, code)
        for file in sorted((project / data).glob("test.*")):
            evaluate_seed(project, seed, f"{data}/{file.name}")
    before, scores = read_scores(project), collect(project, trained, weights)
    if seeds and before and same_conditions(before, scores, code):
        scores = join_seeds(before, scores)
    if scores["seed"] in trained:
        write_predictions(project, scores)
    write_json(project / "scores.json", scores)
    record_first_steps(project, before, encoder)
    update_readmes(root)
    if (project / EXPORT).is_file():
        shutil.rmtree(project / ENCODER, ignore_errors=True)
        run_script(project, EXPORT, f"runs/seed_{trained[0]}", ENCODER)


def prepare_data(baseline: Baseline, project: Path, local: Path | None) -> str:
    """Fetch a baseline's data unless it is there; return its folder inside of the project."""
    if baseline.local_files:
        return copy_local(baseline, project / "data", local)
    if not baseline.data_set:
        return "sample"
    folder = project / "data" / baseline.data_set
    pinned = find_data_set(baseline.data_set).hashes
    paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
    if any(
        not path.is_file() or sha256(path.read_bytes()) != pinned[split]
        for split, path in paths.items()
    ):
        get_data_set(baseline.data_set, folder, local)
    return f"data/{baseline.data_set}"


def copy_local(baseline: Baseline, folder: Path, local: Path | None) -> str:
    """Copy data that only its users have, a test file too if there is one; return its folder.

    Raises:
        InputError: they have not said where, or it is not there.
    """
    if local:
        missing = [name for name in baseline.local_files if not (local / name).is_file()]
        if missing:
            raise InputError(f"{local} holds no {' and no '.join(missing)}: check --from.")
        for path in sorted(local.iterdir()):
            if path.name in baseline.local_files or path.stem == "test":
                write_bytes(folder / path.name, path.read_bytes())
    missing = [name for name in baseline.local_files if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{baseline.name} is trained on data that can't be fetched: name a folder that holds "
            f"{' and '.join(baseline.local_files)} with --from."
        )
    return folder.name


def train_seed(project: Path, seed: int, encoder: Path | None, code: str) -> None:
    """Train one seed, or go on with its unfinished run."""
    scores = read_scores(seed_folder(project, seed))
    if "finished" in scores:
        if scores["code_hash"] != code:
            raise InputError(
                f"{project.name}/runs/seed_{seed} was trained by older code: delete that folder to"
                " train it anew."
            )
        print(f"seed {seed}: trained already")
        return
    flags = ["--encoder", str(encoder.resolve())] if encoder else []
    run_script(project, "train.py", "--seed", str(seed), "--run_name", f"seed_{seed}", *flags)
    if "finished" not in read_scores(seed_folder(project, seed)):
        raise InputError(
            f"{project.name}/runs/seed_{seed} was told to end: run the same command to go on."
        )


def evaluate_seed(project: Path, seed: int, test_file: str) -> None:
    """Score one seed on the test file unless that was done."""
    folder = seed_folder(project, seed)
    if "test" in read_scores(folder) and (folder / "predictions" / "test.jsonl").is_file():
        print(f"seed {seed}: scored already")
        return
    run_script(project, "evaluate.py", f"runs/seed_{seed}", test_file)


def collect(project: Path, seeds: list[int], weights: dict) -> dict:
    """Return the scores of the first seed, and a line for each."""
    every = {seed: read_scores(seed_folder(project, seed)) for seed in seeds}
    first = dict(every[seeds[0]])
    splits = scored_splits(first)
    for split in splits:
        # Scoring notes its circumstances too, the path of a local encoder among them.
        first[split] = {key: value for key, value in first[split].items() if key not in first}
    return first | {
        "name": project.name,
        **weights,
        "command": f"baselines reproduce {project.name}",
        "seeds": [
            {
                "seed": seed,
                **{split: numbers(scores[split]) for split in splits},
                **{key: scores[key] for key in ROW_KEYS if key in scores},
            }
            for seed, scores in every.items()
        ],
    }


def same_conditions(before: dict, scores: dict, code: str) -> bool:
    """Say whether seeds scored before differ from these in nothing but the seed.

    Args:
        before: earlier scores of the baseline.
        scores: those of other seeds.
        code: hash of today's code.
    """
    same_code = code in (before["code_hash"], *before.get("confirmed_code", []))
    same_data = all(
        before.get(split, {}).get("data_hash") == scores.get(split, {}).get("data_hash")
        for split in SCORED_SPLITS
    )
    names = ("encoder", "encoder_weights", "monitor")
    return same_code and same_data and all(before.get(key) == scores.get(key) for key in names)


def join_seeds(before: dict, scores: dict) -> dict:
    """Return earlier scores with the lines of further seeds; a seed scored twice counts once."""
    rows = {row["seed"]: row for row in (*before["seeds"], *scores["seeds"])}
    again = before["seed"] in {row["seed"] for row in scores["seeds"]}
    return (scores if again else before) | {"seeds": [rows[seed] for seed in sorted(rows)]}


def write_predictions(project: Path, scores: dict) -> None:
    """Write the predictions of the seed whose scores are shown whole."""
    folder = seed_folder(project, scores["seed"])
    for split in scored_splits(scores):
        source = folder / "predictions" / f"{split}.jsonl"
        records = [strip_texts(record) for record in read_json_lines(source)]
        write_bytes(project / "predictions" / f"{split}.jsonl", json_lines(records))


def scored_splits(scores: dict) -> list[str]:
    """Return the splits that a run was scored on."""
    return [split for split in SCORED_SPLITS if split in scores]


def record_first_steps(project: Path, before: dict, encoder: Path | None) -> None:
    """Add to a baseline's scores what `baselines confirm` compares with, when the code changes."""
    scores = read_scores(project)
    if "first_steps" in before and before["code_hash"] == scores["code_hash"]:
        steps = before["first_steps"]
    else:
        steps = train_first_steps(project, scores["seed"], scores["monitor"], encoder)
    write_json(project / "scores.json", scores | {"first_steps": steps})


def seed_folder(project: Path, seed: int) -> Path:
    """Return the folder of a seed's run."""
    return run_folder(project, f"seed_{seed}")


def numbers(scores: dict) -> dict[str, float]:
    """Return the scores themselves, without what belongs to them."""
    return {name: value for name, value in scores.items() if isinstance(value, int | float)}


def strip_texts(record: dict) -> dict:
    """Keep ids, spans, labels and scores: texts of a data set are not ours to give away."""
    stripped = {}
    for key, value in record.items():
        if key in SHIPPED_KEYS:
            # The keys of a dict of probabilities are labels, which stay.
            inner = key != "probabilities" and isinstance(value, dict)
            stripped[key] = strip_texts(value) if inner else value
            if isinstance(value, list):
                stripped[key] = [strip_texts(v) if isinstance(v, dict) else v for v in value]
    return stripped

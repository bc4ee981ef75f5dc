"""Reproduce a baseline: fetch its data, train and score every seed, record the scores."""

import shutil
from pathlib import Path

from generator import InputError
from generator.baselines import (
    ENCODER,
    describe_encoder,
    find_baselines,
    flatten,
    own_encoder,
    own_encoder_folder,
)
from generator.confirm import train_first_steps
from generator.document_tables import update_documents
from generator.files import (
    copy_tree,
    json_lines,
    read_json,
    read_json_lines,
    read_toml,
    write_bytes,
    write_json,
)
from generator.recipes import prepare_data, working_project
from generator.run_scripts import (
    PREPARATION,
    project_code_hash,
    read_scores,
    run_folder,
    run_script,
)

SCORED_SPLITS = ("dev", "test")
# Kept for each seed besides its scores, because seeds may be trained on different days.
ROW_KEYS = ("minutes", "hardware", "measured", "code_hash")
# Fields of predictions of any task that hold no texts: ids, offsets, labels and numbers.
SHIPPED_KEYS = {
    *("id", "score", "triples", "subject", "predicate", "object"),
    *("answer", "events", "type", "trigger", "arguments", "role", "span"),
    *("label", "labels", "probabilities", "group", "exact_match", "statistics"),
    *("entities", "targets", "grades"),
}
# The keys of these are labels or column names, which are kept.
KEYED_BY_LABELS = {"probabilities", "targets", "grades"}
# Settings that a reproduction passes as flags.
FLAGS = {"seed", "run_name", "encoder", "devices.precision"}
# File of a run: with what it was trained besides its settings.
MADE_WITH = "made_with.json"
# The run of the classical model that a project may train too.
FLOOR = "floor"
# Folder of a project that makes an encoder.
EXPORT = "export.py"


def parse_seeds(text: str | None) -> list[int] | None:
    """Read seeds such as `1,2,3`; one that is given twice counts once.

    Raises:
        InputError: not whole numbers.
    """
    try:
        return list(dict.fromkeys(int(part) for part in text.split(","))) if text else None
    except ValueError as error:
        raise InputError(
            f"--seeds {text} is not a list of numbers: write --seeds 1,2,3."
        ) from error


def reproduce_baseline(
    root: Path,
    name: str,
    local: Path | None = None,
    seeds: list[int] | None = None,
    encoder: Path | None = None,
) -> None:
    """Train and score a baseline, except the finished parts.

    Args:
        root: the repository.
        name: the baseline.
        local: a local copy of the data set.
        seeds: added to those scored before, under the same conditions; by default all seeds of
            the baseline, trained again.
        encoder: a local folder with the encoder that the baseline names.

    Raises:
        InputError: something is missing, or a script failed.
    """
    [baseline] = find_baselines(root, [name])
    results = baseline.results(root)
    encoder = encoder or own_encoder(baseline, root)
    made_with = {"recipe": baseline.recipe, **describe_encoder(baseline, encoder)}
    project = working_project(root, baseline)
    data = prepare_data(baseline, project, local)
    code = project_code_hash(project)
    if (project / PREPARATION).is_file():
        run_script(project, PREPARATION)
    trained = seeds or list(baseline.seeds)
    if seeds:
        refuse_to_lose(read_scores(results), seeds, made_with, code, name)
    for seed in trained:
        train_seed(project, seed, encoder, code, {**made_with, "precision": baseline.precision})
        for file in sorted((project / data).glob("test.*")):
            evaluate_seed(project, seed, f"{data}/{file.name}")
    before, scores = read_scores(results), collect(project, trained, made_with)
    alike = bool(before) and same_conditions(before, scores, code)
    if seeds and alike:
        scores = join_seeds(before, scores)
    # `baselines confirm` compares with these when the code changes.
    if not alike or "first_steps" not in before or before["seed"] != scores["seed"]:
        steps = train_first_steps(project, scores["seed"], scores["monitor"], encoder)
    else:
        steps = before["first_steps"]
    scores |= {"first_steps": steps}
    if scores["seed"] in trained:
        # Every project has the reference, and it is compared only on dev.
        splits = SCORED_SPLITS[:1] if baseline.is_sample else SCORED_SPLITS
        write_predictions(project, scores, splits, results)
    write_json(results / "scores.json", scores)
    own = baseline.folder(root) / ENCODER
    # A sample's encoder is kept only if another baseline starts from it.
    needed = own in [own_encoder_folder(other, root) for other in find_baselines(root)]
    if (project / EXPORT).is_file() and (needed or not baseline.is_sample):
        shutil.rmtree(project / ENCODER, ignore_errors=True)
        run_script(project, EXPORT, f"runs/seed_{trained[0]}", ENCODER)
        copy_tree(project / ENCODER, own)
    update_documents(root)


def refuse_to_lose(before: dict, seeds: list[int], made_with: dict, code: str, name: str) -> None:
    """Refuse some seeds of today's code where others of other code are scored.

    Raises:
        InputError: the lines of the others would be lost.
    """
    others = {row["seed"] for row in before.get("seeds", ())} - {*seeds}
    if others and not same_conditions(before, {**before, **made_with}, code):
        numbers = ", ".join(map(str, sorted(others)))
        raise InputError(
            f"baselines/{name} has scores of seed {numbers} by other code or settings, which would "
            f"be lost: run `baselines confirm {name}` first, or leave --seeds out."
        )


def train_seed(project: Path, seed: int, encoder: Path | None, code: str, made_with: dict) -> None:
    """Train one seed, or resume its unfinished run; note the encoder and the precision."""
    noted = {key: made_with.get(key) for key in ("encoder_weights", "precision")}
    note = seed_folder(project, seed) / MADE_WITH
    scores = read_scores(seed_folder(project, seed))
    if "finished" in scores:
        older = "by older code" if scores["code_hash"] != code else ""
        others = "with another encoder or precision" if is_other(note, noted) else ""
        if other := older or others or other_setting(project, seed_folder(project, seed)):
            raise InputError(
                f"build/{project.name}/runs/seed_{seed} was trained {other}: delete that folder "
                "to train it again."
            )
        print(f"seed {seed}: trained already")
        return
    flags = ["--devices.precision", made_with["precision"]]
    flags += ["--encoder", str(encoder.resolve())] if encoder else []
    run_script(project, "train.py", "--seed", str(seed), "--run_name", f"seed_{seed}", *flags)
    if "finished" not in read_scores(seed_folder(project, seed)):
        raise InputError(
            f"build/{project.name}/runs/seed_{seed} was told to end: run the same command to go on."
        )
    write_json(note, noted)


def is_other(note: Path, noted: dict) -> bool:
    """Return whether a run notes another encoder or precision; one without a note may be any."""
    return note.is_file() and read_json(note) != noted


def other_setting(project: Path, run: Path) -> str:
    """Return in words a setting of a project that its run was not trained with; empty: none."""
    now = flatten(read_toml(project / "config.toml"))
    then = flatten(read_json(run / "config.json"))
    for name in sorted(now.keys() & then.keys() - FLAGS):
        if now[name] != then[name]:
            return f"with {name} = {then[name]!r}, which is {now[name]!r} now"
    return ""


def evaluate_seed(project: Path, seed: int, test_file: str) -> None:
    """Score one seed on the test file, unless it is scored already."""
    folder = seed_folder(project, seed)
    if "test" in read_scores(folder) and (folder / "predictions" / "test.jsonl").is_file():
        print(f"seed {seed}: scored already")
        return
    run_script(project, "evaluate.py", f"runs/seed_{seed}", test_file)


def collect(project: Path, seeds: list[int], made_with: dict) -> dict:
    """Return the scores of the first seed and a line per seed; `made_with`: recipe and encoder."""
    every = {seed: read_scores(seed_folder(project, seed)) for seed in seeds}
    first = dict(every[seeds[0]])
    splits = scored_splits(first)
    for split in splits:
        # Scoring also records where and how it ran, including the path of a local encoder. The
        # curve is only for the report of the run.
        known = {*first, "precision_recall"}
        first[split] = {key: value for key, value in first[split].items() if key not in known}
    floor = read_scores(run_folder(project, FLOOR))
    if floor:
        first[FLOOR] = {split: numbers(floor[split]) for split in scored_splits(floor)}
    return first | {
        "name": project.name,
        **made_with,
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
    """Return whether earlier seeds differ from these only in the seed.

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
    names = ("recipe", "encoder", "encoder_weights", "monitor")
    return same_code and same_data and all(before.get(key) == scores.get(key) for key in names)


def join_seeds(before: dict, scores: dict) -> dict:
    """Return earlier scores plus the lines of new seeds; a seed scored twice counts once."""
    rows = {row["seed"]: row for row in (*before["seeds"], *scores["seeds"])}
    again = before["seed"] in {row["seed"] for row in scores["seeds"]}
    return (scores if again else before) | {"seeds": [rows[seed] for seed in sorted(rows)]}


def write_predictions(project: Path, scores: dict, splits: tuple[str, ...], results: Path) -> None:
    """Write the predictions of the seed whose scores are stored in full.

    Args:
        project: where it was trained.
        scores: of the baseline.
        splits: whose predictions are written, if they were scored.
        results: the folder of the baseline's results.
    """
    folder = seed_folder(project, scores["seed"])
    for split in (split for split in splits if split in scores):
        source = folder / "predictions" / f"{split}.jsonl"
        records = [strip_texts(record) for record in read_json_lines(source)]
        write_bytes(results / "predictions" / f"{split}.jsonl", json_lines(records))


def scored_splits(scores: dict) -> list[str]:
    """Return the splits that a run was scored on."""
    return [split for split in SCORED_SPLITS if split in scores]


def seed_folder(project: Path, seed: int) -> Path:
    """Return the folder of a seed's run."""
    return run_folder(project, f"seed_{seed}")


def numbers(scores: dict) -> dict[str, float]:
    """Return only the scores, without their details."""
    return {name: value for name, value in scores.items() if isinstance(value, int | float)}


def strip_texts(record: dict) -> dict:
    """Keep ids, spans, labels and scores; texts of a data set must not be published."""
    stripped = {}
    for key, value in record.items():
        if key in SHIPPED_KEYS:
            inner = key not in KEYED_BY_LABELS and isinstance(value, dict)
            stripped[key] = strip_texts(value) if inner else value
            if isinstance(value, list):
                stripped[key] = [strip_texts(v) if isinstance(v, dict) else v for v in value]
    return stripped

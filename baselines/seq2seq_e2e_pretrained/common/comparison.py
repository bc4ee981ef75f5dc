"""Find two scored folders, and make sure that they were scored on the same records."""

from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.bootstrap import Difference
from common.errors import InputError
from common.files import file_hash, read_json, read_json_lines
from common.settings import PROJECT, project_path


@dataclass(frozen=True)
class Scored:
    """A run, the reference or a baseline: `scores.json` beside `predictions/dev.jsonl`."""

    name: str
    folder: Path
    file: str
    data_hash: str


def find_scored(name: str) -> Scored:
    """Return a scored folder, given as a path, by its name in runs/, or as `reference`.

    Raises:
        InputError: there is none, or it has not been scored yet.
    """
    places = [Path(name), PROJECT / "runs" / name, PROJECT / name]
    folders = [place for place in places if place.is_dir()]
    # A folder of data may have the name of a run.
    scored = [folder for folder in folders if (folder / "scores.json").is_file()]
    if not folders:
        runs = sorted(entry.parent.name for entry in PROJECT.glob("runs/*/scores.json"))
        known = f"runs/ has {', '.join(runs)}" if runs else "train one with: python train.py"
        raise InputError(f"{name} is not the folder of a run: {known}.")
    if not scored:
        raise InputError(f"{folders[0]} has no scores.json: let train.py finish one epoch first.")
    folder = scored[0]
    dev = read_json(folder / "scores.json").get("dev")
    if not isinstance(dev, dict) or not {"file", "data_hash"} <= dev.keys():
        raise InputError(
            f'{folder / "scores.json"} has no "dev" with "file" and "data_hash": score the run '
            "with evaluate.py."
        )
    return Scored(name, folder, dev["file"], dev["data_hash"])


def shared_gold_file(run: Scored, other: Scored) -> Path:
    """Return the file that both were scored on, which must still be as it was.

    Raises:
        InputError: they were scored on different files, or the file has gone or changed.
    """
    if run.data_hash != other.data_hash:
        raise InputError(
            f"{run.name} was scored on {run.file} and {other.name} on {other.file}, which differ "
            "in content: name a run that was scored on the same file, as in "
            f"python compare.py {run.name} OTHER_RUN."
        )
    path = project_path(run.file)
    config = run.folder / "config.json"
    if not path.is_file() and config.is_file():
        # Of a file outside the project the scores hold the name alone; the settings know the place.
        settings = read_json(config)
        setting = "train_file" if settings.get("folds") else "dev_file"
        path = project_path(settings.get(setting, run.file))
    if not path.is_file():
        raise InputError(f"{path}, which {run.name} was scored on, is missing: restore it.")
    if file_hash(path) != run.data_hash:
        raise InputError(
            f"{path} has changed since {run.name} was scored on it: restore it, or score again "
            "with evaluate.py."
        )
    return path


def read_predictions(scored: Scored, ids: list[str]) -> dict[str, tuple[str, dict]]:
    """Return record id -> (file and line, record) of the dev predictions.

    Raises:
        InputError: the file is absent or broken, or a record is missing in it.
    """
    path = scored.folder / "predictions" / "dev.jsonl"
    records = {str(r.get("id")): (f"{path}, line {n}", r) for n, r in read_json_lines(path)}
    missing = [name for name in ids if name not in records]
    if missing:
        raise InputError(
            f"{path} lacks {len(missing)} of {len(ids)} records, {missing[0]!r} for one: write it "
            "anew with evaluate.py."
        )
    return records


def print_comparison(
    run: Scored,
    other: Scored,
    total: Difference,
    labels: dict[str, dict],
    title: str,
    metric: str = "F1",
    label_metric: str | None = None,
) -> None:
    """Print both scores, the difference with its interval, the verdict and a row for each label.

    Args:
        run: the first of the two.
        other: the second.
        total: from `paired_bootstrap`.
        labels: label -> `run_score`, `other_score`, `difference`, `run_correct`, `other_correct`,
            `gold`.
        title: what a label is called.
        metric: what the scores are called.
        label_metric: what the scores of a label are called, if otherwise.
    """
    own = label_metric or metric
    names = (f"this {own}", f"other {own}", "difference", "right", "gold")
    table = Table(title, *names, box=box.SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    for label, row in labels.items():
        right = f"{row['run_correct']} : {row['other_correct']}"
        scores = [f"{row[f'{name}_score']:.3f}" for name in ("run", "other")]
        scores.append(f"{row['difference']:+.3f}")
        table.add_row(Text(label), *scores, right, str(row["gold"]))
    print(f"this   {total.first:.4f} {metric}   {run.name}")
    print(f"other  {total.second:.4f} {metric}   {other.name}")
    print(
        f"difference {total.difference:+.4f}, 95 % interval {total.low:+.4f} to {total.high:+.4f} "
        f"({total.resamples} resamples)"
    )
    print(f"verdict: {run.name} against {other.name}: {total.verdict}")
    Console(highlight=False).print(table)

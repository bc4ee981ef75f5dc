"""Is one run better than another, or was it the luck of these records?

The script finds two scored folders, checks that both were scored on the same records, and resamples
the records. The interval of the difference shows the effect of chance.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy import sparse, stats

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import PROJECT, file_hash, project_path, read_json, read_json_lines, write_json
from core.base.settings import flatten, with_new_names
from core.base.words import printable
from core.data.records import Id
from core.runs.manifest import check_files
from core.runs.members import known_runs
from core.runs.scores import read_scores

NUMBERS_AT_ONCE = 100_000  # counts of drawn records in memory, in the caches of a processor
MOST_RESAMPLES, FEW_RESAMPLES = 10_000, 200
DRAWN_RECORDS = 1_000_000_000  # in all resamples together: some ten seconds
FEW_COLUMNS = 64
# Settings that change the right answers, or the question: compared scores must share them.
SETTINGS_OF_GOLD = (
    *("output", "lowercase_scores", "bleu_tokenizer"),
    *("objective", "mask_rate", "mask_share", "random_share", "span_length"),
    *(f"competition.{name}" for name in ("label_column", "label_separator", "label_aliases")),
    *(f"competition.{name}" for name in ("target_columns", "hierarchy", "right_choice")),
)
# From how often each record is drawn, `[draws, records]`, to a score of each draw.
Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Scored:
    """A run, the reference or a baseline: `scores.json` and `predictions/dev.jsonl`.

    For a whole project, such as the baseline of a sample, `folder` is its reference/.

    Attributes:
        name: as it was typed.
        folder: of the scores.
        file: name of the scored file.
        data_hash: of that file.
        part: name of its predictions.
        path: of the scored file, if it was named; None: the dev file.
    """

    name: str
    folder: Path
    file: str
    data_hash: str
    part: str = "dev"
    path: Path | None = None


def run_command(
    compare: Callable[[Scored, Scored], "Compared"], description: str, task: str
) -> None:
    """Compare the two scored folders on the command line; without any, show all runs.

    Args:
        compare: of a task: compares two scored folders.
        description: of the script.
        task: the name of the task.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, or name in runs/")
    parser.add_argument("other", metavar="OTHER", nargs="?", default="reference")
    parser.add_argument("--file", type=Path, help="that evaluate.py scored, in place of dev_file")
    arguments = parser.parse_args()
    if arguments.run is None:
        need("runs_table").show_runs(compare, task)
        return
    names = (arguments.run, arguments.other)
    run, other = (find_scored(name, arguments.file) for name in names)
    compared = compare(run, other)
    print_comparison(run, other, compared.difference(), **compared.shown)


def find_scored(name: str, path: Path | None = None) -> Scored:
    """Return a scored folder from a path, a name in runs/, or `reference`.

    Args:
        name: of the folder.
        path: of the file that it was scored on; None: the dev file.

    Raises:
        InputError: there is none, or it is not scored yet.
    """
    places = [Path(name), PROJECT / "runs" / name, PROJECT / name, Path(name) / "reference"]
    # A data folder may have the name of a run.
    folder = next((place for place in places if (place / "scores.json").is_file()), None)
    if folder is None and not any(place.is_dir() for place in places):
        raise InputError(f"{name} is not a run: {known_runs('scores.json')}.")
    if folder is None:
        raise InputError(
            f"{name} has no scores.json: name a run that has finished an epoch "
            f"({known_runs('scores.json')})."
        )
    scores = read_json(folder / "scores.json")
    dev = scores.get("dev")
    if not isinstance(dev, dict) or not {"file", "data_hash"} <= dev.keys():
        raise InputError(
            f'{folder / "scores.json"} has no "dev" with "file" and "data_hash": train again.'
        )
    check_files(folder)
    if path is None or file_hash(path) == dev["data_hash"]:
        return Scored(name, folder, dev["file"], dev["data_hash"], path=path)
    for part, own in scores.get("files", {}).items():
        if own["data_hash"] == file_hash(path):
            return Scored(name, folder, own["file"], own["data_hash"], part, path)
    raise InputError(
        f"{name} has no scores of {path}: write them with: python evaluate.py {name} {path}"
    )


def shared_gold_file(run: Scored, other: Scored) -> Path:
    """Return the file that both were scored on, after checking that it is unchanged.

    Raises:
        InputError: they were scored on different files, or the file is gone or changed.
    """
    if run.data_hash != other.data_hash:
        raise InputError(
            f"{run.name} was scored on {run.file} and {other.name} on {other.file}, which differ "
            "in content: name a run that was scored on the same file, as in "
            f"python compare.py {run.name} OTHER_RUN."
        )
    refuse_other_gold(run, other)
    if run.path is not None:
        return run.path
    places = [project_path(run.file), *named_files(run, other)]
    found = [path for path in places if path.is_file()]
    for path in found:
        if file_hash(path) == run.data_hash:
            return path
    raise InputError(
        f"{(found or places)[0]} is missing, or has changed since {run.name} was scored on it: "
        "restore it."
    )


def refuse_other_gold(run: Scored, other: Scored) -> None:
    """Refuse to compare runs for which other answers are right; the reference has no settings.

    Raises:
        InputError: names the setting.
    """
    paths = [one.folder / "config.json" for one in (run, other)]
    if not all(path.is_file() for path in paths):
        return
    one, two = (flatten(with_new_names(read_json(path))) for path in paths)
    for name in SETTINGS_OF_GOLD:
        if name in one and name in two and one[name] != two[name]:
            raise InputError(
                f"{run.name} has {name} = {one[name]!r} and {other.name} has {two[name]!r}: their "
                "scores mean different things; name a run with the same."
            )


def named_files(*scored: Scored) -> list[Path]:
    """Return the files of this name in the settings of scored folders.

    The scores have only the name of a file outside the project; the settings have its path. A
    cross-validation is scored on its training file.
    """
    names = {Path(one.file).name for one in scored}
    configs = [one.folder / "config.json" for one in scored]
    known = [read_json(path) for path in configs if path.is_file()]
    files = [config[key] for config in known for key in ("dev_file", "train_file") if key in config]
    return [project_path(file) for file in dict.fromkeys(files) if Path(file).name in names]


def read_predictions(scored: Scored, ids: list[Id]) -> dict[Id, tuple[str, dict]]:
    """Return record id -> (file and line, record) of the predictions; all must exist."""
    path = scored.folder / "predictions" / f"{scored.part}.jsonl"
    records: dict[str, tuple[str, dict]] = {}
    for line, record in read_json_lines(path):
        place = f"{path}, line {line}"
        if records.setdefault(str(record.get("id")), (place, record))[0] != place:
            raise InputError(f"{place}: id {record.get('id')!r} comes twice: keep one.")
    if missing := [name for name in ids if str(name) not in records]:
        raise InputError(
            f"{path} lacks {len(missing)} of {len(ids)} records, {missing[0]!r} for one: write it "
            "again with evaluate.py."
        )
    return {name: records[str(name)] for name in ids}


def micro_f1(
    correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray, axis: int = -1
) -> np.ndarray:
    """Return F1 of the sums over `axis`; 0 if there is nothing to count."""
    both = predicted.sum(axis) + gold.sum(axis)
    return 2 * correct.sum(axis) / np.maximum(both, 1)


@dataclass(frozen=True)
class Difference:
    """Two scores, first minus second, and the interval of that difference."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    resamples: int

    @property
    def verdict(self) -> str:
        """The first system compared with the second, in words."""
        if self.low == self.high == 0:  # for any drawn records
            return "the same on every record"
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no clear difference"


@dataclass(frozen=True)
class Compared:
    """Two systems on the same records: what compare.py of a task has found.

    Attributes:
        first: its score, from how often each record is drawn, `[draws, records]`, to `[draws]`.
        second: the score of the other system.
        records: their number.
        resamples: as of `compare_columns`; with very many records there are fewer.
        shown: arguments of `print_comparison`.
    """

    first: Score
    second: Score
    records: int
    resamples: int = MOST_RESAMPLES
    shown: dict[str, Any] = field(default_factory=dict)

    def difference(self) -> Difference:
        """Resample the records; return the difference of both scores with its interval.

        Raises:
            InputError: fewer than two records.
        """
        if self.records < 2:
            raise InputError(
                f"{self.records} record is too few to compare two systems: score them on a larger "
                "file."
            )
        resamples = min(self.resamples, max(FEW_RESAMPLES, DRAWN_RECORDS // self.records))
        interval = stats.bootstrap(
            (np.arange(self.records),),
            self.differences,
            vectorized=True,
            method="percentile",
            n_resamples=resamples,
            batch=max(1, NUMBERS_AT_ONCE // self.records),
            confidence_level=0.95,
            rng=np.random.default_rng(1),
        ).confidence_interval
        whole = np.ones((1, self.records))
        one, other = (float(score(whole)[0]) for score in (self.first, self.second))
        ends = float(interval.low), float(interval.high)
        return Difference(one, other, one - other, *ends, resamples)

    def differences(self, drawn: np.ndarray, axis: int) -> np.ndarray:
        """Return the difference `[draws]` for each draw of records `[draws, records]`."""
        # Counted by one call for all draws: those of each have a range of their own.
        shifted = drawn + self.records * np.arange(len(drawn))[:, None]
        counts = np.bincount(shifted.ravel(), minlength=drawn.size).astype(float)
        counts = counts.reshape(drawn.shape)
        return self.first(counts) - self.second(counts)


def compare_columns(
    first: np.ndarray,
    second: np.ndarray,
    statistic: Callable[..., np.ndarray] = micro_f1,
    resamples: int = MOST_RESAMPLES,
    **shown: Any,
) -> Compared:
    """Return two systems whose scores are computed from values of each record.

    Args:
        first: the values behind the score, for each record, shape `[records, columns]`.
        second: the same records in the same order for the other system.
        statistic: computes the score from the sums of the columns, which it gets along `axis`;
            `micro_f1` takes `(correct, predicted, gold)`. `np.mean` is the mean of one column.
        resamples: number of resamples; the interval contains 95 % of the differences.
        **shown: arguments of `print_comparison`.
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(f"[records, columns] twice, not {first.shape} and {second.shape}")
    one, other = (score_of_sums(columns, statistic) for columns in (first, second))
    return Compared(one, other, len(first), resamples, shown)


def score_of_sums(columns: np.ndarray, statistic: Callable[..., np.ndarray]) -> Score:
    """Return the score of drawn records from the sums of their values `[records, columns]`."""
    is_wide = columns.shape[1] > FEW_COLUMNS  # counts of many labels, which are mostly 0
    values = sparse.csr_array(columns.T) if is_wide else np.ascontiguousarray(columns.T, float)

    def score(counts: np.ndarray) -> np.ndarray:
        if is_wide:
            sums = values @ counts.T
        else:  # not by `@`, whose threads wait for each other longer than they compute
            sums = np.stack([np.einsum("dr,r->d", counts, row) for row in values])
        if statistic is np.mean:
            return sums[0] / len(columns)
        return statistic(*sums[..., None], axis=-1)

    return score


def compare_labels(run: dict[str, dict], other: dict[str, dict]) -> dict[str, dict]:
    """Return both F1 scores of each label, the largest difference first.

    Args:
        run: label -> `f1`, `correct` and `gold` of the first system; `other`: of the second.
    """
    rows = {}
    for label in run | other:
        nothing = {"f1": 0.0, "correct": 0}
        first, second = run.get(label, nothing), other.get(label, nothing)
        rows[label] = {
            "run_score": first["f1"],
            "other_score": second["f1"],
            "difference": first["f1"] - second["f1"],
            "run_correct": first["correct"],
            "other_correct": second["correct"],
            "gold": max(row.get("gold", 0) for row in (first, second)),
        }
    return dict(sorted(rows.items(), key=lambda item: (-abs(item[1]["difference"]), item[0])))


def print_comparison(
    run: Scored,
    other: Scored,
    total: Difference,
    labels: dict[str, dict],
    title: str,
    metric: str = "F1",
    label_metric: str | None = None,
    **facts: Any,
) -> None:
    """Print both scores, the difference with its interval, the verdict and a row per label.

    The first system's comparison.json keeps the same for the dev file.

    Args:
        run, other: the compared systems; `total` is their difference.
        labels: label -> `run_score`, `other_score`, `difference`; of labels that are counted also
            `run_correct`, `other_correct`, `gold`. Empty: no table is printed.
        title: the word for a label.
        metric: the name of the scores; `label_metric`: of the labels' scores, if different.
        **facts: also kept.
    """
    own = label_metric or metric
    names = [f"this {own}", f"other {own}", "difference"]
    counted = any("gold" in row for row in labels.values())
    table = Table(title, *names, *(("right", "gold") if counted else ()), box=box.SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    for label, row in labels.items():
        cells = [f"{row[f'{name}_score']:.3f}" for name in ("run", "other")]
        cells.append(f"{row['difference']:+.3f}")
        if counted:
            cells += [f"{row['run_correct']} : {row['other_correct']}", str(row["gold"])]
        table.add_row(Text(printable(label)), *cells)
    print(f"this   {total.first:.4f} {metric}   {run.name}")
    print(f"other  {total.second:.4f} {metric}   {other.name}")
    interval = f", 95 % interval {total.low:+.4f} to {total.high:+.4f}"
    drawn = f"{interval} ({total.resamples} resamples)" if total.low or total.high else ""
    print(f"difference {total.difference:+.4f}{drawn}")
    print(f"verdict: {run.name} against {other.name}: {total.verdict}")
    epochs = [read_scores(scored.folder).get("epochs") for scored in (run, other)]
    if None not in epochs and epochs[0] != epochs[1]:
        print(f"epochs: {run.name} was trained for {epochs[0]}, {other.name} for {epochs[1]}")
    if labels:
        Console(highlight=False).print(table)
    result = {"run": run.name, "other": other.name, "file": run.file, "data_hash": run.data_hash}
    result |= {**asdict(total), "verdict": total.verdict, **facts}
    if run.part == "dev":
        write_json(run.folder / "comparison.json", result)

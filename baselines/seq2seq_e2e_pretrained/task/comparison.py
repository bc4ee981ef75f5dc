"""Read the records of predictions files, and set two runs side by side."""

from collections.abc import Callable, Sequence

import numpy as np

from common.bootstrap import mean_score
from common.errors import InputError
from common.files import read_json
from common.run_folder import read_scores
from task.data import Example
from task.metrics import bleu_score

# Score -> how it is computed from the columns that the prediction records hold.
STATISTICS: dict[str, Callable[..., np.ndarray]] = {
    "bleu": bleu_score,
    "exact_match": mean_score,
    "rouge_l": mean_score,
}
COLUMNS = {"bleu": 10, "exact_match": 1, "rouge_l": 1}
# Upper ends of the groups of records that the table shows, by the tokens of white space.
LENGTHS = {"short": 1 / 3, "middle": 2 / 3, "long": 1.0}


def check_same_scores(folders: Sequence, names: Sequence[str]) -> str:
    """Return the score that decided in the first run; both must have been computed alike.

    Raises:
        InputError: the runs' texts were scored with other tokens of BLEU, or another case.
    """
    configs = [
        read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        for folder in folders
    ]
    for setting in ("bleu_tokenizer", "lowercase_scores"):
        values = [config.get(setting) for config in configs]
        # The reference has no settings of its own: those of the sample.
        if None not in values and values[0] != values[1]:
            raise InputError(
                f"{names[0]} was scored with {setting} = {values[0]!r} and {names[1]} with "
                f"{values[1]!r}: score both alike."
            )
    return read_scores(folders[0]).get("monitor", "bleu")


def read_columns(place: str, record: dict, metric: str) -> list[float]:
    """Return what a score is computed from, of one record of a predictions file.

    Raises:
        InputError: the record holds no such numbers.
    """
    value = record.get("statistics" if metric == "bleu" else metric)
    columns = value if isinstance(value, list) else [value]
    if len(columns) != COLUMNS[metric] or not all(isinstance(n, int | float) for n in columns):
        raise InputError(f"{place}: not a scored prediction: write the file with evaluate.py.")
    return [float(number) for number in columns]


def compare_lengths(
    examples: Sequence[Example], metric: str, run: np.ndarray, other: np.ndarray, matches: list
) -> dict[str, dict]:
    """Return both scores of the records with short, middle and long sources.

    Args:
        examples: gold.
        metric: key of `STATISTICS`.
        run: columns `[records, n]` of the first system.
        other: of the second.
        matches: exact matches `[records]` of both.
    """
    sizes = np.array([len(example.source) for example in examples])
    order = np.argsort(sizes, kind="stable")
    rows, first = {}, 0
    for name, share in LENGTHS.items():
        last = round(share * len(order))
        group = order[first:last]
        first = last
        if not len(group):
            continue
        scores = [float(STATISTICS[metric](*columns[group].T)) for columns in (run, other)]
        rows[f"{name}: {sizes[group].min()} to {sizes[group].max()} characters"] = {
            "run_score": scores[0],
            "other_score": scores[1],
            "difference": scores[0] - scores[1],
            "run_correct": int(matches[0][group].sum()),
            "other_correct": int(matches[1][group].sum()),
            "gold": len(group),
        }
    return rows

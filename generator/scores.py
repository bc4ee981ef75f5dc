"""The table of scores in README.md, from the scores.json of every baseline."""

import json
import statistics
from pathlib import Path

from generator.baselines import Baseline, find_baselines
from generator.errors import InputError
from generator.files import write_text
from generator.run_project import project_code_hash

BEGIN, END = "<!-- scores: begin -->", "<!-- scores: end -->"
HEADER = (
    "| baseline | encoder | dev F1 | test F1 | seeds | minutes a seed | code |",
    "|---|---|---|---|---|---|---|",
)


def update_readme(root: Path) -> None:
    """Replace the table between the two marks in README.md; without marks nothing happens.

    Args:
        root: the repository.

    Raises:
        InputError: there is a first mark without a second.
    """
    path = root / "README.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if BEGIN not in text:
        return
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise InputError(f"{path}: {BEGIN} is not followed by {END}: add that line.")
    updated = f"{before}{BEGIN}\n{score_table(root)}\n{END}{after}"
    if updated != text:
        write_text(path, updated)


def score_table(root: Path) -> str:
    """Return the table of every baseline that has scores."""
    return "\n".join([*HEADER, *(score_row(root, entry) for entry in find_baselines(root))])


def score_row(root: Path, baseline: Baseline) -> str:
    """Return one baseline's line of the table."""
    folder = baseline.folder(root)
    if not (folder / "scores.json").is_file():
        return f"| {baseline.name} | | | | | | not scored yet |"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    seeds = scores["seeds"]
    current = scores["code_hash"] == project_code_hash(folder)
    cells = (
        baseline.name,
        scores["encoder"],
        mean_and_deviation([seed["dev_f1"] for seed in seeds]),
        mean_and_deviation([seed["test_f1"] for seed in seeds]),
        str(len(seeds)),
        f"{statistics.fmean(seed['minutes'] for seed in seeds):.1f}",
        "current" if current else "scores are for older code",
    )
    return f"| {' | '.join(cells)} |"


def mean_and_deviation(values: list[float]) -> str:
    """Return a mean in percent, with its standard deviation where there are several values."""
    percent = [100 * value for value in values]
    if len(percent) == 1:
        return f"{percent[0]:.1f}"
    return f"{statistics.fmean(percent):.1f} ± {statistics.stdev(percent):.1f}"

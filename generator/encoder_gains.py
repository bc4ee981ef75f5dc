"""What an encoder that is pre-trained here gains over one that begins with random weights."""

import statistics
from pathlib import Path

from generator.baselines import Baseline, find_baselines
from generator.run_project import read_scores
from generator.score_names import in_percent, mean_and_deviation, score_name

CONFIDENCE = 0.95
SPLITS = ("dev", "test")
HEADER = (
    "| pre-trained | score | split | from scratch | pre-trained | gain | minutes |",
    "|---|---|---|---|---|---|---|",
)


def gain_table(root: Path) -> str:
    """Return the table of every baseline that was scored with and without pre-training."""
    rows = [
        row
        for baseline in find_baselines(root)
        if baseline.from_scratch
        for row in gain_rows(root, baseline)
    ]
    return "\n".join([*HEADER, *rows]) if rows else "Not measured yet."


def gain_rows(root: Path, baseline: Baseline) -> list[str]:
    """Return the lines of one baseline, one a split; none: a score is missing."""
    [scratch] = find_baselines(root, [baseline.from_scratch])
    before, after = (read_scores(each.folder(root)) for each in (scratch, baseline))
    if not before or not after:
        return []
    monitor, rows = after["monitor"], []
    minutes = " → ".join(
        f"{statistics.fmean(row['minutes'] for row in scores['seeds']):.1f}"
        for scores in (before, after)
    )
    for split in (split for split in SPLITS if split in before and split in after):
        old, new = (
            [in_percent(row[split][monitor], monitor) for row in scores["seeds"]]
            for scores in (before, after)
        )
        cells = (
            baseline.name,
            score_name(monitor),
            split,
            mean_and_deviation(old),
            mean_and_deviation(new),
            describe_gain(old, new),
            minutes,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def describe_gain(before: list[float], after: list[float]) -> str:
    """Return the difference of two means, with its 95 % interval where both have a spread.

    The interval is Welch's: seeds are not pairs, and the spreads may differ.
    """
    gain = statistics.fmean(after) - statistics.fmean(before)
    if min(len(before), len(after)) < 2:
        return f"{gain:+.1f}"
    from scipy.stats import ttest_ind

    low, high = ttest_ind(after, before, equal_var=False).confidence_interval(CONFIDENCE)
    return f"{gain:+.1f} ({low:+.1f} to {high:+.1f})"

"""The tables of the documents: the scores of every baseline, and published scores."""

import functools
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from generator.ablation.table import ablation_summary, more_than_labels
from generator.baselines import Baseline, find_baselines
from generator.benchmark_tables import (
    FIGURE_TABLES,
    encoded_in_ten_minutes,
    figure_table,
    gpu_table,
    growth_table,
    prediction_table,
    scaling_table,
)
from generator.extra_tables import CHINESE, ENGLISH, declarations_table, extras_table
from generator.marks import update_document
from generator.recipe_pages import write_pages
from generator.recipes import CodeHashes
from generator.run_scripts import read_scores
from generator.score_names import (
    FIRST_STEPS,
    in_percent,
    mean_and_deviation,
    mean_minutes,
    score_name,
    task_name,
)

SCORE_HEADER = (
    "| baseline | encoder | score | dev | test | number of seeds | minutes a seed | code |",
    "|---|---|---|---|---|---|---|---|",
)
HEADLINE_HEADER = (
    "| task | baseline | score | dev | test | minutes |",
    "|---|---|---|---|---|---|",
)
PUBLISHED_HEADER = (
    "| baseline | score | split | here | published | source |",
    "|---|---|---|---|---|---|",
)
FLOOR_HEADER = (
    "| baseline | score | split | classical model | here |",
    "|---|---|---|---|---|",
)
GAIN_HEADER = (
    "| pre-trained | score | split | from scratch | pre-trained | gain | minutes |",
    "|---|---|---|---|---|---|---|",
)
CONFIDENCE = 0.95
SPLITS = ("dev", "test")
SAME_STEPS = f"same first {FIRST_STEPS} steps"


def score_table(root: Path) -> str:
    """Return the table of every baseline."""
    hashes = CodeHashes(root)
    rows = [score_row(root, baseline, hashes) for baseline in find_baselines(root)]
    return "\n".join([*SCORE_HEADER, *rows])


def score_row(root: Path, baseline: Baseline, hashes: CodeHashes) -> str:
    """Return one baseline's line of the table."""
    scores = read_scores(baseline.results(root))
    if not scores:
        return f"| {baseline.name} | | | | | | | not scored yet |"
    cells = (
        baseline.name,
        scores["encoder"],
        score_name(baseline.shown_score(scores)),
        *(split_score(scores, split, baseline.shown_score(scores)) for split in SPLITS),
        str(len(scores["seeds"])),
        mean_minutes(scores),
        describe_code(scores, hashes.find(baseline)),
    )
    return f"| {' | '.join(cells)} |"


def split_score(scores: dict, split: str, name: str) -> str:
    """Return one of the scores, over all seeds; empty: the split was not scored."""
    values = [in_percent(row[split][name], name) for row in scores["seeds"] if split in row]
    return mean_and_deviation(values)


def describe_code(scores: dict, code: str) -> str:
    """Describe how today's code relates to the scored code."""
    if code == scores["code_hash"]:
        return "current"
    if code in scores.get("confirmed_code", []):
        return SAME_STEPS
    return "scores are for older code"


def headline_table(root: Path) -> str:
    """Return one line per task: the score of its headline baseline."""
    rows = []
    for baseline in find_baselines(root):
        scores = read_scores(baseline.results(root))
        if baseline.headline and scores:
            cells = (
                task_name(baseline.template),
                f"[{baseline.name}](baselines/{baseline.name})",
                score_name(baseline.shown_score(scores)),
                *(split_score(scores, split, baseline.shown_score(scores)) for split in SPLITS),
                mean_minutes(scores),
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*HEADLINE_HEADER, *rows])


def published_table(root: Path) -> str:
    """Return the table of published scores on the data sets of the baselines with scores."""
    rows = [
        published_row(root, baseline, entry)
        for baseline in find_baselines(root)
        for entry in baseline.published
        if read_scores(baseline.results(root))
    ]
    return "\n".join([*PUBLISHED_HEADER, *rows])


def published_row(root: Path, baseline: Baseline, entry: dict) -> str:
    """Return the line of one published score, with ours."""
    seeds = read_scores(baseline.results(root))["seeds"]
    score, split = entry["score"], entry["split"]
    cells = (
        baseline.name,
        score_name(score),
        split,
        mean_and_deviation([in_percent(seed[split][score], score) for seed in seeds]),
        f"{entry['value']:.1f}",
        entry["source"],
    )
    return f"| {' | '.join(cells)} |"


def floor_table(root: Path) -> str:
    """Return the table that compares each baseline with the classical model of its run."""
    rows = []
    for baseline in find_baselines(root):
        scores = read_scores(baseline.results(root))
        for split, floor in {} if baseline.is_sample else scores.get("floor", {}).items():
            name = baseline.shown_score(scores)
            cells = (
                baseline.name,
                score_name(name),
                split,
                f"{in_percent(floor[name], name):.1f}",
                split_score(scores, split, name),
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*FLOOR_HEADER, *rows]) if rows else "Not measured yet."


def gain_table(root: Path) -> str:
    """Return the table of baselines that were scored with and without pre-training."""
    rows = [
        row
        for baseline in find_baselines(root)
        if baseline.from_scratch
        for row in gain_rows(root, baseline)
    ]
    return "\n".join([*GAIN_HEADER, *rows]) if rows else "Not measured yet."


def gain_rows(root: Path, baseline: Baseline) -> list[str]:
    """Return the lines of one baseline, one per split; none if a score is missing."""
    [scratch] = find_baselines(root, [str(baseline.from_scratch)])
    before, after = (read_scores(each.results(root)) for each in (scratch, baseline))
    if not before or not after:
        return []
    name, rows = baseline.shown_score(after), []
    minutes = " → ".join(mean_minutes(scores) for scores in (before, after))
    for split in (split for split in SPLITS if split in before and split in after):
        old, new = (
            [in_percent(row[split][name], name) for row in scores["seeds"]]
            for scores in (before, after)
        )
        cells = (
            baseline.name,
            score_name(name),
            split,
            mean_and_deviation(old),
            mean_and_deviation(new),
            describe_gain(old, new),
            minutes,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def describe_gain(before: list[float], after: list[float]) -> str:
    """Return the difference of two means, with its 95 % interval if both have several seeds.

    The interval is Welch's, because seeds are not pairs and the variances may differ.
    """
    gain = statistics.fmean(after) - statistics.fmean(before)
    if min(len(before), len(after)) < 2:
        return f"{gain:+.1f}"
    from scipy.stats import ttest_ind

    low, high = ttest_ind(after, before, equal_var=False).confidence_interval(CONFIDENCE)
    return f"{gain:+.1f} ({low:+.1f} to {high:+.1f})"


# Document -> the tables between its marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
TABLES: dict[str, dict[str, Callable[[Path], str]]] = {
    "README.md": {"headline": headline_table, "extras": partial(extras_table, language=ENGLISH)},
    "README_zh.md": {"extras": partial(extras_table, language=CHINESE)},
    "docs/results.md": {
        "scores": score_table,
        "published": published_table,
        "floor": floor_table,
        "gains": gain_table,
    },
    "docs/benchmarks.md": {
        **{name: functools.partial(figure_table, name=name) for name in FIGURE_TABLES},
        "prediction": prediction_table,
        "growth": growth_table,
        "ten_minutes": encoded_in_ten_minutes,
        "gpu": gpu_table,
    },
    "docs/ablation.md": {"ablation": ablation_summary, "more": more_than_labels},
    "docs/architecture.md": {"extras": declarations_table},
    "docs/scaling.md": {"scaling": scaling_table},
}


def update_documents(root: Path) -> None:
    """Replace the tables between their marks, and the pages of the recipes.

    Documents without marks stay unchanged, and absent documents are not created.

    Args:
        root: the repository.

    Raises:
        InputError: a begin mark has no end mark.
    """
    for document, tables in TABLES.items():
        if (root / document).is_file():
            update_document(root, root / document, tables)
    write_pages(root)

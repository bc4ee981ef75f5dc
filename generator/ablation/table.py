"""The tables of the ablation: means over seeds, differences seed by seed, their intervals."""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from generator.ablation.log import RESULTS, conditions, read_rows
from generator.ablation.studies import Study, read_studies
from generator.files import read_json
from generator.score_names import in_percent, score_name

CONFIDENCE = 0.95
SPLITS = ("dev", "test")
# Points of score; a smaller difference does not matter to a reader.
MATTERS = 0.5
PLOT = RESULTS / "ablation.svg"
MORE = RESULTS / "more_than_labels.json"
EXPLANATION = """\
What each single setting gains and costs when it is added to the baseline. Scores are in percent:
the mean over the seeds ± half of the 95 % interval (Student's t). A difference is the difference
from the first line, taken seed by seed. It is bold if its interval excludes 0; one in twenty is
bold by chance. Dev chooses the best epoch, the threshold and the defaults; test is used only for
scoring. The time of a step, from the batch to the new weights, is the median over the steps of a
training, then over the seeds; `times` is its multiple of the first line's, seed by seed. Peak
memory is that of the process at the end of its first epoch, before dev is scored. Each line of
`ablation.jsonl` is a training.
"""


@dataclass(frozen=True)
class Interval:
    """A mean and half of its 95 % interval; None with only one value."""

    mean: float
    half: float | None

    @property
    def leaves_out_zero(self) -> bool:
        """Return whether the interval excludes 0."""
        return self.half is not None and abs(self.mean) > self.half


@dataclass(frozen=True)
class Summary:
    """The results of one variant's trainings.

    Attributes:
        variant: its name.
        settings: the changed ones.
        seeds: that were scored.
        scores: by split, in percent; empty if no training finished.
        differences: from the reference, by split, over the seeds of both.
        seconds: of a step.
        times: the same, as a multiple of the reference's.
        peak_mib: peak memory in MiB.
        failures: by seed.
    """

    variant: str
    settings: dict[str, object]
    seeds: list[int]
    scores: dict[str, Interval]
    differences: dict[str, Interval]
    seconds: float | None
    times: float | None
    peak_mib: float | None
    failures: dict[int, str]


def interval(values: list[float]) -> Interval:
    """Return the mean of independent values and its interval: t s / sqrt(n), n - 1 degrees."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None)
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    return Interval(mean, quantile * statistics.stdev(values) / len(values) ** 0.5)


def select_rows(study: Study, rows: list[dict]) -> dict[tuple[str, int], dict]:
    """Return the comparable rows of a study, by variant and seed.

    They have today's settings and share code, data and encoder: the combination with the most
    scores in the log, and the newest on a tie. Of one training the newest row counts.
    """
    groups: dict[str, dict[tuple[str, int], dict]] = defaultdict(dict)
    for row in rows:
        known = row["study"] == study.name and row["variant"] in study.variants
        if known and row["settings"] == study.settings_of(row["variant"]):
            group = groups[conditions(row)]
            group.pop((row["variant"], row["seed"]), None)  # the newest comes last
            group[row["variant"], row["seed"]] = row
    order = {id(row): place for place, row in enumerate(rows)}

    def rank(group: dict) -> tuple[int, int]:
        scored = sum(not row["failure"] for row in group.values())
        return scored, max(order[id(row)] for row in group.values())

    return max(groups.values(), key=rank, default={})


def summarize(study: Study, rows: list[dict]) -> list[Summary]:
    """Return the results of a study so far, in its order of variants.

    Args:
        study: its variants.
        rows: of the whole log.
    """
    selected = select_rows(study, rows)
    of_variant = {
        variant: {seed: row for (other, seed), row in sorted(selected.items()) if other == variant}
        for variant in study.variants
    }
    reference = scored(of_variant[study.reference])
    return [
        summarize_variant(study, variant, every, reference)
        for variant, every in of_variant.items()
        if every
    ]


def scored(rows: dict[int, dict]) -> dict[int, dict]:
    """Return the rows without the failed trainings."""
    return {seed: row for seed, row in rows.items() if not row["failure"]}


def summarize_variant(
    study: Study, variant: str, every: dict[int, dict], reference: dict[int, dict]
) -> Summary:
    """Return the results of one variant, compared with the reference."""
    rows = scored(every)
    shared = [seed for seed in rows if seed in reference and variant != study.reference]
    times = [
        rows[seed]["seconds_per_step"] / reference[seed]["seconds_per_step"]
        for seed in shared
        if rows[seed]["seconds_per_step"] and reference[seed]["seconds_per_step"]
    ]
    return Summary(
        variant=variant,
        settings=study.variants[variant],
        seeds=list(rows),
        scores={s: interval([score(row, s) for row in rows.values()]) for s in SPLITS if rows},
        differences={
            split: interval([score(rows[s], split) - score(reference[s], split) for s in shared])
            for split in SPLITS
            if shared
        },
        seconds=middle([row["seconds_per_step"] for row in rows.values()]),
        times=middle(times),
        peak_mib=middle([row["peak_mib"] for row in rows.values()]),
        failures={seed: row["failure"] for seed, row in every.items() if row["failure"]},
    )


def score(row: dict, split: str) -> float:
    """Return the deciding score in percent."""
    return in_percent(row[split][row["monitor"]], row["monitor"])


def middle(values: list[float | None]) -> float | None:
    """Return the median of the known values."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ablation_text(root: Path) -> str:
    """Return the whole of benchmarks/results/ablation.md."""
    rows = read_rows(root)
    studies = [(study, summarize(study, rows)) for study in read_studies(root).values()]
    parts = [study_text(study, found, rows) for study, found in studies if found]
    plot = [f"![Differences and time of a step]({PLOT.name})\n"] if (root / PLOT).is_file() else []
    return "\n".join(["# Ablation\n", EXPLANATION, *plot, *parts])


def study_text(study: Study, summaries: list[Summary], rows: list[dict]) -> str:
    """Return one study's conditions and table."""
    # A failed training may lack some of them.
    row = max(select_rows(study, rows).values(), key=lambda row: not row["failure"])
    shared = settings_text(study.settings)
    lines = [
        f"## {study.name}\n",
        f"`baselines/{study.baseline}`{f' with {shared}' if shared else ''}; "
        f"{score_name(row.get('monitor', 'score'))}; encoder {row['encoder']}; code "
        f"`{row['code_hash'][:19]}`; {row.get('hardware', 'hardware unknown')}; "
        + ", ".join(f"{name} {version}" for name, version in row.get("versions", {}).items())
        + ".\n",
        "| variant | settings | seeds | dev | difference | test | difference | seconds a step |"
        " times | peak MiB |",
        "|" + "---|" * 10,
        *(summary_line(summary) for summary in summaries),
        *(
            f"\n{summary.variant}, seed {seed}: {failure}."
            for summary in summaries
            for seed, failure in summary.failures.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def settings_text(settings: dict[str, object]) -> str:
    """Return settings in the format of config.toml."""
    return ", ".join(
        f"{name} = {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in settings.items()
    )


def summary_line(summary: Summary) -> str:
    """Return a variant's line of its study's table."""
    cells = [
        summary.variant,
        settings_text(summary.settings),
        ", ".join(map(str, summary.seeds)) or "all failed",
        *(show(summary, kind, split) for split in SPLITS for kind in ("scores", "differences")),
        show_number(summary.seconds, ".3f"),
        show_number(summary.times, ".2f"),
        show_number(summary.peak_mib, ",.0f"),
    ]
    return f"| {' | '.join(cells)} |"


def show(summary: Summary, kind: str, split: str) -> str:
    """Return a score or a difference; empty if there is none."""
    found = getattr(summary, kind).get(split)
    return "" if found is None else show_interval(found, "+" if kind == "differences" else "")


def show_interval(found: Interval, sign: str) -> str:
    """Return a score, or with the sign + a difference, which is bold if it is clear."""
    text = f"{found.mean:{sign}.2f}" + ("" if found.half is None else f" ± {found.half:.2f}")
    return f"**{text}**" if sign and found.leaves_out_zero else text


def show_number(value: float | None, form: str) -> str:
    """Return a number; empty if not measured."""
    return "" if value is None else format(value, form)


def ablation_summary(root: Path) -> str:
    """Return the table of docs/ablation.md, with all studies, and the plot."""
    rows = read_rows(root)
    every = {name: summarize(study, rows) for name, study in read_studies(root).items()}
    studies = {
        name: {summary.variant: summary for summary in found} for name, found in every.items()
    }
    studies = {name: found for name, found in studies.items() if found}
    if not studies:
        return "Not run yet."
    titles = ("dev", "test", "step", "MiB")
    header = [*(f"{name}: {title}" for name in studies for title in titles), "in all"]
    variants = dict.fromkeys(variant for found in studies.values() for variant in found)
    lines = [
        f"| variant | {' | '.join(header)} |",
        "|" + "---|" * (1 + len(header)),
        *(
            f"| {variant} | "
            + " | ".join(cell for found in studies.values() for cell in cells(found.get(variant)))
            + f" | {judge([found[variant] for found in studies.values() if variant in found])} |"
            for variant in variants
        ),
    ]
    plot = f"\n![Differences and time of a step](../{PLOT.as_posix()})"
    return "\n".join([*lines, *([plot] if (root / PLOT).is_file() else [])])


def more_than_labels(root: Path) -> str:
    """Return the table of benchmarks/more_than_labels.py: differences from a few labels."""
    if not (root / MORE).is_file():
        return "Not run yet."
    found = read_json(root / MORE)
    rows: dict[str, dict[int, dict]] = defaultdict(dict)
    for row in found["rows"]:
        rows[row["variant"]][row["seed"]] = row
    gold = next(iter(rows.values()))
    lines = [
        f"{found['baseline']}, {found['part']:.0%} of the training records with labels; "
        f"{score_name(found['monitor'])}; encoder {found['encoder']}; {found['precision']}; "
        f"{found['hardware']}.\n",
        "| variant | dev | test | seeds | minutes |",
        "|---|---|---|---|---|",
    ]
    for variant, of_seed in rows.items():
        minutes = statistics.fmean(row["minutes"] for row in of_seed.values())
        shown = [difference_text(of_seed, gold, split, found["monitor"]) for split in SPLITS]
        lines.append(f"| {variant} | {' | '.join(shown)} | {len(of_seed)} | {minutes:.0f} |")
    return "\n".join(lines)


def difference_text(rows: dict[int, dict], gold: dict[int, dict], split: str, name: str) -> str:
    """Return the scores of the reference itself, or the differences from it, seed by seed."""
    scores = {seed: in_percent(row[split], name) for seed, row in rows.items()}
    if rows is gold:
        return show_interval(interval([*scores.values()]), "")
    less = {seed: in_percent(gold[seed][split], name) for seed in scores}
    return show_interval(interval([scores[seed] - less[seed] for seed in scores]), "+")


def judge(summaries: list[Summary]) -> str:
    """Return a variant's overall effect on dev: "gain", "loss" or "even"; empty: no interval yet.

    Args:
        summaries: the variant's, of all studies. A gain is at least half a point with an interval
            above 0 in at least one study, and no such loss in any study.
    """
    found = [summary.differences["dev"] for summary in summaries if summary.differences]
    if all(difference.half is None for difference in found):
        return ""
    sure = [d.mean for d in found if d.leaves_out_zero and abs(d.mean) >= MATTERS]
    gains, losses = any(mean > 0 for mean in sure), any(mean < 0 for mean in sure)
    if gains == losses:
        return "even"
    return "gain" if gains else "loss"


def cells(summary: Summary | None) -> list[str]:
    """Return a variant's cells of one study: its differences, the reference's scores."""
    if summary is None:
        return [""] * 4
    kind = "differences" if summary.differences else "scores"
    return [
        *(show(summary, kind, split) or "failed" for split in SPLITS),
        "1" if kind == "scores" and summary.seconds else show_number(summary.times, ".2f"),
        show_number(summary.peak_mib, ",.0f"),
    ]

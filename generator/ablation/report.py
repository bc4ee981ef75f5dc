"""Write the results of the ablation so far: a table, a plot, docs/ablation.md."""

import io
from pathlib import Path
from typing import Any

from generator.ablation.log import RESULTS, locked_log, read_rows
from generator.ablation.studies import read_studies
from generator.ablation.table import PLOT, SPLITS, Summary, ablation_text, summarize
from generator.document_tables import update_documents
from generator.files import write_bytes, write_text

# Two colours that the colour-blind can distinguish, and that print in grey.
COLOURS = {"dev": "#b0620e", "test": "#1f5fa8"}
MARKERS = "osD^v"
INCHES_A_VARIANT = 0.34
# Otherwise an SVG holds its time of creation and random ids.
SETTINGS = {"svg.hashsalt": "ablation", "font.size": 9, "axes.titlesize": 10}


def write_report(root: Path) -> None:
    """Write benchmarks/results/ablation.md and .svg from the log, and the documents."""
    with locked_log(root):
        rows = read_rows(root)
        found = {name: summarize(study, rows) for name, study in read_studies(root).items()}
        found = {name: summaries for name, summaries in found.items() if summaries}
        if found:
            write_bytes(root / PLOT, plot_studies(found))
            write_text(root / RESULTS / "ablation.md", ablation_text(root))
            update_documents(root)


def plot_studies(studies: dict[str, list[Summary]]) -> bytes:
    """Return an SVG: a panel for each study's differences, and one for the time of a step.

    Args:
        studies: the summaries of each, the reference first.
    """
    import matplotlib
    from matplotlib.figure import Figure

    variants = list(dict.fromkeys(s.variant for found in studies.values() for s in found))
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
        height = 1.6 + INCHES_A_VARIANT * len(variants)
        figure = Figure(figsize=(3.6 * (len(studies) + 1), height), layout="constrained")
        axes = figure.subplots(1, len(studies) + 1, sharey=True)
        for axis, (name, found) in zip(axes, studies.items(), strict=False):
            draw_differences(axis, name, found, variants)
        draw_times(axes[-1], studies, variants)
        axes[0].set_yticks(range(len(variants)), variants)
        axes[0].set_ylim(len(variants) - 0.5, -0.5)
        for axis in axes:
            axis.grid(axis="x", color="0.9")
            axis.set_axisbelow(True)
            axis.tick_params(axis="y", length=0)
            axis.spines[["top", "right"]].set_visible(False)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def draw_differences(axis: Any, name: str, found: list[Summary], variants: list[str]) -> None:
    """Draw one study's differences on dev and test, each with its interval."""
    for split, shift in zip(SPLITS, (-0.14, 0.14), strict=True):
        shown = [summary for summary in found if summary.differences]
        differences = [summary.differences[split] for summary in shown]
        axis.errorbar(
            [difference.mean for difference in differences],
            [variants.index(summary.variant) + shift for summary in shown],
            xerr=[difference.half or 0.0 for difference in differences],
            fmt="o",
            markersize=4,
            capsize=2,
            linewidth=1.2,
            color=COLOURS[split],
            label=split,
        )
    axis.axvline(0, color="0.3", linewidth=0.8)
    axis.set_title(name)
    seeds = max(len(summary.seeds) for summary in found)
    interval = f", 95 % interval of {seeds} seeds" if seeds > 1 else ", one seed"
    axis.set_xlabel(f"points over {found[0].variant}{interval}")
    axis.legend(loc="best", frameon=False)


def draw_times(axis: Any, studies: dict[str, list[Summary]], variants: list[str]) -> None:
    """Draw the time of a step, as a multiple of the reference's."""
    for marker, (name, found) in zip(MARKERS, studies.items(), strict=False):
        shown = [summary for summary in found if summary.times]
        axis.plot(
            [summary.times for summary in shown],
            [variants.index(summary.variant) for summary in shown],
            marker,
            markersize=5,
            markerfacecolor="none",
            label=name,
        )
    axis.axvline(1, color="0.3", linewidth=0.8)
    axis.set_xlim(left=0)
    axis.set_title("time of a step")
    axis.set_xlabel("times that of the first")
    axis.legend(loc="best", frameon=False)

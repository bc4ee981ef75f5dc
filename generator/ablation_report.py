"""Write what the ablation has shown so far: a table, a plot, the READMEs."""

from pathlib import Path

from generator.ablation_log import RESULTS, locked_log, read_rows
from generator.ablation_plot import plot_studies
from generator.ablation_table import PLOT, ablation_text, summarize
from generator.ablations import read_studies
from generator.files import write_bytes, write_text
from generator.scores import update_readmes


def write_report(root: Path) -> None:
    """Write benchmarks/results/ablation.md and .svg from the log, and the READMEs."""
    with locked_log(root):
        rows = read_rows(root)
        found = {name: summarize(study, rows) for name, study in read_studies(root).items()}
        found = {name: summaries for name, summaries in found.items() if summaries}
        if found:
            write_bytes(root / PLOT, plot_studies(found))
            write_text(root / RESULTS / "ablation.md", ablation_text(root))
            update_readmes(root)

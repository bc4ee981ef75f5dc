"""Draw the results of `growth.py`: seconds until the first batch, and memory, by records.

Each measured kind of records has a row of panels; both axes are logarithmic. The memory of the
first start is that of the training process, unless a worker has more.

python benchmarks/growth_plot.py
"""

import io
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PLOT = RESULTS / "growth.svg"
# Kind of records -> its results file.
KINDS = {
    "relations": "growth.json",
    "texts": "growth_texts.json",
    "passages": "growth_passages.json",
}
# Way of growth.py -> its legend, colour and marker, distinguishable for the colour-blind.
WAYS = {
    "lists": ("in lists", "#b0620e", "o"),
    "cache_two_processes": ("cache, first start", "#1f5fa8", "s"),
    "cache_second_start": ("cache, later starts", "#1f5fa8", "^"),
    "peer_first_start": ("datasets.map, first start", "0.45", "s"),
    "peer_second_start": ("datasets.map, later starts", "0.45", "^"),
}
PANELS = {"seconds": "seconds until the first batch", "peak_mebibytes": "MiB beyond imports"}
# Otherwise an SVG holds its time of creation and random ids.
SETTINGS = {"svg.hashsalt": "growth", "font.size": 9, "axes.titlesize": 10}


def main() -> None:
    """Write the plot of all existing results."""
    read = {kind: RESULTS / name for kind, name in KINDS.items() if (RESULTS / name).is_file()}
    if not read:
        raise SystemExit(f"error: {RESULTS} holds no growth*.json: run benchmarks/growth.py first.")
    results = {kind: json.loads(path.read_text(encoding="utf-8")) for kind, path in read.items()}
    PLOT.write_bytes(plot(results))
    print(f"{PLOT.relative_to(RESULTS.parents[1])}: {', '.join(results)}")


def plot(results: dict[str, dict]) -> bytes:
    """Return an SVG with a row of panels for each kind of records."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
        figure = Figure(figsize=(7.2, 0.5 + 2.6 * len(results)), layout="constrained")
        rows = figure.subplots(len(results), len(PANELS), sharex=True, squeeze=False)
        for axes, (kind, found) in zip(rows, results.items(), strict=True):
            for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
                draw(axis, found["sizes"], name)
                axis.set_title(f"{kind}: {title}")
        for axis in rows[-1]:
            axis.set_xlabel("records")
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def draw(axis: Any, sizes: dict[str, dict], name: str) -> None:
    """Draw one figure of all ways, by number of records."""
    for way, (label, colour, marker) in WAYS.items():
        points = [(int(size), own[way][name]) for size, own in sizes.items() if way in own]
        if points:
            axis.plot(*zip(*points, strict=True), label=label, color=colour, marker=marker)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:,g}")
    axis.yaxis.set_minor_formatter("")
    axis.grid(color="0.9")
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()

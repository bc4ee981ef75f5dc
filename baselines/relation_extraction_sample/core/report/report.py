"""One page about a run: how it learned, where it is good, and what it still gets wrong."""

import io
import math
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markupsafe import Markup

from core.base.files import read_json, read_json_lines, write_text
from core.data.records import Id

PAGE = Path(__file__).with_name("page.html")
SHOWN_ERRORS = 40
ABBREVIATIONS = {"bleu", "f1", "map", "mrr"}
# Stands for "the colour of the page's text", which differs between a light and a dark page.
TEXT_COLOUR = "#010203"


@dataclass(frozen=True)
class ErrorItem:
    """One thing that was found or should have been.

    `kind` is "missed", "invented" or "correct"; `spans` are `(start, end, name)` in the text.
    """

    kind: str
    label: str
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    score: float | None = None


@dataclass(frozen=True)
class ErrorExample:
    """A record with what was right and wrong about it."""

    id: Id
    text: str
    items: list[ErrorItem]

    @property
    def errors(self) -> int:
        """How much is missed or invented."""
        return sum(item.kind != "correct" for item in self.items)


def write_report(folder: Path, title: str, errors: list[ErrorExample]) -> None:
    """Write report.html from scores.json and metrics.jsonl of a run; show the worst errors."""
    folder = Path(folder)
    scores = read_json(folder / "scores.json")
    dev, monitor = scores.get("dev", {}), scores.get("monitor", "f1")
    wrong = sorted((e for e in errors if e.errors), key=lambda e: -e.errors)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        title=title,
        scores=scores,
        dev=dev,
        cards={
            name: value
            for name, value in {monitor: dev.get(monitor), **dev}.items()
            if isinstance(value, int | float) and name not in ("records", "threshold")
        },
        curve=draw_curve(folder / "metrics.jsonl", monitor),
        tables=[make_table(k, rows) for k, rows in dev.items() if k.startswith("per_") and rows],
        name_score=name_score,
        wrong=len(wrong),
        examples=[
            {
                "id": example.id,
                "segments": split_at_spans(example),
                "items": [
                    (item, [(example.text[s:e], name) for s, e, name in item.spans])
                    for item in sorted(example.items, key=lambda item: item.kind == "correct")
                ],
            }
            for example in wrong[:SHOWN_ERRORS]
        ],
    )
    write_text(folder / "report.html", page)


def name_score(name: str) -> str:
    """Return the key of a score as words."""
    words = name.split("_")
    return " ".join(word.upper() if word in ABBREVIATIONS else word for word in words)


def make_table(title: str, rows: dict[str, dict]) -> tuple[str, list[str], list]:
    """Return title, columns and rows of `per_predicate` and the like, the most frequent first."""
    columns = [name for name in next(iter(rows.values())) if name not in ("correct", "predicted")]
    # The score that a bar shows stands first.
    columns.sort(key=lambda name: (name != "f1", name == "gold"))
    ordered = sorted(rows.items(), key=lambda row: (-row[1].get("gold", 0), row[0]))
    return title.removeprefix("per_").replace("_", " "), columns, ordered


def draw_curve(path: Path, monitor: str) -> Markup:
    """Return loss, score and rate of metrics.jsonl as inline SVG; empty: nothing is measured."""
    rows = [row for _, row in read_json_lines(path)] if path.is_file() else []
    if not rows:
        return Markup("")
    # Slow to import, and needed at the end of a run only.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    epochs = [row.get("epoch") for row in rows]
    axis = "epoch" if None not in epochs and len(set(epochs)) == len(epochs) else "step"
    style = {
        "svg.fonttype": "none", "svg.hashsalt": "report", "font.size": 9,
        "font.family": "sans-serif", "text.color": TEXT_COLOUR, "axes.labelcolor": TEXT_COLOUR,
        "axes.edgecolor": TEXT_COLOUR, "xtick.color": TEXT_COLOUR, "ytick.color": TEXT_COLOUR,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(10, 2.5), layout="constrained")
        figure.patch.set_alpha(0)
        panels = (
            ("loss", "loss", "#d9730d"),
            (f"dev_{monitor}", f"dev {name_score(monitor)}", "#2f81f7"),
            ("learning_rate", "learning rate", "#8250df"),
        )
        for axes, (key, name, colour) in zip(figure.subplots(1, 3), panels, strict=True):
            points = [
                (row.get(axis, number), row[key])
                for number, row in enumerate(rows, start=1)
                if isinstance(row.get(key), int | float) and math.isfinite(row[key])
            ]
            axes.patch.set_alpha(0)
            axes.set(title=name, xlabel=axis)
            axes.grid(alpha=0.15, color="#808080")
            axes.xaxis.get_major_locator().set_params(integer=True)
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3)
            if name.startswith("dev") and all(0 <= value <= 1 for _, value in points):
                axes.set_ylim(0, 1.02)
            else:
                axes.set_ylim(bottom=0)
                axes.ticklabel_format(axis="y", scilimits=(-3, 4))
        svg = io.StringIO()
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})
    drawing = svg.getvalue()
    return Markup(drawing[drawing.index("<svg") :].replace(TEXT_COLOUR, "currentColor"))


def split_at_spans(example: ErrorExample) -> list[dict]:
    """Cut a text wherever a span starts or ends, so that nested and crossing spans can be shown."""
    spans = [(*span, item) for item in example.items for span in item.spans]
    cuts = sorted({0, len(example.text), *(cut for span in spans for cut in span[:2])})
    segments = []
    for start, end in zip(cuts, cuts[1:], strict=False):
        covering = [span for span in spans if span[0] <= start and end <= span[1]]
        names = dict.fromkeys(
            f"{item.kind}: {item.label}" + (f", {name}" if name else "")
            for _, _, name, item in covering
        )
        segments.append(
            {
                "text": example.text[start:end],
                "kinds": " ".join(sorted({item.kind for *_, item in covering})),
                "depth": min(3, len({span[:2] for span in covering})),
                "names": "\n".join(names),
            }
        )
    return segments

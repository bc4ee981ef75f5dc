"""One page about a run: how it learned, where it is good, and what it still gets wrong."""

import io
import math
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from common.files import read_json, read_json_lines, write_text

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

    id: str
    text: str
    items: list[ErrorItem]

    @property
    def errors(self) -> int:
        """How much is missed or invented."""
        return sum(item.kind != "correct" for item in self.items)


@dataclass(frozen=True)
class Segment:
    """A piece of a text that the same spans cover from end to end."""

    text: str
    kinds: str
    depth: int
    names: str


def write_report(folder: Path, title: str, errors: list[ErrorExample]) -> None:
    """Write report.html into the folder of a run, from its scores.json and metrics.jsonl.

    Args:
        folder: of the run.
        title: heading of the page.
        errors: any records; those with the most errors are shown.
    """
    folder = Path(folder)
    scores = read_json(folder / "scores.json")
    wrong = sorted((e for e in errors if e.errors), key=lambda e: -e.errors)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE).render(
        title=title,
        cards=list_cards(scores.get("dev", {}), scores.get("monitor", "f1")),
        facts=list_facts(scores),
        curve=draw_curve(folder / "metrics.jsonl", scores.get("monitor", "f1")),
        tables=list_tables(scores.get("dev", {})),
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


def list_cards(dev: dict, monitor: str) -> list[tuple[str, str]]:
    """Return `(name, number)` of every score, the one that decides first."""
    numbers = {
        name: value
        for name, value in {monitor: dev.get(monitor), **dev}.items()
        if isinstance(value, int | float) and name not in ("records", "threshold")
    }
    return [
        (name_score(name), str(value) if isinstance(value, int) else f"{value:.3f}")
        for name, value in numbers.items()
    ]


def name_score(name: str) -> str:
    """Return the key of a score as words."""
    words = name.split("_")
    return " ".join(word.upper() if word in ABBREVIATIONS else word for word in words)


def list_facts(scores: dict) -> list[tuple[str, str]]:
    """Return what the scores must be read with, as `(name, value)`, unknown ones left out."""
    dev = scores.get("dev", {})
    facts = {
        "scored on": dev.get("file"),
        "examples": dev.get("records"),
        "threshold": round_number(dev.get("threshold")),
        "epochs": scores.get("epochs"),
        "minutes": round_number(scores.get("minutes")),
        "seed": scores.get("seed"),
        "encoder": scores.get("encoder"),
        "hardware": scores.get("hardware"),
        "versions": ", ".join(f"{k} {v}" for k, v in scores.get("versions", {}).items()),
        "command": scores.get("command"),
        "finished": readable_time(scores.get("finished")),
    }
    return [(name, str(value)) for name, value in facts.items() if value not in (None, "")]


def round_number(value: float | None) -> str | None:
    """Return a number with at most three digits after the point."""
    return None if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def readable_time(value: object) -> str | None:
    """Return an ISO time without its `T` and seconds; anything else as it is."""
    try:
        return datetime.fromisoformat(value).strftime("%Y-%m-%d %H:%M %Z").strip()
    except (TypeError, ValueError):
        return None if value is None else str(value)


def list_tables(dev: dict) -> list[tuple[str, list[str], list[tuple[str, dict]]]]:
    """Return `(title, columns, rows)` of `per_predicate` and the like, the most frequent first."""
    tables = []
    for key, rows in dev.items():
        if key.startswith("per_") and rows:
            first = next(iter(rows.values()))
            columns = [name for name in first if name not in ("correct", "predicted")]
            ordered = sorted(rows.items(), key=lambda row: (-row[1].get("gold", 0), row[0]))
            # The score that a bar shows stands first.
            columns.sort(key=lambda name: (name != "f1", name == "gold"))
            tables.append((key.removeprefix("per_").replace("_", " "), columns, ordered))
    return tables


def draw_curve(path: Path, monitor: str) -> Markup:
    """Return the learning curve as inline SVG; empty when nothing has been measured.

    Args:
        path: metrics.jsonl of a run.
        monitor: the dev score to draw.
    """
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
        score = f"dev {name_score(monitor)}"
        panels = (
            ("loss", "loss"),
            (f"dev_{monitor}", score),
            ("learning_rate", "learning rate"),
        )
        for axes, (key, name), colour in zip(
            figure.subplots(1, 3), panels, ("#d9730d", "#2f81f7", "#8250df"), strict=True
        ):
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
            if name == score and all(0 <= value <= 1 for _, value in points):
                axes.set_ylim(0, 1.02)
            else:
                axes.set_ylim(bottom=0)
                axes.ticklabel_format(axis="y", scilimits=(-3, 4))
        svg = io.StringIO()
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})
    drawing = svg.getvalue()
    return Markup(drawing[drawing.index("<svg") :].replace(TEXT_COLOUR, "currentColor"))


def split_at_spans(example: ErrorExample) -> list[Segment]:
    """Cut a text wherever a span starts or ends, so that nested and crossing spans can be shown."""
    spans = [(*span, item) for item in example.items for span in item.spans]
    cuts = sorted(
        {0, len(example.text), *(cut for start, end, *_ in spans for cut in (start, end))}
    )
    segments = []
    for start, end in zip(cuts, cuts[1:], strict=False):
        covering = [span for span in spans if span[0] <= start and end <= span[1]]
        names = dict.fromkeys(
            f"{item.kind}: {item.label}" + (f", {name}" if name else "")
            for _, _, name, item in covering
        )
        segments.append(
            Segment(
                example.text[start:end],
                " ".join(sorted({item.kind for *_, item in covering})),
                min(3, len({span[:2] for span in covering})),
                "\n".join(names),
            )
        )
    return segments


PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --faint: #656d76;
  --line: #d8dee4; --card: #f6f8fa; --bar: #2f81f7; --missed: #ffe08a; --invented: #ffc1ba;
  --correct: #c5eecb; --missed-text: #7d5600; --invented-text: #b42318; --correct-text: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --text: #e6edf3; --faint: #8b949e; --line: #30363d; --card: #161b22;
    --missed: #5c4400; --invented: #6e1f1a; --correct: #144d25; --missed-text: #e3b341;
    --invented-text: #ff7b72; --correct-text: #56d364; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--page);
  color: var(--text); font: 15px/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans",
  "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem;
  border-bottom: 1px solid var(--line); }
p, small, .faint { color: var(--faint); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .6rem .9rem; }
.card b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem;
  margin: 1.25rem 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
table { width: 100%; border-collapse: collapse; }
th { text-align: left; font-weight: 500; color: var(--faint); }
td, th { padding: .2rem .5rem .2rem 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.label { overflow-wrap: anywhere; max-width: 18rem; } .wide { width: 45%; }
.track { background: var(--card); border-radius: .25rem; height: .85rem; overflow: hidden; }
.bar { background: var(--bar); height: 100%; border-radius: .25rem; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  margin: .9rem 0; }
article h3 { font-size: .8rem; font-weight: 500; color: var(--faint); margin: 0 0 .4rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 2.1; max-height: 24rem;
  overflow-y: auto; margin-bottom: .5rem; }
mark { color: inherit; padding: .18em 0; border-radius: .15rem; background: var(--correct); }
mark.missed { background: var(--missed); } mark.invented { background: var(--invented); }
mark.missed.invented { background: repeating-linear-gradient(135deg, var(--missed) 0 6px,
  var(--invented) 6px 12px); }
.depth2 { box-shadow: inset 0 -2px currentColor; }
.depth3 { box-shadow: inset 0 -2px currentColor, 0 3px var(--page), 0 5px currentColor; }
ul { list-style: none; margin: 0; padding: 0; font-size: .92rem; }
li { display: grid; grid-template-columns: 5rem 1fr; gap: .5rem; }
.kind { font-weight: 600; } .kind.missed { color: var(--missed-text); }
.kind.invented { color: var(--invented-text); } .kind.correct { color: var(--correct-text); }
.what { overflow-wrap: anywhere; } .what i { color: var(--faint); font-style: normal; }
.legend mark { padding: .1em .4em; margin-right: .5rem; color: var(--text); }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<div class="cards">
{% for name, number in cards %}
<div class="card"><b>{{ number }}</b><small>{{ name }}</small></div>
{% endfor %}
</div>
<dl>
{% for name, value in facts %}
<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}
</dl>

{% if curve %}
<h2>Learning curve</h2>
{{ curve }}
{% endif %}

{% for title, columns, rows in tables %}
<h2>For each {{ title }}</h2>
<table>
<tr><th>{{ title }}</th><th class="wide">{{ name_score(columns[0]) }}</th>
{% for column in columns %}<th class="number">{{ name_score(column) if not loop.first }}</th>
{% endfor %}</tr>
{% for label, row in rows %}
<tr><td class="label">{{ label }}</td>
<td><div class="track">
<div class="bar" style="width: {{ (100 * row[columns[0]])|round(1) }}%"></div></div></td>
{% for column in columns %}
<td class="number">{{ row[column] if row[column] is integer else "%.3f"|format(row[column]) }}</td>
{% endfor %}
</tr>
{% endfor %}
</table>
{% endfor %}

<h2>Worst errors</h2>
{% if examples %}
<p class="legend"><mark class="missed">missed</mark><mark class="invented">invented</mark>
<mark class="correct">correct</mark>
Underlined: several spans cover this. {{ examples|length }} of the {{ wrong }} records with errors,
the most errors first.</p>
{% else %}
<p>None: every record is right.</p>
{% endif %}
{% for example in examples %}
<article>
<h3>{{ example.id }}</h3>
<div class="text" dir="auto">
{%- for part in example.segments -%}
{%- if part.kinds -%}
<mark class="{{ part.kinds }} depth{{ part.depth }}" title="{{ part.names }}">{{ part.text }}</mark>
{%- else -%}
{{ part.text }}
{%- endif -%}
{%- endfor -%}
</div>
<ul>
{% for item, spans in example["items"] %}
<li><span class="kind {{ item.kind }}">{{ item.kind }}</span><span class="what">
{%- if spans and spans[0][1] == "subject" -%}
<bdi>{{ spans[0][0] }}</bdi> <i>→</i> {{ item.label }} <i>→</i> <bdi>{{ spans[1][0] }}</bdi>
{%- else -%}
{{ item.label }}{% for words, name in spans %}{{ ", " if not loop.first else " " -}}
<i>{{ name }}{{ ":" if name }}</i> <bdi>{{ words }}</bdi>{% endfor %}
{%- endif -%}
{% if item.score is not none %} <i>{{ "%.2f"|format(item.score) }}</i>{% endif %}
</span></li>
{% endfor %}
</ul>
</article>
{% endfor %}
</body>
</html>
"""

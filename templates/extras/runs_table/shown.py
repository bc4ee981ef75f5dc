"""The table of all runs as a terminal shows it, and as a page."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.base.files import PROJECT, write_text
from core.base.words import excerpt, printable
from core.report.report import name_score

if TYPE_CHECKING:
    from extras.runs_table.runs_table import Row

PAGE = Path(__file__).with_name("page.html")
WIDTH = 180  # of a table that goes to a file
HASH, NOTE_LENGTH, VALUE_LENGTH = 8, 60, 40
DRAWN_POINTS = 200


def print_groups(groups: Sequence[Sequence["Row"]], faults: Sequence[str]) -> None:
    """Print a table for each group, and a line for each folder that is left out."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if len(groups) > 1:
        print(
            f"{len(groups)} tables: runs with other dev records or another deciding score are not "
            "compared."
        )
    for group in groups:
        shown, hidden = choose_rows(group)
        console.print(make_table(group, shown))
        for folder, count in hidden.items():
            print(f"runs/{folder} has more of them ({count}): see runs/index.html.")
    for line in faults:
        print(printable(line))


def choose_rows(group: Sequence["Row"]) -> tuple[list["Row"], dict[str, int]]:
    """Return the runs to print, and how many others each folder has: of its runs the best shows."""
    shown: list[Row] = []
    hidden: dict[str, int] = {}
    for row in group:
        folder = row.name.rpartition("/")[0]
        if folder and folder in hidden:
            hidden[folder] += 1
        else:
            shown.append(row)
            if folder:
                hidden[folder] = 0
    return shown, {folder: count for folder, count in hidden.items() if count}


def make_table(group: Sequence["Row"], rows: Sequence["Row"]) -> Table:
    """Return the table of some runs of a group, best first."""
    table = Table(title=Text(printable(describe(group))), title_justify="left", box=box.SIMPLE)
    table.add_column("run", overflow="fold")
    for name in ("score", "95 % interval", "to the best", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("verdict", "what its settings change"):
        table.add_column(name, overflow="fold")
    for name in ("minutes", "data", "code"):
        table.add_column(name, justify="right" if name == "minutes" else "left", no_wrap=True)
    table.add_column("note", overflow="fold")
    for row in rows:
        difference, low, high = row.difference or (None, None, None)
        cells = [
            row.name,
            f"{row.score:.4f}",
            interval(row.low, row.high, ".4f"),
            f"{difference:+.4f}" if difference is not None else "",
            interval(low, high, "+.4f"),
            describe_state(row),
            ", ".join(f"{name} = {short(value)}" for name, value in row.changed.items()),
            f"{row.minutes:.1f}" if row.minutes is not None else "",
            short_hash(row.train_hash),
            short_hash(row.code_hash),
            excerpt(row.note, most=NOTE_LENGTH),
        ]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def describe(group: Sequence["Row"]) -> str:
    """Return what the runs of a group have in common."""
    first = group[0]
    kind = f" ({first.metric})" if first.metric else ""
    runs = "1 run" if len(group) == 1 else f"{len(group)} runs"
    data = f"{first.scored.file} [{short_hash(first.scored.data_hash)}]"
    return f"{name_score(first.monitor)}{kind} on {data}: {runs}"


def describe_state(row: "Row") -> str:
    """Return the verdict on a run, and whether it is still training."""
    verdict = row.verdict or "not compared"
    return verdict if row.finished else ", ".join(filter(None, (verdict, "unfinished")))


def interval(low: float | None, high: float | None, form: str) -> str:
    """Return an interval in words; empty: it is not known."""
    return "" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def short(value: object) -> str:
    """Return the value of a setting, cut to a few characters."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= VALUE_LENGTH else f"{text[:VALUE_LENGTH]}..."


def short_hash(known: str) -> str:
    """Return the first digits of a hash."""
    return known.removeprefix("sha256:")[:HASH]


# ------------------------------------------------------------------------------ the page


def write_page(path: Path, groups: Sequence[Sequence["Row"]], faults: Sequence[str]) -> None:
    """Write the page of all runs, which needs no network."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        title=f"All runs of {PROJECT.name}",
        facts=[{"title": describe(g), "rows": [describe_row(r, g) for r in g]} for g in groups],
        faults=faults,
    )
    write_text(path, page)


def describe_row(row: "Row", group: Sequence["Row"]) -> dict[str, Any]:
    """Return what the page shows of a run; settings that all runs share are left out."""
    varying = [
        name
        for name in row.settings
        if any(other.settings.get(name) != row.settings[name] for other in group)
    ]
    report = row.scored.folder / "report.html"
    return {
        "name": row.name,
        "link": quote(f"{row.name}/report.html") if report.is_file() else "",
        "score": row.score,
        "interval": None if row.low is None else [row.low, row.high],
        "difference": row.difference,
        "verdict": describe_state(row),
        "changed": {name: short(value) for name, value in row.changed.items()},
        "settings": {name: short(row.settings[name]) for name in varying},
        "minutes": row.minutes,
        "data": short_hash(row.train_hash),
        "code": short_hash(row.code_hash),
        "note": row.note,
        "curve": row.curve[:: 1 + len(row.curve) // DRAWN_POINTS],
    }

"""One page about a run: its training curve, its scores and its errors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from core.base.files import read_json, read_json_lines, write_text
from core.data.records import Id

PAGE = Path(__file__).with_name("page.html")
# The page stays small for any size of data: of more items or rows it draws evenly spread ones.
DRAWN_ITEMS, DRAWN_ROWS, LABEL_LENGTH = 10_000, 500, 60
ABBREVIATIONS = {"auc", "bleu", "f1", "map", "mrr", "ndcg", "rmse", "rouge"}


@dataclass(frozen=True)
class ErrorItem:
    """One predicted or gold item.

    `kind` is "missed", "invented" or "correct"; `spans` are `(start, end, name)` in the text;
    `score` is the probability that the model gave it, None: not known.
    """

    kind: str
    label: str
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    score: float | None = None


@dataclass(frozen=True)
class ErrorExample:
    """A record with its right and wrong predictions.

    Attributes:
        id: of the record.
        text: of the record.
        items: predicted and gold items.
        measures: name -> quality of the prediction, from 0 to 1; empty: its items show it.
        kind: what kind of record it is; empty: there are no kinds.
        ranks: ranks of gold among the candidates, from 1; 0: gold was no candidate.
        candidates: `(probability, is gold)` of each candidate that is ranked or has a threshold.
        group: records of one group are ranked against each other; empty: each by itself.
    """

    id: Id
    text: str
    items: list[ErrorItem]
    measures: dict[str, float] = field(default_factory=dict)
    kind: str = ""
    ranks: Sequence[int] = ()
    candidates: Sequence[tuple[float, bool]] = ()
    group: str = ""

    @property
    def errors(self) -> int:
        """The number of missed or invented items."""
        return sum(item.kind != "correct" for item in self.items)

    @property
    def sureness(self) -> float:
        """The confidence of the model in its worst error; 0 if it is not known."""
        missed = [1 - i.score for i in self.items if i.kind == "missed" and i.score is not None]
        found = [i.score for i in self.items if i.kind == "invented" and i.score is not None]
        return max(missed + found, default=0.0)


def write_report(
    folder: Path,
    task: str,
    examples: Sequence[ErrorExample],
    floor: tuple[dict, Sequence[ErrorExample]] = ({}, ()),
) -> None:
    """Write report.html from scores.json and metrics.jsonl of a run, most confident errors first.

    Args:
        folder: of the run.
        task: its name.
        examples: every record of dev, right or wrong.
        floor: scores and examples of a simple model, on the same records.
    """
    scores, curve = read_json(folder / "scores.json"), folder / "metrics.jsonl"
    rows = [row for _, row in read_json_lines(curve)] if curve.is_file() else []
    facts = {
        "curve": rows[:: 1 + len(rows) // DRAWN_ROWS],
        "model": collect_facts(examples),
        "floor": collect_facts(floor[1]),
    }
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        title=f"{folder.name}: {task}",
        scores=scores,
        floor=floor[0],
        facts=facts,
        examples=sorted((e for e in examples if e.errors), key=lambda e: (-e.sureness, -e.errors)),
        name_score=name_score,
        split_at_spans=split_at_spans,
    )
    write_text(folder / "report.html", page)


def name_score(name: str) -> str:
    """Return the key of a score as words."""
    words = name.split("_")
    return " ".join(word.upper() if word in ABBREVIATIONS else word for word in words)


def collect_facts(examples: Sequence[ErrorExample]) -> dict:
    """Return the data of the page, of all examples or of evenly spread ones if they are many."""
    sizes = (1 + len(e.items) + len(e.ranks) + len(e.candidates) for e in examples)
    groups = list(dict.fromkeys(example.group or example.id for example in examples))
    chosen = {*groups[:: 1 + sum(sizes) // DRAWN_ITEMS]}
    drawn = [example for example in examples if (example.group or example.id) in chosen]
    labels: dict[str, int] = {}
    rows = []
    for e in drawn:
        items = [
            (i.kind[0], labels.setdefault(i.label, len(labels)), [s[:2] for s in i.spans], i.score)
            for i in e.items
        ]
        rows.append(vars(e) | {"id": "", "text": "", "length": len(e.text), "items": items})
    # If there are measures, the labels are questions or texts.
    names = [label[:LABEL_LENGTH] for label in labels if not drawn[0].measures]
    return {"records": len(examples), "labels": names, "examples": rows}


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

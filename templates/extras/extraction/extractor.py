"""The extraction part of text generation: its texts represent triples or events."""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.words import excerpt
from core.data.checks import Finding
from core.data.records import Id, name_file
from core.report.report import ErrorExample, ErrorItem
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation
from extras.extraction.language import REASONS, Names, name_items, read_drafts, write_items
from extras.extraction.places import SearchedText, choose_places
from extras.extraction.records import (
    Example,
    Item,
    describe_items,
    make_event,
    read_examples,
    read_prediction,
)
from extras.extraction.scores import (
    METRICS,
    MONITORS,
    TABLES,
    count_matches,
    score,
    score_labels,
)
from extras.extraction.settings import Table

# If a perfect writer scores below this F1, the data or the lengths are at fault.
LOWEST_ORACLE_F1 = 0.9
SHOWN_ITEMS = 8
# Record id -> the written text, its score, and other results of the search.
Texts = Mapping[Id, Sequence]


@dataclass(frozen=True)
class Extractor:
    """Reads records and written texts, scores and describes them.

    Attributes:
        table: its `kind` and `names`; without names those of the first read file.
    """

    table: Table

    @property
    def kind(self) -> str:
        """The kind of items: "triples" or "events"."""
        return self.table.kind

    @property
    def monitor(self) -> str:
        """The score that chooses the best epoch."""
        return MONITORS[self.kind]

    def read_examples(self, path: str | Path, require: bool = True) -> list[Example]:
        """Read a file; the targets are its items with known names.

        Fields, rules and messages are those of the templates for these files.

        Raises:
            InputError: a record is invalid, or the file has no items.
        """
        examples = read_examples(path, self.kind, require)
        if not self.table.names:
            # The training file is read first; a run stores its names with its settings.
            self.table.names = name_items(examples, self.kind)
        if not self.table.names:
            one = "a triple" if self.kind == "triples" else "an event"
            raise InputError(f"no training example has {one}: there is nothing to learn.")
        return [
            replace(example, targets=(self.write(example),)) if example.labelled else example
            for example in examples
        ]

    def write(self, example: Example) -> str:
        """Return the text of the items of an example with known names."""
        names = known_names(tuple(self.table.names))
        kept = (names.keep(item, self.kind) for item in example.items)
        return write_items([item for item in kept if item], example.source, self.kind)

    def read(self, source: str, written: str) -> tuple[list[Item], Counter]:
        """Return the items of a written text, and why parts of it were not read.

        Args:
            source: the text that contains them.
            written: any text of a model.
        """
        drafts, unread = read_drafts(written, known_names(tuple(self.table.names)), self.kind)
        searched, items = SearchedText(source), []
        make = Item if self.kind == "triples" else make_event
        for draft in drafts:
            found = [(role, searched.find(words)) for role, words in draft.nodes]
            there = [(role, places) for role, places in found if places]
            unread["not_in_text"] += len(found) - len(there)
            # A triple needs both of its parts; an event keeps its remaining parts.
            if len(there) == len(found) or self.kind == "events" and there:
                items.append(make(draft.name, choose_places(searched, there)))
        return sorted(dict.fromkeys(items), key=lambda item: item.place), +unread

    # ------------------------------------------------------------------------ predictions

    def prediction_records(self, examples: Sequence[Example], texts: Texts) -> list[dict]:
        """Return the records of the predictions file: the input's format plus the written text."""
        records = []
        for example in examples:
            written, log_probability = texts[example.id][:2]
            items, unread = self.read(example.source, written)
            sure = math.exp(min(log_probability, 0))
            records.append(
                {
                    "id": example.id,
                    "text": example.source,
                    self.kind: describe_items(items, example.source, self.kind, sure),
                    "prediction": written,
                    "score": round(float(log_probability), 4),
                    "unread": dict(unread),
                }
            )
        return records

    def describe_records(self, records: Sequence[dict]) -> str:
        """Describe the number of predicted items, and what could not be read."""
        unread = sum((Counter(record["unread"]) for record in records), Counter())
        items = sum(len(record[self.kind]) for record in records)
        return f"{len(records)} records, {items} {self.kind}; {describe_unread(unread)}"

    def evaluate(
        self, examples: Sequence[Example], texts: Texts, path: Path, shown: int = 0
    ) -> Evaluation:
        """Score the written texts for the examples of a file.

        Args:
            examples: gold.
            texts: record id -> the text and its score.
            path: the file of the examples.
            shown: number of examples to describe.
        """
        records = self.prediction_records(examples, texts)
        found = {record["id"]: read_prediction("", record, self.kind) for record in records}
        unread = sum((Counter(record["unread"]) for record in records), Counter())
        lines = [
            self.describe(example, found[example.id], texts[example.id][0])
            for example in examples[:shown]
        ]
        return Evaluation(
            scores={
                **name_file(path),
                "records": len(examples),
                **score(examples, found, self.kind),
                "unread": unread.total(),
                "unread_reasons": {reason: unread[reason] for reason in REASONS},
            },
            predictions=records,
            shown=[*lines, f"{describe_unread(unread)}\n"],
        )

    def describe(self, example: Example, found: Sequence[Item], written: str) -> str:
        """Return a text with its gold items, the found items, and the written text."""

        def words(items: Sequence[Item]) -> str:
            kept = sorted(items, key=lambda item: item.place)[:SHOWN_ITEMS]
            more = [f"and {len(items) - SHOWN_ITEMS} more"] if len(items) > SHOWN_ITEMS else []
            return " ".join([write_items(kept, example.source, self.kind), *more])

        lines = [f"gold:      {words(example.items)}", f"predicted: {words(found)}"]
        spans = [span for item in (*example.items, *found) for _, span in item.nodes]
        shown = excerpt(example.source, spans)
        return "\n  ".join([shown, *lines, f"written:   {excerpt(written)}\n"])

    def describe_scores(self, scores: dict) -> str:
        """Return the scores of a file as lines of text."""
        rows = [(name, value) for name, value in scores.items() if isinstance(value, float)]
        lines = [f"{name.replace('_', ' '):<30}{value:>10.4f}" for name, value in rows]
        return "\n".join([*lines, describe_unread(Counter(scores["unread_reasons"]))])

    def find_errors(
        self, examples: Sequence[Example], predictions: Sequence[dict]
    ) -> list[ErrorExample]:
        """Return all examples for the report, from records of predictions."""
        records = {record["id"]: record for record in predictions}
        reports = []
        for example in examples:
            record = records[example.id]
            found = parts_by_label(read_prediction("dev.jsonl", record, self.kind), self.kind)
            gold = parts_by_label(example.items, self.kind)
            sure = math.exp(min(record["score"], 0))
            items = [
                ErrorItem("missed", label, list(spans))
                for label, spans in gold
                if (label, spans) not in found
            ]
            items += [
                ErrorItem(
                    "correct" if (label, spans) in gold else "invented", label, list(spans), sure
                )
                for label, spans in found
                if example.annotated is None or label in example.annotated
            ]
            reports.append(ErrorExample(example.id, example.source, items))
        return reports

    # ------------------------------------------------------------------- check and compare

    def count_labels(self, examples: Sequence[Example]) -> Counter:
        """Count the predicates, or the roles and triggers of each type."""
        parts = (parts_by_label(example.items, self.kind) for example in examples)
        return Counter(label for own in parts for label, _ in own)

    def score_oracle(self, examples: Sequence[Example], texts: Mapping[Id, str]) -> dict:
        """Return the scores of the targets, as written by a perfect model.

        Args:
            examples: gold.
            texts: record id -> the target after encoding, cutting and decoding.
        """
        read = {one.id: self.read(one.source, texts[one.id]) for one in examples}
        unread = sum((lost for _, lost in read.values()), Counter())
        metric = "f1" if self.kind == "triples" else "event_f1"
        found = {name: items for name, (items, _) in read.items()}
        counts = {one.id: count_matches(one, found[one.id], metric) for one in examples}
        wrong = [one.line for one in examples if len({*counts[one.id]}) > 1]
        scores = score(examples, found, self.kind)
        row = scores if self.kind == "triples" else scores["metrics"]["argument_classification"]
        return {
            **{name: row[name] for name in ("f1", "precision", "recall")},
            "lost": sum(gold - right for right, _, gold in counts.values()),
            "invented": sum(guess - right for right, guess, _ in counts.values()),
            "gold": sum(gold for *_, gold in counts.values()),
            "lines": wrong,
            "unread": unread,
        }

    def describe_oracle(self, oracle: dict) -> str:
        """Describe the scores of an oracle."""
        if not oracle["gold"]:
            return f"oracle: none, for no record has {self.kind}"
        numbers = ", ".join(f"{name} {oracle[name]:.4f}" for name in ("precision", "recall"))
        return (
            f"oracle (gold, written and found again): F1 {oracle['f1']:.4f}, {numbers}\n"
            f"{self.kind} in all {oracle['gold']}, lost {oracle['lost']}, invented "
            f"{oracle['invented']}; {describe_unread(oracle['unread'])}"
        )

    def find_oracle_faults(self, name: str, oracle: dict) -> list[Finding]:
        """Find the items that no writer can reproduce."""
        if not oracle["lost"] + oracle["invented"]:
            return []
        return [
            Finding(
                "error" if oracle["f1"] < LOWEST_ORACLE_F1 else "warning",
                f"a perfect writer would score F1 {oracle['f1']:.4f}",
                f"{name}, {oracle['lost']} {self.kind} are lost, {oracle['invented']} invented, "
                f"line {oracle['lines'][0]} for one",
                "raise target_length where targets lose their end, or choose an encoder that knows "
                "the characters; of words that occur several times the nearest place is taken.",
            )
        ]

    def compare(self, comparison: Any, run: Any, other: Any) -> Any:
        """Compare two scored folders of this kind; one may be of the pointer model.

        Args:
            comparison: the extra; `run` and `other` are from its `find_scored`.
        """
        golds = self.read_examples(comparison.shared_gold_file(run, other))
        monitor = read_scores(run.folder).get("monitor")
        metric = monitor if monitor in METRICS[self.kind] else self.monitor
        by_trigger = metric.startswith("trigger")
        table = "per_trigger" if by_trigger else next(iter(TABLES[self.kind]))
        counts, tables = [], []
        for scored in (run, other):
            records = comparison.read_predictions(scored, [gold.id for gold in golds])
            items = {}
            for gold in golds:
                place, record = records[gold.id]
                items[gold.id] = read_prediction(place, record, self.kind)
            matches = [count_matches(gold, items[gold.id], metric) for gold in golds]
            counts.append(np.array(matches))
            tables.append(score_labels(golds, items, self.kind, table))
        labels = comparison.compare_labels(*tables)
        title = "trigger of" if by_trigger else table.removeprefix("per_")
        name = "F1" if metric == "f1" else f"{metric.removesuffix('_f1')} F1"
        shown = {"labels": labels, "title": title, "metric": name, "label_metric": "F1"}
        return comparison.compare_columns(*counts, monitor=metric, **shown, **{table: labels})


def open_extractor(table: Table, n_best: int) -> Extractor:
    """Return what reads and scores records with triples or events.

    Args:
        table: with a `kind`.
        n_best: texts that are asked of each record.

    Raises:
        InputError: several texts of a record are asked for.
    """
    if n_best > 1:
        raise InputError(
            f"n_best = {n_best} asks for several texts of a record, and extraction.kind = "
            f"{table.kind} reads one: set n_best = 1."
        )
    return Extractor(table)


@functools.lru_cache(maxsize=1)
def known_names(names: tuple[str, ...]) -> Names:
    """Return the index of the names; it is the same for every record."""
    return Names(names)


def parts_by_label(items: Sequence[Item], kind: str) -> dict[tuple, None]:
    """Return `(label, spans)` for the report: triples, or mentions of events."""
    if kind == "triples":
        return {
            (item.name, tuple((*span, role or "") for role, span in item.nodes)): None
            for item in items
        }
    return {
        (f"{item.name}: {role or 'trigger'}", ((*span, role or "trigger"),)): None
        for item in items
        for role, span in item.nodes
    }


def describe_unread(unread: Counter) -> str:
    """Describe what could not be read, most frequent reason first."""
    if not unread.total():
        return "all that was written was read"
    reasons = ", ".join(f"{REASONS[name]} ({n})" for name, n in unread.most_common() if n)
    return f"not read: {unread.total()}: {reasons}"

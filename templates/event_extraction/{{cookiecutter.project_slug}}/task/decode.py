"""From the scores of a model back to graphs of character spans, and to the records of a file."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from core.base.errors import InputError
from core.data.records import Id, Span
from core.data.tokens import Window
from core.train.prediction import Predictor
from task.crf import viterbi
from task.data import Event, EventGenerator, Example, Schema
from task.graph import Graph, Link, Mention, events_at, gap_between

# Candidates below e^-4 / (1 + e^-4) = 0.018 never pass a tuned threshold.
LOWEST_SCORE = -4.0
# A model in its first steps accepts everything: the best of it are enough to see that.
MOST_SPANS = 96

# Probabilities of mentions and of links.
Scored = tuple[dict[Mention, float], dict[Link, float]]


def predict_events(
    predictor: Predictor, generator: EventGenerator, progress: str = ""
) -> dict[Id, Graph]:
    """Return the graph of every example: mentions and links with their probabilities.

    Windows of one text are merged: what is found in several has its highest score.

    Args:
        predictor: of the inference models.
        generator: of the examples, `labels=False`.
        progress: title of the progress bar; empty: none.
    """
    model, schema = generator.model, generator.schema
    decode_window = decode_tags if model == "crf" else decode_pointers

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[Scored]:
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        windows = [generator.windows[position] for position in positions]
        return [decode_window(*pair, schema) for pair in zip(rows, windows, strict=True)]

    found: dict[Id, tuple[dict, dict]] = {example.id: ({}, {}) for example in generator.examples}
    for position, scored in predictor.decode(generator, decode, progress):
        merged = found[generator.examples[generator.example_of[position]].id]
        for known, new in zip(merged, scored, strict=True):
            for key, probability in new.items():
                known[key] = max(probability, known.get(key, probability))
    return {name: make_graph(*merged, schema, model) for name, merged in found.items()}


def make_graph(
    mentions: dict[Mention, float], links: dict[Link, float], schema: Schema, model: str
) -> Graph:
    """Return the graph of a text; the tags of `crf` say nothing of events, so they are composed."""
    links = compose_links(mentions) if model == "crf" else links
    return Graph(mentions, links, schema.triggered)


def decode_pointers(scores: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the mentions of a window that may hold, and the links between them.

    A link is as sure as the weaker of its head and tail.

    Args:
        scores: `span`, `head` and `tail` `[heads, length, length]` of one window.
        window: gives the characters of the tokens.
        schema: names of the heads.
    """
    mentions, spans = {}, defaultdict(set)
    for label, first, last, score in best_spans(scores["span"], window):
        kind, role = schema.labels[label]
        mentions[kind, role, character_span(window, first, last)] = 1 / (1 + np.exp(-score))
        spans[kind].add((first, last))
    links = {}
    for number, kind in enumerate(schema.types):
        # In the order that `link_cells` puts them into.
        places = np.array(sorted(spans[kind]), int).reshape(-1, 2)
        one, two = np.triu_indices(len(places))
        (starts, ends), (other_starts, other_ends) = places[one].T, places[two].T
        weakest = np.minimum(
            scores["head"][number, starts, other_starts], scores["tail"][number, ends, other_ends]
        )
        for index in np.flatnonzero(weakest > LOWEST_SCORE):
            pair = sorted(character_span(window, *places[end[index]]) for end in (one, two))
            links[kind, pair[0], pair[1]] = 1 / (1 + np.exp(-float(weakest[index])))
    return mentions, links


def best_spans(scores: np.ndarray, window: Window) -> list[tuple[int, int, int, float]]:
    """Return `(label, first token, last token, score)` of the spans that may hold."""
    length, real = len(window), window.starts >= 0
    cells = np.argwhere(scores[:, :length, :length] > LOWEST_SCORE)
    cells = cells[real[cells[:, 1]] & real[cells[:, 2]]]
    values = scores[tuple(cells.T)]
    if len(values) > MOST_SPANS:
        best = np.argpartition(-values, MOST_SPANS)[:MOST_SPANS]
        cells, values = cells[best], values[best]
    return [(*cell, score) for cell, score in zip(cells.tolist(), values.tolist(), strict=True)]


def character_span(window: Window, first: int, last: int) -> Span:
    """Return the characters from one token to another."""
    return int(window.starts[first]), int(window.ends[last])


def decode_tags(scores: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the mentions of a window that the best sequence of tags holds, and no links."""
    tags = viterbi(scores["emissions"][: len(window)], scores["transitions"])
    return tagged_mentions(tags, window, schema), {}


def tagged_mentions(tags: np.ndarray, window: Window, schema: Schema) -> dict[Mention, float]:
    """Return the spans of one sequence of tags; a tagger is sure of each."""
    mentions = {}
    for first in np.flatnonzero(tags % 2 == 1).tolist():
        last = first
        while last + 1 < len(tags) and tags[last + 1] == tags[first] + 1:
            last += 1
        if window.starts[first] >= 0 and window.starts[last] >= 0:
            kind, role = schema.labels[(tags[first] - 1) // 2]
            mentions[kind, role, character_span(window, first, last)] = 1.0
    return mentions


def compose_links(mentions: dict[Mention, float]) -> dict[Link, float]:
    """Return the links of composed events.

    Each trigger makes an event, and each argument joins the nearest trigger of its type, the
    earlier of two. The arguments of a type without a trigger are one event.
    """
    links, groups = {}, defaultdict(list)
    for kind, role, span in mentions:
        triggers = sorted(s for own, other, s in mentions if own == kind and other is None)
        nearest = min(triggers, key=lambda t: gap_between(span, t), default=None)
        groups[kind, span if role is None else nearest].append(span)
    for (kind, _), spans in groups.items():
        for one, two in itertools.product(spans, repeat=2):
            links[kind, min(one, two), max(one, two)] = 1.0
    return links


def keep_events(graphs: dict[Id, Graph], threshold: float) -> dict[Id, list[Event]]:
    """Return record id -> the events that are surer than the threshold."""
    return {name: events_at(graph, threshold) for name, graph in graphs.items()}


def prediction_records(
    examples: Sequence[Example], graphs: dict[Id, Graph], events: dict[Id, list[Event]]
) -> list[dict]:
    """Return the records of the predictions file: the input's format, with texts and scores."""
    records = []
    for example in examples:
        text, mentions = example.text, graphs[example.id].mentions
        described = [describe_event(event, text, mentions) for event in events[example.id]]
        records.append({"id": example.id, "text": text, "events": described})
    return records


def describe_event(event: Event, text: str, mentions: dict[Mention, float]) -> dict:
    """Return an event as the predictions file holds it."""
    trigger: dict = {"trigger": None}
    arguments = []
    for role, span in event.nodes():
        words, score = text[slice(*span)], round(float(mentions[event.type, role, span]), 4)
        if role is None:
            trigger = {"trigger": list(span), "trigger_text": words, "trigger_score": score}
        else:
            arguments.append({"role": role, "span": list(span), "text": words, "score": score})
    return {"type": event.type, **trigger, "arguments": arguments}


def read_prediction(place: str, record: dict) -> tuple[list[Event], dict[Mention, float | None]]:
    """Return the events of a record of a predictions file, and the scores of their mentions.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    events, scores = [], []
    try:
        for item in record["events"]:
            kind, trigger = item["type"], item["trigger"] and tuple(item["trigger"])
            parts = [
                (part["role"], tuple(part["span"]), part["score"]) for part in item["arguments"]
            ]
            events.append(Event(kind, trigger, tuple(sorted(part[:2] for part in parts))))
            scores += [((kind, None, trigger), item.get("trigger_score"))] if trigger else []
            scores += [((kind, role, span), score) for role, span, score in parts]
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error
    return events, dict(scores)


def duee_records(records: Sequence[dict]) -> list[dict]:
    """Return the records of the predictions file as DuEE's competitions want them."""

    def duee_event(event: dict) -> dict:
        trigger = {"trigger": event["trigger_text"]} if event["trigger"] else {}
        parts = [{"role": part["role"], "argument": part["text"]} for part in event["arguments"]]
        return {"event_type": event["type"], **trigger, "arguments": parts}

    return [
        {"id": record["id"], "event_list": [duee_event(event) for event in record["events"]]}
        for record in records
    ]

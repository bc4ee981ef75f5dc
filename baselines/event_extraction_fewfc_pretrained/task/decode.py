"""From the scores of a model back to graphs of character spans, and to the records of a file."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from common.prediction import Predictor
from common.records import Span
from common.tokens import Window
from task.crf import viterbi
from task.data import Event, EventGenerator, Example, Schema
from task.graph import Graph, Link, Mention, events_at, gap_between

# Candidates below e^-4 / (1 + e^-4) = 0.018 never pass a tuned threshold.
LOWEST_SCORE = -4.0
# A model in its first steps accepts everything: the best of it are enough to see that.
MOST_SPANS = 96

# Scores of mentions and of links.
Scored = tuple[dict[Mention, float], dict[Link, float]]

find_best_tags = tf.function(viterbi, reduce_retracing=True)


def predict_events(
    predictor: Predictor, generator: EventGenerator, progress: str = ""
) -> dict[str, Graph]:
    """Return the candidates of every example: mentions and links with their probabilities.

    Windows of one text are merged: what is found in several has its highest score.

    Args:
        predictor: of the inference models.
        generator: of the examples, `labels=False`.
        progress: title of the progress bar; empty: none.
    """
    decode_windows = decode_tags if generator.model == "crf" else decode_pointers

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[tuple]:
        windows = [generator.windows[position] for position in positions]
        return list(decode_windows(outputs, windows, generator.schema))

    found = {example.id: ({}, {}) for example in generator.examples}
    for position, scored in predictor.decode(generator, decode, progress):
        merged = found[generator.examples[generator.example_of[position]].id]
        for known, new in zip(merged, scored, strict=True):
            for key, score in new.items():
                known[key] = max(score, known.get(key, score))
    make_graph = compose_graph if generator.model == "crf" else pointer_graph
    return {name: make_graph(*merged, generator.schema) for name, merged in found.items()}


def decode_pointers(
    outputs: dict[str, np.ndarray], windows: Sequence[Window], schema: Schema
) -> Iterable[Scored]:
    """Yield the scored mentions and links of each window.

    Args:
        outputs: `span`, `head` and `tail` `[windows, heads, length, length]`.
        windows: give the characters of the tokens.
        schema: names of the heads.
    """
    for row, window in enumerate(windows):
        yield decode_window({name: grid[row] for name, grid in outputs.items()}, window, schema)


def decode_window(scores: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the mentions of a window that may hold, and the links between them, with scores.

    A link is as sure as the weaker of its head and tail.

    Args:
        scores: `span`, `head` and `tail` `[heads, length, length]` of one window.
        window: gives the characters of the tokens.
        schema: names of the heads.
    """
    mentions, spans = {}, defaultdict(set)
    for label, first, last, score in best_spans(scores["span"], window):
        kind, role = schema.labels[label]
        mentions[kind, role, character_span(window, first, last)] = score
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
            links[kind, *pair] = float(weakest[index])
    return mentions, links


def best_spans(scores: np.ndarray, window: Window) -> list[tuple[int, int, int, float]]:
    """Return `(label, first token, last token, score)` of the spans that may hold."""
    length, real = len(window), window.starts >= 0
    labels, firsts, lasts = np.nonzero(scores[:, :length, :length] > LOWEST_SCORE)
    words = real[firsts] & real[lasts]
    labels, firsts, lasts = labels[words], firsts[words], lasts[words]
    values = scores[labels, firsts, lasts]
    best = np.arange(len(values))
    if len(values) > MOST_SPANS:
        best = np.argpartition(-values, MOST_SPANS)[:MOST_SPANS]
    columns = (labels, firsts, lasts, values)
    return list(zip(*(column[best].tolist() for column in columns), strict=True))


def character_span(window: Window, first: int, last: int) -> Span:
    """Return the characters from one token to another."""
    return int(window.starts[first]), int(window.ends[last])


def pointer_graph(
    mentions: dict[Mention, float], links: dict[Link, float], schema: Schema
) -> Graph:
    """Return the graph of a text with probabilities instead of scores."""
    return Graph(
        {key: 1 / (1 + np.exp(-score)) for key, score in mentions.items()},
        {key: 1 / (1 + np.exp(-score)) for key, score in links.items()},
        schema.triggered,
    )


def decode_tags(
    outputs: dict[str, np.ndarray], windows: Sequence[Window], schema: Schema
) -> Iterable[Scored]:
    """Yield the mentions of each window that the best sequence of tags holds.

    Args:
        outputs: `emissions` `[windows, length, tags]` and `transitions`
            `[windows, tags + 1, tags]`.
        windows: give the characters of the tokens.
        schema: names of the tags.
    """
    emissions, transitions = outputs["emissions"], outputs["transitions"]
    lengths = np.array([len(window) for window in windows])
    mask = np.arange(emissions.shape[1]) < lengths[:, None]
    for tags, window in zip(
        find_best_tags(emissions, transitions, mask).numpy(), windows, strict=True
    ):
        yield tagged_mentions(tags, window, schema), {}


def tagged_mentions(tags: np.ndarray, window: Window, schema: Schema) -> dict[Mention, float]:
    """Return the spans of one sequence of tags; a tagger is sure of each."""
    mentions, length = {}, len(window)
    begins = np.flatnonzero(tags[:length] % 2 == 1)
    for first in begins.tolist():
        last = first
        while last + 1 < length and tags[last + 1] == tags[first] + 1:
            last += 1
        if window.starts[first] >= 0 and window.starts[last] >= 0:
            kind, role = schema.labels[(tags[first] - 1) // 2]
            mentions[kind, role, character_span(window, first, last)] = 1.0
    return mentions


def compose_graph(
    mentions: dict[Mention, float], links: dict[Link, float], schema: Schema
) -> Graph:
    """Return the graph of a text whose tags say nothing of events: they are composed.

    Each trigger makes an event, and each argument joins the nearest trigger of its type, the
    earlier of two. The arguments of a type without a trigger are one event.
    """
    links, groups = {}, defaultdict(list)
    for kind, role, span in mentions:
        triggers = sorted(s for own, other, s in mentions if own == kind and other is None)
        nearest = min(triggers, key=lambda t: gap_between(span, t), default=None)
        groups[kind, span if role is None else nearest].append(span)
    for (kind, _), spans in groups.items():
        for one in spans:
            for two in spans:
                links[kind, min(one, two), max(one, two)] = 1.0
    return Graph(mentions, links, schema.triggered)


def keep_events(candidates: dict[str, Graph], threshold: float) -> dict[str, list[Event]]:
    """Return record id -> the events that are surer than the threshold."""
    return {name: events_at(graph, threshold) for name, graph in candidates.items()}


def prediction_records(
    examples: Sequence[Example], candidates: dict[str, Graph], events: dict[str, list[Event]]
) -> list[dict]:
    """Return the records of the predictions file: the input's format, with texts and scores.

    Args:
        examples: of the file.
        candidates: from `predict_events`.
        events: from `keep_events`.
    """
    records = []
    for example in examples:
        scores = candidates[example.id].mentions
        described = [describe_event(event, example.text, scores) for event in events[example.id]]
        records.append({"id": example.id, "text": example.text, "events": described})
    return records


def describe_event(event: Event, text: str, scores: dict[Mention, float]) -> dict:
    """Return an event as the predictions file holds it."""

    def score(role: str | None, span: Span) -> float:
        return round(float(scores[event.type, role, span]), 4)

    trigger = {"trigger": None}
    if event.trigger:
        trigger = {
            "trigger": list(event.trigger),
            "trigger_text": text[slice(*event.trigger)],
            "trigger_score": score(None, event.trigger),
        }
    arguments = [
        {"role": role, "span": list(span), "text": text[slice(*span)], "score": score(role, span)}
        for role, span in event.arguments
    ]
    return {"type": event.type, **trigger, "arguments": arguments}


def duee_records(records: Sequence[dict]) -> list[dict]:
    """Return the records of the predictions file as DuEE's competitions want them.

    Args:
        records: from `prediction_records`.
    """
    return [
        {
            "id": record["id"],
            "event_list": [
                {
                    "event_type": event["type"],
                    **({"trigger": event["trigger_text"]} if event["trigger"] else {}),
                    "arguments": [
                        {"role": argument["role"], "argument": argument["text"]}
                        for argument in event["arguments"]
                    ],
                }
                for event in record["events"]
            ],
        }
        for record in records
    ]

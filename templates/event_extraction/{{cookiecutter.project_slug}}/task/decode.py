"""From the scores of a model back to graphs of character spans, and to the records of a file."""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.data.records import Id
from core.data.tokens import Window
from core.layers.crf import viterbi
from core.layers.pointer_search import best_spans, score_pairs
from core.prediction.predictor import Predictor, mean_outputs
from core.prediction.candidates import BestCandidates
from task.data import Event, EventGenerator, Example, Schema
from task.graph import Graph, Link, Mention, events_at, gap_between

# Candidates below e^-4 / (1 + e^-4) = 0.018 are dropped before a threshold is tuned.
LOWEST_SCORE = -4.0
# The best of a window, of all roles and types. A model in its first steps accepts everything.
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
        progress: title of the progress bar; empty: dev is scored, by the surest of all.
    """
    model, schema = generator.model, generator.schema
    decode_window = decode_tags if model == "crf" else decode_pointers

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[Scored]:
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        windows = [generator.windows[position] for position in positions]
        return [decode_window(*pair, schema) for pair in zip(rows, windows, strict=True)]

    mentions, links = (BestCandidates(generator, whole=bool(progress)) for _ in ("mentions", "links"))
    for position, (spans, pairs) in predictor.decode(generator, decode, progress):
        name = generator.examples[generator.example_of[position]].id
        mentions.add(name, spans)
        links.add(name, pairs)
    every, linked = mentions.kept(), links.kept()
    return {name: make_graph(every[name], linked[name], schema, model) for name in every}


def make_graph(
    mentions: dict[Mention, float], links: dict[Link, float], schema: Schema, model: str
) -> Graph:
    """Return the graph of a text; the tags of `crf` say nothing of events, so they are composed."""
    if model == "crf":
        # A type whose trigger has no tag has no less likely one either.
        found = {kind for kind, role, _ in mentions if role is None}
        return Graph(mentions, compose_links(mentions), schema.triggered & found)
    return Graph(mentions, links, schema.triggered)


def make_selector(schema: Schema, model: str) -> Callable[[Sequence[dict]], dict]:
    """Return what a predictor makes of the outputs of its models, in the graph."""
    if model == "crf":
        return mean_outputs
    types = list(schema.types)
    return functools.partial(select_spans, types=[types.index(kind) for kind, _ in schema.labels])


def select_spans(outputs: Sequence[dict], types: Sequence[int]) -> dict[str, tf.Tensor]:
    """Return the best spans of each window and their links: all scores are too many to copy.

    A link is as sure as the weaker of its head and tail. Of equally sure spans the first counts as
    the better.

    Args:
        outputs: of the inference model of each run.
        types: the number of the event type of each label.

    Returns:
        `scores`, `labels`, `firsts` and `lasts` (tokens) `[batch, spans]`, in the order of labels
        and tokens, and `links` `[batch, spans, spans]`, for a span in front of one of its type.
    """
    span, head, tail = ([own[name] for own in outputs] for name in ("span", "head", "tail"))
    mask = outputs[0]["mask"]
    scores, cells = best_spans(span, mask, MOST_SPANS)
    flat, length = (-1, tf.size(scores[0])), tf.shape(mask)[1]
    scores, best = tf.math.top_k(tf.reshape(scores, flat), tf.minimum(MOST_SPANS, flat[1]))
    cells = tf.gather(tf.reshape(cells, flat), best, batch_dims=1)
    order = tf.argsort(cells)
    scores, cells = (tf.gather(array, order, batch_dims=1) for array in (scores, cells))
    labels, firsts, lasts = cells // length**2, cells // length % length, cells % length
    heads = tf.gather(tf.constant(types), labels)
    links = tf.minimum(
        score_pairs(head, heads, firsts, firsts), score_pairs(tail, heads, lasts, lasts)
    )
    return {"scores": scores, "labels": labels, "firsts": firsts, "lasts": lasts, "links": links}


def decode_pointers(found: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the mentions of a window that may hold, and the links between them.

    Args:
        found: what `select_spans` returns, of one window.
        window: gives the characters of the tokens.
        schema: names of the labels.
    """
    firsts, lasts = found["firsts"], found["lasts"]
    kept = np.flatnonzero(found["scores"] > LOWEST_SCORE)
    kept = kept[(window.starts[firsts[kept]] >= 0) & (window.starts[lasts[kept]] >= 0)]
    firsts, lasts, links = firsts[kept], lasts[kept], found["links"][np.ix_(kept, kept)]
    labels = [schema.labels[label] for label in found["labels"][kept]]
    spans = list(zip(window.starts[firsts].tolist(), window.ends[lasts].tolist(), strict=True))
    mentions = {
        (*label, span): sigmoid(score)
        for label, span, score in zip(labels, spans, found["scores"][kept], strict=True)
    }
    linked = {}
    kinds = np.unique([kind for kind, _ in labels], return_inverse=True)[1]
    # In the order that `link_cells` puts them into.
    places = firsts * len(window) + lasts
    ordered = (places[:, None] <= places) & (kinds[:, None] == kinds)
    for one, two in np.argwhere(ordered & (links > LOWEST_SCORE)):
        kind, pair = labels[one][0], sorted((spans[one], spans[two]))
        linked[kind, pair[0], pair[1]] = sigmoid(links[one, two])
    return mentions, linked


def sigmoid(score: float) -> float:
    """Return a score as a number from 0 to 1."""
    return 1 / (1 + math.exp(-float(score)))


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
            mentions[kind, role, (int(window.starts[first]), int(window.ends[last]))] = 1.0
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


def duee_record(record: dict) -> dict:
    """Return a record of the predictions file as DuEE's competitions want it."""

    def duee_event(event: dict) -> dict:
        trigger = {"trigger": event["trigger_text"]} if event["trigger"] else {}
        parts = [{"role": part["role"], "argument": part["text"]} for part in event["arguments"]]
        return {"event_type": event["type"], **trigger, "arguments": parts}

    return {"id": record["id"], "event_list": [duee_event(event) for event in record["events"]]}

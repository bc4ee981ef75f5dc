"""From the scores of a model back to graphs of character spans."""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from core.data.records import Id
from core.data.tokens import Window
from core.layers.crf import spans_of_tags, viterbi
from core.layers.pointer_search import best_spans, pick, score_pairs, top_cells
from core.prediction.candidates import BestCandidates, decode_windows
from core.prediction.predictor import Predictor, mean_outputs
from library.graph import Graph, Link, Mention, events_at, gap_between
from task.data import EventGenerator
from task.records import Event, Schema

# Candidates below e^-4 / (1 + e^-4) = 0.018 are dropped before a threshold is tuned.
LOWEST_LOGIT = -4.0
# A window keeps at most this many spans, of all roles and types together. An untrained model
# scores all pairs near 0, above the limit.
MOST_SPANS = 96

# Probabilities of mentions and of links.
Scored = tuple[dict[Mention, float], dict[Link, float]]


def predict_events(
    predictor: Predictor, generator: EventGenerator, keep_all: bool = False, progress: str = ""
) -> dict[Id, Graph]:
    """Return the graph of every example: mentions and links with their probabilities.

    Windows of one text are merged: a mention or link found in several has its highest score.
    `keep_all`: no limit over all records; `progress`: title of the bar.
    """
    model, schema = generator.model, generator.schema
    decode_one = decode_tags if model == "crf" else decode_pointers

    decode = functools.partial(decode_one, schema=schema)
    mentions, links = BestCandidates(generator, keep_all), BestCandidates(generator, keep_all)
    for example, (spans, pairs) in decode_windows(predictor, generator, decode, progress):
        mentions.add(example.id, spans)
        links.add(example.id, pairs)
    kept, linked = mentions.kept(), links.kept()
    return {name: make_graph(kept[name], linked[name], schema, model) for name in kept}


def make_graph(
    mentions: dict[Mention, float], links: dict[Link, float], schema: Schema, model: str
) -> Graph:
    """Return the graph of a text; tags (`crf`) don't group spans: `compose_links` does."""
    if model == "crf":
        # Tags offer no second-best trigger: a type with none tagged counts as one without triggers.
        found = {kind for kind, role, _ in mentions if role is None}
        return Graph(mentions, compose_links(mentions), schema.triggered & found)
    return Graph(mentions, links, schema.triggered)


def make_selector(schema: Schema, model: str) -> Callable[[Sequence[dict]], dict]:
    """Return the part of decoding that runs on the device, for `Predictor`."""
    if model == "crf":
        return mean_outputs
    types = list(schema.types)
    return functools.partial(select_spans, types=[types.index(kind) for kind, _ in schema.labels])


def select_spans(outputs: Sequence[dict], types: Sequence[int]) -> dict[str, tf.Tensor]:
    """Return the best spans of each window, and their links: all scores are too many to copy.

    The score of a link is the lower one of its head and its tail. The first of several spans with
    equal scores wins.

    Worked example: label 1 is found at token 3, label 0 at the tokens from 1 to 2. In the order of
    labels the firsts are [1, 3] and the lasts [2, 3]. If both labels are of type 0, `links[0, 1]`
    is the lower one of head[0, 1, 3] (first tokens) and tail[0, 2, 3] (last tokens).

    Args:
        outputs: of the inference model of each run.
        types: the number of the event type of each label.

    Returns:
        `scores`, `labels`, `firsts` and `lasts` (tokens) `[batch, spans]`, in the order of labels
        and tokens. `links` `[batch, spans, spans]` is of use only where both spans have one type
        and the row's span comes first.
    """
    span, head, tail = ([run[name] for run in outputs] for name in ("span", "head", "tail"))
    mask = outputs[0]["mask"]
    # [batch, labels, spans of a label]; of these the best of all labels are kept: [batch, spans].
    scores, firsts, lasts = best_spans(span, mask, MOST_SPANS)
    scores, (labels, ranks) = top_cells(scores, MOST_SPANS)
    firsts, lasts = pick(firsts, labels, ranks), pick(lasts, labels, ranks)
    length = tf.shape(mask)[1]
    order = tf.argsort((labels * length + firsts) * length + lasts)
    scores, labels, firsts, lasts = (
        tf.gather(array, order, batch_dims=1) for array in (scores, labels, firsts, lasts)
    )
    type_of = tf.gather(tf.constant(types), labels)  # the head of the link pointers
    head_links = score_pairs(head, type_of, firsts, firsts)
    links = tf.minimum(head_links, score_pairs(tail, type_of, lasts, lasts))
    return {"scores": scores, "labels": labels, "firsts": firsts, "lasts": lasts, "links": links}


def decode_pointers(found: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the candidate mentions of a window, and the links between them.

    Args:
        found: the outputs of `select_spans` for one window.
        window: gives the characters of the tokens.
        schema: names of the labels.
    """
    firsts, lasts = found["firsts"], found["lasts"]
    kept = np.flatnonzero(found["scores"] > LOWEST_LOGIT)
    kept = kept[(window.starts[firsts[kept]] >= 0) & (window.starts[lasts[kept]] >= 0)]
    # A token of a line break alone may have no characters.
    kept = kept[window.starts[firsts[kept]] < window.ends[lasts[kept]]]
    firsts, lasts, links = firsts[kept], lasts[kept], found["links"][np.ix_(kept, kept)]
    labels = [schema.labels[label] for label in found["labels"][kept]]
    spans = list(zip(window.starts[firsts].tolist(), window.ends[lasts].tolist(), strict=True))
    # Bytes as tokens: several spans of tokens may be one of characters. The highest score counts.
    mentions: dict[Mention, float] = {}
    for label, span, score in zip(labels, spans, found["scores"][kept], strict=True):
        mention = (*label, span)
        mentions[mention] = max(sigmoid(score), mentions.get(mention, 0.0))
    linked: dict[Link, float] = {}
    kinds = np.array([kind for kind, _ in labels])
    # A pair is stored once, in the order of `link_cells`. A span with two roles of one event is
    # linked with itself.
    places = firsts * len(window) + lasts
    ordered = (places[:, None] <= places) & (kinds[:, None] == kinds)
    for one, two in np.argwhere(ordered & (links > LOWEST_LOGIT)):
        first, second = sorted((spans[one], spans[two]))
        link = labels[one][0], first, second
        linked[link] = max(sigmoid(links[one, two]), linked.get(link, 0.0))
    return mentions, linked


def sigmoid(score: float) -> float:
    """Return the probability of a score."""
    return 1 / (1 + math.exp(-float(score)))


def decode_tags(scores: dict[str, np.ndarray], window: Window, schema: Schema) -> Scored:
    """Return the mentions in the best sequence of tags of a window, and no links."""
    tags = viterbi(scores["emissions"][: len(window)], scores["transitions"])
    return tagged_mentions(tags, window, schema), {}


def tagged_mentions(tags: np.ndarray, window: Window, schema: Schema) -> dict[Mention, float]:
    """Return the spans of one sequence of tags, all with probability 1."""
    mentions = {}
    for label, (first, last) in spans_of_tags(tags):
        span = int(window.starts[first]), int(window.ends[last])
        # Special tokens, and some line breaks, cover no characters.
        if min(span[0], window.starts[last]) >= 0 and span[0] < span[1]:
            kind, role = schema.labels[label]
            mentions[kind, role, span] = 1.0
    return mentions


def compose_links(mentions: dict[Mention, float]) -> dict[Link, float]:
    """Return links that group the mentions of a tagger into events.

    Each trigger makes an event. Each argument joins the nearest trigger of its type, the earlier
    one of two equally near. The arguments of a type without a trigger form one event.
    """
    links, groups = {}, defaultdict(list)
    for kind, role, span in mentions:
        triggers = sorted(s for k, r, s in mentions if k == kind and r is None)
        nearest = min(triggers, key=lambda t: gap_between(span, t), default=None)
        groups[kind, span if role is None else nearest].append(span)
    for (kind, _), spans in groups.items():
        for one, two in itertools.combinations_with_replacement(sorted(spans), 2):
            links[kind, one, two] = 1.0
    return links


def keep_events(graphs: dict[Id, Graph], threshold: float) -> dict[Id, list[Event]]:
    """Return record id -> the events made of what scores above the threshold."""
    return {name: events_at(graph, threshold) for name, graph in graphs.items()}

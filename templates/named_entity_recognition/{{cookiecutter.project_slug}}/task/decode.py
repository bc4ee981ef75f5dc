"""From the scores of a model back to entities of character spans, and to the records of a file."""

import bisect
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.data.records import Id, Span
from core.data.tokens import Window
from core.layers.crf import viterbi
from core.layers.pointer_search import best_spans
from core.prediction.predictor import Predictor, mean_outputs
from core.prediction.candidates import BestCandidates
from task.data import Entity, EntityGenerator, Example

# Record id -> entities with their scores from 0 to 1, surest first.
Candidates = dict[Id, list[tuple[Entity, float]]]
# Entity type -> what a score must be above.
Thresholds = Mapping[str, float]

# Candidates below e^-4 / (1 + e^-4) = 0.018 are dropped before a threshold is tuned.
LOWEST_SCORE = -4.0
# The best of a window, of all types. A model in its first steps accepts everything.
MOST_SPANS = 96


def predict_entities(
    predictor: Predictor, generator: EntityGenerator, flat: bool, progress: str = ""
) -> Candidates:
    """Return the candidates of every example: entities with probabilities, surest first.

    Windows of one text are merged: an entity found in several has its highest score.

    Args:
        predictor: of the inference models.
        generator: of the examples, `labels=False`.
        flat: of candidates that overlap the surest alone is kept, as always in CoNLL files.
        progress: title of the progress bar; empty: dev is scored, by the surest of all.
    """
    decode_window = decode_tags if generator.tagger == "crf" else decode_spans

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[dict]:
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        windows = [generator.windows[position] for position in positions]
        pairs = zip(rows, windows, strict=True)
        return [decode_window(row, window, generator.types) for row, window in pairs]

    found = BestCandidates(generator, whole=bool(progress))
    for position, scored in predictor.decode(generator, decode, progress):
        example = generator.examples[generator.example_of[position]]
        for entity, score in scored.items():
            if example.tokens:
                entity = Entity(whole_tokens(entity.span, example.tokens), entity.type)
            found.add(example.id, {entity: score})
    merged = found.kept()
    return {
        example.id: rank(merged[example.id], flat or example.tokens is not None)
        for example in generator.examples
    }


def rank(scored: dict[Entity, float], flat: bool) -> list[tuple[Entity, float]]:
    """Return entities, surest first, and of equally sure ones the longest; `flat`: see above."""

    def order(pair: tuple[Entity, float]) -> tuple:
        (start, end), score = pair[0].span, pair[1]
        return -score, start - end, pair[0]

    kept: list[tuple[Entity, float]] = []
    for entity, score in sorted(scored.items(), key=order):
        if not flat or not any(is_touched(entity.span, other.span) for other, _ in kept):
            kept.append((entity, score))
    return kept


def is_touched(one: Span, two: Span) -> bool:
    """Tell whether two spans share a character."""
    return one[0] < two[1] and two[0] < one[1]


def whole_tokens(span: Span, tokens: Sequence[Span]) -> Span:
    """Return a span from the first to the last token of a CoNLL file that it touches."""
    first = bisect.bisect_right(tokens, span[0], key=operator.itemgetter(1))
    last = bisect.bisect_left(tokens, span[1], key=operator.itemgetter(0)) - 1
    return tokens[first][0], tokens[last][1]


def make_selector(tagger: str) -> Callable[[Sequence[dict]], dict]:
    """Return what a predictor makes of the outputs of its models, in the graph."""
    return mean_outputs if tagger == "crf" else select_spans


def select_spans(outputs: Sequence[dict]) -> dict[str, tf.Tensor]:
    """Return the best spans of each window: all scores are too many to copy.

    Args:
        outputs: of the inference model of each run.

    Returns:
        `scores`, `types`, `firsts` and `lasts` (tokens) `[batch, spans]`; of equally sure spans the
        first counts as the better.
    """
    mask = outputs[0]["mask"]
    scores, cells = best_spans([own["span"] for own in outputs], mask, MOST_SPANS)
    flat, length = (-1, tf.size(scores[0])), tf.shape(mask)[1]
    scores, best = tf.math.top_k(tf.reshape(scores, flat), tf.minimum(MOST_SPANS, flat[1]))
    cells = tf.gather(tf.reshape(cells, flat), best, batch_dims=1)
    places = {"firsts": cells // length % length, "lasts": cells % length}
    return {"scores": scores, "types": cells // length**2, **places}


def decode_spans(
    found: dict[str, np.ndarray], window: Window, types: Sequence[str]
) -> dict[Entity, float]:
    """Return the entities of a window that may hold, with their probabilities.

    Args:
        found: what `select_spans` returns, of one window.
        window: gives the characters of the tokens.
        types: names of the heads.
    """
    entities: dict[Entity, float] = {}
    likely = found["scores"] > LOWEST_SCORE
    rows = (found[name][likely].tolist() for name in ("scores", "types", "firsts", "lasts"))
    for score, kind, first, last in zip(*rows, strict=True):
        entity = entity_at(window, first, last, types[kind])
        if entity:
            # Tokens of one character, as bytes are, can make the same entity twice.
            probability = 1 / (1 + math.exp(-score))
            entities[entity] = max(probability, entities.get(entity, 0.0))
    return entities


def entity_at(window: Window, first: int, last: int, kind: str) -> Entity | None:
    """Return what stands from one token to another; None: a special token, without characters."""
    start, end = int(window.starts[first]), int(window.ends[last])
    return Entity((start, end), kind) if min(start, end) >= 0 and start < end else None


def decode_tags(
    scores: dict[str, np.ndarray], window: Window, types: Sequence[str]
) -> dict[Entity, float]:
    """Return the entities of a window that the best sequence of tags holds."""
    tags = viterbi(scores["emissions"][: len(window)], scores["transitions"])
    return tagged_entities(tags, window, types)


def tagged_entities(tags: np.ndarray, window: Window, types: Sequence[str]) -> dict[Entity, float]:
    """Return the entities of one sequence of tags; a tagger is sure of each."""
    entities = {}
    for first in np.flatnonzero(tags % 2 == 1).tolist():
        last = first
        while last + 1 < len(tags) and tags[last + 1] == tags[first] + 1:
            last += 1
        if entity := entity_at(window, first, last, types[(tags[first] - 1) // 2]):
            entities[entity] = 1.0
    return entities


def keep_entities(candidates: Candidates, thresholds: Thresholds) -> Candidates:
    """Return the candidates that are surer than the threshold of their type."""
    return {
        name: [(entity, score) for entity, score in scored if score > thresholds[entity.type]]
        for name, scored in candidates.items()
    }


def prediction_records(examples: Sequence[Example], predictions: Candidates) -> list[dict]:
    """Return the records of the predictions file, with texts and scores."""
    return [
        {
            "id": example.id,
            "text": example.text,
            "entities": [
                {
                    "type": entity.type,
                    "span": list(entity.span),
                    "text": example.text[slice(*entity.span)],
                    "score": round(float(score), 4),
                }
                for entity, score in sorted(predictions[example.id])
            ],
        }
        for example in examples
    ]


def read_prediction(place: str, record: dict) -> dict[Entity, float | None]:
    """Return the entities of a record of a predictions file, with their scores.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    try:
        return {
            Entity(tuple(item["span"]), item["type"]): item.get("score")
            for item in record["entities"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def texts_of(entities: Iterable[Entity], text: str) -> list[str]:
    """Return some entities in words."""
    return [f"{text[slice(*entity.span)]} ({entity.type})" for entity in entities]

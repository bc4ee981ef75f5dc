"""From the scores of a model back to triples of character spans."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.data.records import Id
from core.data.tokens import Window
from core.model.pointers import best_spans, pick, score_pairs
from core.train.prediction import Predictor, Surest
from task.data import Example, Triple, TripleGenerator

# Record id -> triples with their scores, surest first.
Candidates = dict[Id, list[tuple[Triple, float]]]

# Candidates below e^-4 / (1 + e^-4) = 0.018 are dropped before a threshold is tuned.
LOWEST_SCORE = -4.0
# The best of a window are enough: of subjects, of objects (for each predicate, where each has its
# own), and of triples. A model in its first steps accepts everything.
MOST_SPANS = 64
MOST_TRIPLES = 256


def select_triples(outputs: Sequence[dict]) -> dict[str, tf.Tensor]:
    """Return the best triples of each window, in the graph: all its scores are too many to copy.

    A triple is as sure as the weakest of its four cells: both spans and both links. Of equally
    sure ones the first counts as the better.

    Args:
        outputs: of the inference model of each run.

    Returns:
        `scores` `[batch, triples]`, the highest first, `predicates`, and `places`
        `[batch, triples, 4]`: the first and the last of the subject, then of the object.
    """
    entity, head, tail = ([own[name] for own in outputs] for name in ("entity", "head", "tail"))
    mask, predicates = outputs[0]["mask"], max(part.shape[1] for part in head[0])
    scores, cells = best_spans(entity, mask, MOST_SPANS)
    length, spans = tf.shape(mask)[1], tf.shape(scores)[2]
    first, last = cells // length % length, cells % length
    every = tf.range(predicates)[:, None]
    heads = score_pairs(head, every, first[:, 0::2], first[:, 1::2])
    tails = score_pairs(tail, every, last[:, 0::2], last[:, 1::2])
    entities = tf.minimum(scores[:, 0::2, :, None], scores[:, 1::2, None, :])
    weakest = tf.minimum(tf.minimum(heads, tails), entities)

    size = predicates * spans * spans
    scores, cells = tf.math.top_k(tf.reshape(weakest, (-1, size)), tf.minimum(MOST_TRIPLES, size))
    predicate, ranks = cells // spans**2, (cells // spans % spans, cells % spans)
    places = [
        pick(ends[:, role::2], predicate, ranks[role]) for role in (0, 1) for ends in (first, last)
    ]
    return {"scores": scores, "predicates": predicate, "places": tf.stack(places, axis=-1)}


def decode_window(
    found: dict[str, np.ndarray], window: Window, predicates: Sequence[str]
) -> dict[Triple, float]:
    """Return the candidate triples of a window, each with its weakest score.

    Args:
        found: `scores`, `predicates` and `places` of one window, as `select_triples` returns them.
        window: gives the characters of the tokens.
        predicates: names of the heads.
    """
    triples: dict[Triple, float] = {}
    likely = found["scores"] > LOWEST_SCORE
    rows = (found[name][likely].tolist() for name in ("scores", "predicates", "places"))
    for score, predicate, (first, last, other_first, other_last) in zip(*rows, strict=True):
        subject = int(window.starts[first]), int(window.ends[last])
        object_ = int(window.starts[other_first]), int(window.ends[other_last])
        if min(*subject, *object_) >= 0:  # special tokens stand for no characters
            triple = Triple(subject, predicates[predicate], object_)
            # Several byte-level tokens of one character: two spans of tokens, one triple.
            triples[triple] = max(score, triples.get(triple, score))
    return triples


def predict_triples(
    predictor: Predictor, generator: TripleGenerator, progress: str = ""
) -> Candidates:
    """Return the candidates of every example: triples with probabilities, surest first.

    Windows of one text are merged: a triple found in several has its highest score.

    Args:
        predictor: of the inference model.
        generator: of the examples, `labels=False`.
        progress: title of the progress bar; empty: dev is scored, by the surest of all.
    """

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[dict]:
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        pairs = zip(rows, (generator.windows[position] for position in positions), strict=True)
        return [decode_window(*pair, generator.predicates) for pair in pairs]

    found = Surest(generator, whole=bool(progress))
    for position, candidates in predictor.decode(generator, decode, progress):
        found.add(generator.examples[generator.example_of[position]].id, candidates)
    return {
        name: sorted(
            ((triple, 1 / (1 + np.exp(-score))) for triple, score in merged.items()),
            key=lambda candidate: (-candidate[1], candidate[0]),
        )
        for name, merged in found.kept().items()
    }


def above(candidates: Candidates, threshold: float) -> Candidates:
    """Return the candidates that are surer than the threshold."""
    return {
        name: [(triple, score) for triple, score in scored if score > threshold]
        for name, scored in candidates.items()
    }


def prediction_records(examples: Sequence[Example], predictions: Candidates) -> list[dict]:
    """Return the records of the predictions file: the input's format, with texts and scores."""
    return [
        {
            "id": example.id,
            "text": example.text,
            "triples": [
                {
                    "subject": list(triple.subject),
                    "predicate": triple.predicate,
                    "object": list(triple.object),
                    "subject_text": example.text[slice(*triple.subject)],
                    "object_text": example.text[slice(*triple.object)],
                    "score": round(float(score), 4),
                }
                for triple, score in predictions[example.id]
            ],
        }
        for example in examples
    ]


def read_prediction(place: str, record: dict) -> dict[Triple, float]:
    """Return the triples of a record of a predictions file, with their scores.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    try:
        return {
            Triple(tuple(t["subject"]), t["predicate"], tuple(t["object"])): t.get("score", 1)
            for t in record["triples"]
        }
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error

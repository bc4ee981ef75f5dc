"""From the grids of scores back to triples of character spans."""

import heapq
from collections.abc import Sequence

import numpy as np

from core.base.errors import InputError
from core.data.records import Id
from core.data.tokens import Window
from core.train.prediction import Predictor
from task.data import Example, Triple, TripleGenerator

# Record id -> triples with their scores, surest first.
Candidates = dict[Id, list[tuple[Triple, float]]]

# Candidates below e^-4 / (1 + e^-4) = 0.018 never pass a tuned threshold.
LOWEST_SCORE = -4.0
# A model in its first steps accepts everything: the best of it are enough to see that.
MOST_SPANS = 64
MOST_TRIPLES = 256


def decode_window(
    scores: dict[str, np.ndarray], window: Window, predicates: Sequence[str], entity_heads: str
) -> dict[Triple, float]:
    """Return the candidate triples of a window, each with its weakest score.

    A triple is as sure as the weakest of its four cells: both spans and both links.

    Args:
        scores: `entity`, `head` and `tail` `[heads, length, length]` of one window.
        window: gives the characters of the tokens.
        predicates: names of the heads.
        entity_heads: `shared` or `per_predicate`.
    """
    triples: dict[Triple, float] = {}
    real = window.starts >= 0
    groups = [list(range(len(predicates)))]
    if entity_heads == "per_predicate":
        groups = [[predicate] for predicate in groups[0]]
    for group, first in zip(groups, range(0, 2 * len(groups), 2), strict=True):
        subjects, subject_scores = best_spans(scores["entity"][first], real)
        objects, object_scores = best_spans(scores["entity"][first + 1], real)
        if not len(subjects) or not len(objects):
            continue
        head = scores["head"][group][:, subjects[:, None, 0], objects[None, :, 0]]
        tail = scores["tail"][group][:, subjects[:, None, 1], objects[None, :, 1]]
        entity = np.minimum(subject_scores[:, None], object_scores[None, :])
        weakest = np.minimum(np.minimum(head, tail), entity)
        lowest = LOWEST_SCORE
        if weakest.size > MOST_TRIPLES:
            lowest = max(lowest, np.partition(weakest, -MOST_TRIPLES, axis=None)[-MOST_TRIPLES])
        for predicate, subject, object_ in np.argwhere(weakest > lowest):
            triple = Triple(
                character_span(window, subjects[subject]),
                predicates[group[predicate]],
                character_span(window, objects[object_]),
            )
            # Tokens of one character, as bytes are, can make the same triple twice.
            score = float(weakest[predicate, subject, object_])
            triples[triple] = max(score, triples.get(triple, score))
    return dict(heapq.nlargest(MOST_TRIPLES, triples.items(), key=lambda item: item[1]))


def best_spans(scores: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the spans `[n, 2]` of one entity head that may hold, and their scores `[n]`."""
    length = len(real)
    spans = np.argwhere(scores[:length, :length] > LOWEST_SCORE)
    spans = spans[real[spans].all(axis=1)]
    values = scores[spans[:, 0], spans[:, 1]]
    best = np.argsort(-values, kind="stable")[:MOST_SPANS]
    return spans[best], values[best]


def character_span(window: Window, span: np.ndarray) -> tuple[int, int]:
    """Return the characters of a span of tokens."""
    return int(window.starts[span[0]]), int(window.ends[span[1]])


def predict_triples(
    predictor: Predictor, generator: TripleGenerator, progress: str = ""
) -> Candidates:
    """Return the candidates of every example: triples with probabilities, surest first.

    Windows of one text are merged: a triple found in several has its highest score.

    Args:
        predictor: of the inference model.
        generator: of the examples, `labels=False`.
        progress: title of the progress bar; empty: none.
    """

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[dict]:
        return [
            decode_window(
                {name: output[row] for name, output in outputs.items()},
                generator.windows[position],
                generator.predicates,
                generator.entity_heads,
            )
            for row, position in enumerate(positions)
        ]

    found: dict[Id, dict[Triple, float]] = {example.id: {} for example in generator.examples}
    for position, candidates in predictor.decode(generator, decode, progress):
        merged = found[generator.examples[generator.example_of[position]].id]
        for triple, score in candidates.items():
            merged[triple] = max(score, merged.get(triple, score))
    return {
        name: sorted(
            ((triple, 1 / (1 + np.exp(-score))) for triple, score in merged.items()),
            key=lambda candidate: (-candidate[1], candidate[0]),
        )
        for name, merged in found.items()
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

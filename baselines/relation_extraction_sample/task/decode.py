"""From the scores of a model back to triples of character spans."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import tensorflow as tf

from core.data.records import Id
from core.data.tokens import Window
from core.layers.pointer_search import best_spans, pick, score_pairs, top_cells
from core.prediction.candidates import BestCandidates, decode_windows
from core.prediction.predictor import Predictor
from task.data import TripleGenerator
from task.records import Triple

# Record id -> [(triple, its probability)], best first.
Candidates = dict[Id, list[tuple[Triple, float]]]

# Candidates below sigmoid(-4) = 0.018 are always dropped.
LOWEST_LOGIT = -4.0
# A window keeps at most this many subjects, objects (of each predicate, if entity_heads =
# "per_predicate") and triples. An untrained model scores nearly all pairs above LOWEST_LOGIT.
MOST_SPANS = 64
MOST_TRIPLES = 256


def select_triples(outputs: Sequence[dict]) -> dict[str, tf.Tensor]:
    """Return the best triples of each window, found on the device, so that only these are copied.

    The score of a triple is the lowest of its four scores: of both spans and of both links. Where
    two are equal, the first predicate comes first, then the better subject.

    Worked example: in "Ada founded Zenco", the subject from token 1 to 1 scores 3, the object from
    3 to 3 scores 4. Their first tokens, linked by a predicate, score 2, their last ones 5: so the
    triple scores min(3, 4, 2, 5) = 2, and its places are [1, 1, 3, 3].

    Args:
        outputs: of each run's inference model.

    Returns:
        `scores` `[batch, triples]`, the highest first, `predicates` of the same shape, and
        `places` `[batch, triples, 4]`: the first and the last token of the subject, then of the
        object.
    """
    entity = [run["entity"] for run in outputs]
    first_links = [run["head"] for run in outputs]
    last_links = [run["tail"] for run in outputs]
    predicates = max(part.shape[1] for part in first_links[0])  # shared keys have only 1
    # Scores, first, last token `[batch, heads, spans]`: even heads are subjects, odd ones objects.
    spans = best_spans(entity, outputs[0]["mask"], MOST_SPANS)
    subject_scores, subject_first, subject_last = (found[:, 0::2] for found in spans)
    object_scores, object_first, object_last = (found[:, 1::2] for found in spans)
    # Each subject with each object: `[batch, predicates, subjects, objects]`. Links need no mask:
    # the score of a span in the padding is -1e9 already.
    heads = tf.range(predicates)[:, None]  # `[predicates, 1]`, as spans `[batch, heads, spans]`
    first_scores = score_pairs(first_links, heads, subject_first, object_first)
    last_scores = score_pairs(last_links, heads, subject_last, object_last)
    # With shared entity heads `[batch, 1, ...]`, the same for all predicates.
    entities = tf.minimum(subject_scores[..., :, None], object_scores[..., None, :])
    weakest = tf.minimum(tf.minimum(first_scores, last_scores), entities)
    # `subject` and `object_` are ranks in the lists of spans; `pick` looks up their tokens.
    scores, (predicate, subject, object_) = top_cells(weakest, MOST_TRIPLES)
    places = [
        pick(subject_first, predicate, subject),
        pick(subject_last, predicate, subject),
        pick(object_first, predicate, object_),
        pick(object_last, predicate, object_),
    ]
    return {"scores": scores, "predicates": predicate, "places": tf.stack(places, axis=-1)}


def decode_window(
    found: dict[str, np.ndarray], window: Window, predicates: Sequence[str]
) -> dict[Triple, float]:
    """Return the candidate triples of a window, each with its score, a logit.

    Args:
        found: `scores`, `predicates` and `places` of one window, as `select_triples` returns them.
        window: gives the characters of the tokens.
        predicates: names of the heads.
    """
    triples: dict[Triple, float] = {}
    likely = found["scores"] > LOWEST_LOGIT
    columns = (found[name][likely].tolist() for name in ("scores", "predicates", "places"))
    for score, number, (first, last, object_first, object_last) in zip(*columns, strict=True):
        subject = int(window.starts[first]), int(window.ends[last])
        object_ = int(window.starts[object_first]), int(window.ends[object_last])
        # Special tokens, and some line breaks, cover no characters.
        if 0 <= subject[0] < subject[1] and 0 <= object_[0] < object_[1]:
            triple = Triple(subject, predicates[number], object_)
            # Two spans of byte-level tokens may cover the same characters: the higher score counts.
            triples[triple] = max(score, triples.get(triple, score))
    return triples


def predict_triples(
    predictor: Predictor, generator: TripleGenerator, keep_all: bool = False, progress: str = ""
) -> Candidates:
    """Return the candidates of every example: triples with probabilities, best first.

    A triple found in several windows of a text has its highest score. Without `keep_all`, only the
    best of all records are kept: 64 times the windows, at least 10,000. `progress`: of the bar.
    """
    best = BestCandidates(generator, keep_all)
    decode = partial(decode_window, predicates=generator.predicates)
    for example, triples in decode_windows(predictor, generator, decode, progress):
        best.add(example.id, triples)
    candidates: Candidates = {}
    for record_id, scored in best.kept().items():
        probable = [(triple, 1 / (1 + np.exp(-score))) for triple, score in scored.items()]
        candidates[record_id] = sorted(probable, key=lambda pair: (-pair[1], pair[0]))
    return candidates


def above(candidates: Candidates, threshold: float) -> Candidates:
    """Return the candidates that are above the threshold."""
    return {
        record_id: [pair for pair in scored if pair[1] > threshold]
        for record_id, scored in candidates.items()
    }

"""From the scores of a model back to entities of character spans."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from core.data.records import Id, Span
from core.data.tokens import Window
from core.layers.crf import spans_of_tags, viterbi
from core.layers.pointer_search import best_spans, pick, top_cells
from core.prediction.candidates import BestCandidates, decode_windows
from core.prediction.predictor import Predictor, mean_outputs
from formats.conll import whole_tokens
from task.data import EntityGenerator
from task.records import Entity

# Entities with their scores from 0 to 1.
Scored = list[tuple[Entity, float]]
# Entity type -> the threshold that its scores must be above.
Thresholds = Mapping[str, float]

# Candidates below e^-4 / (1 + e^-4) = 0.018 are dropped before a threshold is tuned.
LOWEST_LOGIT = -4.0
# Each window keeps at most so many spans of all types together. In the first steps of a training
# nearly all spans score above LOWEST_LOGIT.
MOST_SPANS = 96


@dataclass(frozen=True)
class Found:
    """The candidates of one record, best first; `flat`: of those that overlap only one is kept."""

    ranked: Scored
    flat: bool

    def above(self, thresholds: Thresholds) -> Scored:
        """Return the candidates above the threshold of their type, then without overlaps."""
        likely = [pair for pair in self.ranked if pair[1] > thresholds[pair[0].type]]
        return drop_overlaps(likely) if self.flat else likely


# Record id -> its candidates.
Candidates = dict[Id, Found]


def predict_entities(
    predictor: Predictor,
    generator: EntityGenerator,
    flat: bool,
    keep_all: bool = False,
    progress: str = "",
) -> Candidates:
    """Return the candidates of every example: entities with probabilities, best first.

    Windows of one text are merged: an entity found in several has its highest score.

    Args:
        predictor: of the inference models.
        generator: of the examples, `labels=False`.
        flat: of entities that overlap only the best is kept, as always in CoNLL files.
        keep_all: keep every candidate; False: `BestCandidates` limits their number, as dev needs
            before there is a threshold.
        progress: title of the progress bar; empty: none.
    """
    decode_one = decode_tags if generator.tagger == "crf" else decode_spans

    def decode(found: dict[str, np.ndarray], window: Window) -> dict[Entity, float]:
        return decode_one(found, window, generator.types)

    best = BestCandidates(generator, keep_all)
    for example, scored in decode_windows(predictor, generator, decode, progress):
        best.add(example.id, snap_to_tokens(scored, example.tokens) if example.tokens else scored)
    merged = best.kept()
    flat |= generator.tagger == "crf"  # two windows may disagree
    return {e.id: rank(merged[e.id], flat or e.tokens is not None) for e in generator.examples}


def rank(scored: dict[Entity, float], flat: bool) -> Found:
    """Return candidates, the best first; of those with equal scores the longest first."""

    def order(pair: tuple[Entity, float]) -> tuple:
        (start, end), score = pair[0].span, pair[1]
        return -score, start - end, pair[0]

    return Found(sorted(scored.items(), key=order), flat)


def drop_overlaps(ranked: Scored) -> Scored:
    """Return entities, best first, without those that overlap a better one that is kept."""
    kept: Scored = []
    for entity, score in ranked:
        if not any(spans_overlap(entity.span, other.span) for other, _ in kept):
            kept.append((entity, score))
    return kept


def spans_overlap(one: Span, two: Span) -> bool:
    """Tell whether two spans share a character."""
    return one[0] < two[1] and two[0] < one[1]


def snap_to_tokens(scored: dict[Entity, float], tokens: Sequence[Span]) -> dict[Entity, float]:
    """Return entities extended to whole tokens of a CoNLL file; of equal ones the best score."""
    snapped: dict[Entity, float] = {}
    for entity, score in scored.items():
        whole = Entity(whole_tokens(entity.span, tokens), entity.type)
        snapped[whole] = max(score, snapped.get(whole, score))
    return snapped


def make_selector(tagger: str) -> Callable[[Sequence[dict]], dict]:
    """Return the part of decoding that runs on the device, for `Predictor`."""
    return mean_outputs if tagger == "crf" else select_spans


def select_spans(outputs: Sequence[dict]) -> dict[str, tf.Tensor]:
    """Return the best spans of each window: all scores are too many to copy.

    Args:
        outputs: of the inference model of each run.

    Returns:
        `scores`, `types`, `firsts` and `lasts` (tokens) `[batch, spans]`, the highest scores
        first. The first of several spans with equal scores wins.
    """
    spans = [run["span"] for run in outputs]
    # [batch, types, spans of a type]; of these the best of all types are kept.
    scores, firsts, lasts = best_spans(spans, outputs[0]["mask"], MOST_SPANS)
    scores, (types, ranks) = top_cells(scores, MOST_SPANS)
    firsts, lasts = pick(firsts, types, ranks), pick(lasts, types, ranks)
    return {"scores": scores, "types": types, "firsts": firsts, "lasts": lasts}


def decode_spans(
    found: dict[str, np.ndarray], window: Window, types: Sequence[str]
) -> dict[Entity, float]:
    """Return the candidate entities of a window, with their probabilities.

    Args:
        found: the outputs of `select_spans` for one window.
        window: gives the characters of the tokens.
        types: names of the heads.
    """
    entities: dict[Entity, float] = {}
    likely = found["scores"] > LOWEST_LOGIT
    rows = (found[name][likely].tolist() for name in ("scores", "types", "firsts", "lasts"))
    for score, kind, first, last in zip(*rows, strict=True):
        entity = entity_at(window, first, last, types[kind])
        if entity:
            # Several byte-level tokens of one character: two spans of tokens, one entity.
            probability = 1 / (1 + math.exp(-score))
            entities[entity] = max(probability, entities.get(entity, 0.0))
    return entities


def entity_at(window: Window, first: int, last: int, kind: str) -> Entity | None:
    """Return the entity from one token to another; None: a special token has no characters."""
    start, end = int(window.starts[first]), int(window.ends[last])
    return Entity((start, end), kind) if min(start, end) >= 0 and start < end else None


def decode_tags(
    scores: dict[str, np.ndarray], window: Window, types: Sequence[str]
) -> dict[Entity, float]:
    """Return the entities in the best sequence of tags of a window."""
    tags = viterbi(scores["emissions"][: len(window)], scores["transitions"])
    return tagged_entities(tags, window, types)


def tagged_entities(tags: np.ndarray, window: Window, types: Sequence[str]) -> dict[Entity, float]:
    """Return the entities of one sequence of tags, all with probability 1."""
    found = (entity_at(window, *span, types[kind]) for kind, span in spans_of_tags(tags))
    return {entity: 1.0 for entity in found if entity}


def keep_entities(candidates: Candidates, thresholds: Thresholds) -> dict[Id, Scored]:
    """Return the entities of each record that are predicted."""
    return {record: found.above(thresholds) for record, found in candidates.items()}

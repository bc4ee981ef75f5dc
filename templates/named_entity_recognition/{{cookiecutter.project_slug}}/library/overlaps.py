"""Scores of partial overlap, as in MUC-5 and nervaluate.

Each prediction is matched with one gold entity that it overlaps and that no other prediction took.
Those that are wholly right come first, or an entity around another one could take its match; then
the others in their order. `exact` wants the same span, `partial` counts another overlap as a half,
`type` wants the same type.
Source: Chinchor and Sundheim 1993, https://aclanthology.org/M93-1007.
"""

import functools
from collections.abc import Iterable

import numpy as np

from task.decode import spans_overlap
from task.records import Entity

OVERLAPS = ("exact", "partial", "type")


def match_overlaps(gold: Iterable[Entity], predicted: Iterable[Entity], how: str) -> np.ndarray:
    """Return `(credit, predicted, gold)` of one record; `how` is one of `OVERLAPS`."""
    right, found = sorted(set(gold)), sorted(set(predicted))
    free, credit = list(right), 0.0

    def fitness(entity: Entity, one: Entity) -> float:
        if how == "type" and one.type == entity.type:
            (start, end), (other_start, other_end) = one.span, entity.span
            return 1 / (1 + abs(start - other_start) + abs(end - other_end))
        return float(how != "type" and one.span == entity.span)

    rest: list[Entity] = []
    for whole, entities in ((True, found), (False, rest)):
        for entity in entities:
            own = [one for one in free if spans_overlap(one.span, entity.span)]
            # The first of several equally good ones.
            best = max(own, key=functools.partial(fitness, entity), default=None)
            if whole and (best is None or fitness(entity, best) < 1):
                rest.append(entity)
            elif best is not None:
                credit += 1.0 if fitness(entity, best) else 0.5 * (how == "partial")
                free.remove(best)
    return np.array([credit, len(found), len(right)])

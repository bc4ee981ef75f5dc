"""Records whose gold is not certain: items with a probability, texts with a weight.

A triple, an entity, an event or an argument may have a `"probability"`. That of an event is the one
of its trigger, and of its arguments without their own. An example's gold is its likely
items; its `levels` are, for each probability, the items that are at least that probable.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core.base.errors import InputError
from core.data.records import ITEMS, PROBABILITY
from extras.distillation.soft_texts import read_weighted_texts

LIKELY = 0.5  # what is at least so probable is gold where something is scored
NESTED = "arguments"

# A probability, and what is at least so probable; the highest comes first.
Levels = tuple[tuple[float, tuple], ...]


def read_soft(record: dict, line: int, read_one: Callable[[dict, int], Any]) -> Any:
    """Return the example of a record with probabilities of its items, or weights of its texts.

    Raises:
        InputError: a probability or a weight is wrong, or the task has no place for it.
    """
    if isinstance(record.get("targets"), dict):
        texts, shares = read_weighted_texts(record["targets"])
        example = read_one({**record, "targets": texts}, line)
        return replace(example, shares=shares) if hasattr(example, "shares") else example
    whole = read_one(record, line)
    if not hasattr(whole, "levels"):
        raise InputError(
            f'"{PROBABILITY}" of an item is learned by a model that scores spans, and not by one '
            "that writes them: leave it out, or run label.py with --hard."
        )
    items = [item for name in ITEMS for item in record.get(name, ())]
    found = sorted({share for item in items for share in probabilities(item)}, reverse=True)
    likely = read_one(likely_part(record, LIKELY, whole_events=True), line)
    if found == [1]:
        return likely
    name = name_of_items(whole)
    parts = ((level, read_one(likely_part(record, level), line)) for level in found if level)
    return replace(likely, levels=tuple((level, getattr(part, name)) for level, part in parts))


def first_soft(examples: Sequence[Any]) -> int | None:
    """Return the position of the first example with probabilities; None: there is none."""
    found = (place for place, one in enumerate(examples) if getattr(one, "levels", ()))
    return next(found, None)


def name_of_items(example: Any) -> str:
    """Return the name of the field of an example that holds its items."""
    return next(name for name in ITEMS if hasattr(example, name))


def probabilities(item: Any, default: float = 1.0) -> list[float]:
    """Return the probability of an item, and of each of its arguments.

    Raises:
        InputError: one is not a number from 0 to 1.
    """
    if not isinstance(item, dict):  # as doccano writes a label
        return [default]
    own = item.get(PROBABILITY, default)
    if type(own) not in (int, float) or not 0 <= own <= 1:
        raise InputError(
            f'"{PROBABILITY}" must be a number from 0 to 1, not {json.dumps(own)}: an item without '
            "it has the probability 1."
        )
    nested = (probabilities(one, own) for one in item.get(NESTED, ()))
    return [float(own), *(share for shares in nested for share in shares)]


def likely_part(record: dict, level: float, whole_events: bool = False) -> dict:
    """Return a record with the items that are at least so probable.

    Args:
        record: with probabilities.
        level: the least probability.
        whole_events: an event that is less probable has no likely arguments either.
    """
    parts = {
        name: [
            part
            for item in record[name]
            if (part := likely_item(item, level, whole_events)) is not None
        ]
        for name in ITEMS
        if name in record
    }
    return {**record, **parts}


def likely_item(item: Any, level: float, whole_events: bool) -> Any:
    """Return what is at least so probable of an item; None: nothing."""
    own = probabilities(item)[0]
    if own < level and (whole_events or not isinstance(item, dict) or NESTED not in item):
        return None
    if not isinstance(item, dict) or NESTED not in item:
        return item
    trigger = item.get("trigger") if own >= level else None
    arguments = [one for one in item[NESTED] if probabilities(one, own)[0] >= level]
    return {**item, "trigger": trigger, NESTED: arguments} if trigger or arguments else None

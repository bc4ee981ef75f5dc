"""What teachers say of the entities of a file, for extras/distillation."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from core.data.records import Id
from formats.records import prediction_records
from task.decode import rank
from task.records import Example


def teacher_records(
    examples: Sequence[Example],
    parts: Sequence[dict[Id, Any]],
    mean_of: Callable[..., dict],
    floor: float,
    hard: bool,
) -> list[dict]:
    """Return the records of a predictions file with the entities above a floor.

    Args:
        examples: that were predicted.
        parts: of each teacher: record id -> what it finds.
        mean_of: returns the mean scores of items, the highest first, from those of each teacher.
        floor: a probability.
        hard: they become labels: entities overlap only where they did in training.
    """
    floors: dict[str, float] = defaultdict(lambda: floor)
    found = {}
    for example in examples:
        own = [part[example.id] for part in parts]
        ranked = rank(mean_of(one.ranked for one in own), own[0].flat and hard)
        found[example.id] = ranked.above(floors)
    return prediction_records(examples, found)

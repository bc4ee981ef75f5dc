"""What teachers say of the triples of a file, for extras/distillation."""

from collections.abc import Callable, Sequence
from typing import Any

from core.data.records import Id
from task.decode import Candidates, above
from task.records import Example, prediction_records


def teacher_records(
    examples: Sequence[Example],
    parts: Sequence[dict[Id, Any]],
    mean_of: Callable[..., dict],
    floor: float,
    hard: bool,
) -> list[dict]:
    """Return the records of a predictions file with the triples above a floor.

    Args:
        examples: that were predicted.
        parts: of each teacher: record id -> what it finds.
        mean_of: returns the mean scores of items, the highest first, from those of each teacher.
        floor: a probability.
        hard: makes no difference here.
    """
    means: Candidates = {
        one.id: [*mean_of(part[one.id] for part in parts).items()] for one in examples
    }
    return prediction_records(examples, above(means, floor))

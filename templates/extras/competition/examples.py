"""Examples with numbers, and labels that are paths: what the task's own become with this extra."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.data.records import collect
from extras.competition.lists import LISTWISE, collect_lists, read_relevance
from extras.competition.paths import consistent
from extras.competition.targets import collect_numbers, read_targets, scaled_targets
from task.records import Example, Labels, read_labelled


@dataclass(frozen=True)
class NumberExample(Example):
    """A record with numbers; `labels` holds their names, in the order of `numbers`.

    `choice` is the column of a candidate whose row is a question; empty: it was no column.
    """

    numbers: tuple[float, ...] = ()
    choice: str = ""


@dataclass(frozen=True)
class NumberTargets(Labels):
    """What the training file says of its numbers; `names` are theirs.

    Attributes:
        scaling: from `collect_numbers`.
    """

    scaling: dict

    are_numbers = True

    @property
    def are_lists(self) -> bool:
        """Whether the records of a group are learned together."""
        return self.scaling["loss"] == LISTWISE

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """Return what the loss compares with the logits, `[examples, logits]`."""
        return scaled_targets(examples, self.scaling)


@dataclass(frozen=True)
class PathLabels(Labels):
    """Labels that are paths: whoever has one has its parents too.

    Attributes:
        hierarchy: separates the parts of a path.
    """

    hierarchy: str

    def consistent(self, probabilities: np.ndarray) -> np.ndarray:
        """Return probabilities `[examples, labels]`, none above that of its parent."""
        return consistent(probabilities, self.names, self.hierarchy)


def read_numbers(record: dict, line: int, require: bool, settings: Any) -> NumberExample:
    """Check one record with targets, or without them unless it must have them."""
    rest = {name: value for name, value in record.items() if name not in ("label", "labels")}
    example = read_labelled(rest, line, False)
    if settings.competition.is_listwise:
        numbers = read_relevance(record, settings.competition, require)
    else:
        numbers = read_targets(record, settings, require)
    own = {"labels": tuple(numbers), "labelled": bool(numbers), "choice": record.get("choice", "")}
    return NumberExample(**{**vars(example), **own}, numbers=tuple(numbers.values()))


def collect_targets(examples: Sequence[Any], settings: Any) -> NumberTargets:
    """Return what the training examples say of their numbers; raises as `collect_numbers`."""
    of_numbers = functools.partial(collect_numbers, settings=settings)
    function = collect_lists if settings.competition.is_listwise else of_numbers
    return NumberTargets(**collect(function, examples))


def as_paths(labels: Labels, hierarchy: str) -> PathLabels:
    """Return labels as paths whose parts are separated by `hierarchy`."""
    return PathLabels(**vars(labels), hierarchy=hierarchy)


def restore_labels(own: dict, further: dict) -> Labels:
    """Return the labels of a run: the fields of `Labels`, and those of a subclass."""
    if scaling := further.get("scaling"):
        return NumberTargets(**own, scaling=scaling)
    return PathLabels(**own, hierarchy=further["hierarchy"])

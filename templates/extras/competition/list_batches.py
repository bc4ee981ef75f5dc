"""Batches of groups: all candidates of a group are in one row, so nothing can split them."""

from typing import Any

import numpy as np

from core.base.workers import is_chief
from core.batches import Batch, DataGenerator
from extras.competition.lists import (
    count_idle,
    describe_idle,
    draw_candidates,
    group_rows,
    target_shares,
    why_idle,
)
from task.data import ExampleGenerator


class ListGenerator(ExampleGenerator):
    """Batches of training whose examples are groups of records, padded to `[groups, candidates]`.

    `targets` `[groups, candidates, 2]` hold what the softmax over a group should be, times the
    weight of each record, and 1 for candidates that are no filler. Groups that teach nothing are
    left out. A batch has room for the largest group that its padded length may hold, so each length
    has one static shape.

    Args:
        plain: the records in the order of the file; its batch size is that of groups.
    """

    @classmethod
    def of(cls, examples: Any, *arguments: Any) -> "ListGenerator":
        """Return batches of the groups of other examples, such as those of dev."""
        return cls(ExampleGenerator.of(examples, *arguments))

    def __init__(self, plain: ExampleGenerator) -> None:
        self.plain, self.settings = plain, plain.settings
        self.examples, self.labels, self.arguments = plain.examples, plain.labels, plain.arguments
        self.relevance = np.array([example.numbers[0] for example in plain.examples])
        every = group_rows(plain.examples).values()
        self.groups = [rows for rows in every if not why_idle(self.relevance[rows])]
        lengths = [int(plain.lengths[rows].max()) for rows in self.groups]
        DataGenerator.__init__(
            self, lengths, plain.batch_size, self.settings.buckets, self.settings.seed
        )
        self.measure()

    def measure(self) -> None:
        """Give each padded length the size of the largest group that it may hold."""
        most = self.settings.competition.list_size or np.inf
        sizes = np.array([min(len(rows), most) for rows in self.groups], int)
        self.most = int(sizes.max(initial=0))
        self.rooms = {int(n): int(sizes[self.lengths <= n].max()) for n in self.boundaries}

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        # A position tells the epoch too, in which other candidates may be drawn.
        first = (epoch or 0) * self.size
        return [(positions + first, length) for positions, length in super().plan(epoch)]

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        room = self.rooms.get(length, self.most)
        rows = np.zeros((len(positions), room), int)
        targets = np.zeros((len(positions), room, 2), np.float32)
        for place, position in enumerate(positions.tolist()):
            own = np.array(self.candidates(position))
            rows[place] = np.resize(own, room)  # filler repeats them
            targets[place, : len(own), 0] = self.shares(own) * self.plain.weights[own]
            targets[place, : len(own), 1] = 1
        flat = self.plain.make_batch(rows.ravel(), length)
        batch = {n: a.reshape(*rows.shape, *a.shape[1:]) for n, a in flat.items() if n != "targets"}
        return {**batch, "targets": targets}

    def candidates(self, position: int) -> list[int]:
        """Return the records of a group that are learned in an epoch; a position holds both."""
        epoch, group = divmod(position, self.size)
        most, seed = self.settings.competition.list_size, (self.seed, epoch, group)
        return draw_candidates(self.groups[group], self.relevance, most, seed)

    def shares(self, rows: np.ndarray) -> np.ndarray:
        """Return the distribution `[candidates]` that some records of a group are to have."""
        return target_shares(self.relevance[rows], self.settings.competition.list_targets)

    def signature(self, rows: int) -> dict[str, Any]:
        specs = super().signature(rows)
        if len({*self.rooms.values()}) == 1:
            return specs
        import tensorflow as tf  # processes of extras/cache load it only when used

        for name, spec in specs.items():
            if len(spec.shape) > 1:
                specs[name] = tf.TensorSpec([rows, None, *spec.shape[2:]], spec.dtype)
        return specs


def join_groups(plain: Any) -> Any:
    """Return batches of groups, and say how many groups are left out.

    Batches that are groups already, as the one batch that check.py tries, stay as they are.
    """
    if isinstance(plain, ListGenerator) or not isinstance(plain, ExampleGenerator):
        return plain
    batches = ListGenerator(plain)
    sizes = [len(rows) for rows in batches.groups]
    if is_chief():
        print(f"lists: {len(sizes)} groups to learn from, of {min(sizes)} to {max(sizes)} records")
        if counts := count_idle(plain.examples):
            print(f"warning: groups that teach nothing are left out: {describe_idle(counts)}")
    return batches

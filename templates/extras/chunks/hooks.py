"""predict.py chunk by chunk: its flags, the records of its file, and what is written of them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.settings import RecordSettings
from core.base.workers import all_workers
from core.batches import DataGenerator
from extras.chunks.answers import Answers, predict_part
from extras.chunks.lengths import even_lengths
from extras.chunks.memory import of_chunk
from extras.chunks.plan import Plan, add_flags, make_plan
from extras.chunks.sources import open_source

# What this process predicts; none: another script than predict.py runs.
_plans: list[Plan] = []


def read_flags(parser: ArgumentParser) -> Namespace:
    """Return the arguments of predict.py, with those of this extra among them.

    Raises:
        InputError: `--part` or `--chunk` is not what it should be.
    """
    add_flags(parser)
    arguments = parser.parse_args()
    _plans[:] = [make_plan(arguments)]
    return arguments


def open_records(
    path: str | Path, fields: Collection[str], read_one: Callable[[dict, int], Any]
) -> Sequence | None:
    """Return the examples of the file to predict, read when they are asked for; None: a list."""
    if not _plans or Path(path) != _plans[0].file or not Path(path).is_file():
        return None
    return open_source(_plans[0], fields, read_one)


def open_batches(
    kind: type[DataGenerator], examples: Sequence, arguments: tuple
) -> DataGenerator | None:
    """Return the batches of a chunk, which are emptied with it; None: core's own."""
    if not of_chunk:
        return None
    made = kind(examples, *arguments)
    of_chunk[0].append(made)
    for settings in (own for own in arguments if isinstance(own, RecordSettings)):
        made.boundaries = even_lengths(settings, int(made.lengths.max()))
    return made


def predict_in_chunks(
    describe: Callable[[Sequence], Sequence[dict]], examples: Sequence
) -> Answers | None:
    """Return what is written of all examples; None: they are one chunk, and predicted at once.

    Args:
        describe: from some examples to the records of a predictions file, in their order.
        examples: of the file.

    Raises:
        EndedWell: this part is predicted, and others are not.
        InputError: another process predicts this part, or it can't be kept next to OUT.
    """
    plan = _plans[0]
    if all_workers().count > 1 or plan.out.exists() and not plan.out.is_file():
        if plan.part:
            what = (
                "several workers"
                if all_workers().count > 1
                else f"{plan.out}, which is not a file,"
            )
            raise InputError(f"--part is not for {what}: name a file, and leave the cluster.")
        return None
    if plan.part is None and len(examples) <= plan.chunk:
        return None
    return predict_part(plan, describe, examples)

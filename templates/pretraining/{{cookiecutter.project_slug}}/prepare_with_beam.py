"""Do what prepare.py does on many machines, as a pipeline of Apache Beam.

python prepare_with_beam.py [--KEY VALUE ...] [-- BEAM OPTIONS]

What follows `--` is for Beam; README.md says for which runners. Text and shards must
lie where all machines see them: a shared disk, or URLs such as gs://bucket/shards. The shards are
those of prepare.py, byte for byte, and the same command again goes on.
"""

import importlib.util
import re
import sys

from core.base.errors import InputError, command
from core.base.settings import read_settings
from corpus.preparation import (
    Plan,
    begin_preparation,
    describe,
    find_prepared,
    finish,
    prepare_block,
)
from corpus.shards import read_manifest
from task.settings import Settings


@command
def main() -> None:
    """Plan here, prepare the blocks there, write the manifests here."""
    flags, beam_flags = split_at("--", sys.argv[1:])
    settings = read_settings(Settings, flags)
    if importlib.util.find_spec("apache_beam") is None:
        raise InputError("Apache Beam is absent: pip install -r requirements-beam.txt.")
    plans = begin_preparation(settings)
    try:
        run_pipeline(plans, beam_flags)
    except Exception as error:  # a runner's own, or the worker's with the runner's words behind
        text = f"{type(error).__name__}: {error}"
        sentence = re.search(r"InputError: (.+?)(?: \[while running|\n|\Z)", text)
        if sentence is None:
            raise
        raise InputError(sentence[1]) from error
    for plan in plans:
        finish(plan, find_prepared(plan))
        print(describe(read_manifest(plan.recipe.folder)))


def split_at(word: str, words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after a given one."""
    place = words.index(word) if word in words else len(words)
    return words[:place], words[place + 1 :]


def run_pipeline(plans: list[Plan], beam_flags: list[str]) -> None:
    """Prepare all blocks.

    Args:
        plans: of the folders.
        beam_flags: options of Beam and its runner.
    """
    import apache_beam as beam

    try:
        pipeline = beam.Pipeline(argv=beam_flags)
    except ValueError as error:  # no such runner, or options that it refuses
        raise InputError(f"Apache Beam refuses {' '.join(beam_flags)}: {error}") from error
    jobs = [
        (plan.recipe, number, block) for plan in plans for number, block in enumerate(plan.blocks)
    ]
    # One chain for train and dev: Dask's runner runs only what the last step asks for. Workers find
    # a function by its module, so it may not be one of this script.
    with pipeline:
        (
            pipeline
            | beam.Create(jobs)
            # Otherwise a runner may keep all blocks on the one machine that listed them.
            | beam.Reshuffle()
            | beam.MapTuple(prepare_block)
        )


if __name__ == "__main__":
    main()

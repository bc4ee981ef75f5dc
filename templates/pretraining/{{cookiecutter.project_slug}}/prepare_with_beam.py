"""Do what prepare.py does on many machines, as a pipeline of Apache Beam.

python prepare_with_beam.py [--KEY VALUE ...] [-- BEAM OPTIONS]

What follows `--` is for Beam; README.md has it for Flink, Spark and Dataflow. Text and shards must
lie where all machines see them: a shared disk, or URLs such as gs://bucket/shards. The shards are
those of prepare.py, byte for byte, and the same command again goes on.
"""

import importlib.util
import re
import sys

from core.base.errors import InputError, command
from core.base.settings import read_settings
from corpus.preparation import Plan, begin_preparation, describe, finish, prepare_block
from corpus.shards import read_manifest
from task.settings import Settings


@command
def main() -> None:
    """Plan here, prepare the blocks and write the manifests there."""
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
        print(describe(read_manifest(plan.recipe.folder)))


def split_at(word: str, words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after a given one."""
    place = words.index(word) if word in words else len(words)
    return words[:place], words[place + 1 :]


def run_pipeline(plans: list[Plan], beam_flags: list[str]) -> None:
    """Prepare all blocks, and then finish each folder.

    Args:
        plans: of the folders.
        beam_flags: options of Beam and its runner.
    """
    import apache_beam as beam

    try:
        pipeline = beam.Pipeline(argv=beam_flags)
    except ValueError as error:  # no such runner, or options that it refuses
        raise InputError(f"Apache Beam refuses {' '.join(beam_flags)}: {error}") from error
    with pipeline:
        for plan in plans:
            folder, recipe = plan.recipe.folder, plan.recipe
            jobs = [(recipe, number, block) for number, block in enumerate(plan.blocks)]
            shards = (
                pipeline
                | f"blocks of {folder}" >> beam.Create(jobs)
                # Otherwise a runner may keep all blocks on the one machine that listed them.
                | f"share out {folder}" >> beam.Reshuffle()
                | f"prepare {folder}" >> beam.MapTuple(prepare_block)
            )
            (
                pipeline
                | f"plan of {folder}" >> beam.Create([plan])
                | f"finish {folder}" >> beam.Map(finish, beam.pvalue.AsIter(shards))
            )


if __name__ == "__main__":
    main()

"""Turn train_text and dev_text into shards of examples, which train.py reads.

python prepare.py [--KEY VALUE ...]        every key of config.toml is a flag
python prepare.py --overwrite true         prepares anew what other settings or other text had made

The same command again goes on where it was interrupted.
"""

from contextlib import closing

from tqdm import tqdm

from core.base.errors import command
from core.base.settings import read_settings
from corpus.preparation import begin_preparation, describe, finish, prepare_block
from corpus.processes import available_cores, end_when_told, go_on, run_in_processes
from corpus.shards import Shard, read_manifest
from task.settings import Settings


@command
def main() -> None:
    """Plan, prepare the blocks, write the manifests."""
    settings = read_settings(Settings)
    end_when_told()
    plans = begin_preparation(settings)
    jobs = [
        (plan.recipe, number, block, go_on)
        for plan in plans
        for number, block in enumerate(plan.blocks)
    ]
    processes = min(len(jobs), settings.preparation.processes or available_cores())
    shards: dict[str, list[Shard]] = {plan.recipe.folder: [] for plan in plans}
    total = sum(block.end - block.start for _, _, block, _ in jobs)
    with tqdm(total=total, desc="prepare", unit="B", unit_scale=True, disable=None) as bar:
        # Closed, and with it all processes, whatever ends this loop.
        with closing(run_in_processes(prepare_block, jobs, processes)) as results:
            for (recipe, _, block, _), shard in results:
                shards[recipe.folder].append(shard)
                bar.update(block.end - block.start)
    for plan in plans:
        finish(plan, shards[plan.recipe.folder])
        print(describe(read_manifest(plan.recipe.folder)))


if __name__ == "__main__":
    main()

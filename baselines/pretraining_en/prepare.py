"""Turn train_text and dev_text into shards of examples, which train.py reads.

python prepare.py [--KEY VALUE ...]        every key of config.toml is a flag
python prepare.py --overwrite true         prepares anew what other settings or other text had made

The same command again goes on where it was interrupted.
"""

from contextlib import closing

from tqdm import tqdm

from common.errors import command
from common.settings import read_settings
from task.preparation import describe, find_texts, finish, make_plan, open_folder, prepare_block
from task.processes import available_cores, end_when_told, go_on, run_in_processes
from task.settings import Settings
from task.shards import read_manifest
from task.vocabulary import find_tokenizer


@command
def main() -> None:
    """Plan, prepare the blocks, write the manifests."""
    settings = read_settings(Settings)
    end_when_told()
    texts = find_texts(settings)
    tokenizer = find_tokenizer(settings)
    plans = [make_plan(settings, tokenizer, *text) for text in texts.items()]
    for plan in plans:
        open_folder(plan, tokenizer)
    jobs = [
        (plan.recipe, number, block, go_on)
        for plan in plans
        for number, block in enumerate(plan.blocks)
    ]
    processes = min(len(jobs), settings.processes or available_cores())
    shards = {plan.recipe.folder: [] for plan in plans}
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

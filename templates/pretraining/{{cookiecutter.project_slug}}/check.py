"""Are the shards sound, and is the model ready for several devices and for TPU?

python check.py [--KEY VALUE ...]        exits 1 if something must be fixed before training
python check.py --tpu v5e:2x2            with extras/tpu: also compiles for a TPU you don't have
python check.py --memory                 with extras/recompute: which batch fits, and how fast?
"""

import functools

from core.base.errors import command
from core.base.extras import need
from corpus.shards import read_shard_tokenizer, shard_folder
from corpus.special_tokens import find_special_tokens
from inspection.checks import build, check_shards
from task.data import ShardGenerator
from task.settings import Settings


@command
def main() -> None:
    """Check the shards, then the model on one batch of them; print the findings."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    tokenizer = read_shard_tokenizer(settings)
    special = find_special_tokens(tokenizer, settings.objective)
    # Each of the many memory trials would read the whole corpus again.
    findings = [] if checks.only_measures else check_shards(settings)
    checking.stop_at_errors(findings)

    build_anew = functools.partial(build, tokenizer, settings)
    folder = shard_folder(settings, "train")
    train_batches = ShardGenerator(folder, special, settings, settings.batch_size)
    checking.finish_checks(checks, findings, build_anew(), train_batches, build_anew)


if __name__ == "__main__":
    main()

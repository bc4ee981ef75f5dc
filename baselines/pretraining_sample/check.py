"""Are the shards sound, and is the model ready for many replicas and for TPU?

python check.py [--KEY VALUE ...]        exits 1 where something must be mended first
python check.py --tpu v5e:2x2            also compiles the training step for such a TPU, without one
python check.py --memory                 tries batch sizes: what fits, and how fast is it?
"""

import functools

from common.check_command import conclude, read_check_options, stop_at_errors
from common.compile_checks import check_compilation
from common.errors import command
from common.memory import measure_step, try_batch_sizes
from common.model_checks import check_model, set_random_seed, use_processor
from common.settings import read_settings
from task.checks import build_compiled, describe_part, find_shard_faults, read_part
from task.data import ShardGenerator, read_tokenizer, shard_folder
from task.model import build_models, load_backbone
from task.settings import Settings
from task.tokens import find_special_tokens


@command
def main() -> None:
    """Check the shards, then the model on one batch of them; print what was found."""
    options, flags = read_check_options()
    settings = read_settings(Settings, flags)
    if options.memory:
        try_batch_sizes(settings, flags)
        return
    if not options.memory_trial:
        use_processor()
    set_random_seed(settings.seed)

    tokenizer = read_tokenizer(settings)
    special = find_special_tokens(tokenizer)
    generator = ShardGenerator(
        shard_folder(settings, "train"), special, settings, settings.batch_size
    )
    build = functools.partial(build_compiled, settings)
    if options.memory_trial:
        measure_step(build, generator, settings)
        return
    train, dev = (read_part(settings, part) for part in ("train", "dev"))
    for part in (train, dev):
        print(describe_part(part))
    findings = find_shard_faults(train, dev)
    stop_at_errors(findings)

    model, _ = build_models(load_backbone(settings, tokenizer), settings)
    faults = check_model(model, generator, build)
    if not faults:
        faults = check_compilation(build, generator, settings, options.tpu)
    conclude([*findings, *faults])


if __name__ == "__main__":
    main()

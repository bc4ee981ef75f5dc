"""Is the data sound, and is the model ready for many replicas and for TPU?

python check.py [--KEY VALUE ...]        exits 1 where something must be mended first
python check.py --tpu v5e:2x2            also compiles the training step for such a TPU, without one
python check.py --memory                 tries batch sizes: what fits, and how fast is it?
"""

import functools

from common.check_command import conclude, read_check_options, stop_at_errors
from common.compile_checks import check_compilation
from common.encoder import load_encoder, load_tokenizer
from common.errors import command
from common.memory import measure_step, try_batch_sizes
from common.model_checks import check_model, set_random_seed, use_processor
from common.settings import read_settings
from task.checks import (
    build_compiled,
    describe_file,
    find_data_faults,
    find_head_faults,
    find_reach_faults,
    measure_reach,
    read_files,
)
from task.data import collect_predicates, make_generator
from task.model import build_models
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch of them; print what was found."""
    options, flags = read_check_options()
    settings = read_settings(Settings, flags)
    if options.memory:
        try_batch_sizes(settings, flags)
        return
    if not options.memory_trial:
        use_processor()
    set_random_seed(settings.seed)

    files = read_files(settings)
    train_examples = files[settings.train_file]
    predicates = collect_predicates(train_examples)
    tokenizer = load_tokenizer(settings, [example.text for example in train_examples])
    findings = find_data_faults(files) + find_head_faults(settings, train_examples)
    for name, examples in files.items():
        reach = measure_reach(examples, tokenizer, predicates, settings)
        print(describe_file(name, examples, reach))
        findings += find_reach_faults(name, reach)
    stop_at_errors(findings)

    encoder = load_encoder(settings, tokenizer)
    model, _ = build_models(encoder, len(predicates), settings)
    inputs = [tensor.name for tensor in encoder.inputs]
    generator = make_generator(
        train_examples, settings, tokenizer, predicates, inputs, batch_size=settings.batch_size
    )
    build = functools.partial(build_compiled, tokenizer, len(predicates), settings)
    if options.memory_trial:
        measure_step(build, generator, settings)
        return
    faults = check_model(model, generator, build)
    if not faults:
        faults = check_compilation(build, generator, settings, options.tpu)
    conclude([*findings, *faults])


if __name__ == "__main__":
    main()

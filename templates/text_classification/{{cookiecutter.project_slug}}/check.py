"""Is the data sound, and is the model ready for many replicas and for TPU?

python check.py [--KEY VALUE ...]        exits with 1 if something must be fixed first
python check.py --tpu v5e:2x2            with extras/tpu: also compiles for a TPU you don't have
python check.py --memory                 with extras/recompute: which batch fits, and how fast?
"""

import functools

from core.base.errors import command
from core.base.extras import need
from core.encoders.encoder import load_tokenizer
from inspection.checks import (
    build,
    describe_file,
    find_cut_texts,
    find_data_faults,
    find_label_faults,
    find_still_score,
    measure_tokens,
    show_records,
)
from task.data import ExampleGenerator
from task.records import check_kind, collect_targets, read_examples, tokenizer_texts
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch of them; print what was found."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    files = need("doctor", "record_checks").read_files(
        settings, functools.partial(read_examples, settings=settings)
    )
    train_examples = files[settings.train_file]
    labels = collect_targets(train_examples, settings)
    tokenizer = load_tokenizer(settings, train_examples, tokenizer_texts)
    findings = find_data_faults(files) + find_label_faults(files, labels, settings)
    findings += find_still_score(files[settings.dev_file], labels, settings)
    describe = describe_file
    if getattr(settings, "competition", None):
        competition = need("competition", "checks")
        findings += competition.find_faults(files, labels, settings)
        describe = competition.describe_numbers if labels.are_numbers else describe_file
    for name, examples in files.items():
        check_kind(examples, labels, name)
        tokens, cut = measure_tokens(examples, tokenizer, settings.max_length)
        print(describe(name, examples, labels, tokens, len(cut)))
        findings += find_cut_texts(name, examples, cut, settings.max_length)
    print(show_records(settings, train_examples, tokenizer))
    checking.stop_at_errors(findings)

    build_anew = functools.partial(build, tokenizer, labels, settings)
    models = build_anew()
    inputs = [tensor.name for tensor in models.inference.inputs]
    train_batches = ExampleGenerator.of(
        train_examples, tokenizer, labels, inputs, settings, settings.batch_size
    )
    if getattr(labels, "are_lists", False):
        train_batches = need("competition", "list_batches").join_groups(train_batches)
    checking.finish_checks(checks, findings, models, train_batches, build_anew)


if __name__ == "__main__":
    main()

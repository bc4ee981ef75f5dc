"""Is the data sound, and is the model ready for many replicas and for TPU?

python check.py [--KEY VALUE ...]        exits with 1 if something must be fixed first
python check.py --tpu v5e:2x2            with extras/tpu: also compiles for a TPU you don't have
python check.py --memory                 with extras/recompute: which batch fits, and how fast?
"""

import functools

from core.base.errors import command
from core.base.extras import need
from core.encoders.encoder import load_tokenizer
from formats.conll import has_tags
from inspection.checks import (
    build,
    describe_file,
    find_data_faults,
    find_reach_faults,
    measure_reach,
)
from task.data import EntityGenerator
from task.records import collect_schema, read_examples
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch; print the findings."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    files = need("doctor", "record_checks").read_files(
        settings,
        lambda path, needed: read_examples(
            path, settings, needed or has_tags(path, settings.conll)
        ),
    )
    train_examples = files[settings.train_file]
    schema = collect_schema(train_examples, settings)
    tokenizer = load_tokenizer(settings, train_examples)
    findings = find_data_faults(files)
    for name, examples in files.items():
        reach = measure_reach(examples, tokenizer, schema, settings)
        print(describe_file(name, examples, reach))
        findings += find_reach_faults(name, reach)
    checking.stop_at_errors(findings)

    build_anew = functools.partial(build, tokenizer, schema, settings)
    models = build_anew()
    encoding = (tokenizer, schema.types, models.encoder_inputs, settings)
    train_batches = EntityGenerator.of(train_examples, *encoding, settings.batch_size)
    checking.finish_checks(checks, findings, models, train_batches, build_anew)


if __name__ == "__main__":
    main()

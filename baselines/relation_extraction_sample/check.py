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
    find_data_faults,
    find_reach_faults,
    measure_reach,
)
from task.data import TripleGenerator
from task.records import collect_predicates, read_examples
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch of them; print what was found."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    files = need("doctor", "record_checks").read_files(settings, read_examples)
    train_examples = files[settings.train_file]
    predicates = collect_predicates(train_examples)
    tokenizer = load_tokenizer(settings, train_examples)
    findings = find_data_faults(files, settings)
    for name, examples in files.items():
        reach = measure_reach(examples, tokenizer, predicates, settings)
        print(describe_file(name, examples, reach))
        findings += find_reach_faults(name, reach)
    checking.stop_at_errors(findings)

    build_anew = functools.partial(build, tokenizer, len(predicates), settings)
    models = build_anew()
    train_batches = TripleGenerator.of(
        train_examples, tokenizer, predicates, models.encoder_inputs, settings, settings.batch_size
    )
    checking.finish_checks(checks, findings, models, train_batches, build_anew)


if __name__ == "__main__":
    main()

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
    find_unspaced_answers,
    measure_reach,
)
from task.data import AnswerGenerator, check_answers
from task.records import read_examples, tokenizer_texts
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch; print the findings."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    files = need("doctor", "record_checks").read_files(settings, read_examples)
    train_examples = files[settings.train_file]
    tokenizer = load_tokenizer(settings, train_examples, tokenizer_texts)
    findings = find_data_faults(files) + find_unspaced_answers(files, settings.metric)
    for name, examples in files.items():
        reach = measure_reach(examples, tokenizer, settings)
        print(describe_file(name, examples, reach))
        findings += find_reach_faults(name, reach)
    checking.stop_at_errors(findings)

    build_anew = functools.partial(build, tokenizer, settings)
    models = build_anew()
    train_batches = AnswerGenerator.of(
        train_examples, tokenizer, models.encoder_inputs, settings, settings.batch_size
    )
    check_answers(train_batches)
    checking.finish_checks(checks, findings, models, train_batches, build_anew)


if __name__ == "__main__":
    main()

"""Is the data sound, and is the model ready for several devices and for TPU?

python check.py [--KEY VALUE ...]        exits 1 if something must be fixed before training
python check.py --tpu v5e:2x2            with extras/tpu: also compiles for a TPU you don't have
python check.py --memory                 with extras/recompute: which batch fits, and how fast?
"""

import functools

from core.base.errors import command
from core.base.extras import need
from generation.tokenizers import find_target_tokens
from inspection.checks import (
    build,
    describe_file,
    find_reach_faults,
    find_unspaced_targets,
    measure_reach,
)
from task.data import PairGenerator, pack_pairs
from task.loading import load_tokenizer_and_encoder
from task.model import build_models
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Check the files, then the model on one batch of them; print the findings."""
    checking = need("doctor", "checking")
    checks, settings = checking.begin_checks(Settings)
    files = need("doctor", "record_checks").read_files(
        settings, functools.partial(read_examples, settings=settings)
    )
    train_examples = files[settings.train_file]
    tokenizer, encoder = load_tokenizer_and_encoder(settings, train_examples)
    tokens = find_target_tokens(tokenizer, encoder)
    # Repeated sources are reported too: their targets belong in one record.
    extractor = settings.extractor
    labels = extractor.count_labels if extractor else None
    find = need("doctor", "record_checks").find_record_faults
    gold = settings.extraction.kind if extractor else "targets"
    findings = find(files, lambda e: [e.source], lambda e: e.targets, labels, gold)
    for name, examples in files.items():
        reach = measure_reach(examples, tokenizer, tokens.ends, settings)
        print(describe_file(name, examples, reach))
        findings += find_reach_faults(name, reach, settings)
        findings += find_unspaced_targets(name, examples, settings)
        if extractor and reach.oracle:
            print(extractor.describe_oracle(reach.oracle))
            findings += extractor.find_oracle_faults(name, reach.oracle)
    checking.stop_at_errors(findings)

    models = build_models(encoder, settings)
    pairs = PairGenerator.of(
        train_examples,
        tokens,
        tokenizer,
        models.encoder_inputs,
        settings,
        settings.batch_size,
    )
    train_batches = pack_pairs(pairs, settings)
    build_anew = functools.partial(build, train_examples, settings)
    checking.finish_checks(checks, findings, models, train_batches, build_anew)


if __name__ == "__main__":
    main()

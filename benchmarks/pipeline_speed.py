"""Is the pipeline ever the bottleneck? Generator, padding and batched prediction, as ratios.

- batches per second of the generator / steps per second of the training;
- records per second of batched prediction / of one record at a time with `model.predict`, as
  bert4keras's examples evaluate;
- padded tokens / real tokens, with length buckets and with one static length;
- seconds of `baselines --help` and of `baselines bake`.

baselines bake relation_extraction_knowledgenet --to build        (first)
python benchmarks/pipeline_speed.py --encoder FOLDER --data FOLDER
"""

import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

from project_parts import ROOT, load_parts, make_parser, write_results

GENERATED = 200
TRAINED = 40
SINGLE = 100
COMMANDS = 5
BAKE = ("-m", "generator", "bake", "relation_extraction_sample", "--to")


def main() -> None:
    """Measure and write the results."""
    parser = make_parser(__doc__)
    parts = load_parts(arguments := parser.parse_args())
    generated, trained = batches_per_second(parts), steps_per_second(parts)
    batched, single = predicted_per_second(parts, together=True), predicted_per_second(parts, False)
    one_length = parts.train_batches.lengths.max() / parts.train_batches.lengths.mean()
    results = {
        "question": "does the pipeline keep up with the model?",
        "generator_batches_per_second": round(generated, 1),
        "training_steps_per_second": round(trained, 2),
        "generator_to_training": round(generated / trained, 1),
        "batched_records_per_second": round(batched, 1),
        "single_records_per_second": round(single, 1),
        "batched_to_single": round(batched / single, 2),
        "padded_per_real_token_with_buckets": round(padding_waste(parts), 3),
        "padded_per_real_token_with_one_length": round(float(one_length), 3),
        "help_seconds": round(help_seconds(), 3),
        "bake_seconds": round(bake_seconds(), 3),
    }
    write_results(results, arguments.output)


def padding_waste(parts: SimpleNamespace) -> float:
    """Return padded tokens / real tokens of an epoch."""
    batches = parts.train_batches
    padded = sum(len(examples) * length for examples, length in batches.plan(0))
    return float(padded / batches.lengths.sum())


def batches_per_second(parts: SimpleNamespace) -> float:
    """Time only the generator."""
    stream = parts.train_batches.batches(0)
    next(stream)
    began = time.perf_counter()
    count = sum(1 for _, _ in zip(range(GENERATED), stream, strict=False))
    return count / (time.perf_counter() - began)


def steps_per_second(parts: SimpleNamespace) -> float:
    """Time training steps, fed by the dataset."""
    model = parts.models.training
    step = model.make_train_function() or model.train_function
    iterator = iter(parts.train_batches.to_dataset())
    for _ in range(8):
        step(iterator)
    began = time.perf_counter()
    for _ in range(TRAINED):
        logs = step(iterator)
    logs["loss"].numpy()
    return TRAINED / (time.perf_counter() - began)


def predicted_per_second(parts: SimpleNamespace, together: bool) -> float:
    """Time the prediction of dev, encoding and decoding included.

    Args:
        parts: from `load_parts`; the model was trained only for a few steps, so its weights are
            changed to refuse nearly everything, like a trained model.
        together: in batches, or one record at a time.
    """
    from core.prediction.predictor import Predictor
    from task.decode import decode_window, predict_triples, select_triples

    refuse_most(parts)
    examples = parts.dev_examples if together else parts.dev_examples[:SINGLE]
    predictor = Predictor([parts.models.inference], parts.strategy, select_triples)
    batch_size = parts.settings.prediction_batch_size
    for timed in (False, True):
        began = time.perf_counter()
        if together:
            predict_triples(predictor, parts.to_predict(examples, batch_size))
        else:
            for example in examples if timed else examples[:3]:
                generator = parts.to_predict([example], 1)
                for row, window in enumerate(generator.windows):
                    batch = generator.make_batch([row], len(window))
                    outputs = select_triples([parts.models.inference.predict(batch, verbose=0)])
                    decode_window(
                        {name: output.numpy()[0] for name, output in outputs.items()},
                        window,
                        generator.predicates,
                    )
        seconds = time.perf_counter() - began
    return len(examples) / seconds


def help_seconds() -> float:
    """Return the median seconds of `baselines --help`."""
    return statistics.median(command_seconds("-m", "generator", "--help") for _ in range(COMMANDS))


def bake_seconds() -> float:
    """Return the median seconds of `baselines bake` into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return statistics.median(
            command_seconds(*BAKE, f"{folder}/{number}") for number in range(COMMANDS)
        )


def command_seconds(*arguments: str) -> float:
    """Return the seconds of a Python process, from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - began


def refuse_most(parts: SimpleNamespace) -> None:
    """Lower the bias of the entity pointer, because an untrained model accepts every span."""
    types = parts.models.inference.get_layer("entity_pointer").types
    kernel, bias = types.get_weights()
    types.set_weights([kernel, bias * 0 - 10.0])


if __name__ == "__main__":
    main()

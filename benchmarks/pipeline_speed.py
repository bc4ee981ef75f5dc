"""Is the pipeline ever the bottleneck? Generator, padding and batched prediction, as ratios.

- batches a second of the generator alone, to steps a second of the training;
- records a second of batched prediction, to one record after the other by `model.predict`, which is
  how bert4keras's examples evaluate;
- padded tokens to real tokens, with length buckets and with one static length;
- seconds of `baselines --help`, and of baking a project.

python benchmarks/pipeline_speed.py --encoder FOLDER --data FOLDER
"""

import statistics
import subprocess
import sys
import time
from types import SimpleNamespace

from project_parts import ROOT, load_parts, make_parser, write_results

GENERATED = 200
TRAINED = 40
SINGLE = 100
COMMANDS = 5
BAKE = """
import tempfile
from pathlib import Path
from generator.bake import bake
from generator.paths import ROOT
with tempfile.TemporaryDirectory() as folder:
    bake(ROOT / "templates" / "relation_extraction", Path(folder), {})
"""


def main() -> None:
    """Measure and write."""
    parser = make_parser(__doc__)
    parts = load_parts(arguments := parser.parse_args())
    generated, trained = batches_per_second(parts), steps_per_second(parts)
    batched, single = predicted_per_second(parts, together=True), predicted_per_second(parts, False)
    one_length = parts.train.lengths.max() / parts.train.lengths.mean()
    results = {
        "question": "does the pipeline keep up with the model?",
        "generator_batches_per_second": round(generated, 1),
        "training_steps_per_second": round(trained, 2),
        "generator_to_training": round(generated / trained, 1),
        "batched_records_per_second": round(batched, 1),
        "single_records_per_second": round(single, 1),
        "batched_to_single": round(batched / single, 2),
        "padded_per_real_token_with_buckets": round(parts.train.padding_waste(), 3),
        "padded_per_real_token_with_one_length": round(float(one_length), 3),
        "help_seconds": round(command_seconds("-m", "generator", "--help"), 3),
        "bake_seconds": round(command_seconds("-c", BAKE), 3),
    }
    write_results(results, arguments.output)


def batches_per_second(parts: SimpleNamespace) -> float:
    """Time the generator alone."""
    stream = parts.train.batches(0)
    next(stream)
    began = time.perf_counter()
    count = sum(1 for _, _ in zip(range(GENERATED), stream, strict=False))
    return count / (time.perf_counter() - began)


def steps_per_second(parts: SimpleNamespace) -> float:
    """Time training steps, fed by the dataset."""
    model = parts.training_model
    step = model.make_train_function() or model.train_function
    iterator = iter(parts.train.to_dataset())
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
        parts: from `load_parts`; the model has been trained for a few steps only, so its weights
            are pushed to refuse nearly everything, as a trained model does.
        together: in batches, or one record after the other.
    """
    import tensorflow as tf
    from task.decode import decode_window, predict_triples

    from common.prediction import Predictor

    refuse_most(parts)
    examples = parts.dev_examples if together else parts.dev_examples[:SINGLE]
    predictor = Predictor(parts.inference_model, tf.distribute.get_strategy())
    batch_size = parts.settings.prediction_batch_size
    for timed in (False, True):
        began = time.perf_counter()
        if together:
            generator = parts.make_generator(examples, batch_size=batch_size, labels=False)
            predict_triples(predictor, generator)
        else:
            for example in examples if timed else examples[:3]:
                generator = parts.make_generator([example], batch_size=1, labels=False)
                for row, window in enumerate(generator.windows):
                    batch = generator.make_batch([row], len(window))
                    outputs = parts.inference_model.predict(batch, verbose=0)
                    decode_window(
                        {name: output[0] for name, output in outputs.items()},
                        window,
                        generator.predicates,
                        generator.entity_heads,
                    )
        seconds = time.perf_counter() - began
    return len(examples) / seconds


def command_seconds(*arguments: str) -> float:
    """Return the median seconds of a Python process, from start to end."""
    seconds = []
    for _ in range(COMMANDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def refuse_most(parts: SimpleNamespace) -> None:
    """Lower the bias of the entity pointer: a model in its first steps accepts every span."""
    types = parts.inference_model.get_layer("entity_pointer").types
    kernel, bias = types.get_weights()
    types.set_weights([kernel, bias * 0 - 10.0])


if __name__ == "__main__":
    main()

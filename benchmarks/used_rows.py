"""What does training only the embeddings of tokens in the training data gain?

The script measures the training step of a classifier over an encoder with random weights (6 layers
of width 384, 16 texts of 128 tokens, dropout on): with all rows of the token embedding, and with
`used_rows`. The table is as long as MiniLM's, or as XLM-R's (nearly mT5's). One process times both
steps in turns, in wall and CPU seconds; only the ratio of such a pair counts. Memory is the peak of
a separate process minus its memory before the model was built.

python benchmarks/used_rows.py --output benchmarks/results/used_rows.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from project_parts import ROOT, compile_as_trained, write_results

sys.path[:0] = [str(ROOT / "templates")]

LAYERS, WIDTH, HEADS, LENGTH, BATCH, LABELS = 6, 384, 12, 128, 16, 2
# Rows of the table, and tokens in the training data: MiniLM's on KnowledgeNet; the other number is
# an assumption.
SIZES = {"minilm": (30_522, 13_649), "xlm_roberta": (250_002, 20_000)}
WAYS = {"all_rows": False, "used_rows": True}
BATCHES = 8  # used for the steps, in turns
WARM_UP = 3
MEMORY_STEPS = 4


def main() -> None:
    """Measure both sizes and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40, help="of steps, for each size")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--trial", nargs=2, metavar=("SIZE", "WHAT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trial:
        size, what = arguments.trial
        found = time_pairs(size, arguments.pairs) if what == "time" else peak_of_steps(size, what)
        print(json.dumps(found))
        return
    results = {
        "question": "time and peak memory of a training step, used rows trained / all rows",
        "encoder": f"{LAYERS} layers x {WIDTH}, random weights",
        "batch": [BATCH, LENGTH],
        "pairs": arguments.pairs,
        **{size: measure(size, arguments.pairs) for size in SIZES},
    }
    write_results(results, arguments.output)


def measure(size: str, pairs: int) -> dict:
    """Return the measurements of one size, each trial in its own process."""
    rows, used = SIZES[size]
    times = run_trial(size, "time", pairs)
    peaks = {way: run_trial(size, way, pairs) for way in WAYS}
    return {
        "rows": rows,
        "used": used,
        **times,
        "memory_mebibytes": {way: round(peak / 2**20) for way, peak in peaks.items()},
        "memory_ratio": peaks["used_rows"] / peaks["all_rows"],
    }


def run_trial(size: str, what: str, pairs: int) -> Any:
    """Return the output of a trial."""
    command = [sys.executable, __file__, "--pairs", str(pairs), "--trial", size, what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    print(f"{size}, {what}: {done.stdout.splitlines()[-1]}", file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def time_pairs(size: str, pairs: int) -> dict:
    """Return the median times of both steps and the median ratio, in alternating order."""
    steps = {way: make_step(size, way) for way in WAYS}
    for step in steps.values():
        for number in range(WARM_UP):
            step(number)
    seconds: dict[str, dict[str, list[float]]] = {
        clock: {way: [] for way in WAYS} for clock in ("wall", "cpu")
    }
    for number in range(pairs):
        for way in sorted(WAYS, reverse=number % 2 == 1):
            wall, cpu = time.perf_counter(), time.process_time()
            steps[way](number)
            seconds["wall"][way].append(time.perf_counter() - wall)
            seconds["cpu"][way].append(time.process_time() - cpu)
    found: dict[str, Any] = {}
    for clock, taken in seconds.items():
        ratios = [one / other for other, one in zip(*taken.values(), strict=True)]
        found[f"{clock}_milliseconds"] = {
            way: round(1000 * statistics.median(own), 1) for way, own in taken.items()
        }
        found[f"{clock}_ratio"] = statistics.median(ratios)
    return found


def peak_of_steps(size: str, way: str) -> int:
    """Return the peak memory of some steps in bytes."""
    import core  # noqa: F401, I001 - it sets TensorFlow up

    from extras.recompute.memory import peak_memory

    before = peak_memory()
    step = make_step(size, way)
    for number in range(MEMORY_STEPS):
        step(number)
    return peak_memory() - before


def make_step(size: str, way: str) -> Callable[[int], None]:
    """Return the training step of a model as a function of the batch number."""
    import core  # noqa: F401, I001 - it sets TensorFlow up

    import numpy as np
    import tensorflow as tf
    from core.base.settings import CoreSettings, with_tables
    from core.batches import DataGenerator
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import keep_freed_memory

    class Texts(DataGenerator):
        """Random texts of the used tokens."""

        def __init__(self) -> None:
            rows, used = SIZES[size]
            random = np.random.default_rng(1)
            tokens = random.choice(rows, used, replace=False).astype("int32")
            # Each used token occurs at least once, as in training data; the epoch is long.
            count = -(-used // LENGTH) + BATCH * BATCHES
            super().__init__(np.full(count, LENGTH), BATCH, buckets=1)
            self.texts = np.resize(tokens, (count, LENGTH))
            self.labels = random.integers(0, LABELS, count).astype("int32")

        def make_batch(self, positions: np.ndarray, length: int) -> dict:
            ids = self.texts[positions]
            others = {"segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
            return {"token_ids": ids, **others, "labels": self.labels[positions]}

    keep_freed_memory()
    settings = with_tables(CoreSettings)(used_rows={"enabled": WAYS[way]}, learning_rate=2e-5)
    set_seed_and_precision(settings)
    models, texts = build_models(SIZES[size][0]), Texts()
    compile_as_trained(settings, models, texts)
    batches = [
        {name: tf.constant(array) for name, array in batch.items()}
        for _, batch in zip(range(BATCHES), texts.batches(0), strict=False)
    ]
    step = tf.function(models.training.train_step, reduce_retracing=True)
    return lambda number: step(batches[number % BATCHES])["loss"].numpy()


def build_models(rows: int) -> Any:
    """Return the models; the first hidden state gives the logits."""
    import keras

    from core.encoders.encoder import BertEncoder, encoder_inputs, hidden_states
    from core.step import Models, TrainingModel

    @keras.saving.register_keras_serializable("benchmarks")
    class CrossEntropy(keras.layers.Layer):
        """Cross-entropy of each example `[batch]`."""

        def call(self, logits: Any, labels: Any) -> Any:
            return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    encoder = BertEncoder(
        vocabulary_size=rows,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=4 * WIDTH,
        max_sequence_length=LENGTH,
        dropout=0.1,
        attention_dropout=0.0,
        name="encoder",
    )
    inputs = encoder_inputs(encoder)
    logits = keras.layers.Dense(LABELS, name="logits")(hidden_states(encoder, inputs)[:, 0])
    labels = keras.Input((), dtype="int32", name="labels")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({**inputs, "labels": labels}, {"label_loss": loss}, name="training")
    return Models(training, keras.Model(inputs, {"logits": logits}, name="inference"), encoder)


if __name__ == "__main__":
    main()

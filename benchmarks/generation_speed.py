"""What do the cache and the batches of generation gain?

- tokens a second of greedy generation, with and without keys and values kept, at 64 tokens;
- records a second of batched beam search (32 records, 4 beams), to one record after the other in
  the manner of bert4keras: the whole model called anew on the beams for each token, from Python.

python benchmarks/generation_speed.py --output benchmarks/results/generation_speed.json

The weights are random and nothing ends a target: each has 64 tokens, whatever the machine.
"""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from project_parts import ROOT, open_project, write_results

if TYPE_CHECKING:
    import keras

    from task.settings import Settings

PROJECT = ROOT / "baselines" / "seq2seq_sample"
SOURCE, TARGET = 64, 64
VOCABULARY = 6000
BATCH, BEAMS = 32, 4
ALONE = 2  # records of the slow way
REPEATS = 3


def main() -> None:
    """Measure and write."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=PROJECT, help="a generated project")
    parser.add_argument("--layers", type=int, default=2, help="of the encoder")
    parser.add_argument("--width", type=int, default=192, help="of the encoder")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    open_project(arguments.project)
    model = make_model(arguments.layers, arguments.width)
    batch = make_batch()
    cached, uncached = (tokens_per_second(model, batch, cache) for cache in (True, False))
    batched = records_per_second(model, batch)
    alone = records_per_second_alone(model, batch)
    results = {
        "question": "what do the cache and the batches of generation gain?",
        "layers": arguments.layers,
        "width": arguments.width,
        "vocabulary": VOCABULARY,
        "source_tokens": SOURCE,
        "target_tokens": TARGET,
        "batch": BATCH,
        "beams": BEAMS,
        "cached_tokens_per_second": round(cached, 1),
        "uncached_tokens_per_second": round(uncached, 1),
        "cached_to_uncached": round(cached / uncached, 2),
        "batched_beam_records_per_second": round(batched, 2),
        "single_beam_records_per_second": round(alone, 3),
        "batched_to_single": round(batched / alone, 1),
    }
    write_results(results, arguments.output)


def settings_of(**values: Any) -> "Settings":
    """Return the defaults, for `TARGET` tokens.

    Args:
        **values: of the table `generation` that differ.
    """
    from task.settings import Settings

    return Settings.model_construct(target_length=TARGET).generating(**values)


def make_model(layers: int, width: int) -> "keras.Model":
    """Return an inference model with random weights."""
    import keras

    from core.model.encoder import BertEncoder
    from task.model import build_models

    keras.utils.set_random_seed(1)
    encoder = BertEncoder(
        vocabulary_size=VOCABULARY,
        num_layers=layers,
        num_heads=max(1, width // 64),
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=SOURCE + TARGET,
        name="encoder",
    )
    return build_models(encoder, settings_of()).inference


def make_batch() -> dict:
    """Return tensors: sources of random tokens."""
    import tensorflow as tf

    random = np.random.default_rng(1)
    token_ids = random.integers(5, VOCABULARY, (BATCH, SOURCE)).astype(np.int32)
    arrays = {
        "token_ids": token_ids,
        "segment_ids": token_ids * 0,
        "padding_mask": token_ids * 0 + 1,
        "draws": random.random((BATCH, TARGET)).astype(np.float32),
    }
    return {name: tf.constant(array) for name, array in arrays.items()}


def make_writer(model: "keras.Model", **values: Any) -> Callable[[dict], dict]:
    """Return a compiled function from a batch to targets without end.

    Args:
        model: an inference model.
        **values: of the table `generation`.
    """
    import tensorflow as tf

    from generation.search import Writer
    from generation.settings import TargetTokens
    from task.model import writing_layers

    # No token ends a target: the end is one beyond the vocabulary.
    tokens = TargetTokens(begin=2, end=VOCABULARY, never=(0, 1, 3, 4))
    writer = Writer([model], writing_layers, tokens, settings_of(**values).generation, TARGET)
    return tf.function(lambda batch: writer(batch))


def seconds(function: Callable[[], object]) -> float:
    """Return the fewest seconds of a few calls, after one that compiles."""
    function()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def tokens_per_second(model: "keras.Model", batch: dict, cache: bool) -> float:
    """Time greedy generation of a batch."""
    write = make_writer(model, beams=1, cache=cache)
    return BATCH * TARGET / seconds(lambda: write(batch)["tokens"].numpy())


def records_per_second(model: "keras.Model", batch: dict) -> float:
    """Time the beam search of a batch."""
    write = make_writer(model, beams=BEAMS)
    return BATCH / seconds(lambda: write(batch)["tokens"].numpy())


def records_per_second_alone(model: "keras.Model", batch: dict) -> float:
    """Time one record after the other: `predict` on the beams for each token, beams in Python."""

    def write_all() -> None:
        for row in range(ALONE):
            source = {
                name: np.repeat(batch[name][row : row + 1], BEAMS, axis=0)
                for name in ("token_ids", "segment_ids", "padding_mask")
            }
            written, totals = np.full((BEAMS, 1), 2, np.int32), np.zeros(BEAMS)
            for _ in range(TARGET):
                logits = model.predict_on_batch({**source, "target_ids": written})["logits"]
                logits = logits[:, -1].astype(float)
                logits -= logits.max(axis=-1, keepdims=True)
                logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
                candidates = (totals[:, None] + logs).ravel()
                best = candidates.argpartition(-BEAMS)[-BEAMS:]
                totals = candidates[best]
                parents, tokens = best // VOCABULARY, best % VOCABULARY
                written = np.concatenate([written[parents], tokens[:, None]], axis=1)
                written = written.astype(np.int32)

    return ALONE / seconds(write_all)


if __name__ == "__main__":
    main()

"""How much do the key/value cache and batches gain in text generation?

- tokens per second of greedy generation, with and without the cache, at 64 tokens;
- records per second of batched beam search (32 records, 4 beams), compared with one record at a
  time as in bert4keras: Python calls the whole model on the beams again for each token.

python benchmarks/generation_speed.py --output benchmarks/results/generation_speed.json

With `--peer PYTHON` (which has torch and transformers) the script measures a decoder-only writer of
the extra `writers` instead: tokens per second of greedy generation and of beam search, cached,
uncached, and with `generate` of transformers, in turns, with the same model and sources.

python benchmarks/generation_speed.py --peer PYTHON --output benchmarks/results/writer_speed.json

The weights are random and no token ends a target, so each target has 64 tokens on any machine.
"""

import json
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from project_parts import BUILD, bake_sample, open_project, write_results

if TYPE_CHECKING:
    import keras

    from task.settings import Settings

PROJECT = BUILD / "seq2seq_sample"
SOURCE, TARGET = 64, 64
VOCABULARY = 6000
BATCH, BEAMS = 32, 4
ALONE = 2  # records of the slow way
REPEATS = 3
WRITER_BATCH = 8
# Run by the peer: makes the model, then times one search per input line, "BEAMS".
PEER = """
import json, sys, time, torch, transformers
folder, sizes, batch, source, target = sys.argv[1], *map(json.loads, sys.argv[2:])
torch.manual_seed(1)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
model.save_pretrained(folder)
ids = torch.tensor(json.load(open(folder + "/sources.json")))
versions = [transformers.__version__, torch.__version__, torch.get_num_threads()]
print(json.dumps(versions), flush=True)
for line in sys.stdin:
    options = dict(num_beams=int(line), max_new_tokens=target, do_sample=False)
    options |= dict(attention_mask=torch.ones_like(ids), eos_token_id=None, pad_token_id=0)
    began = time.perf_counter()
    with torch.inference_mode():
        found = model.generate(ids, **options)
    print(json.dumps([time.perf_counter() - began, found[:, source:].tolist()]), flush=True)
"""


def main() -> None:
    """Measure and write."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", type=Path, default=PROJECT, help="a generated project")
    parser.add_argument("--layers", type=int, default=2, help="of the encoder")
    parser.add_argument("--width", type=int, default=192, help="of the encoder")
    parser.add_argument("--peer", help="a Python with torch and transformers: measure a writer")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    if arguments.peer:
        measure_writer(arguments.peer, arguments.layers, arguments.width, arguments.output)
        return
    open_project(arguments.project)
    model = make_model(arguments.layers, arguments.width)
    batch = make_batch()
    cached, uncached = (tokens_per_second(model, batch, cache) for cache in (True, False))
    batched = records_per_second(model, batch)
    alone = records_per_second_alone(model, batch)
    results = {
        "question": "how much do the key/value cache and batches of generation gain?",
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

    return Settings.model_construct(target_length=TARGET).with_generation(**values)


def make_model(layers: int, width: int) -> "keras.Model":
    """Return an inference model with random weights."""
    import keras

    from core.encoders.encoder import BertEncoder
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
    """Return a compiled function from a batch to targets that never end early.

    Args:
        model: an inference model.
        **values: of the table `generation`.
    """
    import tensorflow as tf

    from generation.layers import writing_layers
    from generation.search import Writer
    from generation.settings import TargetTokens

    # The end token is outside of the vocabulary, so no token ends a target.
    tokens = TargetTokens(begin=2, end=VOCABULARY, never=(0, 1, 3, 4))
    writer = Writer([model], writing_layers, tokens, settings_of(**values).generation, TARGET)
    return tf.function(lambda batch: writer(batch))


def seconds(function: Callable[[], object]) -> float:
    """Return the minimum seconds of a few calls, after one call that compiles."""
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
    """Time one record at a time: `predict` on the beams for each token, beams in Python."""

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


def measure_writer(python: str, layers: int, width: int, output: Path | None) -> None:
    """Time a decoder-only writer and transformers, and write the results.

    Args:
        python: with torch and transformers.
        layers: of the writer; `width` of its hidden states.
        output: as in `write_results`.
    """
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "intermediate_size": 3 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": max(2, width // 64),
        "num_key_value_heads": 2,
        "max_position_embeddings": SOURCE + TARGET,
        "eos_token_id": VOCABULARY - 1,
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "writer"
        folder.mkdir()
        random = np.random.default_rng(1)
        sources = random.integers(5, VOCABULARY, (WRITER_BATCH, SOURCE)).astype(np.int32)
        (folder / "sources.json").write_text(json.dumps(sources.tolist()))
        words = [json.dumps(value) for value in (sizes, WRITER_BATCH, SOURCE, TARGET)]
        peer = subprocess.Popen(
            [python, "-c", PEER, str(folder), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert peer.stdin and peer.stdout
        versions = json.loads(peer.stdout.readline())
        open_project(bake_sample("seq2seq", "writers", Path(place)))
        times, same = time_in_turns(peer, load_writers(folder), sources)
        peer.stdin.close()
        peer.wait()
    tokens = WRITER_BATCH * TARGET
    rates = {name: round(tokens / found, 1) for name, found in times.items()}
    results = {
        "question": "how fast does a decoder-only writer generate?",
        "layers": layers,
        "width": width,
        "vocabulary": VOCABULARY,
        "source_tokens": SOURCE,
        "target_tokens": TARGET,
        "batch": WRITER_BATCH,
        "beams": BEAMS,
        "tokens_per_second": rates,
        "cached_to_uncached_beams": round(times["uncached_beams"] / times["cached_beams"], 2),
        "ours_to_transformers_greedy": round(times["peer_greedy"] / times["cached_greedy"], 2),
        "ours_to_transformers_beams": round(times["peer_beams"] / times["cached_beams"], 2),
        "same_tokens": same,
        "peer": {"transformers": versions[0], "torch": versions[1], "threads": versions[2]},
    }
    write_results(results, output)


def load_writers(folder: Path) -> dict[str, Callable[[dict], dict]]:
    """Return the compiled searches of the writer in a folder, by name."""
    import tensorflow as tf

    from core.base.settings import with_tables
    from extras.writers.hooks import load_backbone
    from generation.layers import writing_layers
    from generation.search import Writer
    from generation.settings import TargetTokens
    from task.model import build_models
    from task.settings import Settings

    settings = with_tables(Settings)(
        model="pretrained", encoder=str(folder), max_length=SOURCE, target_length=TARGET
    )
    model = build_models(load_backbone(settings, folder), settings).inference
    tokens = TargetTokens(begin=0, end=VOCABULARY, never=())
    found = {}
    for name, table in {
        "cached_greedy": {"beams": 1},
        "cached_beams": {"beams": BEAMS},
        "uncached_beams": {"beams": BEAMS, "cache": False},
    }.items():
        options = settings.with_generation(**table).generation
        writer = Writer([model], writing_layers, tokens, options, TARGET)
        found[name] = tf.function(lambda batch, writer=writer: writer(batch))
    return found


def time_in_turns(
    peer: subprocess.Popen, writers: dict[str, Callable[[dict], dict]], sources: np.ndarray
) -> tuple[dict[str, float], dict[str, bool]]:
    """Return the minimum seconds of each, after one call that compiles; and whether texts agree.

    Args:
        peer: the process that generates with transformers.
        writers: from `load_writers`.
        sources: tokens `[batch, source]`.
    """
    import tensorflow as tf

    assert peer.stdin and peer.stdout
    draws = tf.zeros((len(sources), TARGET))
    batch = {"token_ids": tf.constant(sources), "draws": draws}
    batch["padding_mask"] = tf.ones_like(batch["token_ids"])
    times: dict[str, list[float]] = {}
    texts: dict[str, np.ndarray] = {}
    for _ in range(REPEATS + 1):
        for name, write in writers.items():
            began = time.perf_counter()
            texts[name] = write(batch)["tokens"].numpy()
            times.setdefault(name, []).append(time.perf_counter() - began)
        for name, beams in (("peer_greedy", 1), ("peer_beams", BEAMS)):
            print(beams, file=peer.stdin, flush=True)
            spent, tokens = json.loads(peer.stdout.readline())
            times.setdefault(name, []).append(spent)
            texts[name] = np.array(tokens)
    same = {
        kind: bool(np.array_equal(texts[f"cached_{kind}"], texts[f"peer_{kind}"]))
        for kind in ("greedy", "beams")
    }
    print(f"the same tokens as transformers: {same}", file=sys.stderr)
    return {name: min(found[1:]) for name, found in times.items()}, same


if __name__ == "__main__":
    main()

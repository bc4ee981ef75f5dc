"""How many records per second do ours and a PyTorch peer predict, with the same encoder?

The time runs from examples in memory to the records of a predictions file: encoding, the model in
float32, and decoding. Ours is `predict` of task/prediction.py. The peers are those of
`peer_relation_extraction.py`, `peer_reading_comprehension.py` and `peer_text_classification.py`.
Each round runs the peer with batches in file order, padded to their longest text, then ours, then
the peer with records sorted by length. Each run is its own process. It predicts the file once to
warm up, which is listed separately, then several times with the clock running. Only the ratios of
one round are compared. Both sides have the same records, batch size, length and window overlap. One
thing differs: of a text above 128 tokens the peer of relations reads the beginning, ours all of it.

The encoder is pretrained, and nothing is trained. The time does not depend on what is found, except
for pointers: with random weights they find everything. So both sides get the same pointer weights,
and biases that accept only a few spans and triples per text; `found` says how many.

The data folder has the folders knowledgenet, squad and selqa, each with train.jsonl and test.jsonl,
as `baselines data get` or `baselines data convert` make them. The peers need their own environment
(see peer_relation_extraction.py and peer_text_classification.py).

python benchmarks/prediction_speed.py --peer_python PEER/bin/python --encoder FOLDER \
    --data FOLDER --output benchmarks/results/prediction_speed.json
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from project_parts import bake_sample, open_project, write_results

BATCH_SIZE = 32  # our default for prediction, and a constant of the peers
SAMPLE = 64  # texts for choosing the biases of the pointers
SPANS, TRIPLES = 4, 2  # accepted per text: subjects, as many objects, and triples
POINTERS = {"entities": "entity_pointer", "heads": "head_pointer", "tails": "tail_pointer"}
PEER_PACKAGES = ("torch", "transformers")
FILE = "to_predict.jsonl"
SIDES = ("peer_stock", "ours", "peer_sorted")


@dataclass(frozen=True)
class Task:
    """One comparison.

    Attributes:
        data: name of the folder with the records.
        settings: of our project, besides those of all tasks.
        script: of the peer; `flags`: equal to our settings.
        orders: for each way, the flag that orders the peer's batches.
    """

    data: str
    settings: dict[str, Any]
    script: str
    flags: tuple[str, ...]
    orders: dict[str, str]


BATCHING = {"peer_stock": "--batching=shuffled", "peer_sorted": "--batching=grouped"}
TASKS = {
    "relation_extraction": Task(
        "knowledgenet",
        {"max_length": 128, "entity_heads": "shared"},
        "peer_relation_extraction.py",
        ("--max_length=128",),
        BATCHING,
    ),
    "reading_comprehension": Task(
        "squad",
        {"max_length": 384, "window_overlap": 128, "buckets": 32},  # as in the baseline
        "peer_reading_comprehension.py",
        ("--max_length=384", "--doc_stride=128", "--part=peer_prediction"),
        {"peer_stock": "--padding=longest", "peer_sorted": "--padding=grouped"},
    ),
    "text_classification": Task(
        "selqa",
        {"max_length": 128},
        "peer_text_classification.py",
        ("--max_length=128",),
        BATCHING,
    ),
}


def main() -> None:
    """Run the rounds of all tasks, or run ours once in its own process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets' folders")
    parser.add_argument("--encoder", type=Path, required=True, help="in Hugging Face format")
    parser.add_argument("--peer_python", help="python of the peers' environment")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--records", type=int, default=600, help="the first of test.jsonl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=2, help="timed ones of each process")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--part", choices=["draw", "predict"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part = {"draw": draw_pointers, "predict": predict_ours}[arguments.part]
        print(json.dumps(part(arguments)))
        return
    if not arguments.peer_python:
        sys.exit("error: --peer_python is needed to compare the two.")
    results = {
        "question": "records a second, from examples in memory to the records of predictions",
        "batch_size": BATCH_SIZE,
        "passes": arguments.passes,
        "peer": peer_versions(arguments.peer_python),
        **{task: compare(task, arguments) for task in arguments.tasks},
    }
    write_results(results, arguments.output)


def peer_versions(python: str) -> dict[str, str]:
    """Return the versions of the peers' packages."""
    code = f"import importlib.metadata as m; print(*map(m.version, {PEER_PACKAGES}))"
    done = subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return dict(zip(PEER_PACKAGES, done.stdout.split(), strict=True))


def compare(task: str, arguments: Namespace) -> dict:
    """Run the rounds of one task, and return the results to write."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        bake_sample(task, "encoders", Path(folder))
        write_file(
            arguments.data / TASKS[task].data / "test.jsonl", Path(folder), arguments.records
        )
        if task == "relation_extraction":
            run_ours(task, "draw", folder, arguments)
        for number in range(arguments.rounds):
            row = {side: run_side(task, side, folder, arguments) for side in SIDES}
            rounds.append(row)
            print(f"{task}, round {number + 1}:", speeds(row), file=sys.stderr, flush=True)
    return {
        "data": TASKS[task].data,
        "settings": TASKS[task].settings,
        "found": {side: rounds[0][side]["found"] for side in SIDES},
        **describe(rounds),
    }


def describe(rounds: list[dict]) -> dict:
    """Return the speeds of all rounds, and the ones to quote."""
    every = [speeds(row) for row in rounds]
    first = {s: statistics.median(row[s]["first_seconds"] for row in rounds) for s in SIDES}
    return {
        "records": rounds[0]["ours"]["records"],
        # Ours builds its graph in it.
        "first_seconds": {side: round(seconds, 2) for side, seconds in first.items()},
        "records_a_second": every,
        "median": {side: statistics.median(row[side] for row in every) for side in SIDES},
        **{f"ours_to_{way}": ratios(every, f"peer_{way}") for way in ("stock", "sorted")},
    }


def write_file(source: Path, folder: Path, records: int) -> None:
    """Write the file to predict: the first records of another file."""
    with open(source, encoding="utf-8") as lines:
        text = "".join(itertools.islice(lines, records))
    (folder / FILE).write_text(text, encoding="utf-8")


def speeds(row: dict[str, dict]) -> dict[str, float]:
    """Return the records per second of each side in one round."""
    return {
        side: round(found["records"] * len(found["seconds"]) / sum(found["seconds"]), 2)
        for side, found in row.items()
    }


def ratios(rounds: Sequence[dict[str, float]], peer: str) -> dict:
    """Return the ratio of each round, and the median to quote."""
    each = [round(row["ours"] / row[peer], 3) for row in rounds]
    return {"each": each, "median": statistics.median(each)}


def run_side(task: str, side: str, folder: str, arguments: Namespace) -> dict:
    """Return the measurements of one side, in its own process."""
    if side == "ours":
        return run_ours(task, "predict", folder, arguments)
    own = TASKS[task]
    file, pointers = Path(folder) / FILE, Path(folder) / "pointers.npz"
    command = [
        *(arguments.peer_python, Path(__file__).with_name(own.script), *own.flags),
        *("--data", arguments.data / own.data, "--encoder", arguments.encoder),
        *(own.orders[side], "--predict", file, "--passes", arguments.passes),
        *(("--pointers", pointers) if pointers.is_file() else ()),
    ]
    return printed(command)


def run_ours(task: str, part: str, folder: str, arguments: Namespace) -> dict:
    """Return the output of one part of ours."""
    command = [
        *(sys.executable, __file__, "--tasks", task, "--part", part, "--folder", folder),
        *("--data", arguments.data, "--encoder", arguments.encoder),
        *("--passes", arguments.passes),
    ]
    return printed(command)


def printed(command: Sequence[object]) -> dict:
    """Return the JSON object at the end of a command's output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(f"error: ended with {done.returncode}, as said above: {' '.join(words)}")
    lines = done.stdout.splitlines()
    begin = max(number for number, line in enumerate(lines) if line.startswith("{"))
    return json.loads("\n".join(lines[begin:]))


# ---------------------------------------------------------------- ours


def predict_ours(arguments: Namespace) -> dict:
    """Time the prediction of a file."""
    (task,) = arguments.tasks
    describe, examples = OPEN[task](arguments)
    seconds = []
    for _ in range(1 + arguments.passes):
        began = time.perf_counter()
        records = describe(examples)
        seconds.append(time.perf_counter() - began)
    return {
        "records": len(examples),
        "found": sum(len(record.get("triples", [0])) for record in records),
        "first_seconds": seconds[0],
        "seconds": seconds[1:],
    }


def read_project_settings(arguments: Namespace) -> Any:
    """Make the modules of the project importable, and return its settings."""
    (task,) = arguments.tasks
    open_project(arguments.folder / f"{task}_sample")
    from core.base.settings import read_settings
    from task.settings import Settings

    settings = {
        "encoder": arguments.encoder.resolve(),
        "strategy": "single",
        "devices.precision": "float32",
        "prediction_batch_size": BATCH_SIZE,
        **TASKS[task].settings,
    }
    flags = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
    return read_settings(Settings, flags)


def make_runs(settings: Any, labels: dict, build: Callable[[Any, Any], Any], **others: Any) -> Any:
    """Return a run that predicts with an untrained head.

    Args:
        settings: of the project.
        labels: stored with the run besides its weights.
        build: makes the models from the encoder and the settings.
        **others: of `TrainedRuns`.
    """
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import make_strategy
    from core.encoders.encoder import load_encoder, load_tokenizer
    from core.prediction.loading import TrainedRuns

    strategy = make_strategy(settings)  # one replica: it has no scope of its own
    set_seed_and_precision(settings)
    tokenizer = load_tokenizer(settings, [])
    models = build(load_encoder(settings, tokenizer), settings)
    inputs = sorted(models.encoder_inputs)
    every = (labels, tokenizer, [models.inference], inputs, strategy)
    return models, TrainedRuns([], [settings], *every, **others)


def open_relations(arguments: Namespace) -> tuple[Callable[[Any], list[dict]], Sequence[Any]]:
    """Return what predicts, and the examples."""
    models, runs = make_relation_runs(arguments)
    from task.decode import LOWEST_LOGIT, above
    from task.prediction import predict
    from task.records import prediction_records, read_examples

    with np.load(arguments.folder / "pointers.npz") as arrays:
        for name, own in POINTERS.items():
            layer = models.inference.get_layer(own)
            starts = np.arange(2 * layer.heads) < layer.heads
            layer.projection.set_weights([arrays[f"{name}_kernel"], arrays[f"{name}_bias"]])
            # The peer keeps triples above 0; ours keeps lower scores too, to tune a threshold.
            bias = arrays[f"{name}_type_bias"] + LOWEST_LOGIT * starts
            layer.types.set_weights([arrays[f"{name}_types"], bias])

    def describe(examples: Sequence[Any]) -> list[dict]:
        return prediction_records(examples, above(predict(runs, examples), 0.0))

    return describe, read_examples(arguments.folder / FILE, require_triples=False)


def make_relation_runs(arguments: Namespace) -> Any:
    """Return models of relation extraction, and the run that predicts with them."""
    settings = read_project_settings(arguments)
    from task.decode import select_triples
    from task.model import build_models
    from task.records import collect_predicates, read_examples

    data = arguments.data / TASKS["relation_extraction"].data
    predicates = collect_predicates(read_examples(data / "train.jsonl"))
    return make_runs(
        settings,
        {"predicates": predicates},
        lambda encoder, settings: build_models(encoder, len(predicates), settings),
        select=select_triples,
    )


def draw_pointers(arguments: Namespace) -> dict:
    """Write random pointer weights that accept a few spans and triples per text."""
    models, runs = make_relation_runs(arguments)
    import keras

    from task.data import TripleGenerator
    from task.records import read_examples

    examples = read_examples(arguments.folder / FILE, require_triples=False)[:SAMPLE]
    encoding = (runs.tokenizer, runs.labels["predicates"], runs.encoder_inputs, runs.settings)
    texts = TripleGenerator(examples, *encoding, BATCH_SIZE, labels=False)
    batch = texts.make_batch(np.arange(texts.size), max(texts.lengths))
    whole = keras.Model(models.inference.inputs, [own.logits for own in models.compared])
    spans, links = choose_shifts(*map(np.array, whole(batch)), texts)
    arrays = {}
    for (name, own), shift in zip(POINTERS.items(), (spans, links, links), strict=True):
        layer = models.inference.get_layer(own)
        kernel, bias = layer.projection.get_weights()
        types, type_bias = layer.types.get_weights()
        type_bias[: layer.heads] -= shift  # added to a score by its start
        parts = {"kernel": kernel, "bias": bias, "types": types, "type_bias": type_bias}
        arrays |= {f"{name}_{part}": array for part, array in parts.items()}
    np.savez(arguments.folder / "pointers.npz", **arrays)
    return {"spans": spans.tolist(), "links": links}


def choose_shifts(
    entities: np.ndarray, heads: np.ndarray, tails: np.ndarray, texts: Any
) -> tuple[np.ndarray, float]:
    """Return how much the scores of spans, for each role, and of links must decrease.

    Args:
        entities: scores `[texts, 2, length, length]`; `heads` and `tails` have all predicates.
        texts: the windows with these scores.
    """
    for row, window in zip(entities, texts.windows, strict=True):
        special = np.flatnonzero(window.starts < 0)
        row[:, special] = row[:, :, special] = -np.inf
    most = SPANS * len(entities)
    floors = np.array([np.sort(role, axis=None)[-most] for role in entities.swapaxes(0, 1)])
    weakest = []
    for spans, head, tail in zip(entities, heads, tails, strict=True):
        (first, last), (other_first, other_last) = (
            np.nonzero(role >= floor) for role, floor in zip(spans, floors, strict=True)
        )
        pairs = head[:, first][:, :, other_first], tail[:, last][:, :, other_last]
        weakest.append(np.minimum(*pairs).ravel())
    return floors, float(np.sort(np.concatenate(weakest))[-TRIPLES * len(entities)])


def open_questions(arguments: Namespace) -> tuple[Callable[[Any], list[dict]], Sequence[Any]]:
    """Return what predicts, and the examples."""
    settings = read_project_settings(arguments)
    from formats.records import prediction_records
    from task.model import build_models
    from task.prediction import predict
    from task.records import read_examples

    _, runs = make_runs(settings, {"answer_lengths": None}, build_models)

    def describe(examples: Sequence[Any]) -> list[dict]:
        return prediction_records(examples, predict(runs, examples), 0.0, settings.n_best)

    return describe, read_examples(arguments.folder / FILE, require_answers=False)


def open_pairs(arguments: Namespace) -> tuple[Callable[[Any], list[dict]], Sequence[Any]]:
    """Return what predicts, and the examples."""
    settings = read_project_settings(arguments)
    from library.predictions import prediction_records
    from task.model import build_models
    from task.prediction import predict
    from task.records import collect_targets, read_examples

    data = arguments.data / TASKS["text_classification"].data
    labels = collect_targets(read_examples(data / "train.jsonl", settings=settings), settings)
    _, runs = make_runs(
        settings,
        asdict(labels),
        lambda encoder, settings: build_models(encoder, labels, settings),
    )

    def describe(examples: Sequence[Any]) -> list[dict]:
        return prediction_records(examples, predict(runs, examples), labels, 0.5)

    return describe, read_examples(arguments.folder / FILE, False, settings)


OPEN = {
    "relation_extraction": open_relations,
    "reading_comprehension": open_questions,
    "text_classification": open_pairs,
}


if __name__ == "__main__":
    main()

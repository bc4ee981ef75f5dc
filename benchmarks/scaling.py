"""What does one step cost in communication, and what to expect of 8 GPUs?

The script measures 1, 2 and 4 processes on this machine: the bytes of all gradients that a step
sums over the workers, counted in its graph, the seconds of a step, and the seconds of only that
sum. The processes share the CPU cores, and the sum goes through memory, so the seconds predict
nothing about GPUs.

The forecast is arithmetic. To sum P parameters over a ring of N GPUs, each sends
2 (N - 1) / N x 4 P bytes. A step of T tokens per GPU computes 6 x (parameters without embeddings)
x T operations. Efficiency is compute / (compute + communication), as if nothing overlapped.
Source of the ring: Patarasuk and Yuan 2009, https://doi.org/10.1016/j.jpdc.2008.09.002.

python benchmarks/scaling.py --encoder FOLDER --output benchmarks/results/scaling.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from project_parts import bake_sample, compile_as_trained, open_project, write_results

WORKERS = (1, 2, 4)
BATCH, STEPS, WARM_UP = 8, 10, 3
# Assumed hardware: bytes per second between GPUs, each way, from the vendors (NVLink 4; PCIe 4.0
# x16; a network card of 100 Gbit/s), and the operations per second that a training reaches of an
# H100's 989 T in bfloat16.
LINKS = {"NVLink 4": 450e9, "PCIe 4.0 x16": 32e9, "100 Gbit/s network": 12.5e9}
OPERATIONS = 0.3 * 989e12
GPUS = 8
TOKENS = {"32 x 128": 32 * 128, "128 x 128": 128 * 128}


def main() -> None:
    """Measure one cluster after the other, then compute the forecast."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="tiny", help="tiny, or an encoder's folder")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--worker", type=Path, help="for the processes of a cluster")
    parser.add_argument("--project", type=Path, help="of these processes")
    arguments = parser.parse_args()
    if arguments.worker:
        measure_worker(arguments)
        return
    if Path(arguments.encoder).is_dir():  # the processes run in the project's folder
        arguments.encoder = str(Path(arguments.encoder).resolve())
    with tempfile.TemporaryDirectory() as folder:
        arguments.project = bake_sample("relation_extraction", "cluster", Path(folder))
        clusters = {str(count): measure_cluster(arguments, count) for count in WORKERS}
    sizes = clusters["1"]
    results = {
        "question": "communication of a training step, and what to expect of several GPUs",
        "encoder": Path(arguments.encoder).name,
        "parameters": sizes["parameters"],
        "parameters_without_embeddings": sizes["parameters_without_embeddings"],
        "processes": clusters,
        "bytes_per_parameter": clusters["2"]["bytes_summed"] / sizes["parameters"],
        "assumed": {"bytes_per_second": LINKS, "operations_per_second": OPERATIONS},
        "gpus": GPUS,
        "forecast_percent": {
            batch: {link: forecast(sizes, tokens, speed) for link, speed in LINKS.items()}
            for batch, tokens in TOKENS.items()
        },
    }
    write_results(results, arguments.output)


def forecast(sizes: dict, tokens: int, bytes_per_second: float) -> float:
    """Return the efficiency of several GPUs in percent, by tokens per step and GPU."""
    sent = 2 * (GPUS - 1) / GPUS * 4 * sizes["parameters"]
    compute = 6 * sizes["parameters_without_embeddings"] * tokens / OPERATIONS
    return 100 * compute / (compute + sent / bytes_per_second)


def measure_cluster(arguments: argparse.Namespace, workers: int) -> dict:
    """Return the measurements of the first worker."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.json"
        command = [Path(__file__), "--encoder", arguments.encoder]
        command += ["--project", arguments.project, "--worker", part]
        if workers > 1:
            launcher = arguments.project / "extras" / "cluster" / "launch.py"
            command = [launcher, "--workers", workers, *command]
        words = [sys.executable, *map(str, command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return json.loads(part.read_text(encoding="utf-8"))


def measure_worker(arguments: argparse.Namespace) -> None:
    """Time steps, and only the sum of the gradients; the chief writes the results."""
    open_project(arguments.project)
    import tensorflow as tf

    from core.base.files import project_path
    from core.base.settings import read_settings
    from core.base.workers import all_workers, is_chief
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import global_batch_size, make_strategy
    from core.encoders.encoder import load_encoder, load_tokenizer
    from task.data import TripleGenerator
    from task.model import build_models
    from task.records import collect_predicates, read_examples
    from task.settings import Settings

    settings = read_settings(
        Settings,
        ["--encoder", arguments.encoder, "--batch_size", str(BATCH), "--buckets", "1"]
        + ["--devices.batch_size_counts", "one_replica"],
    )
    strategy = make_strategy(settings)
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    examples = read_examples(project_path(settings.train_file))
    predicates = collect_predicates(examples)
    tokenizer = load_tokenizer(settings, examples)
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), len(predicates), settings)
    encoder, model = models.encoder, models.training
    train_batches = TripleGenerator(
        examples, tokenizer, predicates, models.encoder_inputs, settings, batch_size
    )
    with strategy.scope():
        compile_as_trained(settings, models, train_batches)
    batches = iter(train_batches.to_dataset(strategy=strategy))

    def sum_gradients() -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        like = [tf.ones(variable.shape) for variable in model.trainable_variables]
        return context.all_reduce(tf.distribute.ReduceOp.SUM, like)

    step = tf.function(lambda batch: strategy.run(model.train_step, args=(batch,)))
    reduce = tf.function(lambda: strategy.run(sum_gradients))
    one = next(batches)
    graph = step.get_concrete_function(one).graph
    summed = [op.inputs[0] for op in graph.get_operations() if "CollectiveReduce" in op.type]
    seconds = {
        "seconds_of_a_step": seconds_of(lambda: step(next(batches))),
        "seconds_of_the_sum": seconds_of(reduce),
    }
    embeddings = [w for w in encoder.weights if "embedding" in w.path and len(w.shape) == 2]
    parameters = sum(w.shape.num_elements() for w in model.trainable_variables)
    if is_chief():
        found = {
            "parameters": parameters,
            "parameters_without_embeddings": parameters
            - sum(w.shape.num_elements() for w in embeddings),
            "bytes_summed": sum(t.shape.num_elements() * t.dtype.size for t in summed),
            **seconds,
            "share_of_the_sum": seconds["seconds_of_the_sum"] / seconds["seconds_of_a_step"],
        }
        arguments.worker.write_text(json.dumps(found), encoding="utf-8")
    all_workers().close()


def seconds_of(function: Callable[[], object]) -> float:
    """Return the median seconds of some calls."""
    for _ in range(WARM_UP):
        function()
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()

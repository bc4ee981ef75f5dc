"""Which batch fits into memory, and how fast is it? Each size runs in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.base.files import PROJECT, project_path, read_json
from core.batches import DataGenerator
from core.devices.precision import find_precision
from core.devices.strategy import keep_freed_memory
from core.optimizer import make_optimizer
from core.runs.run import Run
from core.step import Models
from core.training import Training
from extras.recompute.settings import Settings

MEBIBYTE = 1 << 20
FLOAT, OPTIMIZER = 4, 12  # bytes of a weight, and of its gradient with two moments
# What a layer stores for each token: multiples of the width, multiples of the inner width, and
# numbers for each head and other token (one more with attention dropout). Measured on a CPU.
KEPT, KEPT_BY_LORA, KEPT_SCORES = (15, 4), (13, 3), 2
RUNTIME = 120 * MEBIBYTE  # of TensorFlow itself, measured likewise
GROUP = 64  # inputs with a scale and a zero of their own, of int4
USUAL_RANK = 8  # if no table `lora` asks for another one
# Families with a gate in the feed-forward part and without a table of positions.
GATED = ("modernbert", "llama", "mistral", "qwen", "gemma", "smollm")
DOUBLINGS = 5
TIMED_STEPS = 3


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder, or of another Transformer.

    Attributes:
        weights: number of all weights.
        layers: number of layers; `own_layers`: of those with weights of their own.
        width: of hidden states; `inner`: of the feed-forward part.
        heads: of attention.
        kernels: part of a layer -> inputs and outputs of its kernels.
    """

    weights: int
    layers: int
    own_layers: int
    width: int
    inner: int
    heads: int
    kernels: dict[str, list[tuple[int, int]]]


def try_memory(checks: Any) -> None:
    """Run `check.py --memory` and end; a trial of one size uses the device that trains."""
    checks.only_measures = checks.options.memory_trial
    if checks.options.memory:
        print_estimate(checks.settings)
        try_batch_sizes(checks.settings, checks.flags)
        sys.exit()


def print_estimate(settings: Settings) -> None:
    """Print the estimated memory of a step for all weights, and LoRA on floats, int8 and int4.

    Nothing is loaded for it.

    Args:
        settings: `encoder`, `batch_size`, `max_length`; `rank` and `layers` of the table `lora`,
            if there is one.
    """
    shape = read_shape(settings)
    if shape is None:
        print(f"no estimate: no config.json has the sizes of {settings.encoder}\n")
        return
    table, free = getattr(settings, "lora", None), free_memory()
    rank, layers = (table.rank or USUAL_RANK, table.layers) if table else (USUAL_RANK, "all")
    print(f"estimated by the sizes of the encoder, {shape.weights / 1e6:.1f} million weights:\n")
    columns = ("weights", "optimizer", "activations", "together")
    print(f"{'MiB':<20}" + "".join(f"{column:>13}" for column in columns))
    for name, parts in estimate(shape, settings, rank, layers).items():
        together = sum(parts) + RUNTIME
        numbers = "".join(f"{part / MEBIBYTE:>13.0f}" for part in (*parts, together))
        verdict = "" if free == float("inf") else "fits" if together < free else "does not fit"
        print(f"{name:<20}{numbers}   {verdict}".rstrip())
    print()


def estimate(
    shape: Shape, settings: Settings, rank: int, layers: str
) -> dict[str, tuple[float, ...]]:
    """Return the bytes of weights, of gradients with moments, and of activations, by method.

    Args:
        shape: of the encoder.
        settings: `batch_size`, `accumulation`, `max_length`, and `recompute`.
        rank: of LoRA.
        layers: the kernels that LoRA updates.
    """
    parts = [*shape.kernels] if layers == "all" else [name.strip() for name in layers.split(",")]
    chosen = [size for part in parts for size in shape.kernels[part]]
    kernels = shape.own_layers * sum(inputs * outputs for inputs, outputs in chosen)
    scales = shape.own_layers * sum(outputs for _, outputs in chosen)
    updates = shape.own_layers * sum(rank * (inputs + outputs) for inputs, outputs in chosen)
    whole, frozen = FLOAT * shape.weights, FLOAT * (shape.weights + updates)
    # A kernel is in memory as floats while it is multiplied.
    largest = FLOAT * max(inputs * outputs for inputs, outputs in chosen)
    int8: float = frozen - (FLOAT - 1) * kernels + FLOAT * scales + largest
    # Half a byte each, and a scale and a zero for each group of inputs.
    int4 = frozen - (FLOAT - 1 / 2 - (FLOAT + 1) / GROUP) * kernels + largest
    trained, with_lora = (activations(shape, settings, kept) for kept in (KEPT, KEPT_BY_LORA))
    moments = OPTIMIZER * updates
    # The encoder is read as floats, before moments and activations exist.
    int8, int4 = (max(codes, whole - moments - with_lora) for codes in (int8, int4))
    return {
        "all weights": (whole, OPTIMIZER * shape.weights, trained),
        f"lora, rank {rank}": (frozen, moments, with_lora),
        f"lora, rank {rank}, int8": (int8, moments, with_lora),
        f"lora, rank {rank}, int4": (int4, moments, with_lora),
    }


def activations(shape: Shape, settings: Settings, kept: tuple[int, int]) -> float:
    """Return the bytes that the layers store from the forward pass to the gradient.

    Args:
        shape: of the encoder.
        settings: as in `estimate`.
        kept: numbers for each token, in multiples of the width and of the inner width.
    """
    tokens = settings.batch_size / settings.accumulation * settings.max_length
    of_layer = tokens * (kept[0] * shape.width + kept[1] * shape.inner)
    scores = KEPT_SCORES + bool(settings.attention_dropout)
    of_layer += scores * shape.heads * tokens * settings.max_length
    # Recomputed: all of one layer and its gradients; of the other layers only their inputs.
    recomputed = 2 * (of_layer + shape.layers * tokens * shape.width)
    numbers = recomputed if settings.recompute.enabled else shape.layers * of_layer
    return numbers * (2 if settings.devices.precision == "mixed_bfloat16" else FLOAT)


def read_shape(settings: Settings) -> Shape | None:
    """Return the sizes in the config.json of an encoder; None: there is none, or it has none."""
    if settings.encoder == "tiny":
        fields = {
            "vocab_size": getattr(settings, "tiny_vocabulary", 0),
            "hidden_size": settings.tiny_width,
            "num_hidden_layers": settings.tiny_layers,
            "num_attention_heads": max(1, settings.tiny_width // 64),
            "max_position_embeddings": settings.max_length,
        }
        return shape_of(fields)
    path = project_path(settings.encoder) / "config.json"
    try:
        if settings.encoder.startswith("hf://"):
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(settings.encoder.removeprefix("hf://"), "config.json"))
        return shape_of(read_json(path))
    except Exception:  # loading the encoder will say what is wrong
        return None


def shape_of(fields: dict) -> Shape:
    """Return the sizes in the fields of a config.json, by any of their usual names.

    Raises:
        KeyError: a size is absent.
    """

    def size(*names: str, default: int | None = None) -> int:
        found = next((fields[name] for name in names if fields.get(name)), default)
        if found is None:
            raise KeyError(names[0])
        return int(found)

    width = size("hidden_size", "dim", "d_model", "n_embd")
    layers = size("num_hidden_layers", "n_layers", "num_layers", "n_layer")
    inner = size("intermediate_size", "d_ff", "hidden_dim", "n_inner", default=4 * width)
    heads = size("num_attention_heads", "n_heads", "num_heads", "n_head")
    head = size("head_dim", default=width // heads)
    shared = head * size("num_key_value_heads", default=heads)
    gated = str(fields.get("model_type", "")).startswith(GATED)
    kernels = {
        "query": [(width, heads * head)],
        "key": [(width, shared)],
        "value": [(width, shared)],
        "output": [(heads * head, width)],
        "feedforward": [*[(width, inner)] * (2 if gated else 1), (inner, width)],
    }
    own_layers = size("num_hidden_groups", default=layers)
    sizes = [pair for pairs in kernels.values() for pair in pairs]
    # With biases and normalizations; some families have fewer.
    of_layer = sum(inputs * outputs + outputs for inputs, outputs in sizes) + 4 * width
    rows = size("vocab_size")
    rows += 0 if gated else size("max_position_embeddings", "n_positions", default=0)
    embedding = size("embedding_size", default=width)
    weights = own_layers * of_layer + embedding * (rows + (width if embedding != width else 0))
    return Shape(weights, layers, own_layers, width, inner, heads, kernels)


def try_batch_sizes(settings: Settings, flags: list[str]) -> None:
    """Print memory and speed of the training step for growing batch sizes.

    Each size is twice the previous one, up to the first that does not fit.

    Args:
        settings: have the first `batch_size`.
        flags: of the command line, for the processes of the trials.

    Raises:
        InputError: a process failed for a reason other than memory.
    """
    print("the longest batch of an epoch on one device:\n")
    print(f"{'batch_size':>10}  {'recompute':>9}  {'peak memory':>12}  {'examples/s':>10}")
    for recompute in (False, True):
        needed = 0
        for doubling in range(DOUBLINGS):
            batch_size = settings.batch_size << doubling
            begin = f"{batch_size:>10}  {'yes' if recompute else 'no':>9}  "
            if 2 * needed > free_memory():
                print(f"{begin}{'not tried: more than is free':>24}", flush=True)
                break
            asked = ["--batch_size", str(batch_size), "--recompute.enabled"]
            trial = run_trial([*flags, *asked, str(recompute).lower()])
            if trial is None:
                print(f"{begin}{'does not fit':>24}", flush=True)
                break
            needed = trial["peak"]
            memory, speed = f"{needed / MEBIBYTE:.0f} MiB", trial["examples_per_second"]
            print(f"{begin}{memory:>12}  {speed:>10.1f}", flush=True)


def run_trial(flags: list[str]) -> dict | None:
    """Measure one training step in its own process.

    Args:
        flags: settings.

    Returns:
        The output of `measure_step`; None: it does not fit.

    Raises:
        InputError: the process failed for a reason other than memory.
    """
    script = str(Path(sys.argv[0]).resolve())
    command = [sys.executable, script, *flags, "--memory_trial"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    killed = done.returncode < 0 or done.returncode == 137  # by the system, out of memory
    if killed or "out of memory" in done.stderr or "OOM" in done.stderr:
        return None
    raise InputError((done.stderr.strip().splitlines() or ["check.py --memory failed."])[-1])


def measure_step(
    settings: Settings, train_batches: DataGenerator, build: Callable[[], Models]
) -> None:
    """Print the peak memory, the losses and the speed of the longest batch as one line of JSON.

    Args:
        settings: of the project.
        train_batches: of the training examples.
        build: returns the models.
    """
    keep_freed_memory()  # as in a training
    before = peak_memory()
    # Never restored: the process ends with this trial.
    keras.config.set_dtype_policy(find_precision(settings))
    models = build()
    # Without warm-up, each loss depends on the gradient before it.
    update: dict[str, Any] = {"warm_up": 0.0}
    if table := getattr(settings, "distillation", None):  # there is no run to note teachers in
        no_teachers = {"files": [], "weights": [], "init_from": ""}
        update["distillation"] = table.model_copy(update=no_teachers)
    changed = settings.model_copy(update=update)
    strategy, run = tf.distribute.get_strategy(), Run(PROJECT / "runs" / settings.run_name)
    never_scored: Any = None
    training = Training(changed, strategy, run, models, train_batches, never_scored, monitor="")
    training.prepare()
    models.training.compile(make_optimizer(training), **training.compile_options)
    batch = max(train_batches.batches(0), key=lambda b: sum(array.size for array in b.values()))
    inputs = {name: tf.constant(array) for name, array in batch.items()}
    step = tf.function(models.training.train_step)
    losses = [float(step(inputs)["loss"][0])]
    began = time.perf_counter()
    losses += [float(step(inputs)["loss"][0]) for _ in range(TIMED_STEPS)]
    seconds = (time.perf_counter() - began) / TIMED_STEPS
    found = {
        "batch_size": settings.batch_size,
        "tokens": max(array.shape[1] for array in batch.values() if array.ndim > 1),
        "recompute": settings.recompute.enabled,
        "peak": peak_memory() - before,
        "losses": losses,
        "examples_per_second": settings.batch_size / seconds,
    }
    print(json.dumps(found))


def peak_memory() -> int:
    """Return the peak memory of this process so far, in bytes.

    Raises:
        InputError: this system does not report it.
    """
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    status = Path("/proc/self/status")
    if status.is_file():
        # Not `getrusage`: there a process begins with the peak of its parent.
        return read_kibibytes(status, "VmHWM")
    try:
        import resource
    except ImportError as error:
        raise InputError("--memory needs a GPU, Linux or macOS: Windows does not tell.") from error
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory() -> float:
    """Return the free memory in bytes; infinite if the memory of a GPU matters."""
    meminfo = Path("/proc/meminfo")
    if tf.config.list_physical_devices("GPU") or not meminfo.is_file():
        return float("inf")
    return read_kibibytes(meminfo, "MemAvailable")


def read_kibibytes(path: Path, name: str) -> int:
    """Return a row of meminfo or of the status of a process, in bytes."""
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return next(1024 * int(row[1]) for row in rows if row[0] == f"{name}:")

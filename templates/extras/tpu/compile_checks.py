"""Does XLA compile the training step, how often, and does it compile for a TPU?

The whole step is lowered to HLO, the language of XLA's compilers: losses, gradients, micro-batches,
clipping, optimizer. This needs no accelerator. XLA for CPUs also runs sizes that depend on values
and marks them `<=` in its HLO; a TPU does not support them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from core.base.errors import gist
from core.base.settings import CoreSettings
from core.batches import Batch, DataGenerator
from core.data.checks import Finding
from core.exact.dropout import named_layers
from core.step import TrainingModel
from extras.tpu.static_checks import layer_of, name_line
from extras.tpu.tpu_compile import TpuProgram, compile_for_tpu_cores, count_cores

# A size that depends on values, and XLA's note about its code.
DYNAMIC_SIZE = re.compile(r"\[[^\]]*<=")
OPERATION = re.compile(r'op_name="([^"]*)"')
SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')


def batches_to_compile(train_batches: DataGenerator) -> list[Batch]:
    """Return a batch of each shape in an epoch, longest first."""
    shapes: dict[tuple, Batch] = {}
    for batch in train_batches.batches(0):
        shapes.setdefault(tuple(array.shape for array in batch.values()), batch)
    return sorted(shapes.values(), key=lambda batch: -sum(array.size for array in batch.values()))


def check_compilation(
    build: Callable[[], TrainingModel],
    train_batches: DataGenerator,
    settings: CoreSettings,
    topology: str = "",
) -> list[Finding]:
    """Lower the training step to HLO; print how often a training would compile it.

    Args:
        build: returns the compiled training model, its gradient without XLA.
        train_batches: of the training examples.
        settings: `accumulation`, `devices`; for a TPU every shape is lowered, because each is
            compiled; otherwise only the largest.
        topology: also compile for this TPU, such as `v5e:2x2`, and print its memory.

    Raises:
        InputError: libtpu is not installed, or knows no such topology.
    """
    batches = batches_to_compile(train_batches)
    one = "one compilation" if len(batches) == 1 else f"{len(batches)} compilations"
    print(f"on a TPU: {one} of the training step, one for each shape of a batch")
    if settings.strategy != "tpu":
        batches = batches[:1]
    model = build()
    for batch in tqdm(batches, "lower", leave=False, disable=None):
        findings = find_lowering_faults(model, batch)
        if findings:
            return findings
    return find_tpu_faults(model, batches[0], settings, topology) if topology else []


def lower(model: TrainingModel, batch: Batch) -> Callable[..., Any]:
    """Return a function from a stage (`hlo`, `hlo_serialized`) to the lowered training step."""
    names = list(batch)

    def step(*arrays: tf.Tensor) -> dict:
        return model.train_step(dict(zip(names, arrays, strict=True)))

    specs = [tf.TensorSpec(array.shape, array.dtype) for array in batch.values()]
    compiled = tf.function(step, jit_compile=True, autograph=False)
    return compiled.experimental_get_compiler_ir(*specs)


def find_lowering_faults(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Find what XLA refuses, and sizes that depend on values."""
    names = {layer.name for _, layer in named_layers(model)} | {model.name}
    try:
        text = lower(model, batch)(stage="hlo")
    except Exception as error:  # TensorFlow and the participant's layers may raise anything
        layer = layer_of(" ".join(re.findall(r"[\w/]*/[\w/]*", str(error))), names)
        return [lowering_finding(layer or model.name, f"XLA refuses it ({gist(error)})")]
    return list(dynamic_sizes(text, names, model.name))


def dynamic_sizes(text: str, names: set[str], model: str) -> Iterator[Finding]:
    """Yield a finding for each layer with a size that depends on values."""
    seen = set()
    for line in text.splitlines():
        if DYNAMIC_SIZE.search(line):
            operation, source = OPERATION.search(line), SOURCE.search(line)
            layer = layer_of(operation[1], names) if operation else ""
            if layer not in seen:
                seen.add(layer)
                place = name_line(source[1], int(source[2])) if source else ""
                yield lowering_finding(layer or model, "a size that depends on values", place)


def lowering_finding(layer: str, what: str, place: str = "") -> Finding:
    """Return the finding that a TPU can't compile the training step."""
    return Finding(
        "warning",
        f"layer {layer}: {what}",
        f"HLO of the training step{place}",
        "use masks and fixed sizes, and operations that XLA knows, or stay off TPUs.",
    )


def find_tpu_faults(
    model: TrainingModel, batch: Batch, settings: CoreSettings, topology: str
) -> list[Finding]:
    """Compile the training step ahead of time for a TPU; print its memory."""

    def lowered(cores: int) -> bytes:
        """Return the step of one core for a batch that several cores share."""
        if settings.devices.batch_size_counts == "one_replica":
            cores = 1
        share = {name: array[: max(1, len(array) // cores)] for name, array in batch.items()}
        return lower(model, share)(stage="hlo_serialized")

    fault = compile_for_tpu_cores(lowered(count_cores(topology)), topology)
    if isinstance(fault, TpuProgram):
        print(f"TPU {topology}, one core: {fault}")
        return []
    return [
        Finding(
            "error",
            f"the training step does not compile ({fault})",
            f"TPU {topology}",
            "lower batch_size or max_length, or raise accumulation, if it is memory.",
        )
    ]

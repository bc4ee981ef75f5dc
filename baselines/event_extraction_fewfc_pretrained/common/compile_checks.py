"""Does XLA compile the training step, how often, and does a TPU?

The step is lowered whole to HLO, the language of XLA's compilers: losses, gradients, micro-batches,
clipping, optimizer. That needs no accelerator. XLA for CPUs runs sizes that depend on values too,
and marks them `<=` in its HLO; a TPU has none.
"""

import re
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from tqdm import tqdm

from common.data_checks import Finding
from common.generator import Batch, Generator
from common.model_layers import gist, join_places, name_place, named_layers
from common.settings import CommonSettings
from common.static_checks import layer_of
from common.tpu_compile import TpuProgram, compile_for_tpu, count_cores
from common.training import TrainingModel

# A size that depends on values, and where XLA says which code it comes from.
DYNAMIC_SIZE = re.compile(r"\[[^\]]*<=")
OPERATION = re.compile(r'op_name="([^"]*)"')
SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')


def batches_to_compile(generator: Generator) -> list[Batch]:
    """Return a batch of each shape that an epoch has, the longest first."""
    batches = generator.batches_of_each_shape()
    return sorted(batches, key=lambda batch: -sum(array.size for array in batch.values()))


def check_compilation(
    build: Callable[[], TrainingModel],
    generator: Generator,
    settings: CommonSettings,
    topology: str = "",
) -> list[Finding]:
    """Lower the training step to HLO; print how often a training would compile it.

    Args:
        build: returns the training model compiled.
        generator: of the training examples.
        settings: `accumulation`, `precision`; with `xla`, or for a TPU, every shape is lowered, for
            each is compiled, and otherwise the largest.
        topology: compile for such a TPU too, as `v5e:2x2`, and print the memory it takes.

    Raises:
        InputError: libtpu is not installed, or knows no such topology.
    """
    batches = batches_to_compile(generator)
    one = "one compilation" if len(batches) == 1 else f"{len(batches)} compilations"
    print(f"XLA, or a TPU: {one} of the training step, one for each shape of a batch")
    if not (settings.xla or settings.strategy == "tpu"):
        batches = batches[:1]
    model = build_as_trained(build, settings)
    for batch in tqdm(batches, "lower", leave=False, disable=None):
        findings = find_lowering_faults(model, batch)
        if findings:
            return findings
    return find_tpu_faults(model, batches[0], settings, topology) if topology else []


def build_as_trained(
    build: Callable[[], TrainingModel], settings: CommonSettings, compile_gradients: bool = False
) -> TrainingModel:
    """Return the model with the precision and the micro-batches of a training."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(settings.precision)
    try:
        model = build()
    finally:
        keras.config.set_dtype_policy(policy)
    model.compile(
        model.optimizer,
        settings.accumulation,
        compile_gradients,
        settings.recompute,
        model.regularization,
    )
    return model


def lower(model: TrainingModel, batch: Batch) -> Callable[..., str | bytes]:
    """Return a function of the stage (`hlo`, `hlo_serialized`) to the lowered training step."""
    names = list(batch)

    def step(*arrays):
        return model.train_step(dict(zip(names, arrays, strict=True)))

    specs = [tf.TensorSpec(array.shape, array.dtype) for array in batch.values()]
    compiled = tf.function(step, jit_compile=True, autograph=False)
    return compiled.experimental_get_compiler_ir(*specs)


def find_lowering_faults(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Find what XLA refuses, and sizes that depend on values."""
    names = {layer.name for _, layer in named_layers(model)} | {model.name}
    try:
        text = lower(model, batch)(stage="hlo")
    except Exception as error:  # TensorFlow and the participant's layers raise what they like
        layer = layer_of(" ".join(re.findall(r"[\w/]*/[\w/]*", str(error))), names)
        return [lowering_finding(layer or model.name, f"XLA refuses it ({gist(error)})")]
    return list(dynamic_sizes(text, names, model.name))


def dynamic_sizes(text: str, names: set[str], model: str) -> Iterator[Finding]:
    """Yield a finding for each layer that has a size which depends on values."""
    seen = set()
    for line in text.splitlines():
        if DYNAMIC_SIZE.search(line):
            operation, source = OPERATION.search(line), SOURCE.search(line)
            layer = layer_of(operation[1], names) if operation else ""
            if layer not in seen:
                seen.add(layer)
                place = name_place(source[1], int(source[2])) if source else ""
                yield lowering_finding(layer or model, "a size that depends on values", place)


def lowering_finding(layer: str, what: str, place: str = "") -> Finding:
    """Say that the training step is not one that a TPU compiles."""
    return Finding(
        "warning",
        f"layer {layer}: {what}",
        join_places("HLO of the training step", place),
        "use masks and fixed sizes, and operations that XLA knows, or stay off TPUs.",
    )


def find_tpu_faults(
    model: TrainingModel, batch: Batch, settings: CommonSettings, topology: str
) -> list[Finding]:
    """Compile the training step for a TPU that need not be there; print the memory it takes."""
    cores = count_cores(topology)
    if settings.batch_size_counts == "one_replica":
        cores = 1  # the batch is that of one core
    share = {name: array[: max(1, len(array) // cores)] for name, array in batch.items()}
    program = compile_for_tpu(lower(model, share)(stage="hlo_serialized"), topology)
    if isinstance(program, TpuProgram):
        print(f"TPU {topology}: {len(share['loss_weight'])} examples a core: {program}")
        return []
    return [
        Finding(
            "error",
            f"the training step does not compile ({program})",
            f"TPU {topology}",
            "lower batch_size or max_length, or raise accumulation, if it is memory.",
        )
    ]

"""Is a model ready for many replicas and for TPU? Each finding names the layer at fault."""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import re
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.data_checks import Finding
from common.errors import InputError
from common.generator import Batch, Generator
from common.strategy import make_strategy
from common.training import TrainingModel

SAME = 1e-5  # sums in another order differ by 1e-6 at the most, mistakes by 1e-3 and more
REPLICAS = 2
BATCH_SIZE = 4 * REPLICAS
# What XLA can't compile for a TPU: Python, strings, and results whose size depends on values.
DYNAMIC_OPERATIONS = {
    "BooleanMask",
    "DynamicPartition",
    "EagerPyFunc",
    "ListDiff",
    "PyFunc",
    "PyFuncStateless",
    "Where",
}
DYNAMIC_PREFIXES = ("AsString", "Decode", "NonMaxSuppression", "Ragged", "Sparse", "String")
DYNAMIC_PREFIXES += ("Unique", "Print", "LookupTable", "ReduceJoin", "RegexReplace")
# Static in spite of a name, or of a shape that follows from other shapes alone.
STATIC_OPERATIONS = {"BroadcastGradientArgs", "SparseSoftmaxCrossEntropyWithLogits"}


def use_processor(seed: int) -> None:
    """Compute without graphics cards: exactly, and with two replicas on any machine."""
    tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(seed)


def check_model(
    model: TrainingModel, generator: Generator, build: Callable[[], TrainingModel]
) -> list[Finding]:
    """Run all checks of this module on one real batch.

    Args:
        model: the training model; needs no optimizer.
        generator: of the training examples.
        build: returns the same model compiled; must be picklable.
    """
    findings = find_wrong_keys(generator, model)
    if findings:
        return findings
    batch = ragged_batch(generator)
    checks = {
        "configs": functools.partial(find_config_faults, model, batch),
        "static graph": functools.partial(find_dynamic_shapes, model, batch),
        "parts of a batch": functools.partial(find_split_faults, model, batch),
        "replicas": functools.partial(find_replica_faults, model, batch, build),
    }
    with tqdm(checks.items(), leave=False, disable=None) as bar:
        for name, check in bar:
            bar.set_description(name)
            # Two replicas only repeat what is wrong with two parts of a batch.
            if name != "replicas" or not any(finding.level == "error" for finding in findings):
                findings += check()
    return findings


def ragged_batch(generator: Generator) -> Batch:
    """Return a small real batch whose last examples only fill it up, as at an epoch's end."""
    examples, length = generator.plan(0)[0]
    real = BATCH_SIZE - REPLICAS - 1
    weight = np.zeros(BATCH_SIZE, np.float32)
    weight[:real] = 1 / real
    return {
        **generator.make_batch(np.resize(examples[:real], BATCH_SIZE), length),
        "loss_weight": weight,
    }


def find_wrong_keys(generator: Generator, model: keras.Model) -> list[Finding]:
    """Compare the keys of a batch with the inputs of the model."""
    try:
        generator.check_keys(model)
    except InputError as error:
        return [Finding("error", "keys of the batch", type(generator).__name__, str(error))]
    return []


def find_config_faults(model: keras.Model, batch: Batch) -> list[Finding]:
    """Rebuild every layer from its config, clone the model, and compare the outputs."""
    findings = []
    for path, layer in named_layers(model):
        try:
            type(layer).from_config(layer.get_config())
        except Exception as error:  # whatever a layer's own code raises
            findings.append(
                config_finding(path, f"can't be rebuilt from its config ({gist(error)})")
            )
    return findings or find_clone_faults(model, batch)


def find_clone_faults(model: keras.Model, batch: Batch) -> list[Finding]:
    """Clone a model, give the clone the same weights, and find the first layer that differs."""
    clone = keras.models.clone_model(model)
    for layer, copy in zip(model.layers, clone.layers, strict=True):
        try:
            copy.set_weights(layer.get_weights())
        except ValueError as error:
            return [config_finding(layer.name, f"has other weights in a clone ({gist(error)})")]
    originals = watch_layers(model, batch, training=False)
    copies = watch_layers(clone, batch, training=False)
    for (path, original), (_, copy) in zip(originals, copies, strict=False):
        if not same(original, copy):
            return [config_finding(path, "gives other outputs in a clone")]
    return []


def config_finding(path: str, what: str) -> Finding:
    """Say that a layer's config is wrong."""
    mend = "return every argument of __init__ from get_config, and name functions, no lambda."
    return Finding("error", f"layer {path} {what}", "get_config", mend)


def find_split_faults(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Compare the gradient of a batch with the sum of those of its parts, dropout off."""
    for name, tensor in zip(model.output_names, model.outputs, strict=True):
        if len(tensor.shape) != 1:
            return [split_finding(name, f"puts out {tensor.shape} instead of a loss [batch]")]
    parts = split_batch(batch)
    with without_dropout(model):
        whole, _ = model.gradients(as_tensors(batch))
        shares = [model.gradients(as_tensors(part))[0] for part in parts]
        sums = [np.sum(share, axis=0) for share in zip(*shares, strict=True)]
        largest = max(float(np.abs(gradient).max()) for gradient in whole)
        if all(
            np.allclose(gradient, total, rtol=0, atol=SAME * max(largest, 1.0))
            for gradient, total in zip(whole, sums, strict=True)
        ):
            return []
        together = watch_layers(model, batch, training=True)
        apart = [watch_layers(model, part, training=True) for part in parts]
    for (path, outputs), *rows in zip(together, *apart, strict=False):
        joined = join_outputs([outputs for _, outputs in rows])
        if joined is not None and not same(outputs, joined):
            return [split_finding(path, "gives an example other outputs in another batch")]
    return [split_finding(model.name, "has other gradients on parts of a batch")]


def split_finding(path: str, what: str) -> Finding:
    """Say that a layer mixes the examples of a batch."""
    mend = (
        "let no layer look across examples: a loss layer puts out sums [batch], which loss_weight "
        "averages."
    )
    return Finding("error", f"layer {path} {what}", f"{REPLICAS} replicas", mend)


def find_replica_faults(
    model: TrainingModel, batch: Batch, build: Callable[[], TrainingModel]
) -> list[Finding]:
    """Make one update with one replica and with two, each in a process of its own, and compare.

    Args:
        model: whose weights both begin with.
        build: returns the same model compiled; must be picklable.
    """
    findings = [
        Finding(
            "error",
            f"layer {path} is never built",
            f"{REPLICAS} replicas",
            "call it in the layer that holds it, or build it in that layer's build.",
        )
        for path, layer in named_layers(model)
        if not layer.built
    ]
    if findings:
        return findings
    try:
        one, two = (
            run_apart(update_weights, build, model.get_weights(), batch, n) for n in (1, REPLICAS)
        )
    except Exception as error:  # TensorFlow and the participant's layers raise what they like
        return [
            Finding(
                "error",
                f"an update failed ({type(error).__name__}: {gist(error)})",
                f"{REPLICAS} replicas",
                f"see it whole with: python train.py --logical_devices {REPLICAS} --steps 1 "
                "--run_name replicas",
            )
        ]
    differences = {name: float(np.abs(one[name] - two[name]).max()) for name in one}
    name = max(differences, key=differences.get)
    if differences[name] < SAME:
        return []
    return [
        Finding(
            "error",
            f"weights differ by {differences[name]:.1e} after one update, {name} the most",
            f"{REPLICAS} replicas",
            "let no layer look across examples, and reduce no loss within the model.",
        )
    ]


def run_apart(function: Callable, *arguments) -> object:
    """Call a function in a fresh process: TensorFlow splits its devices only once."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def update_weights(
    build: Callable[[], TrainingModel], weights: list[np.ndarray], batch: Batch, replicas: int
) -> dict[str, np.ndarray]:
    """Return the weights by path after one update of a batch on so many replicas of a CPU."""
    use_processor(seed=0)
    strategy = make_strategy("mirrored" if replicas > 1 else "single", replicas)
    with strategy.scope():
        model = build()
        model.set_weights(weights)
    dataset = tf.data.Dataset.from_tensors(batch)
    with without_dropout(model):
        model.fit(dataset, steps_per_epoch=1, shuffle=False, verbose=0)
    return {
        variable.path: np.array(value)
        for variable, value in zip(model.weights, model.get_weights(), strict=True)
    }


def find_dynamic_shapes(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Trace the gradient of a batch of static shape; find what a TPU can't compile, by layer."""
    specs = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}
    try:
        return dynamic_layers(model, trace(model.gradients, specs))
    except Exception as error:  # whatever a layer's own code raises
        findings = [
            Finding("error", f"no gradient ({gist(error)})", model.name, "mend the layer it names.")
        ]
    # The graph without the gradient may still name the layer.
    specs.pop("loss_weight")
    return findings + dynamic_layers(model, trace(functools.partial(model, training=True), specs))


def trace(function: Callable, specs: dict[str, tf.TensorSpec]) -> tf.compat.v1.GraphDef:
    """Return the graph of a function of a batch, with the shape of every output."""
    traced = tf.function(lambda batch: function(batch), autograph=False)
    return traced.get_concrete_function(specs).graph.as_graph_def(add_shapes=True)


def dynamic_layers(model: keras.Model, graph: tf.compat.v1.GraphDef) -> list[Finding]:
    """Return a finding for each layer that is not static."""
    names = {layer.name for _, layer in named_layers(model)} | {model.name}
    calls = called_from(graph)
    faults: dict[str, list[str]] = {}
    for function, nodes in function_nodes(graph):
        unknown = set()
        for node in nodes:
            if has_unknown_shape(node):
                unknown.add(node.name)
            fault = dynamic_fault(node, unknown)
            if fault:
                layer = layer_of(node.name, names) or layer_of(calls.get(function, ""), names)
                faults.setdefault(layer or model.name, []).append(fault)
    return [
        static_finding(layer, ", ".join(dict.fromkeys(found))) for layer, found in faults.items()
    ]


def static_finding(layer: str, what: str) -> Finding:
    """Say that a layer is not static."""
    mend = "use masks and fixed sizes (tf.where with three arguments, top_k), or stay off TPUs."
    return Finding("warning", f"layer {layer}: {what}", "static graph for TPU", mend)


def function_nodes(graph: tf.compat.v1.GraphDef) -> Iterator[tuple[str, list]]:
    """Yield `(name, nodes)` of the graph itself, named "", and of every function it calls."""
    yield "", graph.node
    for function in graph.library.function:
        yield function.signature.name, function.node_def


def called_from(graph: tf.compat.v1.GraphDef) -> dict[str, str]:
    """Return function -> name of the node that calls it: the bodies of loops and branches."""
    calls = {}
    for _, nodes in function_nodes(graph):
        for node in nodes:
            for attribute in node.attr.values():
                for called in [attribute.func, *attribute.list.func]:
                    calls.setdefault(called.name, node.name)
    return calls


def dynamic_fault(node: tf.compat.v1.NodeDef, unknown: set[str]) -> str | None:
    """Return what is dynamic about a node; None: nothing, or only what it inherits."""
    name = node.op
    if name not in STATIC_OPERATIONS and (
        name in DYNAMIC_OPERATIONS or name.startswith(DYNAMIC_PREFIXES)
    ):
        return f"operation {name}"
    inherited = any(re.split(":", name.lstrip("^"))[0] in unknown for name in node.input)
    return f"unknown shape of {name}" if node.name in unknown and not inherited else None


def has_unknown_shape(node: tf.compat.v1.NodeDef) -> bool:
    """Tell whether a size of an output is unknown."""
    return node.op not in STATIC_OPERATIONS and any(
        shape.unknown_rank or any(dimension.size < 0 for dimension in shape.dim)
        for shape in node.attr["_output_shapes"].list.shape
    )


def layer_of(scope: str, names: set[str]) -> str:
    """Return the layers within a name scope, outermost first; TensorFlow numbers its scopes."""
    found = []
    for part in scope.split("/"):
        bare = re.sub(r"_\d+$", "", part)
        name = bare if bare in names else part
        if name in names and name not in found:
            found.append(name)
    return "/".join(found[-2:])


def named_layers(model: keras.Model, prefix: str = "") -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yield `(path, layer)` for the layers of a model, and for those within them."""
    for layer in model._flatten_layers(include_self=False, recursive=False):
        yield prefix + layer.name, layer
        yield from named_layers(layer, f"{prefix}{layer.name}/")


def watch_layers(
    model: keras.Model, batch: Batch, training: bool
) -> list[tuple[str, list[np.ndarray]]]:
    """Return `(path, outputs)` of each call of a layer, in the order in which they end."""
    seen = []

    def watch(path: str, call: Callable) -> Callable:
        @functools.wraps(call)
        def watched(*args, **kwargs):
            outputs = call(*args, **kwargs)
            arrays = [np.asarray(array) for array in tf.nest.flatten(outputs)]
            seen.append((path, arrays))
            return outputs

        return watched

    layers = list(named_layers(model))
    for path, layer in layers:
        layer.call = watch(path, layer.call)
    try:
        model(model_inputs(model, batch), training=training)
    finally:
        for _, layer in layers:
            layer.__dict__.pop("call", None)
    return seen


@contextlib.contextmanager
def without_dropout(model: keras.Model) -> Iterator[None]:
    """Switch off every dropout layer of a model for a while."""
    rates = [
        (layer, layer.rate)
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Dropout)
    ]
    for layer, _ in rates:
        layer.rate = 0.0
    try:
        yield
    finally:
        for layer, rate in rates:
            layer.rate = rate


def split_batch(batch: Batch) -> list[Batch]:
    """Return the parts of a batch that the replicas see."""
    parts = {name: np.split(array, REPLICAS) for name, array in batch.items()}
    return [{name: arrays[n] for name, arrays in parts.items()} for n in range(REPLICAS)]


def join_outputs(parts: list[list[np.ndarray]]) -> list[np.ndarray] | None:
    """Join the outputs of a layer for parts of a batch; None: they are not of examples."""
    if any(array.ndim == 0 for part in parts for array in part):
        return None
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Tell whether arrays agree; those of other shapes can't be compared and count as equal."""
    return all(
        one.shape != two.shape or np.allclose(one, two, rtol=1e-4, atol=SAME)
        for one, two in zip(first, second, strict=True)
    )


def model_inputs(model: keras.Model, batch: Batch) -> dict[str, tf.Tensor]:
    """Return what a model reads of a batch."""
    return as_tensors({tensor.name: batch[tensor.name] for tensor in model.inputs})


def as_tensors(batch: Batch) -> dict[str, tf.Tensor]:
    """Return tensors of arrays."""
    return {name: tf.convert_to_tensor(array) for name, array in batch.items()}


def gist(error: Exception) -> str:
    """Return the first sentence of somebody else's error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".")

"""Is the graph of a training step static, as a TPU needs it? Each finding names layer and line."""

import re
from collections.abc import Iterator
from dataclasses import replace

import keras
import tensorflow as tf

from core.base.errors import gist
from core.base.extras import need
from core.batches import Batch
from core.data.checks import Finding
from core.exact.dropout import named_layers
from core.step import TrainingModel

# Not compilable for a TPU: Python, strings, and results whose size depends on values.
DYNAMIC_OPERATIONS = {
    "BooleanMask",
    "DynamicPartition",
    "EagerPyFunc",
    "ListDiff",
    "PyFunc",
    "PyFuncStateless",
    "Where",
}
DYNAMIC_PREFIXES: tuple[str, ...] = ("AsString", "Decode", "NonMaxSuppression", "Ragged", "Sparse")
DYNAMIC_PREFIXES += ("String", "Unique", "Print", "LookupTable", "ReduceJoin", "RegexReplace")
# Static in spite of the name, or with a shape that only depends on other shapes.
STATIC_OPERATIONS = {"BroadcastGradientArgs", "SparseSoftmaxCrossEntropyWithLogits"}
# Lines of these files call every layer, so they identify none.
CALLERS = (
    "step.py",
    "static_checks.py",
    "compile_checks.py",
    "model_checks.py",
    "checking.py",
    "check.py",
    "hooks.py",
    "extras.py",
    "errors.py",
)


def find_dynamic_shapes(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Trace the gradient of a static batch; find what a TPU can't compile, by layer."""
    specs = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}
    graphs, failure = [], ""

    def step(arrays: dict[str, tf.Tensor]) -> object:
        graphs.append(tf.compat.v1.get_default_graph())
        return model.gradients(arrays)

    try:
        tf.function(step, autograph=False).get_concrete_function(specs)
    except Exception as error:  # whatever a layer's own code raises
        failure = f"no gradient ({gist(error)})"
    # Use the partial trace, because a dynamic layer makes later ones fail.
    findings = dynamic_layers(model, graphs[-1])
    if failure and not findings:
        return [Finding("error", failure, model.name, "fix the layer it names.")]
    return [
        replace(f, level="error", what=f"{f.what}; {failure}") if failure else f for f in findings
    ]


def dynamic_layers(model: keras.Model, graph: tf.Graph) -> list[Finding]:
    """Return a finding for each layer that is not static."""
    names = {layer.name for _, layer in named_layers(model)} | {model.name}
    definition = graph.as_graph_def(add_shapes=True)
    calls = called_from(definition)
    faults: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    reached: set[str] = set()  # because of something dynamic before it
    for function, nodes in function_nodes(definition):
        for node in nodes:
            inputs = {re.split(":", name.lstrip("^"))[0] for name in node.input}
            inherited = bool(inputs & reached) or calls.get(function, "") in reached
            fault = dynamic_fault(node, inherited)
            if fault or inherited:
                reached.add(node.name)
            if fault:
                caller = calls.get(function, "")
                layer = layer_of(node.name, names) or layer_of(caller, names) or model.name
                faults.setdefault(layer, []).append(fault)
                places.setdefault(layer, line_of(graph, caller if function else node.name))
    return [
        static_finding(layer, ", ".join(dict.fromkeys(found)), places[layer])
        for layer, found in faults.items()
    ]


def static_finding(layer: str, what: str, place: str) -> Finding:
    """Say that a layer is not static."""
    fix = "use masks and fixed sizes (tf.where with three arguments, top_k), or stay off TPUs."
    where = f"static graph for TPU{place}"
    return Finding("warning", f"layer {layer}: {what}", where, fix)


def name_line(file: str | None, line: int) -> str:
    """Return `; task/model.py, line 12`, like the extra doctor, which asks for findings."""
    return need("doctor", "model_checks").name_place(file, line)


def line_of(graph: tf.Graph, node: str) -> str:
    """Return the project line that made a node of a graph; empty for a library's."""
    try:
        frames = graph.get_operation_by_name(node).traceback
    except KeyError:  # inside a function that another function calls
        return ""
    for frame in reversed(frames):
        place = name_line(frame.filename, frame.lineno)
        if place and not frame.filename.endswith(CALLERS):
            return place
    return ""


def function_nodes(graph: tf.compat.v1.GraphDef) -> Iterator[tuple[str, list]]:
    """Yield `(name, nodes)` of the graph, named "", and of every called function."""
    yield "", graph.node
    for function in graph.library.function:
        yield function.signature.name, function.node_def


def called_from(graph: tf.compat.v1.GraphDef) -> dict[str, str]:
    """Return function -> name of its calling node, for the bodies of loops and branches."""
    calls: dict[str, str] = {}
    for _, nodes in function_nodes(graph):
        for node in nodes:
            for attribute in node.attr.values():
                for called in [attribute.func, *attribute.list.func]:
                    calls.setdefault(called.name, node.name)
    return calls


def dynamic_fault(node: tf.compat.v1.NodeDef, inherited: bool) -> str | None:
    """Return what is dynamic about a node; None: nothing, or only an inherited shape."""
    name = node.op
    if name not in STATIC_OPERATIONS and (
        name in DYNAMIC_OPERATIONS or name.startswith(DYNAMIC_PREFIXES)
    ):
        return f"operation {name}"
    return f"unknown shape of {name}" if has_unknown_shape(node) and not inherited else None


def has_unknown_shape(node: tf.compat.v1.NodeDef) -> bool:
    """Return whether an output has an unknown size."""
    return node.op not in STATIC_OPERATIONS and any(
        shape.unknown_rank or any(dimension.size < 0 for dimension in shape.dim)
        for shape in node.attr["_output_shapes"].list.shape
    )


def layer_of(scope: str, names: set[str]) -> str:
    """Return the layers in a name scope, outermost first; TensorFlow numbers its scopes."""
    found = []
    for part in scope.split("/"):
        bare = re.sub(r"_\d+$", "", part)
        name = bare if bare in names else part
        if name in names and name not in found:
            found.append(name)
    return "/".join(found[-2:])

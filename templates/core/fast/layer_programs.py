"""Layers that XLA compiles, once for all layers that are alike.

On a GPU a training step is thousands of small operations, and to start one takes longer than to
compute it. XLA makes one program of many. But to compile a whole step takes a minute for each
length of a batch, because all layers are in it. Here a layer is a function that takes its weights
as arguments. So layers that are alike share two programs, one forward and one backward, which are
compiled once for each length.
"""

import collections
import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend import AutocastScope  # Keras exports no way to read a weight uncast

from core.exact.dropout import CURRENT as CURRENT_MASKS
from core.exact.dropout import Dropout, MasksOfProgram

# Attributes by which layers that compute the same may differ.
NAMES = {"name", "_name", "_path", "_parent_path", "_called", "_self_update_uid", "stream"}
TENSOR = object()  # stands for a tensor among the arguments of a layer
PLAIN = (bool, int, float, str, type(None), tuple, np.generic)


class LayerPrograms:
    """The compiled functions of the layers of one model."""

    def __init__(self) -> None:
        self.functions: dict[tuple, Callable | None] = {}  # None: it can't be compiled
        self.parts: dict[int, Any] = {}

    def call(self, layer: keras.layers.Layer, call: Callable, inputs: tuple) -> Any:
        """Return the outputs of a layer.

        Args:
            layer: its weights are arguments of the program.
            call: the method of its class.
            inputs: positional arguments and a dict of the others; tensors, and plain values that
                are part of the program.
        """
        parts = tf.nest.flatten(inputs)
        tensors = [part for part in parts if tf.is_tensor(part)]
        others = tuple(TENSOR if tf.is_tensor(part) else part for part in parts)
        masks = CURRENT_MASKS.get()
        key = (kind_of(layer), call, tuple(inputs[1]), others, masks is None)
        if key not in self.functions:
            cannot = (True in others and draws_otherwise(layer, masks)) or has_loop(layer)
            self.functions[key] = None if cannot else compile_layer(layer, call, inputs)
        if (program := self.functions[key]) is None:
            return call(layer, *inputs[0], **inputs[1])
        with AutocastScope(None):  # weights are cast within the program
            weights = [tf.convert_to_tensor(variable.value) for variable in layer.variables]
        calls = masks.calls.copy() if masks else collections.Counter()
        drawn = masks.arguments(dropouts_of(layer)) if masks else ()
        try:
            return program(weights, tensors, drawn)
        except AssignsWeightsError:  # a program could not give them back
            self.functions[key] = None
            if masks:
                masks.calls = calls  # as if it had drawn nothing
            return call(layer, *inputs[0], **inputs[1])

    def halves(self, model: keras.Model) -> Any:
        """Return a model's part up to its last compiled layer, and the rest; None: it has none."""
        if id(model) not in self.parts:
            self.parts[id(model)] = split_model(model)
        return self.parts[id(model)]


CURRENT: ContextVar[LayerPrograms | None] = ContextVar("programs", default=None)


@contextlib.contextmanager
def compiled_layers(model: Any) -> Iterator[None]:
    """Let the layers of a model run as XLA programs in this context, if `compile` made any."""
    before = CURRENT.set(getattr(model, "programs", None))
    try:
        yield
    finally:
        CURRENT.reset(before)


def compiled_alone(call: Callable) -> Callable:
    """Return the `call` of a layer that is one program where `LayerPrograms` are used."""

    @functools.wraps(call)
    def chosen(self: keras.layers.Layer, *arguments: Any, **options: Any) -> Any:
        programs = CURRENT.get()
        if programs is None:
            return call(self, *arguments, **options)
        return programs.call(self, call, (arguments, options))

    chosen.compiled_alone = True  # type: ignore[attr-defined]
    return chosen


def call_in_parts(model: keras.Model, call: Callable, inputs: Any, training: Any) -> Any:
    """Return a functional model's outputs; all after its last compiled layer is one program."""
    programs = CURRENT.get()
    if programs is None or (parts := programs.halves(model)) is None:
        return call(inputs, training=training)
    body, head = parts
    tensors = body(inputs, training=training)
    return programs.call(head, call_head, ((tensors,), {"training": training}))


def call_head(head: keras.Model, tensors: list, training: Any) -> Any:
    """Return the outputs of the head of a model."""
    return head(tensors, training=training)


def split_model(model: keras.Model) -> tuple[keras.Model, keras.Model] | None:
    """Cut a functional model after the last layer that is compiled alone; None: it has none."""
    depths = [
        depth
        for depth, nodes in model._nodes_by_depth.items()
        if any(has_programs(node.operation) for node in nodes)
    ]
    if not depths:
        return None
    after = [
        node
        for depth, nodes in model._nodes_by_depth.items()
        if depth < min(depths)
        for node in nodes
        if not node.is_input
    ]
    made = {id(tensor) for node in after for tensor in node.output_tensors}
    read = {id(t): t for node in after for t in node.input_tensors if id(t) not in made}
    tensors = list(read.values())
    head = keras.Model(tensors, model.output, name="head")
    return keras.Model(model.input, tensors, name="body"), head


def has_programs(operation: Any) -> bool:
    """Return whether an operation of a model is a layer that is compiled alone, or has one."""
    parts = operation._flatten_layers() if isinstance(operation, keras.layers.Layer) else ()
    return any(hasattr(type(part).call, "compiled_alone") for part in parts)


def compile_layer(layer: keras.layers.Layer, call: Callable, inputs: tuple) -> Callable:
    """Return a function of weights, tensors and what masks are drawn from, compiled by XLA."""
    # The tensors of the first layer must not be kept.
    kept = tf.nest.map_structure(lambda part: TENSOR if tf.is_tensor(part) else part, inputs)

    @tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
    def run(weights: list, tensors: list, drawn: tuple) -> Any:
        given = iter(tensors)
        arguments, options = tf.nest.map_structure(
            lambda part: next(given) if part is TENSOR else part, kept
        )
        with AutocastScope(None):
            scope = keras.StatelessScope(zip(layer.variables, weights, strict=True))
        masks = MasksOfProgram(dropouts_of(layer), drawn) if drawn else None
        token = CURRENT.set(None)
        try:
            with scope, masks.drawn() if masks else contextlib.nullcontext():
                outputs = call(layer, *arguments, **options)
        finally:
            CURRENT.reset(token)
        now = [scope.get_current_value(variable) for variable in layer.variables]
        if any(value is not weight for value, weight in zip(now, weights, strict=True)):
            raise AssignsWeightsError
        return outputs

    return run


class AssignsWeightsError(Exception):
    """A layer changes its weights while it is called, as batch normalization does."""


def draws_otherwise(layer: keras.layers.Layer, masks: Any) -> bool:
    """Return whether a layer draws random numbers that don't come from `Masks`."""
    placed = dropouts_of(layer) if masks else []
    return any(
        isinstance(value, keras.random.SeedGenerator)
        for part in layer._flatten_layers()
        if part not in placed
        for value in vars(part).values()
    )


def has_loop(layer: keras.layers.Layer) -> bool:
    """Return whether a layer loops over tokens, and says so by its attribute `has_loop`.

    The gradient of a loop reads lists of its steps. XLA can't hand these from the program of the
    values to that of the gradient.
    """
    return any(getattr(part, "has_loop", False) for part in layer._flatten_layers())


def dropouts_of(layer: keras.layers.Layer) -> list[Dropout]:
    """Return the dropout layers within a layer that draw their masks from `Masks`."""
    return [part for part in layer._flatten_layers() if isinstance(part, Dropout) and part.stream]


def kind_of(layer: keras.layers.Layer) -> tuple:
    """Return what layers that compute the same have in common.

    Attributes count besides the configuration, since a project may set them on a built layer.
    """
    parts = [
        (type(part), json.dumps(without_names(part.get_config()), default=repr), attributes(part))
        for part in layer._flatten_layers()
    ]
    weights = [(tuple(v.shape), v.dtype, v.trainable) for v in layer.variables]
    return (*parts, *weights)


def attributes(layer: keras.layers.Layer) -> tuple:
    """Return the values that a layer holds besides its weights and its parts."""
    found: list[tuple] = []
    for name, value in vars(layer).items():
        if name in NAMES:
            continue
        if isinstance(value, PLAIN):
            found.append((name, repr(value)))
        elif isinstance(value, np.ndarray):
            found.append((name, value.tobytes()))
        elif isinstance(value, (tf.Tensor, tf.Variable)):
            found.append((name, id(value)))
    return tuple(found)


def without_names(config: Any) -> Any:
    """Return a configuration without the names of layers."""
    if isinstance(config, dict):
        return {name: without_names(value) for name, value in config.items() if name != "name"}
    return [without_names(value) for value in config] if isinstance(config, list) else config

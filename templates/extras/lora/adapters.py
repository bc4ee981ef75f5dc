"""Low-rank updates of frozen kernels: W + alpha / rank * A B.

Source: Hu et al. 2021, https://arxiv.org/abs/2106.09685.
"""

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.replace_class import replace_class
from core.exact.dropout import named_layers
from core.fast.transformer import SelfAttention
from extras.lora.codes import decode, encode
from extras.lora.settings import Settings, split_names

# Part of a Transformer layer -> ends of the paths of its dense layers.
PARTS = {
    "query": r"/query(_projector)?$|/projection$",
    "key": r"/key(_projector)?$|/projection$",
    "value": r"/value(_projector)?$|/projection$",
    "output": r"/attention_output$|attention/output_projector$|/(attention|cross)/output$",
    "feedforward": r"/(feedforward|ffw)\w*$|/(intermediate|gated|(input|gate)_projector)$"
    r"|(?<!attention)/output_projector$|/(up|gate|down)$",
}
ALL = "all"
OFF = "set lora.rank = 0"
# Dense layers outside of Transformer layers. A pooler is trained like heads, because many files
# have none, and it then starts from random weights.
HEADS = r"(^|/)pooled_dense$"
NO_PART = rf"{HEADS}|embedding"


@dataclass(frozen=True)
class Product:
    """How a dense layer multiplies: the last axes of the inputs become those of the outputs.

    Attributes:
        summed: the kernel axes that are summed over, in the order of the inputs.
        made: the other kernel axes, in the order of the outputs.
        shape: of the kernel.
    """

    summed: tuple[int, ...]
    made: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """The last sizes of the inputs."""
        return tuple(self.shape[axis] for axis in self.summed)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The last sizes of the outputs."""
        return tuple(self.shape[axis] for axis in self.made)

    def as_matrix(self, kernel: tf.Tensor) -> tf.Tensor:
        """Return a kernel as a matrix `[inputs, outputs]`."""
        order = (*self.summed, *self.made)
        turned = kernel if order == tuple(sorted(order)) else tf.transpose(kernel, order)
        return tf.reshape(turned, (math.prod(self.inputs), math.prod(self.outputs)))

    def as_kernel(self, matrix: tf.Tensor) -> tf.Tensor:
        """Return a matrix `[inputs, outputs]` as a kernel."""
        order = (*self.summed, *self.made)
        turned = tf.reshape(matrix, (*self.inputs, *self.outputs))
        return turned if order == tuple(sorted(order)) else tf.transpose(turned, np.argsort(order))


@dataclass(frozen=True)
class Base:
    """What the frozen weights of an encoder were before it was adapted.

    Attributes:
        hash: of their bytes; `size` in bytes.
        kernels: paths of the dense layers that have an update.
        arrays: the weights, of an encoder that was read from nowhere; None: of any other.
    """

    hash: str
    size: int
    kernels: list[str]
    arrays: list[np.ndarray] | None


def product_of(layer: keras.layers.Layer) -> Product | None:
    """Return how a dense layer multiplies; None: not as one matrix."""
    equation = getattr(layer, "equation", "...a,ab->...b").replace(" ", "")
    inputs, kernel, outputs = re.split(",|->", equation)
    summed = "".join(axis for axis in inputs if axis in kernel and axis not in outputs)
    made = "".join(axis for axis in outputs if axis in kernel and axis not in inputs)
    rest = inputs.removesuffix(summed)
    if sorted(summed + made) != sorted(kernel) or (inputs, outputs) != (rest + summed, rest + made):
        return None
    first, second = (tuple(kernel.index(axis) for axis in axes) for axes in (summed, made))
    return Product(first, second, tuple(layer._kernel.shape))


class Adapted(keras.layers.Layer):
    """A Keras dense layer with a frozen kernel and a low-rank update.

    Attributes:
        product: how it multiplies.
        scale: of the update, alpha / rank.
        lora_a: `[inputs, rank]`; `lora_b`: `[rank, outputs]`, initially 0.
        codes: the arrays of an encoded base by name, see `extras/lora/codes.py`; empty: floats.
    """

    product: Product
    scale: float
    codes: dict[str, keras.Variable]

    def adapt(self, product: Product, rank: int, alpha: float, seed: int, base: str) -> None:
        """Freeze the kernel and create the update, which is 0.

        Args:
            product: of this layer.
            rank: of the update.
            alpha: the update is multiplied by alpha / rank.
            seed: of A.
            base: how the kernel is kept: `float`, `int8` or `int4`.
        """
        self.product, self.scale = product, alpha / rank
        inputs, outputs = math.prod(product.inputs), math.prod(product.outputs)
        self._tracker.unlock()
        self.codes = {}
        self._kernel._autocast = False  # bfloat16 is too coarse for sums of small steps
        if base != "float":
            self.shrink_kernel(base)
        # Uniform up to 1 / sqrt(inputs), independent of the kernel's initializer.
        first = keras.initializers.RandomUniform(-(inputs**-0.5), inputs**-0.5, seed=seed)
        options = {"dtype": "float32", "autocast": False}
        self.lora_a = self.add_weight((inputs, rank), first, name="lora_a", **options)
        self.lora_b = self.add_weight((rank, outputs), "zeros", name="lora_b", **options)
        self._tracker.lock()

    def shrink_kernel(self, base: str) -> None:
        """Store the kernel as whole numbers."""
        arrays = encode(self.product.as_matrix(np.asarray(self._kernel)).numpy(), base)
        self._untrack_variable(self._kernel)
        # `del` would look for garbage in the whole process, 0.3 s for each layer.
        super(keras.layers.Layer, self).__delattr__("_kernel")
        for name, array in arrays.items():
            options = {"dtype": str(array.dtype), "name": f"kernel_{name}", "autocast": False}
            weight = self.add_weight(array.shape, "zeros", trainable=False, **options)
            weight.assign(array)
            weight.frozen = True
            self.codes[name] = weight

    def base_kernel(self) -> tf.Tensor:
        """Return the frozen kernel, in float32."""
        if not self.codes:
            return tf.convert_to_tensor(self._kernel)
        return self.product.as_kernel(self.decoded())

    def decoded(self) -> tf.Tensor:
        """Return the frozen kernel as floats `[inputs, outputs]`."""
        return decode(self.codes, math.prod(self.product.inputs))

    def base_matrix(self, dtype: tf.DType) -> tf.Tensor:
        """Return the frozen kernel as a matrix `[inputs, outputs]`."""
        matrix = self.decoded() if self.codes else self.product.as_matrix(self.base_kernel())
        return tf.cast(matrix, dtype)

    @property
    def kernel(self) -> tf.Tensor:
        """The kernel with its update, for layers that multiply several kernels at once."""
        update = self.product.as_kernel(tf.matmul(self.lora_a, self.lora_b))
        return tf.cast(self.base_kernel() + self.scale * update, self.compute_dtype)

    def call(self, inputs, training=None) -> tf.Tensor:
        """Return the output for the sum of both kernels, without computing the sum."""
        inputs = tf.cast(inputs, self.compute_dtype)
        around = tf.unstack(tf.shape(inputs))[: -len(self.product.inputs)]
        flat = tf.reshape(inputs, (-1, math.prod(self.product.inputs)))
        first, second = (tf.cast(part, flat.dtype) for part in (self.lora_a, self.lora_b))
        outputs = self.multiply(flat) + (flat @ (self.scale * first)) @ second
        if self.bias is not None:
            bias = tf.broadcast_to(tf.cast(self.bias, flat.dtype), self.product.outputs)
            outputs = tf.nn.bias_add(outputs, tf.reshape(bias, (-1,)))
        outputs = outputs if self.activation is None else self.activation(outputs)
        return tf.reshape(outputs, (*around, *self.product.outputs))

    def multiply(self, flat) -> tf.Tensor:
        """Return the product of inputs `[n, inputs]` with the frozen kernel, `[n, outputs]`."""
        if not self.codes:
            return flat @ self.base_matrix(flat.dtype)

        # The floats are computed again for the gradient, because those of all layers would need
        # more memory than the codes save.
        @tf.custom_gradient
        def forward(values) -> tuple:
            def backward(upstream) -> tf.Tensor:
                return tf.matmul(upstream, self.base_matrix(upstream.dtype), transpose_b=True)

            return values @ self.base_matrix(values.dtype), backward

        return forward(flat)

    def save_own_variables(self, store: Any) -> None:
        """Write only the update."""
        store["lora_a"], store["lora_b"] = self.lora_a, self.lora_b

    def load_own_variables(self, store: Any) -> None:
        """Read the update."""
        self.lora_a.assign(store["lora_a"])
        self.lora_b.assign(store["lora_b"])


class ApartAttention(SelfAttention):
    """Attention with separate products for query, key and value, so that updates apply."""

    def project(self, hidden) -> list[tf.Tensor]:
        """Return query, key and value, each `[batch, heads, length, size]`."""
        parts = (self._query_dense, self._key_dense, self._value_dense)
        return [tf.transpose(part(hidden), (0, 2, 1, 3)) for part in parts]


def adapt_layers(settings: Settings, encoder: keras.Model) -> None:
    """Freeze an encoder, and add an update to the kernels in the settings.

    Call this in the strategy's scope, before making the optimizer.

    Raises:
        InputError: the encoder has no such kernel, or the rank is as large as a kernel.
    """
    table, frozen = settings.lora, base_weights(encoder)
    chosen = choose_layers(encoder, table.layers)
    encoder.lora_base = Base(
        hash_weights(map(np.asarray, frozen)),
        sum(np.asarray(weight).nbytes for weight in frozen),
        [path for path, _, _ in chosen],
        # An encoder without files can't be read again, so its run keeps it.
        [*map(np.array, frozen)] if settings.encoder == "tiny" else None,
    )
    for weight in frozen:
        freeze(weight)
    del frozen, weight  # otherwise kernels that become codes would stay in memory
    for number, (path, layer, product) in enumerate(chosen):
        smallest = min(math.prod(product.inputs), math.prod(product.outputs))
        if table.rank > smallest:
            raise InputError(
                f"lora.rank = {table.rank}, but {path} has a kernel of rank {smallest}: set "
                f"lora.rank lower, or {OFF}."
            )
        replace_class(layer, adapted(type(layer)))  # type: ignore[arg-type]
        seed = int(np.random.SeedSequence((settings.seed, number)).generate_state(1)[0])
        layer.adapt(product, table.rank, table.alpha, seed, table.base)
    take_products_apart(encoder)
    leave_base_out(encoder)


@functools.cache
def adapted(kind: Any) -> type:
    """Return the class of a layer with an update: layers that are alike share their programs."""
    return type(kind.__name__, (Adapted, kind), {})


@functools.cache
def apart(kind: Any) -> type:
    """Return the class of an attention whose products are taken apart, one for all layers."""
    bases = (ApartAttention,) if kind is SelfAttention else (kind, ApartAttention)
    return type(kind.__name__, bases, {})


def choose_layers(
    encoder: keras.Model, layers: str
) -> list[tuple[str, keras.layers.Layer, Product]]:
    """Return path, layer and product of the dense layers that get an update.

    Raises:
        InputError: no layer has these names.
    """
    found: dict[int, tuple[str, keras.layers.Layer, Product]] = {}
    for path, layer in named_layers(encoder):
        dense = isinstance(layer, keras.layers.Dense | keras.layers.EinsumDense)
        product = product_of(layer) if dense and not re.search(NO_PART, f"/{path}") else None
        if product and layer.built and layer.trainable and is_named(f"/{path}", layers):
            found.setdefault(id(layer), (path, layer, product))  # ALBERT shares its layers
    if not found:
        raise InputError(
            f"lora.layers = {layers!r}, but {type(encoder).__name__} has no such dense layer that "
            f'is trained: set lora.layers = "{ALL}", or {OFF}.'
        )
    return [*found.values()]


def is_named(path: str, layers: str) -> bool:
    """Return whether the setting `layers` includes the dense layer of a path."""
    return layers == ALL or any(re.search(PARTS[name], path) for name in split_names(layers))


def take_products_apart(encoder: keras.Model) -> None:
    """Let attention call layers with an update, instead of one product of their kernels.

    Other layers that multiply several kernels at once read `Adapted.kernel`.
    """
    for _, layer in named_layers(encoder):
        if isinstance(layer, SelfAttention) and not isinstance(layer, ApartAttention):
            parts = (layer._query_dense, layer._key_dense, layer._value_dense)
            if any(isinstance(part, Adapted) for part in parts):
                replace_class(layer, apart(type(layer)))  # type: ignore[arg-type]


def base_weights(encoder: keras.Model) -> list[keras.Variable]:
    """Return the frozen weights of an encoder in a fixed order."""
    heads = [layer for path, layer in named_layers(encoder) if re.search(HEADS, path)]
    trained = {id(weight) for layer in heads for weight in layer.weights}
    return [weight for weight in encoder.weights if id(weight) not in trained]


def freeze(weight: keras.Variable) -> None:
    """Exclude a weight from training and checkpoints."""
    weight.trainable, weight.frozen = False, True


def leave_base_out(encoder: keras.Model) -> None:
    """Exclude layers with only frozen weights from weight files."""
    for layer in frozen_layers(encoder):
        layer.save_own_variables = layer.load_own_variables = pass_over


def frozen_layers(encoder: keras.Model) -> Iterator[keras.layers.Layer]:
    """Yield the layers with only frozen own weights, except adapted ones."""
    frozen = {id(weight) for weight in base_weights(encoder)}
    for layer in (encoder, *(layer for _, layer in named_layers(encoder))):
        own = {
            id(weight) for weight in (*layer._trainable_variables, *layer._non_trainable_variables)
        }
        if own and own <= frozen and not isinstance(layer, Adapted):
            yield layer


def pass_over(store: Any) -> None:
    """Neither write nor read."""


def hash_weights(arrays: Iterable[np.ndarray]) -> str:
    """Return `sha256:<hex>` of the concatenated bytes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return f"sha256:{found.hexdigest()}"


def merge_when_loaded(settings: Settings, encoder: keras.Model, kernels: list[str]) -> None:
    """Let loading a file with updates add them to the kernels of a plain encoder.

    Args:
        settings: `rank`, `alpha` and `base` of the training; a base of codes becomes their floats,
            as in the training.
        encoder: with the initial weights of the training.
        kernels: paths of the layers with an update.
    """
    chosen = [found for found in choose_layers(encoder, ALL) if found[0] in set(kernels)]
    scale = settings.lora.alpha / settings.lora.rank
    for layer in frozen_layers(encoder):
        layer.load_own_variables = pass_over
    for _, layer, product in chosen:
        if settings.lora.base != "float":
            matrix = product.as_matrix(np.asarray(layer._kernel)).numpy()
            floats = decode(encode(matrix, settings.lora.base), len(matrix))
            layer._kernel.assign(product.as_kernel(floats))
        layer.load_own_variables = functools.partial(add_update, layer, product, scale)


def add_update(layer: keras.layers.Layer, product: Product, scale: float, store: Any) -> None:
    """Add a dense layer's update in a file to its kernel, once."""
    update = scale * (np.asarray(store["lora_a"]) @ np.asarray(store["lora_b"]))
    layer._kernel.assign(np.asarray(layer._kernel) + product.as_kernel(update).numpy())
    layer.load_own_variables = pass_over

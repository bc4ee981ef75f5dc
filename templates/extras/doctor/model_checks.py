"""Is a model right, and ready for several replicas? Each finding names the layer at fault."""

import concurrent.futures
import contextlib
import functools
import inspect
import io
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from core.base.errors import InputError, gist
from core.base.files import PROJECT
from core.base.settings import CoreSettings
from core.batches import Batch, DataGenerator
from core.data.checks import Finding
from core.devices.precision import find_precision
from core.devices.strategy import make_local_strategy, split_first_device
from core.exact.dropout import can_be_placed, named_layers
from core.optimizer import make_optimizer
from core.runs.run import Run
from core.step import Models, TrainingModel
from core.training import Training

# So many that the learning rate has not begun to fall in the first step.
MANY_EPOCHS = 1_000_000
SAME = 1e-5  # short sums in another order differ by 1e-6 at most, mistakes by 1e-3 and more
REPLICAS = 2
BEFORE_GRADIENT = "checks of extras"
BATCH_SIZE = 4 * REPLICAS


def check_model(
    model: TrainingModel,
    train_batches: DataGenerator,
    build: Callable[[], Models],
    settings: CoreSettings,
    before_gradient: Sequence[Callable[[TrainingModel, Batch], list[Finding]]] = (),
) -> list[Finding]:
    """Run all checks of this module on one real batch.

    Args:
        model: the training model; needs no optimizer.
        train_batches: of the training examples.
        build: builds the same models again; must be picklable.
        settings: of the project.
        before_gradient: checks of the model and the batch by extras. After an error of theirs no
            gradient is tried.
    """
    findings = find_wrong_keys(train_batches, model)
    if findings:
        return findings
    batch = ragged_batch(train_batches)
    checks = {
        "configs": functools.partial(find_config_faults, model, batch),
        "added losses": functools.partial(find_added_losses, model, batch),
        BEFORE_GRADIENT: lambda: [found for one in before_gradient for found in one(model, batch)],
        "parts of a batch": functools.partial(find_split_faults, model, batch),
        "replicas": functools.partial(find_replica_faults, model, batch, build, settings),
    }
    with tqdm(checks.items(), leave=False, disable=None) as bar:
        for name, check in bar:
            bar.set_description(name)
            # Two replicas would only repeat what is wrong with two parts of a batch.
            if name != "replicas" or not any(finding.level == "error" for finding in findings):
                found = check()
                findings += found
            if name == BEFORE_GRADIENT and any(finding.level == "error" for finding in found):
                break  # without a gradient
    return findings


def ragged_batch(train_batches: DataGenerator) -> Batch:
    """Return a small real batch, filled up with examples of weight 0 as at the end of an epoch."""
    examples, length = train_batches.first_batch(0)
    real = BATCH_SIZE - REPLICAS - 1
    weight = np.zeros(BATCH_SIZE, np.float32)
    weight[:real] = 1 / real
    return {
        **train_batches.make_batch(np.resize(examples[:real], BATCH_SIZE), length),
        "loss_weight": weight,
    }


def find_wrong_keys(train_batches: DataGenerator, model: keras.Model) -> list[Finding]:
    """Compare the keys of a batch with the inputs of the model."""
    try:
        train_batches.check_keys(model)
    except InputError as error:
        return [Finding("error", "keys of the batch", type(train_batches).__name__, str(error))]
    return []


def find_config_faults(model: keras.Model, batch: Batch) -> list[Finding]:
    """Rebuild every layer from its config, and compare the outputs of a clone of the model."""
    findings = []
    for path, layer in named_layers(model):
        try:
            type(layer).from_config(layer.get_config())
        except Exception as error:  # whatever a layer's own code raises
            what = f"can't be rebuilt from its config ({gist(error)})"
            findings.append(config_finding(path, layer, what))
    return findings or find_clone_faults(model, batch)


def find_clone_faults(model: keras.Model, batch: Batch) -> list[Finding]:
    """Find the first layer whose outputs differ in a clone with the same weights."""
    clone = keras.models.clone_model(model)
    for layer, copy in zip(model.layers, clone.layers, strict=True):
        try:
            copy.set_weights(layer.get_weights())
        except ValueError as error:
            what = f"has other weights in a clone ({gist(error)})"
            return [config_finding(layer.name, layer, what)]
    originals = watch_layers(model, batch, training=False)
    copies = watch_layers(clone, batch, training=False)
    for (path, original), (_, copy) in zip(originals, copies, strict=False):
        if not same(original, copy):
            layer = dict(named_layers(model))[path]
            return [config_finding(path, layer, "gives other outputs in a clone")]
    return []


def config_finding(path: str, layer: keras.layers.Layer, what: str) -> Finding:
    """Return the finding about a wrong config of a layer."""
    fix = "return every argument of __init__ from get_config, and name functions, no lambda."
    return Finding("error", f"layer {path} {what}", f"get_config{place_of(layer)}", fix)


def find_added_losses(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Find layers whose losses are not outputs: the training step only counts outputs."""
    model(model_inputs(model, batch), training=True)
    return [
        Finding(
            "error",
            f"layer {path} adds a loss by {how}, which is never trained",
            f"losses{place_of(layer)}",
            "make it an output of the model: one sum for each example, [batch].",
        )
        for path, layer in named_layers(model)
        for how, found in (
            ("add_loss", layer._losses),
            ("a regularizer", [v for v in layer._trainable_variables if v.regularizer]),
        )
        if found
    ]


def find_split_faults(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Compare gradients of an example in a batch and in a part of the batch, without dropout."""
    for tensor in model.outputs:
        if len(tensor.shape) != 1:
            layer = tensor._keras_history.operation
            what = f"puts out {tensor.shape} instead of a loss [batch]"
            return [split_finding(layer.name, layer, what)]
    with without_dropout(model):
        try:
            if all(same_gradients(model, *pair) for pair in neighbours(batch)):
                return []
        except Exception as error:  # whatever a layer's own code raises
            what = f"no gradient ({gist(error)})"
            return [Finding("error", what, model.name, "fix the layer it names.")]
        parts = split_batch(batch)
        together = watch_layers(model, batch, training=True)
        apart = [watch_layers(model, part, training=True) for part in parts]
    for (path, outputs), *rows in zip(together, *apart, strict=False):
        joined = join_outputs([outputs for _, outputs in rows])
        if joined is not None and not same(outputs, joined):
            layer = dict(named_layers(model))[path]
            return [split_finding(path, layer, "gives an example other outputs in another batch")]
    return [split_finding(model.name, model, "has other gradients on parts of a batch")]


def neighbours(batch: Batch) -> list[tuple[Batch, Batch]]:
    """Return two pairs of the whole batch and one of its parts, in which one example has a weight.

    It is the last example of the first part, then the first example of the second part: both lose
    a neighbour when the batch is split. The other examples weigh 0 and add exact zeros to the
    gradient. If all had weights, sums over the tokens of all texts would hide small faults: added
    one by one, 8 x 3,310 numbers are rounded by 1e-5 of their sum.
    """
    half = len(batch["loss_weight"]) // REPLICAS
    pairs = []
    for part, row in enumerate((half - 1, half)):
        weight = np.zeros_like(batch["loss_weight"])
        weight[row] = 1
        weighted = {**batch, "loss_weight": weight}
        pairs.append((weighted, split_batch(weighted)[part]))
    return pairs


def same_gradients(model: TrainingModel, whole: Batch, part: Batch) -> bool:
    """Return whether a batch and a part of it have the same gradient, except for rounding.

    Adding n equal float32 numbers one by one rounds each sum on the way by up to 2^-24 of itself.
    So the result is off by up to n / 2 times 2^-24 of itself, and two orders of adding differ by up
    to n times 2^-24. The order depends on how threads share the sum. Here n is the longest axis of
    an example, usually its tokens. `SAME` is larger up to 167 tokens.
    """
    numbers = max(size for array in whole.values() for size in (1, *array.shape[1:]))
    gradients = [model.gradients(as_tensors(batch))[0] for batch in (whole, part)]
    largest = max(float(np.abs(gradient).max()) for gradient in gradients[0])
    allowed = max(SAME, numbers * 2.0**-24) * max(largest, 1.0)
    return all(
        np.allclose(one, two, rtol=0, atol=allowed) for one, two in zip(*gradients, strict=True)
    )


def split_finding(path: str, layer: keras.layers.Layer, what: str) -> Finding:
    """Return the finding about a layer that mixes the examples of a batch."""
    fix = (
        "let no layer look across examples: a loss layer puts out sums [batch], which loss_weight "
        "averages."
    )
    return Finding("error", f"layer {path} {what}", f"{REPLICAS} replicas{place_of(layer)}", fix)


def find_replica_faults(
    model: TrainingModel, batch: Batch, build: Callable[[], Models], settings: CoreSettings
) -> list[Finding]:
    """Compare the weights after one update on one replica and on two.

    Args:
        model: gives the initial weights.
        build: returns the same models anew; must be picklable.
        settings: of the project.
    """
    findings = [
        Finding(
            "error",
            f"layer {path} is never built",
            f"{REPLICAS} replicas{place_of(layer)}",
            "call it in the layer that holds it, or build it in that layer's build.",
        )
        for path, layer in named_layers(model)
        if not layer.built
    ] or [
        Finding(
            "warning",
            f"layer {path} draws other random numbers on several replicas than on one",
            f"{REPLICAS} replicas{place_of(layer)}",
            "use keras.layers.Dropout, whose masks are placed, or train on one replica.",
        )
        for path, layer in named_layers(model)
        if draws_by_replica(layer)
    ]
    if findings:
        return findings
    try:
        one, two = run_apart(update_on_replicas, build, settings, model.get_weights(), batch)
    except Exception as error:  # TensorFlow and a layer's own code raise anything
        return [
            Finding(
                "error",
                f"an update failed ({type(error).__name__}: {gist(error)})",
                f"{REPLICAS} replicas",
                f"see it whole with: python train.py --devices.logical_devices {REPLICAS} "
                "--steps 1 --run_name replicas",
            )
        ]
    differences = {name: float(np.abs(one[name] - two[name]).max()) for name in one}
    name = max(differences, key=lambda name: differences[name])
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


def run_apart(function: Callable, *arguments: Any) -> Any:
    """Call a function in a new process: TensorFlow splits its devices only once."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def update_on_replicas(
    build: Callable[[], Models], settings: CoreSettings, weights: list[np.ndarray], batch: Batch
) -> list[dict[str, np.ndarray]]:
    """Return the weights by path after one update, on one replica and on several."""
    tf.config.set_visible_devices([], "GPU")
    devices = tf.config.list_logical_devices(split_first_device(REPLICAS))
    strategies = [make_local_strategy(name, devices) for name in ("single", "mirrored")]
    # The batch is too small for micro-batches too, and both need the same learning rate.
    plain = {"precision": "float32", "scale_learning_rate": False}
    devices = settings.devices.model_copy(update=plain)
    settings = settings.model_copy(update={"accumulation": 1, "devices": devices})
    with contextlib.redirect_stdout(io.StringIO()):  # the first process has printed it
        return [update_weights(build, settings, weights, batch, one) for one in strategies]


def build_as_trained(
    build: Callable[[], Models],
    settings: CoreSettings,
    batches: DataGenerator,
    weights: list[np.ndarray] | None = None,
) -> TrainingModel:
    """Return the training model as train.py compiles it, but without XLA and warm-up."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(find_precision(settings))
    try:
        models = build()
    finally:
        keras.config.set_dtype_policy(policy)
    if weights is not None:
        models.training.set_weights(weights)
    devices = settings.devices.model_copy(update={"xla": False})
    many = {"warm_up": 0.0, "epochs": MANY_EPOCHS, "steps": 0, "devices": devices}
    if table := getattr(settings, "distillation", None):
        # What is learned is one batch that is there, and there is no run to read.
        alone = {"files": [], "weights": [], "init_from": ""}
        many["distillation"] = table.model_copy(update=alone)
    settings = settings.model_copy(update=many)
    strategy, run = tf.distribute.get_strategy(), Run(PROJECT / "runs" / settings.run_name)
    never_scored: Any = None
    training = Training(settings, strategy, run, models, batches, never_scored, monitor="")
    training.prepare()
    models.training.compile(make_optimizer(training), **training.compile_options)
    return models.training


def update_weights(
    build: Callable[[], Models],
    settings: CoreSettings,
    weights: list[np.ndarray],
    batch: Batch,
    strategy: tf.distribute.Strategy,
) -> dict[str, np.ndarray]:
    """Return the weights by path after one update of a batch."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = build_as_trained(build, settings, OneBatch(batch), weights)
    dataset = tf.data.Dataset.from_tensors(batch)
    model.fit(dataset, steps_per_epoch=1, shuffle=False, verbose=0)
    return {
        variable.path: np.array(value)
        for variable, value in zip(model.weights, model.get_weights(), strict=True)
    }


class OneBatch(DataGenerator):
    """Batches that are all the same one: easier to send to a process than the training data."""

    def __init__(self, batch: Batch) -> None:
        rows = len(batch["loss_weight"])
        super().__init__([1] * rows, rows)
        self.batch = {name: array for name, array in batch.items() if name != "loss_weight"}

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        return {name: array[positions] for name, array in self.batch.items()}

    def read_unlabelled(self, path: str) -> DataGenerator:
        return self


def split_batch(batch: Batch) -> list[Batch]:
    """Return the parts of a batch for the replicas."""
    parts = {name: np.split(array, REPLICAS) for name, array in batch.items()}
    return [{name: arrays[n] for name, arrays in parts.items()} for n in range(REPLICAS)]


def join_outputs(parts: list[list[np.ndarray]]) -> list[np.ndarray] | None:
    """Join the outputs of a layer for parts of a batch; None: they have no batch axis."""
    if any(array.ndim == 0 for part in parts for array in part):
        return None
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Return whether arrays agree; arrays of different shapes count as equal."""
    return all(
        one.shape != two.shape or np.allclose(one, two, rtol=1e-4, atol=SAME)
        for one, two in zip(first, second, strict=True)
    )


def watch_layers(
    model: keras.Model, batch: Batch, training: bool
) -> list[tuple[str, list[np.ndarray]]]:
    """Return `(path, outputs)` of each call of a layer, in the order in which calls end."""
    seen = []

    def watch(path: str, call: Callable) -> Callable:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
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
    """Switch off all dropout of a model within this context."""
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


def draws_by_replica(layer: keras.layers.Layer) -> bool:
    """Return whether a layer draws random numbers that depend on the replica."""
    draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
    # Keras's attention has a generator, but draws only by its dropout layer.
    passes_on = isinstance(layer, keras.layers.MultiHeadAttention)
    return draws and not passes_on and not can_be_placed(layer)


def model_inputs(model: keras.Model, batch: Batch) -> dict[str, tf.Tensor]:
    """Return the part of a batch that is an input of a model."""
    return as_tensors({tensor.name: batch[tensor.name] for tensor in model.inputs})


def as_tensors(batch: Batch) -> dict[str, tf.Tensor]:
    """Return tensors of arrays."""
    return {name: tf.convert_to_tensor(array) for name, array in batch.items()}


def place_of(layer: keras.layers.Layer) -> str:
    """Return `; task/model.py, line 12` for the code of a layer; empty for a library."""
    code = layer.function if isinstance(layer, keras.layers.Lambda) else type(layer)
    try:
        return name_place(inspect.getsourcefile(code), inspect.getsourcelines(code)[1])
    except (OSError, TypeError):  # defined without a file, or in C
        return ""


def name_place(file: str | None, line: int) -> str:
    """Return `; task/model.py, line 12` for a line of the project; empty for a library."""
    path = Path(file or "")
    if "site-packages" in path.parts or "dist-packages" in path.parts or not path.is_file():
        return ""
    name = path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name
    return f"; {name}, line {line}"

"""Alternatives to AdamW, all with optional lazy rows and Lookahead."""

import math
import re
from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.exact.dropout import named_layers
from core.fast.adamw import EPSILON, AdamW, FineTuning
from extras.optimizers.schedules import ShapedSchedule
from extras.optimizers.settings import Settings, Table, read_points


class Toolbox(FineTuning):
    """`FineTuning` with lazy rows and Lookahead.

    Args:
        lazy: paths of tables whose rows, with moments, change only with a gradient; otherwise the
            row of a rare token keeps moving long after its last occurrence.
        lookahead: every so many steps the weights return to `lookahead_share` of their way; 0:
            never. Source: Zhang et al. 2019, https://arxiv.org/abs/1907.08610.
        lookahead_share: fraction of the way.
        **kwargs: as in `FineTuning`.
    """

    # Attributes with a moment per variable, of its shape.
    moments: tuple[str, ...] = ()

    def __init__(
        self,
        *args: Any,
        lazy: tuple[str, ...] = (),
        lookahead: int = 0,
        lookahead_share: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = tuple(lazy)
        self.lookahead = lookahead
        self.lookahead_share = lookahead_share

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        keys = {variable.path: self._var_key(variable) for variable in variables}
        self._lazy = {keys[path] for path in self.lazy if path in keys}
        if self.lookahead:
            self._slow = self.add_optimizer_variables(variables, "slow")

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        index = self._get_variable_index(variable)
        start = tf.identity(variable) if self.lookahead else None
        lazy = self._var_key(variable) in self._lazy
        waiting = self.state_of(variable, index) if lazy else []
        before = [tf.identity(state) for state in waiting]
        super().update_step(gradient, variable, learning_rate)
        if waiting:
            rows = tf.reduce_any(gradient != 0, axis=range(1, len(gradient.shape)), keepdims=True)
            for state, value in zip(waiting, before, strict=True):
                state.assign(tf.where(rows, state, value))
        if self.lookahead:
            self.look_back(variable, start, index)

    def state_of(self, variable: Any, index: int) -> list[tf.Variable]:
        """Return a variable and its moments."""
        moments = [getattr(self, name)[index] for name in self.moments]
        return [variable, *(moment.value for moment in moments if moment is not None)]

    def look_back(self, variable: Any, start: tf.Tensor, index: int) -> None:
        """Move the slow weights, and restart the fast ones from there."""
        slow = self._slow[index].value
        due = (self.iterations + 1) % self.lookahead == 0
        origin = tf.where(tf.equal(self.iterations, 0), start, slow)
        after = origin + self.lookahead_share * (variable - origin)
        slow.assign(tf.where(due, after, origin))
        variable.assign(tf.where(due, after, variable))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "lazy": list(self.lazy),
            "lookahead": self.lookahead,
            "lookahead_share": self.lookahead_share,
        }


@keras.saving.register_keras_serializable("common")
class ToolboxAdamW(Toolbox, AdamW):
    """AdamW with lazy rows and Lookahead.

    Args: as in `Toolbox` and `AdamW`.
    """

    moments = ("_momentums", "_velocities")


@keras.saving.register_keras_serializable("common")
class Lamb(Toolbox, keras.optimizers.Lamb):
    """LAMB: scales the step of each layer, including decay, to the norm of its weights.

    Keras leaves the decay out of the step and adapts every variable.
    Source: You et al. 2020, https://arxiv.org/abs/1904.00962.

    Args:
        no_adaptation: variables with these parts in their names take Adam's step.
        **kwargs: as in `Toolbox` and `keras.optimizers.Lamb`.
    """

    def __init__(self, *args, no_adaptation=("bias", "gamma", "beta"), **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.no_adaptation = tuple(no_adaptation)

    def build(self, variables) -> None:
        super().build(variables)
        self._adapted = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_adaptation)
        }

    def move(self, gradient, variable, rate, decay, numbers) -> None:
        share = 0.0 if decay is None else self.decay  # the step is scaled by the rate below
        index = self._get_variable_index(variable)
        first, second = self._momentums[index].value, self._velocities[index].value
        first.assign_add((gradient - first) * (1.0 - self.beta_1))
        second.assign_add((tf.square(gradient) - second) * (1.0 - self.beta_2))
        count = tf.cast(self.iterations + 1, variable.dtype)
        if self.loss_scale:  # of float16: a step that was skipped has moved nothing
            count -= tf.cast(self.loss_scale.skipped.value, variable.dtype)
        first, second = first / (1.0 - self.beta_1**count), second / (1.0 - self.beta_2**count)
        step = first / (tf.sqrt(second) + self.epsilon) + share * variable
        if self._var_key(variable) in self._adapted:
            weights, length = tf.norm(variable), tf.norm(step)
            ratio = tf.math.divide_no_nan(weights, length)
            rate *= tf.where((weights > 0) & (length > 0), ratio, 1.0)
        variable.assign_sub(rate * step)

    def get_config(self) -> dict:
        return {**super().get_config(), "no_adaptation": list(self.no_adaptation)}


@keras.saving.register_keras_serializable("common")
class Adafactor(Toolbox, keras.optimizers.Adafactor):
    """Adafactor: second moments from the means of rows and columns.

    Its steps are relative to the size of the weights. Use a rate of 1e-3 to 1e-2.
    Source: Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235.

    Args: as in `Toolbox` and `keras.optimizers.Adafactor`.
    """


@keras.saving.register_keras_serializable("common")
class Lion(Toolbox, keras.optimizers.Lion):
    """Lion: the sign of the momentum. Use a third to a tenth of Adam's rate.

    Source: Chen et al. 2023, https://arxiv.org/abs/2302.06675.

    Args: as in `Toolbox` and `keras.optimizers.Lion`.
    """

    moments = ("_momentums",)


@keras.saving.register_keras_serializable("common")
class Muon(Toolbox, keras.optimizers.Muon):
    """Muon: orthogonal steps for matrices, Adam's for embeddings and all else.

    Keras uses Adam for attention projections, because they have three axes. Here they are flattened
    to the matrix that is closest to a square.
    Source: Liu et al. 2025, https://arxiv.org/abs/2502.16982.

    Args: as in `Toolbox` and `keras.optimizers.Muon`.
    """

    moments = ("momentums", "adam_velocities")

    def _should_use_adamw(self, variable: keras.Variable) -> bool:
        matrix = variable.name == "kernel" and len(variable.shape) in (2, 3)
        return not matrix or any(re.search(part, variable.path) for part in self.exclude_layers)

    def _apply_weight_decay(self, variables) -> None:
        """Do nothing: `move` has the decay."""

    def _muon_update_step(self, gradient, variable, lr, m) -> None:
        m.assign(self.momentum * m + gradient)
        ahead = gradient + self.momentum * m if self.nesterov else m
        rows, columns = most_square(variable.shape)
        step = self.zeropower_via_newtonschulz5(tf.reshape(ahead, (rows, columns)), self.ns_steps)
        variable.assign_sub(tf.reshape(self.lr_adjust(lr * step), variable.shape))


def most_square(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of the flattening that is closest to a square."""
    ways = [(math.prod(shape[:axis]), math.prod(shape[axis:])) for axis in range(1, len(shape))]
    return min(ways, key=max)


KINDS = {"adamw": ToolboxAdamW, "lamb": Lamb, "adafactor": Adafactor, "lion": Lion, "muon": Muon}


def make_kind(
    settings: Settings, model: keras.Model, encoder: keras.Model, options: dict[str, Any]
) -> keras.optimizers.Optimizer:
    """Return the optimizer of the table `optimizers`.

    Args:
        settings: `optimizers`, `learning_rate`.
        model: the trained model.
        encoder: the part that learns at `learning_rate`.
        options: the arguments of core's own optimizer.

    Raises:
        InputError: `layer_decay` with an encoder of unknown layers.
    """
    table: Table = settings.optimizers
    schedule = options["learning_rate"]
    factors = options["rate_factors"]
    if table.layer_decay != 1.0:
        factors = factors | decayed_rates(encoder, table.layer_decay)
    changed = {
        "learning_rate": ShapedSchedule(
            schedule.peak,
            schedule.steps,
            schedule.warm_up_steps,
            table.schedule,
            table.schedule_power,
            tuple(read_points(table.schedule_points)),
        ),
        "rate_factors": factors,
        "no_decay": split_names(table.no_decay),
        "lazy": embedding_tables(model) if table.lazy_embeddings else (),
        "lookahead": table.lookahead,
    }
    return KINDS[table.kind](**{**options, **changed, **own_arguments(table, model, encoder)})


def own_arguments(table: Table, model: keras.Model, encoder: keras.Model) -> dict[str, Any]:
    """Return the arguments that only the chosen optimizer has."""
    if table.kind == "lamb":
        return {"epsilon": EPSILON, "no_adaptation": split_names(table.no_adaptation)}
    if table.kind == "muon":
        # A head scores labels, so its rows are not directions in one space.
        within = {variable.path for variable in encoder.variables}
        heads = [variable.path for variable in model.variables if variable.path not in within]
        return {"epsilon": EPSILON, "exclude_layers": [f"^{re.escape(path)}$" for path in heads]}
    return {"epsilon": EPSILON} if table.kind == "adamw" else {}


def split_names(names: str) -> tuple[str, ...]:
    """Return the parts of `bias,gamma`."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def embedding_tables(model: keras.Model) -> tuple[str, ...]:
    """Return the paths of the embedding tables of tokens."""
    return tuple(
        variable.path
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Embedding)
        for variable in layer.trainable_variables
    )


def decayed_rates(encoder: keras.Model, decay: float) -> dict[str, float]:
    """Return factors of an encoder's learning rates: each layer's is `decay` of the one above.

    Embeddings are below the first layer. Weights above the last, such as a pooler, have none.
    Source: Howard and Ruder 2018, https://arxiv.org/abs/1801.06146, section 3.2.

    Raises:
        InputError: the encoder's layers are unknown.
    """
    layers = getattr(encoder, "transformer_layers", None)
    if not layers:
        raise InputError(
            f"layer_decay needs an encoder with transformer_layers, which {type(encoder).__name__} "
            "does not have: set layer_decay = 1."
        )
    factors = {
        variable.path: decay ** (len(layers) - 1 - depth)
        for depth, layer in enumerate(layers)
        for variable in layer.trainable_variables
    }
    return factors | {
        variable.path: decay ** len(layers)
        for variable in encoder.trainable_variables
        if variable.path not in factors and "embedding" in variable.path
    }


def freeze_layers(encoder: keras.Model, count: int) -> None:
    """Freeze the lowest layers: they get no gradient, no decay and no moments.

    `layer.trainable = True` unfreezes a layer before the model is compiled.

    Args:
        encoder: of the task.
        count: 0: none; 1: the embeddings; 2: also the first Transformer layer, and so on.

    Raises:
        InputError: the encoder has fewer layers, or its layers are unknown.
    """
    if not count:
        return
    layers = getattr(encoder, "transformer_layers", [])
    if count > 1 + len(layers) or not layers:
        has = f"has {1 + len(layers)} with its embeddings" if layers else "doesn't tell its layers"
        raise InputError(
            f"frozen_layers = {count}, but the encoder ({type(encoder).__name__}) {has}: "
            f"set it to {1 + len(layers) if layers else 0} at the most."
        )
    for layer in encoder.layers:
        if any("embedding" in variable.path for variable in layer.variables):
            layer.trainable = False
    for layer in layers[: count - 1]:
        layer.trainable = False

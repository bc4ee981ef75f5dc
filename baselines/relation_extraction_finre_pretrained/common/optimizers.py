"""Optimizers as encoders are fine-tuned: rates by group, decay by name, one norm for replicas."""

import math
import re

import keras
import tensorflow as tf

from common.errors import InputError
from common.model_layers import named_layers
from common.schedules import WarmUpThenDecay
from common.settings import CommonSettings, read_points


class FineTuning:
    """What fine-tuning adds to an optimizer of Keras; stands before it among the bases.

    Keras clips each replica's own gradient before the sum, which changes the result with the
    number of replicas; here the sum is clipped. Clipping needs gradients without repeated indices:
    `TrainingModel` hands them over dense.

    Args:
        learning_rate: a rate or a schedule.
        rates: path of a variable -> how many times as fast it learns; 1 where it is not named.
        decay: w -= rate decay w, besides the step of the optimizer.
        no_decay: parts of the names of variables that don't decay.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        lazy: paths of tables whose rows wait, moments too, until they have a gradient: elsewhere
            a rare token goes on moving for long after it was seen.
        lookahead: after so many steps the weights go back to `lookahead_share` of the way that
            they have come; 0: never. Source: Zhang et al. 2019, https://arxiv.org/abs/1907.08610.
        lookahead_share: of the way.
        **kwargs: as in the optimizer of Keras.
    """

    # The attributes that hold a moment for each variable, of its shape.
    moments: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate=1e-4,
        rates: dict[str, float] | None = None,
        decay: float = 0.01,
        # Biases and the scales of normalisations have no reason to be near zero.
        no_decay: tuple[str, ...] = ("bias", "gamma", "beta"),
        clip_norm: float = 1.0,
        lazy: tuple[str, ...] = (),
        lookahead: int = 0,
        lookahead_share: float = 0.5,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rates = dict(rates or {})
        self.decay = decay
        self.no_decay = tuple(no_decay)
        self.clip_norm = clip_norm
        self.lazy = tuple(lazy)
        self.lookahead = lookahead
        self.lookahead_share = lookahead_share

    def build(self, variables):
        super().build(variables)
        # `update_step` sees TensorFlow variables, whose names are not unique: compare identities.
        keys = {variable.path: self._var_key(variable) for variable in variables}
        self._rates = {keys[path]: rate for path, rate in self.rates.items() if path in keys}
        self._lazy = {keys[path] for path in self.lazy if path in keys}
        self._decaying = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_decay)
        }
        if self.lookahead:
            self._slow = self.add_optimizer_variables(variables, "slow")

    def _all_reduce_sum_gradients(self, grads_and_vars):
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if not self.clip_norm:
            return reduced
        gradients, variables = zip(*reduced, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return list(zip(gradients, variables, strict=True))

    def update_step(self, gradient, variable, learning_rate):
        key, index = self._var_key(variable), self._get_variable_index(variable)
        rate = tf.cast(learning_rate, variable.dtype) * self._rates.get(key, 1.0)
        decay = self.decay if key in self._decaying else 0.0
        start = tf.identity(variable) if self.lookahead else None
        waiting = self.state_of(variable, index) if key in self._lazy else []
        before = [tf.identity(state) for state in waiting]
        self.move(gradient, variable, rate, decay)
        if waiting:
            rows = tf.reduce_any(gradient != 0, axis=range(1, len(gradient.shape)), keepdims=True)
            for state, value in zip(waiting, before, strict=True):
                state.assign(tf.where(rows, state, value))
        if self.lookahead:
            self.look_back(variable, start, index)

    def move(self, gradient, variable, rate, decay):
        """Update a variable and its moments: the step that this optimizer is named after."""
        if decay:
            variable.assign_sub(variable * (rate * decay))
        super().update_step(gradient, variable, rate)

    def state_of(self, variable, index: int) -> list[tf.Variable]:
        """Return a variable and its moments."""
        moments = [getattr(self, name)[index] for name in self.moments]
        return [variable, *(moment.value for moment in moments if moment is not None)]

    def look_back(self, variable, start, index: int) -> None:
        """Let the slow weights follow, and the fast ones start from there."""
        slow = self._slow[index].value
        due = (self.iterations + 1) % self.lookahead == 0
        origin = tf.where(tf.equal(self.iterations, 0), start, slow)
        after = origin + self.lookahead_share * (variable - origin)
        slow.assign(tf.where(due, after, origin))
        variable.assign(tf.where(due, after, variable))

    def finalize_variable_values(self, var_list):
        """Leave the weights: Keras gives the model its averages whenever `fit` ends."""

    def get_config(self):
        return {
            **super().get_config(),
            "rates": self.rates,
            "decay": self.decay,
            "no_decay": list(self.no_decay),
            "clip_norm": self.clip_norm,
            "lazy": list(self.lazy),
            "lookahead": self.lookahead,
            "lookahead_share": self.lookahead_share,
        }


@keras.saving.register_keras_serializable("common")
class AdamW(FineTuning, keras.optimizers.Adam):
    """AdamW in one pass over memory, where Keras makes a dozen: embeddings are long.

    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.

    Args: as in `FineTuning` and `keras.optimizers.Adam`.
    """

    moments = ("_momentums", "_velocities")

    def move(self, gradient, variable, rate, decay):
        index = self._get_variable_index(variable)
        if decay:
            variable.assign_sub(variable * (rate * decay))
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )


@keras.saving.register_keras_serializable("common")
class Lamb(FineTuning, keras.optimizers.Lamb):
    """LAMB: the step of each layer is as long as its weights; the decay belongs to the step.

    Keras leaves the decay out of the step, and adapts every variable.
    Source: You et al. 2020, https://arxiv.org/abs/1904.00962.

    Args:
        no_adaptation: parts of the names of variables whose step is Adam's.
        **kwargs: as in `FineTuning` and `keras.optimizers.Lamb`.
    """

    def __init__(self, *args, no_adaptation=("bias", "gamma", "beta"), **kwargs):
        super().__init__(*args, **kwargs)
        self.no_adaptation = tuple(no_adaptation)

    def build(self, variables):
        super().build(variables)
        self._adapted = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_adaptation)
        }

    def move(self, gradient, variable, rate, decay):
        index = self._get_variable_index(variable)
        first, second = self._momentums[index].value, self._velocities[index].value
        first.assign_add((gradient - first) * (1.0 - self.beta_1))
        second.assign_add((tf.square(gradient) - second) * (1.0 - self.beta_2))
        count = tf.cast(self.iterations + 1, variable.dtype)
        first, second = first / (1.0 - self.beta_1**count), second / (1.0 - self.beta_2**count)
        step = first / (tf.sqrt(second) + self.epsilon) + decay * variable
        if self._var_key(variable) in self._adapted:
            weights, length = tf.norm(variable), tf.norm(step)
            ratio = tf.math.divide_no_nan(weights, length)
            rate *= tf.where((weights > 0) & (length > 0), ratio, 1.0)
        variable.assign_sub(rate * step)

    def get_config(self):
        return {**super().get_config(), "no_adaptation": list(self.no_adaptation)}


@keras.saving.register_keras_serializable("common")
class Adafactor(FineTuning, keras.optimizers.Adafactor):
    """Adafactor: second moments from the means of rows and columns.

    Its steps are relative to the size of the weights: it wants a rate of 1e-3 to 1e-2.
    Source: Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235.

    Args: as in `FineTuning` and `keras.optimizers.Adafactor`.
    """


@keras.saving.register_keras_serializable("common")
class Lion(FineTuning, keras.optimizers.Lion):
    """Lion: the sign of the momentum. It wants a third to a tenth of Adam's rate.

    Source: Chen et al. 2023, https://arxiv.org/abs/2302.06675.

    Args: as in `FineTuning` and `keras.optimizers.Lion`.
    """

    moments = ("_momentums",)


@keras.saving.register_keras_serializable("common")
class Muon(FineTuning, keras.optimizers.Muon):
    """Muon: orthogonal steps for matrices, Adam's for all else and for embeddings.

    Keras leaves the projections of attention to Adam, because they have three axes; here they are
    the matrices that they are: of all ways to lay them flat the one most like a square.
    Source: Liu et al. 2025, https://arxiv.org/abs/2502.16982.

    Args: as in `FineTuning` and `keras.optimizers.Muon`.
    """

    moments = ("momentums", "adam_velocities")

    def _should_use_adamw(self, variable):
        matrix = variable.name == "kernel" and len(variable.shape) in (2, 3)
        return not matrix or any(re.search(part, variable.path) for part in self.exclude_layers)

    def _apply_weight_decay(self, variables):
        """Do nothing: `move` has the decay."""

    def _muon_update_step(self, gradient, variable, lr, m):
        m.assign(self.momentum * m + gradient)
        ahead = gradient + self.momentum * m if self.nesterov else m
        rows, columns = most_square(variable.shape)
        step = self.zeropower_via_newtonschulz5(tf.reshape(ahead, (rows, columns)), self.ns_steps)
        variable.assign_sub(tf.reshape(self.lr_adjust(lr * step), variable.shape))


def most_square(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of the way to lay an array flat that is most like a square."""
    ways = [(math.prod(shape[:axis]), math.prod(shape[axis:])) for axis in range(1, len(shape))]
    return min(ways, key=max)


# As BERT was trained: with Keras's 1e-7 rare rows jump.
EPSILON = 1e-6
KINDS = {"adamw": AdamW, "lamb": Lamb, "adafactor": Adafactor, "lion": Lion, "muon": Muon}


def make_optimizer(
    settings: CommonSettings,
    model: keras.Model,
    encoder: keras.Model,
    steps: int,
    rate_factor: float = 1.0,
    groups: dict[str, float] | None = None,
) -> keras.optimizers.Optimizer:
    """Return the optimizer of a whole training.

    Args:
        settings: `optimizer`, `learning_rate`, `head_learning_rate`, `layer_decay`, `schedule`,
            `schedule_power`, `schedule_points`, `warm_up`, `weight_decay`, `no_decay`,
            `no_adaptation`, `clip_norm`, `lazy_embeddings`, `lookahead`, `ema`.
        model: what is trained.
        encoder: its variables learn at `learning_rate`, all others at `head_learning_rate`.
        steps: updates of the whole training.
        rate_factor: multiplies all rates.
        groups: name of a layer -> learning rate of its variables, whatever holds for others.

    Raises:
        InputError: `layer_decay` with an encoder whose layers are not known.
    """
    return KINDS[settings.optimizer](
        WarmUpThenDecay(
            settings.learning_rate * rate_factor,
            steps,
            int(settings.warm_up * steps),
            settings.schedule,
            settings.schedule_power,
            read_points(settings.schedule_points),
        ),
        rates=relative_rates(settings, model, encoder, groups or {}),
        decay=settings.weight_decay,
        no_decay=split_names(settings.no_decay),
        clip_norm=settings.clip_norm,
        lazy=embedding_tables(model) if settings.lazy_embeddings else (),
        lookahead=settings.lookahead,
        use_ema=settings.ema > 0,
        ema_momentum=settings.ema or 0.99,
        **own_arguments(settings, model, encoder),
    )


def own_arguments(settings: CommonSettings, model: keras.Model, encoder: keras.Model) -> dict:
    """Return the arguments that only the chosen optimizer has."""
    if settings.optimizer == "lamb":
        return {"epsilon": EPSILON, "no_adaptation": split_names(settings.no_adaptation)}
    if settings.optimizer == "muon":
        # A head scores labels: its rows are no directions of one space.
        within = {variable.path for variable in encoder.variables}
        heads = [variable.path for variable in model.variables if variable.path not in within]
        return {"epsilon": EPSILON, "exclude_layers": [f"^{re.escape(path)}$" for path in heads]}
    return {"epsilon": EPSILON} if settings.optimizer == "adamw" else {}


def split_names(names: str) -> tuple[str, ...]:
    """Return the parts of `bias,gamma`."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def embedding_tables(model: keras.Model) -> tuple[str, ...]:
    """Return the paths of the tables that tokens are looked up in."""
    return tuple(
        variable.path
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Embedding)
        for variable in layer.trainable_variables
    )


def relative_rates(
    settings: CommonSettings, model: keras.Model, encoder: keras.Model, groups: dict[str, float]
) -> dict[str, float]:
    """Return how fast each variable learns, by path, in multiples of `learning_rate`.

    Raises:
        InputError: `layer_decay` with an encoder whose layers are not known.
    """
    rates = {
        variable.path: settings.head_learning_rate / settings.learning_rate
        for variable in model.trainable_variables
    }
    rates |= {variable.path: 1.0 for variable in encoder.trainable_variables}
    if settings.layer_decay != 1.0:
        rates |= decayed_rates(encoder, settings.layer_decay)
    for name, rate in groups.items():
        layer = model.get_layer(name)
        rates |= {
            variable.path: rate / settings.learning_rate for variable in layer.trainable_variables
        }
    return rates


def decayed_rates(encoder: keras.Model, decay: float) -> dict[str, float]:
    """Return the rates of an encoder whose layers learn `decay` times as fast as those above them.

    Embeddings are below the first layer; what is above the last, as a pooler, keeps its rate.
    Source: Howard and Ruder 2018, https://arxiv.org/abs/1801.06146, section 3.2.

    Raises:
        InputError: the layers of the encoder are not known.
    """
    layers = getattr(encoder, "transformer_layers", None)
    if not layers:
        raise InputError(
            f"layer_decay needs an encoder with transformer_layers, which {type(encoder).__name__} "
            "has not: set layer_decay = 1."
        )
    rates = {
        variable.path: decay ** (len(layers) - 1 - depth)
        for depth, layer in enumerate(layers)
        for variable in layer.trainable_variables
    }
    return rates | {
        variable.path: decay ** len(layers)
        for variable in encoder.trainable_variables
        if variable.path not in rates and "embedding" in variable.path
    }

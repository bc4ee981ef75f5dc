"""Train a small model with every optimizer: python toolbox_worker.py RECORD FLAGS

RECORD is a .npz file that receives the weights, and their averages, after some steps of each.
FLAGS say which devices train, as those of a project do.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "templates")]

import common  # noqa: E402, F401

# isort: split
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from common.averaging import averaged_weights  # noqa: E402
from common.cluster import is_chief, part  # noqa: E402
from common.generator import Generator, WithUnlabelled  # noqa: E402
from common.optimizers import make_optimizer  # noqa: E402
from common.regularization import Scores, make_regularization  # noqa: E402
from common.settings import CommonSettings  # noqa: E402
from common.strategy import make_strategy  # noqa: E402
from common.training import TrainingModel  # noqa: E402

EXAMPLES, BATCH, LENGTH, LABELS, STEPS = 14, 8, 4, 3, 4  # two batches an epoch, the last of six
TOOLS = {"lookahead": 3, "ema": 0.7, "schedule": "cosine", "clip_norm": 0.5}
# An optimizer and a regularisation at once: tracing costs more than all steps.
VARIANTS = {
    "adamw": {"lazy_embeddings": True, "adversary": "fgm"},
    "lamb": {"adversary": "pgd"},
    "adafactor": {"gradient_penalty": 5.0},
    "lion": {"lazy_embeddings": True, "learning_rate": 1e-4, "r_drop": 4.0},
    "muon": {"virtual_adversary": 2.0},
}


@keras.saving.register_keras_serializable("tests")
class CrossEntropy(keras.layers.Layer):
    """Cross-entropy of each example `[batch]`."""

    def call(self, logits, labels):
        return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


@keras.saving.register_keras_serializable("tests")
class TwoFaces(keras.layers.Layer):
    """A dropout whose masks are the same on every replica: one in the first pass of a step, another
    in the second."""

    def call(self, inputs, training=None):
        if not training:
            return inputs
        graph = tf.compat.v1.get_default_graph()
        graph.passes = getattr(graph, "passes", 0) + 1
        places = tf.range(inputs.shape[-1])
        return inputs * tf.cast((places + graph.passes) % 2, inputs.dtype)


class Examples(Generator):
    """Random tokens and labels."""

    def __init__(self, labelled: bool):
        random = np.random.default_rng(3 + labelled)
        self.labelled = labelled
        super().__init__(np.full(EXAMPLES, LENGTH), BATCH, buckets=1, seed=1)
        self.tokens = random.integers(0, 30, (EXAMPLES, LENGTH)).astype("int32")
        self.labels = random.integers(0, LABELS, EXAMPLES).astype("int32")

    def make_batch(self, examples, length):
        labels = {"labels": self.labels[examples]} if self.labelled else {}
        return {"token_ids": self.tokens[examples], **labels}


def build() -> tuple[TrainingModel, keras.Model, keras.KerasTensor]:
    """Return the training model, its encoder and its logits."""
    keras.utils.set_random_seed(1)
    token_ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = keras.layers.Embedding(30, 8, name="token_embedding")
    hidden = TwoFaces()(keras.layers.Dense(8, "tanh", name="dense")(table(token_ids)))
    encoder = keras.Model(token_ids, keras.layers.GlobalAveragePooling1D()(hidden), name="encoder")
    encoder.token_embedding = table
    labels = keras.Input((), dtype="int32", name="labels")
    logits = keras.layers.Dense(LABELS, name="logits")(encoder(token_ids))
    loss = CrossEntropy(name="label_loss")(logits, labels)
    inputs = {"token_ids": token_ids, "labels": labels}
    return TrainingModel(inputs, {"label_loss": loss}), encoder, logits


def main() -> None:
    """Train every variant, one after the other, and record what the chief has."""
    record, flags = sys.argv[1], dict(argument.split("=") for argument in sys.argv[2:])
    base = CommonSettings(warm_up=0.2, **flags)
    strategy = make_strategy(base)
    generator, arrays = WithUnlabelled(Examples(True), Examples(False)), {}
    for name, changes in VARIANTS.items():
        settings = base.model_copy(update={**TOOLS, "optimizer": name, **changes})
        with strategy.scope():
            model, encoder, logits = build()
            model.compile(
                make_optimizer(settings, model, encoder, STEPS),
                settings.accumulation,
                regularization=make_regularization(settings, encoder, [Scores(logits, "softmax")]),
            )
        batches = iter(generator.to_dataset(strategy=strategy))
        for _ in range(STEPS):
            strategy.run(model.train_step, args=(next(batches),))
        arrays |= {f"{name}/{i:03}": weight for i, weight in enumerate(model.get_weights())}
        with averaged_weights(model):
            averages = model.get_weights()
        arrays |= {f"{name}/average/{i:03}": weight for i, weight in enumerate(averages)}
    if is_chief():
        replicas = strategy.num_replicas_in_sync
        np.savez(record, replicas=replicas, **arrays)
    part()


main()

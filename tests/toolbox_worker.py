"""Train a model with every optimizer and regularisation: python toolbox_worker.py RECORD FLAGS

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

from common.averaging import averaged_weights  # noqa: E402
from common.cluster import is_chief, part  # noqa: E402
from common.encoder import BertEncoder  # noqa: E402
from common.generator import Generator  # noqa: E402
from common.optimizers import make_optimizer  # noqa: E402
from common.regularization import Scores, make_regularization  # noqa: E402
from common.settings import CommonSettings  # noqa: E402
from common.strategy import make_strategy  # noqa: E402
from common.training import TrainingModel  # noqa: E402

EXAMPLES, BATCH, LABELS, STEPS = 22, 8, 3, 10  # three batches an epoch, the last of six
TOOLS = {"layer_decay": 0.8, "lookahead": 4, "ema": 0.7, "schedule": "cosine", "clip_norm": 0.5}
VARIANTS = {
    "adamw": {**TOOLS, "optimizer": "adamw", "lazy_embeddings": True},
    "lamb": {**TOOLS, "optimizer": "lamb"},
    "adafactor": {**TOOLS, "optimizer": "adafactor"},
    "lion": {**TOOLS, "optimizer": "lion", "lazy_embeddings": True, "learning_rate": 1e-4},
    "muon": {**TOOLS, "optimizer": "muon"},
    "fgm": {"adversary": "fgm"},
    "pgd": {"adversary": "pgd"},
    "gradient_penalty": {"gradient_penalty": 0.5},
    "r_drop": {"r_drop": 4.0},
}


@keras.saving.register_keras_serializable("tests")
class CrossEntropy(keras.layers.Layer):
    """Cross-entropy of each example `[batch]`."""

    def call(self, logits, labels):
        return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


class Examples(Generator):
    """Random tokens and labels."""

    def __init__(self):
        random = np.random.default_rng(3)
        super().__init__(random.integers(3, 7, EXAMPLES), BATCH, buckets=2, seed=1)
        self.tokens = random.integers(1, 30, (EXAMPLES, 8)).astype("int32")
        self.labels = random.integers(0, LABELS, EXAMPLES).astype("int32")

    def make_batch(self, examples, length):
        mask = np.arange(length) < self.lengths[examples, None]
        return {
            "token_ids": self.tokens[examples, :length] * mask,
            "segment_ids": np.zeros((len(examples), length), "int32"),
            "padding_mask": mask.astype("int32"),
            "labels": self.labels[examples],
        }


def build() -> tuple[TrainingModel, BertEncoder, keras.KerasTensor]:
    """Return the training model, its encoder and its logits."""
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(
        vocabulary_size=30,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=8,
        dropout=0.0,
        name="encoder",
    )
    labels = keras.Input((), dtype="int32", name="labels")
    hidden = encoder(encoder.input)["sequence_output"]
    logits = keras.layers.Dense(LABELS, name="logits")(hidden[:, 0])
    loss = CrossEntropy(name="label_loss")(logits, labels)
    return TrainingModel({**encoder.input, "labels": labels}, {"label_loss": loss}), encoder, logits


def main() -> None:
    """Train every variant, one after the other, and record what the chief has."""
    record, flags = sys.argv[1], dict(argument.split("=") for argument in sys.argv[2:])
    base = CommonSettings(warm_up=0.2, **flags)
    strategy = make_strategy(base)
    arrays = {}
    for name, changes in VARIANTS.items():
        settings = base.model_copy(update=changes)
        with strategy.scope():
            model, encoder, logits = build()
            model.compile(
                make_optimizer(settings, model, encoder, STEPS),
                settings.accumulation,
                regularization=make_regularization(settings, encoder, [Scores(logits, "softmax")]),
            )
        generator = Examples()
        steps = iter(generator.to_dataset(strategy=strategy))
        step = model.make_train_function() or model.train_function
        for _ in range(STEPS):
            step(steps)
        arrays |= {f"{name}/{i:03}": weight for i, weight in enumerate(model.get_weights())}
        with averaged_weights(model):
            averages = model.get_weights()
        arrays |= {f"{name}/average/{i:03}": weight for i, weight in enumerate(averages)}
    if is_chief():
        replicas = strategy.num_replicas_in_sync
        np.savez(record, replicas=replicas, **arrays)
    part()


main()

"""Train a small model with every optimizer: python toolbox_worker.py RECORD FLAGS

RECORD is a .npz file that receives the weights, and their averages, after some steps of each.
FLAGS say which devices train, as those of a project do.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "templates")]

import core  # noqa: E402, F401

# isort: split
import keras  # noqa: E402
import numpy as np  # noqa: E402
from pydantic_settings import CliApp  # noqa: E402
from small_models import CrossEntropy, compile_models  # noqa: E402

from core.base.settings import CoreSettings, with_tables  # noqa: E402
from core.base.workers import all_workers, is_chief  # noqa: E402
from core.batches import DataGenerator  # noqa: E402
from core.devices.strategy import make_strategy  # noqa: E402
from core.step import Logits, Models, TrainingModel  # noqa: E402
from extras.averaging.averaging import averaged_weights  # noqa: E402
from extras.regularization.unlabelled import WithUnlabelled  # noqa: E402

EXAMPLES, BATCH, LENGTH, LABELS, STEPS = 14, 8, 4, 3, 4  # two batches an epoch, the last of six
TOOLS = {
    "optimizers.lookahead": 3,
    "averaging.ema": 0.7,
    "optimizers.schedule": "cosine",
    "clip_norm": 0.5,
}
# An optimizer and a regularisation at once: tracing costs more than all steps.
VARIANTS = {
    "adamw": {"optimizers.lazy_embeddings": True, "regularization.adversary": "fgm"},
    "lamb": {"regularization.adversary": "pgd"},
    "adafactor": {"regularization.gradient_penalty": 5.0},
    "lion": {
        "optimizers.lazy_embeddings": True,
        "learning_rate": 1e-4,
        "regularization.r_drop": 4.0,
    },
    "muon": {"regularization.virtual_adversary": 2.0},
}


class Examples(DataGenerator):
    """Random tokens and labels."""

    def __init__(self, labelled: bool):
        random = np.random.default_rng(3 + labelled)
        self.labelled = labelled
        super().__init__(np.full(EXAMPLES, LENGTH), BATCH, buckets=1, seed=1)
        self.tokens = random.integers(0, 30, (EXAMPLES, LENGTH)).astype("int32")
        self.labels = random.integers(0, LABELS, EXAMPLES).astype("int32")

    def make_batch(self, positions, length):
        labels = {"labels": self.labels[positions]} if self.labelled else {}
        return {"token_ids": self.tokens[positions], **labels}


def build() -> Models:
    """Return the models."""
    keras.utils.set_random_seed(1)
    token_ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = keras.layers.Embedding(30, 8, name="token_embedding")
    hidden = keras.layers.Dense(8, "tanh", name="dense")(table(token_ids))
    hidden = keras.layers.Dropout(0.3, name="dropout")(hidden)
    encoder = keras.Model(token_ids, keras.layers.GlobalAveragePooling1D()(hidden), name="encoder")
    encoder.token_embedding = table
    labels = keras.Input((), dtype="int32", name="labels")
    logits = keras.layers.Dense(LABELS, name="logits")(encoder(token_ids))
    loss = CrossEntropy(name="label_loss")(logits, labels)
    inputs = {"token_ids": token_ids, "labels": labels}
    training = TrainingModel(inputs, {"label_loss": loss})
    inference = keras.Model(token_ids, logits)
    return Models(training, inference, encoder, (Logits(logits, "softmax"),))


def read_flags(flags: list[str]) -> CoreSettings:
    """Return the settings of flags only, without a config.toml."""
    return CliApp.run(with_tables(CoreSettings), cli_args=flags)


def main() -> None:
    """Train every variant, one after the other, and record what the chief has."""
    record, asked = sys.argv[1], ["--warm_up=0.2", *sys.argv[2:]]
    strategy = make_strategy(read_flags(asked))
    generator, arrays = WithUnlabelled(Examples(True), Examples(False)), {}
    for name, changes in VARIANTS.items():
        own = {**TOOLS, "optimizers.kind": name, **changes}
        flags = [f"--{key}={value}" for key, value in own.items()]
        with strategy.scope():
            models = build()
            compile_models(read_flags([*asked, *flags]), models, STEPS)
        model = models.training
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
    all_workers().close()


main()

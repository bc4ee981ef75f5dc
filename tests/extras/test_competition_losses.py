"""Losses of numbers: against plain sums, and the same weights on one replica and on two."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from conftest import ROOT
from projects import run
from scipy import special

from extras.competition.heads import NumberLoss, Numbers, number_layers
from extras.competition.settings import Table
from extras.competition.targets import collect_numbers, scaled_targets

LOSSES = ("mse", "huber", "bce", "ordinal")
# Trains each loss on one device and on two, whose last batch is ragged, in micro-batches.
WORKER = """
import json, sys
import numpy as np
sys.path[:0] = ["tests", "templates"]
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import small_models as small
from types import SimpleNamespace
from core.step import Models, TrainingModel
from extras.competition.heads import number_layers
from extras.competition.settings import Table
from extras.competition.targets import collect_numbers, scaled_targets

random = np.random.default_rng(4)
grades = random.integers(0, 4, (small.EXAMPLES, 2)) / 3
examples = [
    SimpleNamespace(numbers=tuple(row), labels=("a", "b"), text_b=None, line=1) for row in grades
]

class Batches(small.Examples):
    def make_batch(self, positions, length):
        return {"token_ids": self.tokens[positions], "targets": self.targets[positions]}

def train(loss, strategy, accumulation):
    keras.utils.set_random_seed(1)
    settings = small.make_settings(accumulation=accumulation, clip_norm=0.05)
    table = SimpleNamespace(competition=Table(loss=loss))
    scaling = collect_numbers(examples, table)["scaling"]
    batches = Batches()
    batches.targets = scaled_targets(examples, scaling)
    with strategy.scope():
        encoder = small.small_encoder()
        [token_ids] = encoder.inputs
        score, numbers, layer, _ = number_layers(SimpleNamespace(scaling=scaling), "label_loss")
        logits = score(encoder(token_ids))
        targets = keras.Input((logits.shape[-1],), name="targets")
        inference = keras.Model(token_ids, numbers(logits))
        training = TrainingModel(
            {"token_ids": token_ids, "targets": targets}, {layer.name: layer(logits, targets)}
        )
        small.compile_models(settings, Models(training, inference, encoder), 6)
    dataset = batches.to_dataset(strategy=strategy)
    training.fit(dataset, epochs=2, steps_per_epoch=len(batches), shuffle=False, verbose=0)
    return training.get_weights()

one_device = tf.distribute.OneDeviceStrategy("CPU:0")
two_devices = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])  # its collectives are numbered
found = {}
for loss in sys.argv[1:]:
    one, two = train(loss, one_device, 1), train(loss, two_devices, 2)
    found[loss] = max(float(np.abs(a - b).max()) for a, b in zip(one, two))
print(json.dumps(found))
"""


class Record:
    """An example with numbers."""

    def __init__(self, *numbers):
        self.numbers, self.labels, self.text_b, self.line = numbers, ("a", "b"), None, 1


class Settings:
    def __init__(self, **table):
        self.competition = Table(**table)


RECORDS = [Record(0.0, 1.0), Record(0.5, 0.25), Record(1.0, 1.0), Record(0.5, 0.0)]


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_come_back_from_what_the_loss_wants(loss):
    """Logits that fit their targets perfectly stand for the very numbers."""
    scaling = collect_numbers(RECORDS, Settings(loss=loss))["scaling"]
    targets = scaled_targets(RECORDS, scaling)
    logits = targets
    if loss == "bce":
        logits = special.logit(np.clip(targets, 1e-7, 1 - 1e-7))
    elif loss == "ordinal":
        logits = np.where(targets > 0, 40.0, -40.0)
    numbers = keras.ops.convert_to_numpy(Numbers(scaling)(logits.astype("float32")))
    np.testing.assert_allclose(numbers, [r.numbers for r in RECORDS], atol=1e-5)


def test_each_loss_is_its_sum():
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (6, 4)).astype("float32")
    targets = random.random((6, 4)).astype("float32")

    def loss(kind, wanted, count=4):
        own = NumberLoss(kind, count, delta=0.7)(logits, wanted)
        assert own.shape == (6,)
        return keras.ops.convert_to_numpy(own)

    np.testing.assert_allclose(
        loss("mse", targets), ((logits - targets) ** 2).mean(axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        loss("huber", targets), special.huber(0.7, logits - targets).mean(axis=1), rtol=1e-5
    )
    likely = special.expit(logits.astype(float))
    entropy = -(targets * np.log(likely) + (1 - targets) * np.log1p(-likely))
    np.testing.assert_allclose(loss("bce", targets), entropy.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(loss("ordinal", targets, 2), entropy.sum(axis=1) / 2, rtol=1e-5)


def test_grades_begin_as_they_stand_in_training():
    """Before any step, and without features, each step has its share of the records."""
    scaling = collect_numbers(RECORDS, Settings(loss="ordinal"))["scaling"]
    score, numbers, _, kind = number_layers(SimpleNamespace(scaling=scaling), "label_loss")
    logits = keras.ops.convert_to_numpy(score(np.zeros((1, 5), "float32")))
    np.testing.assert_allclose(special.expit(logits)[0], [0.75, 0.25, 0.75, 0.5], rtol=1e-5)
    assert kind == "sigmoid"
    means = keras.ops.convert_to_numpy(numbers(logits))
    np.testing.assert_allclose(means[0], scaling["means"], rtol=1e-5)


@pytest.mark.further
def test_weights_are_the_same_on_two_replicas(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    done = run(tmp_path / "worker.py", *LOSSES, cwd=ROOT)
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found.keys() == set(LOSSES)
    assert all(difference < 1e-5 for difference in found.values())

"""Train a small bi-encoder on one replica, or on several: python pair_worker.py RECORD REPLICAS

RECORD is a .npz file that receives the weights after 30 steps of each variant.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "templates")]

import core  # noqa: E402, F401

# isort: split
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from small_models import bert_encoder, compile_models  # noqa: E402

from core.base.settings import with_tables  # noqa: E402
from core.batches import DataGenerator, pad  # noqa: E402
from core.devices.strategy import make_local_strategy, split_first_device  # noqa: E402
from extras.retrieval.bi_encoder import build_pair_models  # noqa: E402
from extras.retrieval.settings import Settings  # noqa: E402

PAIRS, BATCH, STEPS = 21, 8, 30  # three batches an epoch, the last of five
LABELS = SimpleNamespace(
    names=("0", "1"), several=False, positive="1", counts=(9, 12), records=PAIRS, pairs=True
)
NEGATIVES = {"loss": "negatives", "symmetric": True}
COSENT = {"loss": "cosent", "dimension": 4}
# Replicas -> the loss and the micro-batches of each training.
VARIANTS = {
    1: [(NEGATIVES, 1), (COSENT, 1)],
    2: [(NEGATIVES, 2)],
    4: [(COSENT, 1)],
}


class Pairs(DataGenerator):
    """Random tokens, with texts that occur often: most batches have the same one twice."""

    def __init__(self):
        random = np.random.default_rng(5)
        sizes = [random.integers(3, 9, PAIRS // 2) for _ in range(2)]
        texts = [[random.integers(1, 20, n).astype("int32") for n in own] for own in sizes]
        self.sides = [[own[n] for n in random.integers(0, len(own), PAIRS)] for own in texts]
        lengths = [max(map(len, pair)) for pair in zip(*self.sides, strict=True)]
        super().__init__(lengths, BATCH, buckets=1, seed=1)
        self.targets = np.eye(2, dtype="float32")[[int(n % 7 > 2) for n in range(PAIRS)]]

    def make_batch(self, positions, length):
        batch = {"targets": self.targets[positions]}
        for side, texts in zip("ab", self.sides, strict=True):
            own = [texts[n] for n in positions]
            batch[f"text_{side}_token_ids"] = pad(own, length)
            batch[f"text_{side}_padding_mask"] = pad([np.ones_like(text) for text in own], length)
            batch[f"text_{side}_segment_ids"] = np.zeros((len(own), length), "int32")
        return batch


def main() -> None:
    """Train all variants for a number of replicas, one after the other."""
    replicas = int(sys.argv[2])
    kind = split_first_device(replicas)
    strategy = make_local_strategy("auto", tf.config.list_logical_devices(kind))
    generator, arrays = Pairs(), {}
    for table, accumulation in VARIANTS[replicas]:
        settings = with_tables(Settings)(retrieval=table, accumulation=accumulation)
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        with strategy.scope():
            encoder = bert_encoder(num_layers=1, dropout=0.2, attention_dropout=0.2)
            models = build_pair_models(encoder, LABELS, settings)
            compile_models(settings, models, STEPS)
        model, batches = models.training, generator.to_dataset(strategy=strategy)
        losses = model.fit(batches, steps_per_epoch=STEPS, shuffle=False, verbose=0).history["loss"]
        name = f"{table['loss']}/{accumulation}"
        arrays |= {f"{name}/{n:03}": weight for n, weight in enumerate(model.get_weights())}
        arrays[f"{name}/loss"] = np.array(losses)
    np.savez(sys.argv[1], replicas=strategy.num_replicas_in_sync, **arrays)


if __name__ == "__main__":
    main()

"""Compare a batch of train.py with its records: python weights_worker.py PROJECT [FLAGS]

The loss and its gradient are computed once more, one example at a time, from the weights that the
training file gives its records.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

project = Path(sys.argv[1])
sys.path.insert(0, str(project))
sys.argv = ["train.py", *sys.argv[2:]]

import train  # noqa: E402
from core.step import inputs_of, with_row_numbers  # noqa: E402
from core.training import Training  # noqa: E402

LABELS_OF_TEXTS = "target_labels"  # their losses are sums over tokens


def fit(training: Training, callbacks: list) -> None:
    """Check the first batch of an epoch instead of training."""
    model, batches = training.models.training, training.batches
    lines = (project / "sample" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    weights = np.array([json.loads(line).get("weight", 1.0) for line in lines])
    positions, _ = batches.plan(0)[0]
    records = getattr(batches, "record_of", np.arange(len(lines)))
    own = weights[np.asarray(records)[positions]]
    assert len({*own.tolist()}) > 2, "records of one weight show nothing"

    batch = next(batches.batches(0))
    count = len(positions)
    if LABELS_OF_TEXTS in batch:
        count = int((batch[LABELS_OF_TEXTS] >= 0).sum())
    np.testing.assert_allclose(batch["loss_weight"], own / count, rtol=1e-6)

    arrays = {name: tf.constant(array) for name, array in batch.items()}
    found, losses = model.gradients(with_row_numbers(arrays))
    expected = [np.zeros(variable.shape, np.float64) for variable in model.trainable_variables]
    for row, weight in enumerate(own):
        single = {name: array[row : row + 1] for name, array in arrays.items()}
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(part) for part in model(inputs_of(single)).values()])
        np.testing.assert_allclose(losses["loss"][row], loss, rtol=1e-4, atol=1e-5)
        slopes = tape.gradient(loss, [v.value for v in model.trainable_variables])
        for total, slope in zip(expected, slopes, strict=True):
            total += 0 if slope is None else weight / count * tf.convert_to_tensor(slope).numpy()
    scale = max(np.abs(total).max() for total in expected)
    for total, gradient in zip(expected, found, strict=True):
        np.testing.assert_allclose(gradient, total, rtol=1e-3, atol=1e-5 * scale)
    print(f"checked {len(own)} examples of {len({*own.tolist()})} weights")
    sys.exit(0)


Training.fit = fit  # type: ignore[method-assign]
train.main()

"""How much longer is a training step with dropout masks that don't depend on the replicas?

The script builds two models of one project from the same settings: one with the masks of
`place_dropout`, one with those of Keras. Both train on each batch of an epoch, in turns. Only the
ratio of such a pair counts, because the speed of a machine drifts.

python benchmarks/dropout_speed.py --encoder FOLDER --output benchmarks/results/dropout_speed.json
"""

import statistics
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

from project_parts import bake_sample, load_parts, make_parser, write_results

WARM_UP = 2  # passes over all batch shapes


def main() -> None:
    """Time the steps in pairs."""
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=int, default=60, help="pairs of steps of each round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments.project = bake_sample("relation_extraction", "none", Path(folder))
        placed = load_parts(arguments)
        own = load_with_masks_of_keras(arguments)
        rounds = [time_pairs(placed, own, arguments.steps) for _ in range(arguments.rounds)]
    medians = [statistics.median(ratios) for ratios in rounds]
    results = {
        "question": "time of a training step, dropout seeded per example / Keras's dropout",
        "encoder": Path(arguments.encoder).name if arguments.encoder else "tiny",
        "dropout": placed.settings.dropout,
        "pairs": arguments.steps,
        "ratios": [round(ratio, 4) for ratio in medians],
        "times_as_long": statistics.median(medians),
    }
    write_results(results, arguments.output)


def load_with_masks_of_keras(arguments: Namespace) -> SimpleNamespace:
    """Return the same parts, whose dropout layers stay as Keras has them."""
    from core import training

    place, training.place_dropout = training.place_dropout, lambda model, seed: None
    try:
        return load_parts(arguments)
    finally:
        training.place_dropout = place


def time_pairs(placed: SimpleNamespace, own: SimpleNamespace, steps: int) -> list[float]:
    """Return the ratio of each pair of steps, in alternating order."""
    import tensorflow as tf

    functions = [
        tf.function(parts.models.training.train_step, reduce_retracing=True)
        for parts in (placed, own)
    ]
    batches = [
        {name: tf.constant(array) for name, array in batch.items()}
        for batch in placed.train_batches.batches(0)
    ]
    for batch in batches * WARM_UP:
        for function in functions:
            function(batch)
    ratios = []
    for step in range(steps):
        batch, seconds = batches[step % len(batches)], [0.0, 0.0]
        for turn in (0, 1):
            which = (step + turn) % 2
            began = time.perf_counter()
            functions[which](batch)["loss"].numpy()
            seconds[which] = time.perf_counter() - began
        ratios.append(seconds[0] / seconds[1])
    return ratios


if __name__ == "__main__":
    main()

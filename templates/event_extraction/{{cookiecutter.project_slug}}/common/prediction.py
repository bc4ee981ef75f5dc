"""Batched prediction on every replica, results in order."""

from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from common.generator import Generator


class Predictor:
    """Run inference models over batches; compiled once, for all files and epochs.

    Several models are an ensemble: the mean of their outputs is what is decoded.

    Args:
        models: functional, whose inputs are keys of the batches, and with the same outputs.
        strategy: where the models were built.
    """

    def __init__(self, models: Sequence[keras.Model], strategy: tf.distribute.Strategy):
        self.models = list(models)
        self.strategy = strategy
        # Keras's `predict` joins all batches into one array, which buckets of unlike length forbid.
        self.forward = tf.function(self.run_replicas, reduce_retracing=True)

    def run_replicas(self, batch: dict):
        """Return the outputs of every replica for one batch over all replicas."""

        def run(part: dict) -> dict:
            # Each its own inputs alone: Keras assigns a larger dict by position, and only warns.
            outputs = [
                model({tensor.name: part[tensor.name] for tensor in model.inputs}, training=False)
                for model in self.models
            ]
            if len(outputs) == 1:
                return outputs[0]
            return {name: sum(o[name] for o in outputs) / len(outputs) for name in outputs[0]}

        return self.strategy.run(run, args=(batch,))

    def batches(
        self, generator: Generator, progress: str = ""
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield positions of examples `[n]` and the outputs for them `[n, ...]`.

        Args:
            generator: what to predict.
            progress: title of the progress bar; empty: none.
        """
        dataset = self.strategy.experimental_distribute_dataset(generator.to_prediction_dataset())
        plan = generator.plan(None)
        names = {tensor.name for model in self.models for tensor in model.inputs}
        bar = tqdm(
            plan, desc=progress, disable=None if progress else True, leave=False, unit="batch"
        )
        for (examples, _), batch in zip(bar, dataset, strict=False):
            outputs = self.forward({name: batch[name] for name in names})
            yield (
                examples,
                {
                    name: np.concatenate(
                        [part.numpy() for part in self.strategy.experimental_local_results(output)]
                    )[: len(examples)]
                    for name, output in outputs.items()
                },
            )

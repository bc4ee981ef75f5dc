"""Batched prediction on every replica of every worker, results in order."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tqdm import tqdm

from core.base.workers import all_workers
from core.batches import DataGenerator


def mean_outputs(outputs: Sequence[dict]) -> dict:
    """Return the mean of the outputs of several models, by name; one model's are unchanged."""
    if len(outputs) == 1:
        return outputs[0]
    return {name: sum(own[name] for own in outputs) / len(outputs) for name in outputs[0]}


class Predictor:
    """Run inference models over batches; compiled once, for all files and epochs.

    Args:
        models: functional models with the same outputs; their inputs are keys of the batches.
            Several models are an ensemble.
        strategy: where the models were built.
        select: from the outputs of each model to the arrays by name that are decoded; runs in the
            graph.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        strategy: tf.distribute.Strategy,
        select: Callable[[Sequence[dict]], dict] = mean_outputs,
    ) -> None:
        self.models, self.strategy, self.select = list(models), strategy, select
        self.replicas = strategy.num_replicas_in_sync // all_workers().count
        inputs = [tensor for model in self.models for tensor in model.inputs]
        self.specs = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs}
        # One graph for batches of all sizes, so that nothing is padded in vain. A TPU needs the few
        # sizes of training, and a graph for each, which takes seconds to compile.
        self.exact = not isinstance(strategy, tf.distribute.TPUStrategy)
        sizes = [self.specs] if self.exact else None
        # As a partial, each predictor has a function of its own: of a method that the models of
        # many folds share, TensorFlow warns that it is traced too often.
        self.forward = tf.function(partial(self.run_replicas), sizes, autograph=False)

    def run_replicas(self, batch: dict) -> dict:
        """Return the selected outputs of all replicas of this worker, for one batch."""
        if self.strategy.num_replicas_in_sync == 1:
            return self.run(batch)  # on the chief, if other processes train
        return self.strategy.run(lambda: self.run(self.own_rows(batch)))

    def run(self, batch: dict) -> dict:
        """Return the selected outputs of all models."""
        # Only the inputs of each model: Keras assigns a larger dict by position, and only warns.
        outputs = [
            model({tensor.name: batch[tensor.name] for tensor in model.inputs}, training=False)
            for model in self.models
        ]
        return self.select(outputs)

    def own_rows(self, batch: dict) -> dict:
        """Return this replica's rows of the batch of its worker."""
        rows = ops.shape(next(iter(batch.values())))[0]
        each = -(-rows // self.replicas)
        number = tf.distribute.get_replica_context().replica_id_in_sync_group % self.replicas
        # If none are left, the first rows once more: a model needs at least one row.
        own = (each * number + tf.range(each)) % rows
        return {name: tf.gather(array, own) for name, array in batch.items()}

    def decode(
        self,
        generator: DataGenerator,
        decode: Callable[[np.ndarray, dict[str, np.ndarray]], Sequence],
        progress: str = "",
    ) -> Iterator[tuple[int, Any]]:
        """Yield the position of every example and its decoded outputs.

        Several workers take turns with whole batches, the same batches that one worker would make.

        Args:
            generator: of the batches to predict.
            decode: from positions `[n]` and outputs `[n, ...]` to n results that can be pickled.
            progress: title of the progress bar; empty: none.
        """
        batches = self.batches(generator, progress)
        mine: Iterable = ((own, decode(own, outputs)) for own, outputs in batches)
        if all_workers().count > 1:
            # In the order of the batches: the first of each worker, then the second of each.
            turns = itertools.zip_longest(*all_workers().gather(list(mine)))
            mine = filter(None, itertools.chain.from_iterable(turns))
        for positions, results in mine:
            yield from zip(positions, results, strict=True)

    def batches(
        self, generator: DataGenerator, progress: str = ""
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield positions of examples `[n]` and their outputs, batch by batch of this worker."""
        turn = slice(all_workers().number, None, all_workers().count)
        generator.fit_to_batches(self.exact)
        dataset = generator.to_prediction_dataset(turn.start, turn.step)
        own, off = generator.plan(None)[turn], not progress or None
        bar = tqdm(own, progress, disable=off, leave=False, unit="batch")
        made: Iterable = (
            (examples, self.forward({name: batch[name] for name in self.specs}))
            for (examples, _), batch in zip(bar, dataset, strict=True)
        )
        with generator.own_errors():
            # One batch ahead: the device computes it while the previous one is decoded.
            for (examples, outputs), _ in itertools.pairwise(itertools.chain(made, [None])):
                arrays = {}
                for name, output in outputs.items():
                    parts = self.strategy.experimental_local_results(output)
                    arrays[name] = np.concatenate([part.numpy() for part in parts])[: len(examples)]
                yield examples, arrays

"""Batched prediction on every replica of every worker, results in order."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from core.base.workers import gather, worker_count, worker_number
from core.data.data_generator import Batch, DataGenerator


def mean_outputs(outputs: Sequence[dict]) -> dict:
    """Return the mean of the outputs of several models, by name; of one model, as they are."""
    if len(outputs) == 1:
        return outputs[0]
    return {name: sum(own[name] for own in outputs) / len(outputs) for name in outputs[0]}


class Predictor:
    """Run inference models over batches; compiled once, for all files and epochs.

    Args:
        models: functional, whose inputs are keys of the batches, and with the same outputs. Several
            are an ensemble.
        strategy: where the models were built.
        select: from the outputs of each model to what is decoded, in the graph: arrays by name.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        strategy: tf.distribute.Strategy,
        select: Callable[[Sequence[dict]], dict] = mean_outputs,
    ) -> None:
        self.models, self.strategy, self.select = list(models), strategy, select
        self.replicas = strategy.num_replicas_in_sync // worker_count()
        self.graphs: dict[tuple, Callable] = {}

    def forward(self, batch: Batch) -> dict:
        """Return what is selected of every replica's outputs, of this worker, for one batch.

        Keras's `predict` joins all batches into one array, which buckets of unlike length forbid.
        """
        # A graph for each shape: one for all would round otherwise than one for known sizes, and
        # the last bits would tell which shapes came first.
        shape = tuple(array.shape for array in batch.values())
        if shape not in self.graphs:
            # As a partial, for TensorFlow warns of a function that it traces again and again.
            self.graphs[shape] = tf.function(functools.partial(self.run_replicas), autograph=False)
        return self.graphs[shape](self.distribute(batch))

    def run_replicas(self, batch: dict) -> dict:
        """Run the models on every replica's rows of a batch."""

        def run(part: dict) -> dict:
            # Each its own inputs alone: Keras assigns a larger dict by position, and only warns.
            outputs = [
                model({tensor.name: part[tensor.name] for tensor in model.inputs}, training=False)
                for model in self.models
            ]
            return self.select(outputs)

        if self.strategy.num_replicas_in_sync == 1:
            return run(batch)  # by the chief alone, where others train
        return self.strategy.run(run, args=(batch,))

    def decode(
        self,
        generator: DataGenerator,
        decode: Callable[[np.ndarray, dict[str, np.ndarray]], Sequence],
        progress: str = "",
    ) -> Iterator[tuple[int, Any]]:
        """Yield the position of every example and what was decoded of its outputs.

        Each worker predicts and decodes whole batches, the very ones that a lone worker would.

        Args:
            generator: what to predict, under a progress bar with the title `progress`; empty: none.
            decode: from positions `[n]` and outputs `[n, ...]` to n results that can be pickled.
        """
        mine: Iterable = (
            (positions, decode(positions, outputs))
            for positions, outputs in self.batches(generator, progress)
        )
        if worker_count() > 1:
            # As they were dealt out: the first of each worker, then the second of each.
            turns = itertools.zip_longest(*gather(list(mine)))
            mine = filter(None, itertools.chain.from_iterable(turns))
        for positions, results in mine:
            yield from zip(positions, results, strict=True)

    def batches(
        self, generator: DataGenerator, progress: str = ""
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield positions of examples `[n]` and the outputs for them `[n, ...]`.

        Several workers take the batches in turns; arguments as in `decode`.
        """
        turn = slice(worker_number(), None, worker_count())
        dataset = generator.to_prediction_dataset(turn.start, turn.step)
        names = sorted({tensor.name for model in self.models for tensor in model.inputs})
        off = None if progress else True
        bar = tqdm(generator.plan(None)[turn], progress, disable=off, leave=False, unit="batch")
        made: Iterable = (
            (examples, self.forward({name: batch[name] for name in names}))
            for (examples, _), batch in zip(bar, dataset, strict=True)
        )
        with generator.own_errors():
            # One batch ahead: the device computes it while the one before it is decoded.
            for (examples, outputs), _ in itertools.pairwise(itertools.chain(made, [None])):
                arrays = {}
                for name, output in outputs.items():
                    parts = self.strategy.experimental_local_results(output)
                    arrays[name] = np.concatenate([part.numpy() for part in parts])[: len(examples)]
                yield examples, arrays

    def distribute(self, batch: Batch) -> Batch | tf.distribute.DistributedValues:
        """Return a batch with its rows spread over the replicas of this worker."""
        if self.strategy.num_replicas_in_sync == 1:
            return batch
        rows = len(next(iter(batch.values())))
        each = -(-rows // self.replicas)

        def rows_of_replica(context: tf.distribute.experimental.ValueContext) -> Batch:
            first = each * (context.replica_id_in_sync_group % self.replicas)
            # The first rows once more where none are left: nothing can be written from no rows.
            own = np.arange(first, first + each) % rows
            return {name: tf.gather(array, own) for name, array in batch.items()}

        return self.strategy.experimental_distribute_values_from_function(rows_of_replica)

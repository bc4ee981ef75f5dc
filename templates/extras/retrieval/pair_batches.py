"""Batches of a bi-encoder: each text of a pair is padded by itself; needs no TensorFlow."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from core.batches import Batch, pad
from extras.retrieval.text_inputs import SIDES, pair_inputs
from library.encoding import encode_examples
from task.data import ExampleGenerator, token_arrays

if TYPE_CHECKING:
    import tensorflow as tf


class PairGenerator(ExampleGenerator):
    """Batches of pairs whose two texts are encoded separately, and padded to lengths of their own.

    Args: those of `ExampleGenerator`; inputs that don't begin with one of `SIDES` are of both texts
    together.
    """

    def encode(self, tokenizer: Tokenizer) -> list[list[np.ndarray]]:
        pairs = [example.texts for example in self.examples]
        separate = [name for name in self.inputs if name.startswith(SIDES)]
        found = pair_inputs(tokenizer, pairs, separate, self.settings.max_length)
        if together := [name for name in self.inputs if name not in found]:
            keep = functools.partial(token_arrays, names=together)
            rows = encode_examples(tokenizer, self.examples, self.settings.max_length, keep)
            found |= {name: [row[n] for row in rows] for n, name in enumerate(together)}
        arrays = [list(row) for row in zip(*(found[name] for name in self.inputs), strict=True)]
        self.sizes = np.array([[len(array) for array in row] for row in arrays])
        return arrays

    def measure(self) -> None:
        """Compute `widths`: of each input, length of a bucket -> its padded length."""
        self.widths = [
            {int(length): int(sizes[self.lengths <= length].max()) for length in self.boundaries}
            for sizes in self.sizes.T  # of one input
        ]

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        if self.fits_batch:  # prediction: each input is padded to its longest in this batch
            widths = self.sizes[positions].max(axis=0).tolist()
        else:
            widths = [known[length] for known in self.widths]
        rows = [self.arrays[position] for position in positions]
        batch = {
            name: pad([arrays[number] for arrays in rows], width)
            for number, (name, width) in enumerate(zip(self.inputs, widths, strict=True))
        }
        if self.targets is not None:
            batch["targets"] = self.targets[positions]
        return batch

    def signature(self, rows: int) -> "dict[str, tf.TensorSpec]":
        specs: dict[str, Any] = super().signature(rows)
        if self.fits_batch:  # the length of one text says nothing about that of the other
            import tensorflow as tf  # processes of extras/cache load it only when used

            specs |= {n: tf.TensorSpec([rows, None], specs[n].dtype) for n in self.inputs}
        return specs

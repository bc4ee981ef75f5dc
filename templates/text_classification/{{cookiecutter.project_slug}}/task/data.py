"""Lay out encoded texts and pairs in batches with their targets."""

import functools
from collections.abc import Sequence

import numpy as np
from tokenizers import Encoding, Tokenizer

from core.base.errors import InputError
from core.base.files import project_path
from core.batches import Batch, DataGenerator, pad
from library.encoding import encode_examples
from task.records import Example, Labels, check_kind, read_examples
from task.settings import Settings


class ExampleGenerator(DataGenerator):
    """Batches of texts or pairs, each a row, with their labels if `with_labels` is true.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        labels: from `collect_targets`.
        inputs: names of the inputs of the model.
        settings: `max_length`, `buckets`, `seed`.
        batch_size: examples in a batch.
        with_labels: False for prediction.
    """

    of_items = ("arrays", "targets")  # for extras/cache: it keeps these, one entry per example
    learns_unlabelled = True  # for extras/regularization: it may train without targets

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        labels: Labels,
        inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        with_labels: bool = True,
    ) -> None:
        self.examples, self.labels, self.settings = list(examples), labels, settings
        self.inputs = list(inputs)
        self.arrays = self.encode(tokenizer)  # [example][input]
        # [examples, labels]: 0 or 1, the probability of a label, or the numbers to learn
        self.targets = labels.targets(self.examples) if with_labels else None
        # The arrays of an example are equally long, except those of extras/retrieval.
        lengths = [max(map(len, arrays)) for arrays in self.arrays]
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)
        self.measure()  # does nothing, except in subclasses of extras/retrieval

    def encode(self, tokenizer: Tokenizer) -> list[list[np.ndarray]]:
        """Return the arrays `[length]` of each example, in the order of `inputs`."""
        arrays_of = functools.partial(token_arrays, names=self.inputs)
        return encode_examples(tokenizer, self.examples, self.settings.max_length, arrays_of)

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        rows = [self.arrays[position] for position in positions]
        batch = {
            name: pad([arrays[number] for arrays in rows], length)  # 0: `padding_mask` hides it
            for number, name in enumerate(self.inputs)
        }
        if self.targets is not None:
            batch["targets"] = self.targets[positions]
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        """Read a further file of the same kind, for extras."""
        examples = read_examples(project_path(path), labelled, self.settings)
        check_kind(examples, self.labels, path, labelled)
        return examples


def token_arrays(encoding: Encoding, names: Sequence[str]) -> list[np.ndarray]:
    """Return the named inputs of one example, in the order of `names`, each `[length]`.

    `text_numbers` are 1 and 2 for the tokens of `text_a` and `text_b`, 0 for special tokens and for
    those of a `context`, whose `sequence_ids` extras/competition sets to None.
    """
    values = {
        "token_ids": lambda: encoding.ids,
        "segment_ids": lambda: encoding.type_ids,
        "padding_mask": lambda: [1] * len(encoding.ids),
        "text_numbers": lambda: [0 if n is None else n + 1 for n in encoding.sequence_ids],
    }
    if unknown := [name for name in names if name not in values]:
        raise InputError(
            f"the model has an input {unknown[0]!r}, and token_arrays makes no such array: add it "
            "there, correct the name, or, if make_batch makes it, take it out of self.inputs."
        )
    return [np.array(values[name](), np.int32) for name in names]

"""Encode single texts and pairs, and lay them out in batches with their targets."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from tqdm import tqdm

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import project_path
from core.batches import Batch, DataGenerator, pad
from task.records import Example, Labels, check_kind, read_examples
from task.settings import Settings

TEXTS_AT_ONCE = 1024
TEXT_OF = ("text_a_", "text_b_")  # inputs of a model that encodes each text of a pair separately


def encode_examples(
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    max_length: int,
    keep: Callable[[Encoding], Any] = lambda encoding: encoding,
) -> list[Any]:
    """Encode each text or pair with its special tokens; return what `keep` takes of it.

    Texts longer than `max_length` are cut at the end; of a pair, token by token from whichever is
    longer. `overflowing` of an encoding then holds what was cut off.

    Args:
        tokenizer: of the encoder.
        examples: from `read_examples`.
        max_length: tokens, special ones included.
        keep: takes from an encoding what is needed; a whole one takes 15 KB. It has no offsets.

    Raises:
        InputError: pairs, but the tokenizer puts no special token between two texts.
    """
    single, pair = (tokenizer.num_special_tokens_to_add(is_pair) for is_pair in (False, True))
    if single >= pair and any(example.text_b is not None for example in examples):
        raise InputError(
            "the tokenizer of this encoder puts nothing between two texts: name the same model as "
            "hf://owner/model, whose tokenizer.json does."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    kept: list[Any] = []
    encode = tokenizer.encode_batch_fast
    if any(example.context for example in examples):
        encode = need("competition", "segments").Segments(tokenizer, max_length)
    for start in tqdm(range(0, len(examples), TEXTS_AT_ONCE), "encode", leave=False, disable=None):
        texts = [example.texts for example in examples[start : start + TEXTS_AT_ONCE]]
        kept += map(keep, encode([t if len(t) > 1 else t[0] for t in texts]))
    tokenizer.no_truncation()  # the run saves the tokenizer as it was loaded
    return kept


class ExampleGenerator(DataGenerator):
    """Batches of texts or pairs, with their labels unless they are to be predicted.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        labels: from `collect_targets`.
        inputs: names of the inputs of the model.
        settings: `max_length`, `buckets`, `seed`.
        batch_size: examples in a batch.
        with_labels: False for prediction.
    """

    of_items = ("arrays", "targets")  # have one entry for each example, for extras/cache
    learns_unlabelled = True  # `with_labels` may be False, for extras/regularization

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
        found: dict[str, Sequence[np.ndarray]] = {}  # name of an input -> arrays of all examples
        if separate := [name for name in inputs if name.startswith(TEXT_OF)]:
            encode = need("retrieval", "text_inputs").pair_inputs
            texts = [example.texts for example in self.examples]
            found |= encode(tokenizer, texts, separate, settings.max_length)
        if others := [name for name in inputs if name not in found]:
            keep = functools.partial(token_arrays, names=others)
            rows = encode_examples(tokenizer, self.examples, settings.max_length, keep)
            found |= {name: [row[n] for row in rows] for n, name in enumerate(others)}
        self.names = list(found)
        self.arrays = list(zip(*found.values(), strict=True))  # [example][input]
        self.sizes = np.array([[len(array) for array in row] for row in self.arrays])
        self.targets = labels.targets(self.examples) if with_labels else None
        super().__init__(self.sizes.max(axis=1), batch_size, settings.buckets, settings.seed)
        self.measure()

    def measure(self) -> None:
        """Compute `widths`: of each input, length of a bucket -> its padded length.

        They differ from the bucket's only where extras/retrieval encodes texts separately.
        """
        self.widths = [
            {int(length): sizes[self.lengths <= length].max() for length in self.boundaries}
            for sizes in self.sizes.T  # of one input
        ]

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        if self.fits_batch:  # prediction: each input is padded to its longest in this batch
            # 0, or 1 where `signature` (core/fast/batch_plan.py) makes a batch one token longer, to
            # see which axes grow.
            more = length - self.lengths[positions].max()
            widths = self.sizes[positions].max(axis=0) + more
        else:
            widths = [known.get(length, length) for known in self.widths]
        columns = zip(*(self.arrays[position] for position in positions), strict=True)
        batch = {}
        for name, arrays, width in zip(self.names, columns, widths, strict=True):
            batch[name] = pad(arrays, width)
        if self.targets is not None:
            batch["targets"] = self.targets[positions]
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        examples = read_examples(project_path(path), labelled, self.settings)
        check_kind(examples, self.labels, path, labelled)
        return examples


def token_arrays(encoding: Encoding, names: Sequence[str]) -> list[np.ndarray]:
    """Return the named inputs of one example, in the order of `names`, each `[length]`.

    `text_numbers` are 1 and 2 for the tokens of the first and the second text, 0 for special ones.
    """
    values = {
        "token_ids": lambda: encoding.ids,
        "segment_ids": lambda: encoding.type_ids,
        "padding_mask": lambda: [1] * len(encoding.ids),
        "text_numbers": lambda: [0 if n is None else n + 1 for n in encoding.sequence_ids],
    }
    return [np.array(values[name](), np.int32) for name in names]

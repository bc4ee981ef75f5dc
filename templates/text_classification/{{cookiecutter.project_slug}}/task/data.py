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

    Texts longer than `max_length` are cut at the end; of a pair, the text that is longer at that
    moment. `overflowing` of an encoding then holds what was cut off.

    Args:
        tokenizer: of the encoder.
        examples: from `read_examples`.
        max_length: tokens, special ones included.
        keep: a function of an encoding that returns what is kept of it, since an encoding takes
            15 KB. The encodings have no offsets.

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

    of_items = ("arrays", "targets")
    learns_unlabelled = True

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
        # arrays[example][input], sizes[example, input]
        self.names, self.arrays = [*found], [*zip(*found.values(), strict=True)]
        self.sizes = np.array([[*map(len, own)] for own in self.arrays])
        self.targets = labels.targets(self.examples) if with_labels else None
        super().__init__(self.sizes.max(axis=1), batch_size, settings.buckets, settings.seed)
        self.measure()

    def measure(self) -> None:
        """Compute `widths`: of each input, length of a bucket -> its padded length.

        They differ from the bucket's only where extras/retrieval encodes texts separately.
        """
        within = [(int(length), self.lengths <= length) for length in self.boundaries]
        self.widths = [{length: own[m].max() for length, m in within} for own in self.sizes.T]

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        columns = zip(*(self.arrays[position] for position in positions), strict=True)
        if self.fits_batch:  # prediction: each input is padded to its longest in this batch
            # `signature` (core/fast/feeding.py) asks for one token more, to see which axes grow.
            more = length - self.lengths[positions].max()
            widths = self.sizes[positions].max(axis=0) + more
        else:
            widths = [known.get(length, length) for known in self.widths]
        named = zip(self.names, columns, widths, strict=True)
        batch = {name: pad(arrays, width) for name, arrays, width in named}
        if self.targets is not None:
            batch["targets"] = self.targets[positions]
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        examples = read_examples(project_path(path), labelled, self.settings)
        check_kind(examples, self.labels, path, labelled)
        return examples


def token_arrays(encoding: Encoding, names: Sequence[str]) -> list[np.ndarray]:
    """Return inputs of the model for one example, by their names, each `[length]`.

    `text_numbers` are 1 and 2 for the tokens of the first and the second text, 0 for special ones.
    """
    values = {
        "token_ids": lambda: encoding.ids,
        "segment_ids": lambda: encoding.type_ids,
        "padding_mask": lambda: [1] * len(encoding.ids),
        "text_numbers": lambda: [0 if n is None else n + 1 for n in encoding.sequence_ids],
    }
    return [np.array(values[name](), np.int32) for name in names]

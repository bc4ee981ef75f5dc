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


def encode_examples(
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    max_length: int,
    keep: Callable[[Encoding], Any] = lambda encoding: encoding,
) -> list[Any]:
    """Encode each text or pair with its special tokens; return what `keep` returns for it.

    Texts longer than `max_length` are cut at the end; in a pair, tokens are removed one by one from
    the longer text. `overflowing` of an encoding then holds what was cut off.

    Args:
        tokenizer: of the encoder.
        examples: from `read_examples`.
        max_length: tokens, special ones included.
        keep: picks what is needed of an encoding, which takes 15 KB and has no offsets.

    Raises:
        InputError: pairs, but the tokenizer puts no special token between two texts.
    """
    # [CLS] a [SEP] has two special tokens, [CLS] a [SEP] b [SEP] three.
    in_text, in_pair = map(tokenizer.num_special_tokens_to_add, (False, True))
    if in_text >= in_pair and any(example.text_b is not None for example in examples):
        raise InputError(
            "the tokenizer of this encoder puts nothing between two texts: name the same model as "
            "hf://owner/model, whose tokenizer.json does."
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    kept: list[Any] = []
    encode = tokenizer.encode_batch_fast
    if any(example.context for example in examples):  # texts to read before the others
        encode = need("competition", "segments").Segments(tokenizer, max_length)
    for start in tqdm(range(0, len(examples), TEXTS_AT_ONCE), "encode", leave=False, disable=None):
        texts = [example.texts for example in examples[start : start + TEXTS_AT_ONCE]]
        kept += map(keep, encode([t if len(t) > 1 else t[0] for t in texts]))
    tokenizer.no_truncation()  # the run saves the tokenizer as it was loaded
    return kept


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

    of_items = ("arrays", "targets")  # extras/cache keeps these, an entry for each example
    learns_unlabelled = True  # extras/regularization may train on batches without targets

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
        lengths = [max(map(len, arrays)) for arrays in self.arrays]
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)
        self.measure()

    def encode(self, tokenizer: Tokenizer) -> list[list[np.ndarray]]:
        """Return the arrays `[length]` of each example, in the order of `inputs`."""
        keep = functools.partial(token_arrays, names=self.inputs)
        return encode_examples(tokenizer, self.examples, self.settings.max_length, keep)

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        rows = [self.arrays[position] for position in positions]
        batch = {
            name: pad([arrays[number] for arrays in rows], length)
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

    `text_numbers` are 1 and 2 for the tokens of the first and the second text, 0 for special ones.
    """
    values = {
        "token_ids": lambda: encoding.ids,
        "segment_ids": lambda: encoding.type_ids,
        "padding_mask": lambda: [1] * len(encoding.ids),
        "text_numbers": lambda: [0 if n is None else n + 1 for n in encoding.sequence_ids],
    }
    return [np.array(values[name](), np.int32) for name in names]

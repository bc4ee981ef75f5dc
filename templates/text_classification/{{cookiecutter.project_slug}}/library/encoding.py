"""Encode single texts and pairs with the special tokens of the encoder."""

from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Encoding, Tokenizer
from tqdm import tqdm

from core.base.errors import InputError
from core.base.extras import need
from task.records import Example

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

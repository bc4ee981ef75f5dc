"""Encode sources and targets to tokens."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from task.settings import Settings


def encode(tokenizer: Tokenizer, texts: Sequence[str], progress: str = "") -> Iterator[list[int]]:
    """Yield the tokens of each text, without special tokens; texts are not truncated."""
    chunks = range(0, len(texts), 1024)
    for chunk in tqdm(chunks, desc=progress, disable=None if progress else True, leave=False):
        batch = list(texts[chunk : chunk + 1024])
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            yield encoding.ids


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], settings: Settings
) -> list[np.ndarray]:
    """Return the tokens of each source with special tokens; long sources are cut at the end."""
    if settings.model == "pretrained":
        # Not `writers_table`: extras/cache notes the names of the settings that are read here.
        table: Any = getattr(settings, "writers", None)
        encode_prompts = need("writers", "files").encode_prompts
        return encode_prompts(tokenizer, texts, table, settings.max_length)
    # The special tokens of an empty text, such as [CLS] [SEP]: the first half goes before a source,
    # the rest after it.
    special = tokenizer.encode("").ids
    before, after = special[: len(special) // 2], special[len(special) // 2 :]
    room = settings.max_length - len(special)
    return [
        np.array([*before, *ids[:room], *after], np.int32)
        for ids in encode(tokenizer, texts, "encode sources")
    ]

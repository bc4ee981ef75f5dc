"""The layout of texts and pairs for a decoder that classifies: a frame in the tokenizer.

The frame becomes part of the tokenizer, like [CLS] and [SEP] of BERT. A run stores it, and long
texts are cut inside it.
"""

import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from core.base.errors import InputError
from core.data.tokens import load_tokenizer_file
from extras.writers.files import load_tokenizer

TEXT, SECOND = "{text}", "{text_b}"
# The last token is the same for all texts, and an empty text has one, too.
SINGLE, PAIR = f"{TEXT}\n", f"{TEXT}\n{SECOND}\n"


def load_framed(folder: Path, settings: Any) -> Tokenizer | None:
    """Return the tokenizer of a decoder's folder with the frame of its prompt.

    Without a prompt, a tokenizer that has no token for a line break, such as BERT's, keeps its
    frame.

    Args:
        folder: of the decoder.
        settings: `writers.prompt` and `max_length`.

    Returns:
        The tokenizer; None: core reads it.

    Raises:
        InputError: a prompt without tokenizer.json, or without room for a text.
    """
    prompt, plain = settings.writers.prompt, load_tokenizer(folder, True)
    if plain is None:
        if prompt:
            raise InputError(
                f"{folder} has no tokenizer.json, which writers.prompt needs: save its tokenizer "
                "there, in the fast format of Hugging Face, or leave the prompt empty."
            )
        return None
    if not prompt and not plain.encode("\n", add_special_tokens=False).ids:
        return load_tokenizer_file(folder / "tokenizer.json")
    framed = put_frame(plain, prompt)
    if framed.num_special_tokens_to_add(SECOND in prompt) >= settings.max_length:
        raise InputError(
            f"writers.prompt leaves no room for a text in max_length = {settings.max_length}: "
            "shorten it, or raise max_length."
        )
    return framed


def put_frame(tokenizer: Tokenizer, prompt: str) -> Tokenizer:
    """Make a tokenizer add a prompt around each text, after its leading special tokens.

    Args:
        tokenizer: without trailing special tokens; it is changed.
        prompt: with `{text}`, and `{text_b}` for pairs; empty: each text with a line break.
    """
    tokens: dict[str, list[int]] = {"begin": tokenizer.encode("").ids}
    # `build_models` reports a prompt for the other kind of records.
    single, pair = (TEXT, prompt) if SECOND in prompt else (prompt, prompt + SECOND)
    templates = []
    for layout in (single, pair) if prompt else (SINGLE, PAIR):
        template = ["begin"]
        for part in re.split(r"(\{text(?:_b)?\})", layout):
            if part in (TEXT, SECOND):
                template.append("$A" if part == TEXT else "$B")
            elif part:
                template.append(f"part_{len(tokens)}")
                tokens[template[-1]] = tokenizer.encode(part, add_special_tokens=False).ids
        templates.append([name for name in template if tokens.get(name) != []])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=templates[0],
        pair=templates[1],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": [tokenizer.id_to_token(one) for one in ids]}
            for name, ids in tokens.items()
            if ids
        ],
    )
    return tokenizer

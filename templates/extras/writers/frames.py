"""How texts, and pairs of them, are laid out for a decoder that classifies: in a tokenizer's frame.

The frame is the tokenizer's own from then on, as [CLS] and [SEP] are of BERT's: it is kept with a
run, and what is too long is cut within it.
"""

import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from core.base.errors import InputError
from core.data.tokens import load_tokenizer_file
from extras.writers.files import load_tokenizer

TEXT, SECOND = "{text}", "{text_b}"
# The last token is the same one for all texts, and an empty text has one, too.
SINGLE, PAIR = f"{TEXT}\n", f"{TEXT}\n{SECOND}\n"


def load_framed(folder: Path, settings: Any) -> Tokenizer | None:
    """Return the tokenizer of a decoder's folder with the frame of its prompt.

    One that makes no token of a line break, as BERT's, keeps a frame of its own without a prompt.

    Args:
        folder: of the decoder.
        settings: `writers.prompt`; of the texts `max_length` tokens are read.

    Returns:
        None: core reads what is there.

    Raises:
        InputError: there is a prompt, and no tokenizer.json, or no room for a text.
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
    """Let a tokenizer put a prompt around each text, behind what it puts before one by itself.

    Args:
        tokenizer: that puts nothing behind a text; it is changed.
        prompt: with `{text}`, and `{text_b}` for pairs; empty: each with a line break after it.
    """
    tokens: dict[str, list[int]] = {"begin": tokenizer.encode("").ids}
    # Of a prompt for the other kind of records only `build_models` tells.
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

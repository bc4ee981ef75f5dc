"""The layout of texts and pairs for a decoder that classifies: a frame in the tokenizer.

The frame becomes part of the tokenizer, like [CLS] and [SEP] of BERT. A run stores it, and long
texts are cut inside it.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from core.base.errors import InputError
from core.data.tokens import load_tokenizer_file
from extras.writers.chat import read_template
from extras.writers.files import load_tokenizer

TEXT, SECOND = "{text}", "{text_b}"
# Where the texts are in a rendered chat: characters that no prompt has.
MARKS = ("\ue000text\ue001", "\ue000text_b\ue001")
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
    table, plain = settings.writers, load_tokenizer(folder, True)
    prompt = table.prompt
    if plain is None:
        if prompt or table.chat:
            raise InputError(
                f"{folder} has no tokenizer.json, which writers.prompt and writers.chat need: save "
                "its tokenizer there, in the fast format of Hugging Face, or leave both empty."
            )
        return None
    if table.chat:
        render = read_template(folder, table.chat).renderer(table)
        plain.post_processor = processors.Sequence([])  # a template names all special tokens itself
        framed = put_frame(plain, prompt, render)
    elif not prompt and not plain.encode("\n", add_special_tokens=False).ids:
        return load_tokenizer_file(folder / "tokenizer.json")
    else:
        framed = put_frame(plain, prompt)
    around = framed.num_special_tokens_to_add(SECOND in prompt)
    if not around:
        raise InputError(
            f"writers.prompt = {prompt!r} leaves an empty text without a token to classify by: add "
            "something to it, such as a line break at its end."
        )
    if around >= settings.max_length:
        raise InputError(
            f"writers.prompt leaves no room for a text in max_length = {settings.max_length}: "
            "shorten it, or raise max_length."
        )
    return framed


def put_frame(
    tokenizer: Tokenizer, prompt: str, render: Callable[[str], str] | None = None
) -> Tokenizer:
    """Make a tokenizer add a prompt around each text, after its leading special tokens.

    Args:
        tokenizer: without trailing special tokens; it is changed.
        prompt: with `{text}`, and `{text_b}` for pairs; empty: each text with a line break.
        render: puts the prompt into a chat; None: there is none.
    """
    tokens: dict[str, list[int]] = {"begin": tokenizer.encode("").ids}
    # `build_models` reports a prompt for the other kind of records.
    layouts = (TEXT, prompt) if SECOND in prompt else (prompt, prompt + SECOND)
    if not prompt:
        layouts = (SINGLE, PAIR) if render is None else (TEXT, f"{TEXT}\n{SECOND}")
    templates = []
    for layout in layouts:
        # Marks: what the chat itself says of {text} is no place for a text.
        marked = layout.replace(TEXT, MARKS[0]).replace(SECOND, MARKS[1])
        template = ["begin"]
        for part in re.split(f"({MARKS[0]}|{MARKS[1]})", render(marked) if render else marked):
            if part in MARKS:
                template.append("$A" if part == MARKS[0] else "$B")
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


def find_answers(folder: Path, words: dict[str, str]) -> dict[str, int]:
    """Return for each label the token that its word begins with.

    Args:
        folder: of the decoder.
        words: by label.

    Raises:
        InputError: the words can't be told apart by their first token.
    """
    tokenizer = load_tokenizer(folder, True)
    if tokenizer is None:
        raise InputError(f"{folder} has no tokenizer.json, which writers.answers needs: save it.")
    found = {n: tokenizer.encode(word, add_special_tokens=False) for n, word in words.items()}
    empty = [words[label] for label, encoding in found.items() if not encoding.ids]
    tokens = {label: encoding.ids[0] for label, encoding in found.items() if encoding.ids}
    if empty or len({*tokens.values()}) < len(tokens):
        shown = ", ".join(f"{words[n]!r} as {found[n].tokens}" for n in words)
        raise InputError(
            f"writers.answers: the words of labels differ in their first token, and {folder} "
            f"reads {shown}: choose other words."
        )
    return tokens

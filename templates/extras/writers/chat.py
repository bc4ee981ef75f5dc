"""The chat template of a writer, rendered as transformers renders it.

The template becomes part of the tokenizer, which each run stores, so that prediction needs no other
file. Source of the environment: `apply_chat_template` of transformers,
https://huggingface.co/docs/transformers/chat_templating.
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from core.base.errors import InputError, gist
from core.base.extras import how_to_get
from core.base.files import project_path, read_json

TOKENIZER = "tokenizer"  # value of `chat`: the template of the encoder's folder
NAME = "chat_template"
PLACE = "\ue000text\ue001"  # takes the place of a text: characters that no template has


class ChatTemplate:
    """A chat template and the special tokens that it names.

    Args:
        text: in Jinja.
        tokens: `bos_token`, `eos_token` and others by name.
        where: its file, for messages.
    """

    def __init__(self, text: str, tokens: dict[str, str], where: str = NAME) -> None:
        self.text, self.tokens, self.where = text, tokens, where

    def renderer(self, table: Any) -> Callable[..., str]:
        """Return a function from what the user says, and perhaps the answer, to a chat.

        Without an answer the chat ends where the answer begins.

        Args:
            table: `system`, `chat_variables`, `chat_date`.

        Raises:
            InputError: the template can't be read, or what it makes of a chat lacks the text.
        """
        template = self.compile(date.fromisoformat(table.chat_date))
        variables = {"tools": None, "documents": None, **self.tokens, **table.variables}
        system = [{"role": "system", "content": table.system}] if table.system else []

        def render(content: str, answer: str | None = None) -> str:
            messages = [*system, {"role": "user", "content": content}]
            if answer is not None:
                messages.append({"role": "assistant", "content": answer})
            options = {"messages": messages, "add_generation_prompt": answer is None}
            try:
                return template.render(**{**variables, **options})
            except Exception as error:  # a template may raise whatever Python raises
                raise InputError(
                    f"{self.where} can't be rendered ({gist(error)}): set writers.system and "
                    "writers.chat_variables to what it allows, or choose another template."
                ) from error

        if render(PLACE).count(PLACE) != 1:
            raise InputError(
                f"{self.where} does not put what the user says into the chat once, as "
                "{{ message['content'] }} of messages does: choose another template."
            )
        return render

    def compile(self, day: date) -> Any:
        """Return the template in a sandbox, with the functions that transformers gives it.

        Args:
            day: what `strftime_now` takes for today.

        Raises:
            InputError: jinja2 is missing, or the template is not valid.
        """
        try:
            import jinja2
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise InputError(
                f"writers.chat needs jinja2: {how_to_get('writers')}, with its requirements."
            ) from error

        def raise_exception(message: str) -> None:
            raise jinja2.exceptions.TemplateError(message)

        def tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
            return json.dumps(value, ensure_ascii=ensure_ascii, **options)

        extensions = ["jinja2.ext.loopcontrols", *marked_answers()]
        sandbox = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions
        )
        sandbox.filters["tojson"] = tojson
        sandbox.globals |= {"raise_exception": raise_exception, "strftime_now": day.strftime}
        try:
            return sandbox.from_string(self.text)
        except jinja2.TemplateSyntaxError as error:
            raise InputError(
                f"{self.where}, line {error.lineno} of the template: {gist(error)}: fetch the file "
                "again, or name a valid template in writers.chat."
            ) from error


def marked_answers() -> list[Any]:
    """Return the extension for `{% generation %}`, which marks answers and changes no text."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Answers(Extension):
        tags = {"generation"}

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    return [Answers]


def read_template(folder: Path, chat: str) -> ChatTemplate:
    """Return the chat template that a setting names, with the special tokens of a folder.

    Args:
        folder: of the writer: `chat_template.jinja`, or `tokenizer_config.json`.
        chat: `TOKENIZER`, or the path of a file.

    Raises:
        InputError: there is no template.
    """
    config = folder / "tokenizer_config.json"
    values = read_json(config) if config.is_file() else {}
    named = {name: value for name, value in values.items() if name.endswith("_token")}
    contents = {n: v.get("content") if isinstance(v, dict) else v for n, v in named.items()}
    tokens = {name: token for name, token in contents.items() if isinstance(token, str)}
    path = folder / "chat_template.jinja" if chat == TOKENIZER else project_path(chat)
    if chat != TOKENIZER or path.is_file():
        try:
            return ChatTemplate(path.read_text(encoding="utf-8"), tokens, str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"writers.chat = {chat!r} can't be read as UTF-8 text ({gist(error)}): name a file "
                f'with a chat template in Jinja, or set chat = "{TOKENIZER}".'
            ) from error
    text = values.get(NAME)
    if isinstance(text, list):  # several by name
        found = [one for one in text if isinstance(one, dict) and one.get("name") == "default"]
        text = found[0].get("template") if found else None
    if not isinstance(text, str) or not text:
        raise InputError(
            f"{folder} has no chat template, neither in {path.name} nor as {NAME} in "
            f'{config.name}: choose a model that was trained on chats, or set writers.chat = "".'
        )
    return ChatTemplate(text, tokens, str(config))


def attach(tokenizer: Tokenizer, template: ChatTemplate) -> Tokenizer:
    """Let a tokenizer carry a chat template; it puts nothing around a text any more.

    Args:
        tokenizer: of a decoder; it is changed.
        template: names all special tokens itself.
    """
    stored = json.dumps([template.text, template.tokens], ensure_ascii=False)
    # A special token that no layout has: such a text is all that a tokenizer has room for.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B", special_tokens=[{"id": NAME, "ids": [0], "tokens": [stored]}]
    )
    return tokenizer


def carried_by(tokenizer: Tokenizer) -> ChatTemplate | None:
    """Return the chat template that a tokenizer carries; None: it has none."""
    processor = tokenizer.post_processor
    stored = json.loads(processor.__getstate__()).get("special_tokens") if processor else None
    if not isinstance(stored, dict) or NAME not in stored:
        return None
    text, tokens = json.loads(stored[NAME]["tokens"][0])
    return ChatTemplate(text, tokens)


def teach_end(writer: Any, tokenizer: Tokenizer, table: Any) -> None:
    """Let a writer learn the token that ends an answer in a chat, such as `<|im_end|>`.

    It becomes the first of `ends`; the others still end a text. A template without a special token
    after the answer changes nothing.

    Args:
        writer: a `Decoder`; it is changed.
        tokenizer: carries the template.
        table: as in `ChatTemplate.renderer`.
    """
    template = carried_by(tokenizer)
    if template is None:
        return
    after = template.renderer(table)("a", PLACE).partition(PLACE)[2]
    special = tokenizer.get_added_tokens_decoder()
    found = [n for n in tokenizer.encode(after, add_special_tokens=False).ids if n in special]
    if found:
        writer.ends = list(dict.fromkeys([found[0], *writer.ends]))
        writer.options["ends"] = writer.ends

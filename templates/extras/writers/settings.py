"""The table [writers] of config.toml."""

import contextlib
import json
from datetime import date
from typing import Any, Literal

from pydantic import Field, field_validator

from core.base.settings import RecordSettings, SettingsTable


class Table(SettingsTable):
    """Prompt, weights and packing of a pretrained writer."""

    prompt: str = Field(
        "", description="what is read, with {source} or {text}; empty: as the family does"
    )
    weights: Literal["pretrained", "random"] = Field(
        "pretrained", description="random: the same model from nothing, of the same tokens"
    )
    packing: bool = Field(False, description="several training examples in a row")
    chat: str = Field(
        "", description="tokenizer: prompts by its chat template; or a file with one; empty: none"
    )
    system: str = Field("", description="what the system says before the user, in a chat")
    chat_variables: str = Field("", description="variables of the chat template, as a table")
    chat_date: str = Field("2024-07-26", description="today, for a chat template that writes it")
    answers: str = Field(
        "", description="the word that stands for each label, whose next-token logits classify"
    )

    @field_validator("chat_variables", "answers", mode="before")
    @classmethod
    def read_table(cls, given: Any) -> Any:
        """Return a table as JSON: one value, so that runs can be compared."""
        if isinstance(given, str) and given:
            with contextlib.suppress(ValueError, RecursionError):
                given = json.loads(given)
        if given and not isinstance(given, dict):
            raise ValueError("not a table: write { name = value }, or JSON as a flag")
        return json.dumps(given, ensure_ascii=False, sort_keys=True) if given else ""

    @field_validator("answers")
    @classmethod
    def check_answers(cls, answers: str) -> str:
        """Refuse what is no word."""
        words = json.loads(answers or "{}").values()
        if not all(isinstance(word, str) and word for word in words):
            raise ValueError('each label needs a word: { yes = "Yes", no = "No" }')
        return answers

    @field_validator("chat_date")
    @classmethod
    def check_date(cls, day: str) -> str:
        """Refuse what is no day."""
        try:
            return date.fromisoformat(day).isoformat()
        except ValueError as error:
            raise ValueError("not a day: write it as 2024-07-26") from error

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of the chat template."""
        return json.loads(self.chat_variables or "{}")

    @property
    def words(self) -> dict[str, str]:
        """The word of each label."""
        return json.loads(self.answers or "{}")

    @field_validator("prompt")
    @classmethod
    def check_prompt(cls, prompt: str) -> str:
        """Refuse a prompt without the place of the source or the text."""
        once = prompt.count("{source}") + prompt.count("{text}") == 1
        if prompt and not (once and prompt.count("{text_b}") <= prompt.count("{text}")):
            raise ValueError(
                "{source} must stand in it once: 'Title of: {source}\\n'; in text classification "
                "{text}, and {text_b} for pairs"
            )
        return prompt


class Settings(RecordSettings):
    """The settings of a project that has this extra."""

    writers: Table = Field(default_factory=Table)


def writes(settings: Any) -> bool:
    """Return whether text generation is asked for a model that this extra makes."""
    return getattr(settings, "model", None) == "pretrained"


def classifies(settings: Any) -> bool:
    """Return whether the task is text classification, whose encoder may be a decoder."""
    return getattr(settings, "task", "") == "Text classification"


def learns_texts(settings: Any) -> bool:
    """Return whether the task is pre-training, other than a BART's."""
    return getattr(settings, "objective", "denoising") != "denoising"


def packs(settings: Any) -> bool:
    """Return whether several training examples share a row."""
    table = getattr(settings, "writers", None)  # None: whoever asks has no use for extras
    return table is not None and table.packing


def complain(settings: Settings) -> str | None:
    """Refuse settings that a pretrained writer lacks."""
    lora: Any = getattr(settings, "lora", None)
    needed = "{text}" if classifies(settings) else "{source}"
    if settings.writers.prompt and needed not in settings.writers.prompt:
        return f"writers.prompt = {settings.writers.prompt!r}: this task reads {needed}: name it"
    if settings.writers.weights == "random" and lora is not None and lora.rank:
        return (
            "lora.rank keeps the kernels as they are, which writers.weights = random makes without "
            "any training: set lora.rank = 0, or writers.weights = pretrained"
        )
    table, model = settings.writers, getattr(settings, "model", None)
    if not table.chat and (table.system or table.chat_variables):
        return (
            "writers.system and writers.chat_variables belong to a chat template: set writers.chat "
            '= "tokenizer", or leave them empty'
        )
    if table.answers and not classifies(settings):
        return "writers.answers classifies, and this task does not: leave it empty"
    if table.chat and model != "pretrained" and not classifies(settings):
        return (
            f"writers.chat = {table.chat!r} is for a pretrained writer: set model = pretrained, or "
            "leave it empty"
        )
    if model != "pretrained":
        if settings.writers.packing:
            return (
                "writers.packing = true puts several examples into the rows of a decoder-only "
                "writer, and no other model reads those: set packing = false, or model = pretrained"
            )
        if not classifies(settings) and (table.prompt or table.weights != "pretrained"):
            return (
                "writers.prompt and writers.weights are for a pretrained writer: set model = "
                "pretrained, or leave them as they were"
            )
        return None
    if settings.encoder == "tiny":
        return (
            "model = pretrained needs a writer, and encoder = tiny begins from nothing: set "
            "encoder to the folder of a GPT-2, Llama, Qwen, BART or T5, or model to unilm"
        )
    options: dict[str, Any] = {"keep_tokens": "all"}
    for name, value in options.items():
        if getattr(settings, name, value) != value:
            return f"{name} is for WordPiece, and model = pretrained keeps its tokens: set {value}"
    return None

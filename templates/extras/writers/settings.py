"""The table [writers] of config.toml."""

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
    if getattr(settings, "model", None) != "pretrained":
        if settings.writers.packing:
            return (
                "writers.packing = true puts several examples into the rows of a decoder-only "
                "writer, and no other model reads those: set packing = false, or model = pretrained"
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

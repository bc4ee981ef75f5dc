"""The settings of seq2seq."""

import argparse
from typing import Literal, get_args

from pydantic import Field, model_validator

from common.settings import RecordSettings

# What shapes generation alone: a trained run may be asked to generate otherwise.
GENERATION_SETTINGS = (
    "decoding",
    "beams",
    "length_penalty",
    "length_power",
    "block_ngrams",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "prediction_batch_size",
)


class Settings(RecordSettings):
    """The common settings and those of models and generation."""

    # model
    model: Literal["unilm", "encoder_decoder"] = Field(
        "unilm", description="unilm: the encoder writes too; encoder_decoder: a decoder beside it"
    )
    decoder_layers: int = Field(2, ge=1, description="layers of the decoder of encoder_decoder")
    target_length: int = Field(64, ge=2, description="tokens of a target, its end included")
    keep_tokens: Literal["all", "used"] = Field(
        "all", description="used: only the tokens that the training file uses, a faster head"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability of all other tokens")

    # generation
    decoding: Literal["beam", "sample"] = Field("beam", description="search, or draw at random")
    beams: int = Field(4, ge=1, description="hypotheses of the search; 1: greedy")
    evaluate_beams: int = Field(1, ge=1, description="beams of the scorings during the training")
    length_penalty: Literal["mean", "gnmt"] = Field(
        "mean", description="log-probability / length^power, or / ((5 + length) / 6)^power"
    )
    length_power: float = Field(1.0, ge=0, description="higher: longer texts; 0: no penalty")
    block_ngrams: int = Field(0, ge=0, description="no sequence of so many tokens twice; 0: any")
    temperature: float = Field(1.0, gt=0, description="of sampling; lower: surer tokens")
    top_k: int = Field(0, ge=0, description="sample from so many tokens; 0: from all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample from the surest tokens of this sum")
    cache: bool = Field(True, description="keep keys and values of the tokens written so far")

    # scores
    metric: Literal["bleu", "exact_match", "rouge_l"] = Field(
        "bleu", description="the score that chooses the best epoch"
    )
    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = Field(
        "13a", description="of sacrebleu; zh for Chinese"
    )
    lowercase_scores: bool = Field(False, description="score without regard to case")

    @model_validator(mode="after")
    def check_unlabelled(self):
        """Refuse sources without a target: each token is written after those before it."""
        if self.unlabelled_file:
            raise ValueError(
                f"unlabelled_file = {self.unlabelled_file!r}, but a target is scored after its own "
                "beginning: leave it empty, and virtual_adversary takes the training file"
            )
        return self


def add_generation_flags(parser: argparse.ArgumentParser) -> None:
    """Let a command ask a trained run to generate otherwise than its settings say."""
    group = parser.add_argument_group("generation, instead of what the run's settings say")
    for name in GENERATION_SETTINGS:
        field = Settings.model_fields[name]
        choices = get_args(field.annotation)
        kind = {"choices": choices} if choices else {"type": field.annotation}
        group.add_argument(f"--{name}", help=field.description, **kind)


def generation_changes(arguments: argparse.Namespace) -> dict[str, str | float]:
    """Return the settings that the flags of `add_generation_flags` change."""
    values = {name: getattr(arguments, name) for name in GENERATION_SETTINGS}
    return {name: value for name, value in values.items() if value is not None}

"""Settings of generation: the table [generation] of config.toml, flags, begin and end tokens."""

import argparse
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import NoDecode

from core.base.errors import InputError
from core.base.settings import SettingsTable
from core.data.records import Id


@dataclass(frozen=True)
class TargetTokens:
    """The tokens that begin and end a target.

    The first token is predicted from `begin`, and `end` is the last one. Tokens of `never` are in
    no text. `other_ends` end a text too, but are not trained.
    """

    begin: int
    end: int
    never: tuple[int, ...]
    other_ends: tuple[int, ...] = ()

    @property
    def ends(self) -> list[int]:
        """All tokens that end a text."""
        return [self.end, *self.other_ends]


class GenerationTable(SettingsTable):
    """Settings of the search or the sampling."""

    decoding: Literal["beam", "sample"] = Field("beam", description="search, or draw at random")
    beams: int = Field(4, ge=1, description="hypotheses of the search; 1: greedy")
    evaluate_beams: int = Field(1, ge=1, description="beams of the scorings during training")
    length_penalty: Literal["mean", "gnmt"] = Field(
        "mean", description="log-probability / length^power, or / ((5 + length) / 6)^power"
    )
    length_power: float = Field(1.0, ge=0, description="higher: longer texts; 0: no penalty")
    n_best: int = Field(1, ge=1, description="texts of a record: the best beams, or samples")
    # Undecoded: the command line would split at commas, and drop brackets, quotes and blanks.
    stop: Annotated[list[str], NoDecode] = Field(
        [], description="strings that end a text and are not part of it"
    )
    allowed: str = Field("", description="file of the texts that may be written; empty: any")
    block_ngrams: int = Field(0, ge=0, description="no sequence of so many tokens twice; 0: any")
    repetition_penalty: float = Field(
        1.0, gt=0, description="above 1: tokens that were written become less likely"
    )
    min_length: int = Field(0, ge=0, description="tokens of a text at least, without its end")
    temperature: float = Field(1.0, gt=0, description="of sampling; lower: more likely tokens")
    top_k: int = Field(0, ge=0, description="sample from so many tokens; 0: from all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sample from the likeliest tokens up to this sum"
    )
    perplexity: bool = Field(False, description="also score the perplexity of targets")
    cache: bool = Field(True, description="keep keys and values of the tokens written so far")

    @field_validator("stop", mode="before")
    @classmethod
    def read_stop(cls, value: Any) -> Any:
        """Return the strings of a flag: a JSON list, or else the whole value as a single string."""
        if not isinstance(value, str):
            return value
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
        strings = isinstance(found, list) and all(isinstance(one, str) for one in found)
        return found if strings else [value]

    @field_validator("stop")
    @classmethod
    def check_stop(cls, strings: list[str]) -> list[str]:
        """Refuse an empty string, which every text contains."""
        if "" in strings:
            raise ValueError("an empty string ends every text: leave it out")
        return strings

    @property
    def drawn(self) -> int:
        """Texts that sampling draws for each record."""
        return self.n_best if self.decoding == "sample" else 1

    def draw_numbers(self, seed: int, identity: Id, length: int) -> np.ndarray:
        """Return the random numbers `[drawn * length]` in [0, 1) that sample a record's texts.

        They depend only on the seed and the record's id, not on other records. With more texts the
        first ones stay the same.

        Args:
            seed: of the training.
            identity: the record's id.
            length: tokens of a target.
        """
        random = np.random.default_rng([seed, zlib.crc32(str(identity).encode())])
        return random.random(self.drawn * length, np.float32)


def check_n_best(table: GenerationTable) -> None:
    """Refuse to write more texts of a record than the search finds.

    Raises:
        InputError: the search has fewer beams.
    """
    if table.decoding == "beam" and table.n_best > table.beams:
        raise InputError(
            f"n_best = {table.n_best}, but a search with beams = {table.beams} has no more texts: "
            "raise beams, lower n_best, or draw texts with decoding = sample."
        )


def check_min_length(table: GenerationTable, length: int) -> None:
    """Refuse a minimum that no text can reach, and limits that contradict a file of texts.

    Args:
        table: `min_length`, `block_ngrams` and `allowed`.
        length: tokens of a target at the most, its end included.

    Raises:
        InputError: there is no room for the minimum, or a file says what may be written.
    """
    if table.min_length >= length:
        raise InputError(
            f"min_length = {table.min_length}, but target_length = {length} has room for "
            f"{length - 1} tokens and an end: lower min_length."
        )
    if table.min_length and table.allowed:
        raise InputError(
            f"min_length = {table.min_length} forbids the end of shorter texts, and "
            f"{table.allowed} says which texts may be written: set min_length = 0, and take the "
            "short lines out of that file."
        )
    if table.block_ngrams and table.allowed:
        raise InputError(
            f"block_ngrams = {table.block_ngrams} may forbid what a line of {table.allowed} "
            "repeats: set block_ngrams = 0."
        )


class GenerationFlags(GenerationTable):
    """Settings that can be changed for a trained run: the table, and two others."""

    seed: int = Field(1, ge=0, description="of sampling")
    prediction_batch_size: int = Field(32, ge=1, description="records written together")


# `evaluate_beams` is only for training.
FLAGS = [name for name in GenerationFlags.model_fields if name != "evaluate_beams"]


def add_generation_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that change how a trained run generates."""
    group = parser.add_argument_group("generation, instead of what the run's settings say")
    for name in FLAGS:
        description = GenerationFlags.model_fields[name].description
        group.add_argument(f"--{name}", metavar="VALUE", help=description)


def read_generation_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the flags of `add_generation_flags` change.

    Raises:
        InputError: a value is not allowed for its setting.
    """
    values = {name: getattr(arguments, name) for name in FLAGS}
    given = {name: value for name, value in values.items() if value is not None}
    try:
        found = GenerationFlags.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors()[0]
        name, message = str(first["loc"][0]), first["msg"]
        meaning = GenerationFlags.model_fields[name].description
        raise InputError(
            f"--{name} = {first['input']!r} ({meaning}): {message[:1].lower()}{message[1:]}."
        ) from error
    if found.get("allowed"):  # resolved from the current folder, as all paths of these commands
        found["allowed"] = str(Path(found["allowed"]).resolve())
    return found

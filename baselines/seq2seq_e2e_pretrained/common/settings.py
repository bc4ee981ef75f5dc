"""Settings: config.toml, overridden by flags; all is checked and unknown keys are refused."""

import difflib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    CliApp,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from common.errors import InputError

PROJECT = Path(__file__).resolve().parents[1]


def read_points(text: str) -> list[tuple[float, float]]:
    """Return the points of `0:1, 0.5:0.1, 1:0`.

    Raises:
        ValueError: says what is wrong with them.
    """
    try:
        points = [
            (float(place), float(height))
            for place, height in (part.split(":") for part in text.split(",") if part.strip())
        ]
    except ValueError:
        raise ValueError("this is no list of points such as 0:1, 0.5:0.1, 1:0") from None
    places, heights = [place for place, _ in points], [height for _, height in points]
    if places != sorted(set(places)) or not all(0 <= place <= 1 for place in places):
        raise ValueError("the first numbers must rise, from 0 to 1 at the most")
    if not all(height >= 0 for height in heights):
        raise ValueError("the second numbers must not be below 0")
    return points


def check_points(text: str) -> str:
    """Refuse what is no list of points."""
    read_points(text)
    return text


Points = Annotated[str, AfterValidator(check_points)]


class CommonSettings(BaseSettings):
    """What every training needs, whatever it learns from; a task adds its own."""

    model_config = SettingsConfigDict(extra="forbid", toml_file=PROJECT / "config.toml")

    # encoder
    encoder: str = Field("tiny", description="tiny, a KerasHub preset, hf://..., or a folder")
    tiny_layers: int = Field(2, ge=1, description="layers of the tiny encoder")
    tiny_width: int = Field(192, ge=16, description="width of the tiny encoder")
    max_length: int = Field(128, ge=8, description="tokens read at once, special ones included")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of hidden states in the encoder")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention weights")
    frozen_layers: int = Field(0, ge=0, description="layers that stay as they are; 1: embeddings")

    # training
    epochs: int = Field(20, ge=1, description="passes over the training file")
    steps: int = Field(0, ge=0, description="stop after so many steps; 0: after all epochs")
    batch_size: int = Field(16, ge=1, description="examples in one step")
    batch_size_counts: Literal["all_replicas", "one_replica"] = Field(
        "all_replicas", description="whether batch_size is shared by the replicas"
    )
    accumulation: int = Field(1, ge=1, description="micro-batches in one step, to save memory")
    recompute: bool = Field(False, description="compute layers twice instead of keeping them")
    buckets: int = Field(12, ge=1, description="padded lengths; 1: one static shape, as on TPU")
    seed: int = Field(1, ge=0, description="initial weights, order of examples, dropout")

    # optimizer
    optimizer: Literal["adamw", "lamb", "adafactor", "lion", "muon"] = Field(
        "adamw", description="what makes a step of a gradient"
    )
    learning_rate: float = Field(1e-3, gt=0, description="peak rate of the encoder")
    head_learning_rate: float = Field(1e-3, gt=0, description="peak rate of all other layers")
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="rate of an encoder layer, relative to the one above it"
    )
    scale_learning_rate: bool = Field(False, description="multiply the rates by the replicas")
    schedule: Literal["linear", "cosine", "polynomial", "piecewise", "constant"] = Field(
        "linear", description="the rate after the warm-up"
    )
    schedule_power: float = Field(2.0, gt=0, description="of the polynomial schedule")
    schedule_points: Points = Field("", description="of the piecewise schedule: 0:1, 0.5:0.1, 1:0")
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps until the peak rate")
    weight_decay: float = Field(0.01, ge=0, description="decay of kernels and embeddings")
    no_decay: str = Field("bias, gamma, beta", description="parts of names that never decay")
    no_adaptation: str = Field("bias, gamma, beta", description="parts of names LAMB doesn't adapt")
    clip_norm: float = Field(1.0, ge=0, description="largest gradient norm; 0: never clip")
    lazy_embeddings: bool = Field(False, description="rows wait until a batch has their token")
    lookahead: int = Field(0, ge=0, description="go back half of the way every so many steps")
    ema: float = Field(0.0, ge=0, lt=1, description="momentum of the averaged weights; 0: none")
    soup: int = Field(0, ge=0, description="so many best weights are averaged at the end; 0: none")

    # regularization
    adversary: Literal["none", "fgm", "pgd"] = Field(
        "none", description="who shifts the embeddings to where the loss is higher"
    )
    adversary_size: float = Field(1.0, gt=0, description="length of that shift at the most")
    gradient_penalty: float = Field(0.0, ge=0, description="weight of the embeddings' gradient")
    r_drop: float = Field(0.0, ge=0, description="weight of how far two dropout passes differ")
    virtual_adversary: float = Field(
        0.0, ge=0, description="weight of how far a shift of the embeddings moves answers"
    )

    # evaluation
    evaluate_steps: int = Field(0, ge=0, description="score dev every so many steps too; 0: never")
    patience: int = Field(0, ge=0, description="stop after so many scorings without gain; 0: never")
    prediction_batch_size: int = Field(32, ge=1, description="examples predicted together")
    shown_examples: int = Field(2, ge=0, description="dev records printed with each score")
    checkpoint_steps: int = Field(200, ge=1, description="steps between two checkpoints")

    # loop
    loop: Literal["fit", "orbit"] = Field("fit", description="Keras's loop, or Orbit's")
    steps_per_loop: int = Field(20, ge=1, description="steps in one TensorFlow loop of Orbit")
    kept_checkpoints: int = Field(3, ge=1, description="checkpoints that Orbit leaves")
    orbit_job: Literal["train_and_evaluate", "train", "evaluate"] = Field(
        "train_and_evaluate", description="what this process does of an Orbit training"
    )

    # hardware
    strategy: Literal["auto", "single", "mirrored", "multi_worker", "tpu", "parameter_server"] = (
        Field("auto", description="which devices train")
    )
    gpus: str = Field(
        "", pattern=r"^(\d+(,\d+)*)?$", description="graphics cards that train, as 0,1; empty: all"
    )
    tpu: str = Field("", description="name or address of the TPU; empty: as the environment says")
    port: int = Field(12345, ge=1, le=65535, description="on which the workers of a cluster talk")
    logical_devices: int = Field(0, ge=0, description="split one device, to try several replicas")
    precision: Literal["float32", "mixed_bfloat16"] = Field(
        "float32", description="mixed_bfloat16 is twice as fast on TPU and recent GPUs"
    )
    xla: bool = Field(False, description="compile the gradient, once for each bucket")

    run_name: str = Field(
        "default",
        pattern=r"^[\w.-]*\w[\w.-]*$",
        description="the run is runs/<run_name>; the same name again goes on with it",
    )
    overwrite: bool = Field(False, description="replace a run of the same name")

    @model_validator(mode="after")
    def check_together(self):
        """Refuse settings that are valid alone and not together."""
        if (self.schedule == "piecewise") != bool(self.schedule_points.strip()):
            raise ValueError(
                f"schedule = {self.schedule} with schedule_points = {self.schedule_points!r}: set "
                "both, or neither"
            )
        if self.lazy_embeddings and self.optimizer in {"lamb", "adafactor"}:
            raise ValueError(
                f"lazy_embeddings with optimizer = {self.optimizer}, whose steps depend on the "
                "whole table: set lazy_embeddings = false, or optimizer = adamw"
            )
        if self.gradient_penalty and self.recompute:
            raise ValueError(
                "gradient_penalty with recompute = true: what is computed again has no second "
                "derivatives, so set one of them to 0 or false"
            )
        if self.loop == "orbit" and importlib.util.find_spec("orbit") is None:
            raise ValueError(
                "loop = orbit needs Orbit: pip install --no-deps -r requirements-orbit.txt, or set "
                "loop = fit"
            )
        if self.strategy == "parameter_server" and (self.loop == "orbit" or self.trainings > 1):
            raise ValueError(
                "strategy = parameter_server has a loop of its own, for one training: set loop = "
                "fit and folds = 0"
            )
        if self.orbit_job != "train_and_evaluate" and (self.loop == "fit" or self.trainings > 1):
            raise ValueError(
                f"orbit_job = {self.orbit_job} is one of two processes of an Orbit training: set "
                "loop = orbit, and folds = 0"
            )
        if self.strategy == "tpu" and self.buckets != 1:
            raise ValueError(
                f"buckets = {self.buckets}, but a TPU compiles minutes for each length: set "
                "buckets = 1 with strategy = tpu"
            )
        return self

    @property
    def trainings(self) -> int:
        """How many models one command trains, one after the other."""
        return 1

    def describe(self) -> str:
        """Return all settings, those that differ from the defaults marked with a star."""
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        return "\n".join(
            f"{' ' if value == defaults[name] else '*'} {name} = {value}"
            for name, value in self.model_dump().items()
        )

    @classmethod
    def settings_customise_sources(cls, settings_cls, init_settings, **_):
        """Read flags and config.toml, and no environment variable that happens to match."""
        return init_settings, TomlConfigSettingsSource(settings_cls)


class RecordSettings(CommonSettings):
    """What a task needs that learns from records."""

    train_file: str = Field("sample/train.jsonl", description="examples to learn from")
    dev_file: str = Field("sample/dev.jsonl", description="examples to choose the best epoch by")
    test_file: str = Field("sample/test.jsonl", description="examples nobody tunes on")
    tiny_vocabulary: int = Field(6000, ge=100, description="tokens of the tiny encoder")
    folds: int = Field(0, ge=0, description="cross-validate: so many trainings; 0: train once")
    unlabelled_file: str = Field("", description="records for virtual_adversary; empty: train_file")

    @model_validator(mode="after")
    def check_files(self):
        """Refuse a file that nobody reads, and a cross-validation without training examples."""
        if self.unlabelled_file and not self.virtual_adversary:
            raise ValueError(
                f"unlabelled_file = {self.unlabelled_file!r} with virtual_adversary = 0, which "
                "alone reads it: set both, or neither"
            )
        if self.folds == 1:
            raise ValueError(
                "folds = 1 leaves nothing to train on: set folds to 2 or more, or to 0"
            )
        return self

    @property
    def trainings(self) -> int:
        """How many models one command trains: one for each fold."""
        return self.folds or 1


class WindowSettings(RecordSettings):
    """What a task needs that splits long texts into windows."""

    window_overlap: int = Field(32, ge=0, description="tokens that neighbouring windows share")

    @model_validator(mode="after")
    def check_overlap(self):
        """Refuse windows that only repeat each other."""
        if self.window_overlap >= self.max_length - 2:
            raise ValueError(
                f"window_overlap = {self.window_overlap} leaves no new token in a window of "
                f"max_length = {self.max_length}: set window_overlap lower"
            )
        return self


AnySettings = TypeVar("AnySettings", bound=CommonSettings)


def read_settings(settings_class: type[AnySettings], flags: list[str] | None = None) -> AnySettings:
    """Return config.toml of this project, overridden by the flags of the command line.

    Args:
        settings_class: the settings of the task.
        flags: `["--epochs", "3"]`; None: those of this process.

    Raises:
        InputError: an unknown key, a wrong type, a value out of range, a broken config.toml.
    """
    flags = sys.argv[1:] if flags is None else flags
    try:
        return CliApp.run(settings_class, cli_args=flags, cli_exit_on_error=False)
    except SettingsError as error:
        raise InputError(explain_flags(str(error), settings_class)) from error
    except ValidationError as error:
        raise InputError(explain_value(error.errors()[0], settings_class, flags)) from error
    except ValueError as error:
        raise InputError(f"config.toml is not valid TOML ({error}): mend that line.") from error


def saved_settings(settings_class: type[AnySettings], values: dict) -> AnySettings:
    """Return the settings that a run was trained with, whatever config.toml says today.

    Raises:
        InputError: the run was trained by another version of this project.
    """
    try:
        return settings_class.model_validate(settings_class.model_construct(**values).model_dump())
    except ValidationError as error:
        raise InputError(
            f"config.json of the run: {explain_value(error.errors()[0], settings_class, [])}"
        ) from error


def explain_flags(message: str, settings_class: type[CommonSettings]) -> str:
    """Name the flag that no setting has."""
    unknown = re.findall(r"--([\w-]+)", message.partition("unrecognized arguments")[2])
    if not unknown:
        return f"{message.removeprefix('error parsing CLI: ')}: run with --help to see every flag."
    return f"unknown flag --{unknown[0]}{suggest(unknown[0], settings_class, '--')}"


def explain_value(error: dict, settings_class: type[CommonSettings], flags: list[str]) -> str:
    """Say which setting is wrong, where it stands and what it may be."""
    if not error["loc"]:
        return f"{error['msg'].removeprefix('Value error, ')}."
    key = str(error["loc"][0])
    from_flag = any(re.split("=", flag)[0] == f"--{key}" for flag in flags)
    where = f"--{key}" if from_flag else f"config.toml, line {line_of(key)}: {key}"
    if error["type"] == "extra_forbidden":
        return f"{where} is no setting{suggest(key, settings_class)}"
    meaning = settings_class.model_fields[key].description
    return f"{where} = {error['input']!r} ({meaning}): {error['msg'].lower()}."


def suggest(key: str, settings_class: type[CommonSettings], prefix: str = "") -> str:
    """Return `: did you mean X?`, or where to look."""
    close = difflib.get_close_matches(key, settings_class.model_fields, n=1)
    return f": did you mean {prefix}{close[0]}?" if close else ": config.toml lists all settings."


def line_of(key: str) -> int | str:
    """Return the line of config.toml that sets `key`."""
    lines = (PROJECT / "config.toml").read_text(encoding="utf-8").splitlines()
    matches = (number for number, line in enumerate(lines, 1) if re.match(rf"{key}\s*=", line))
    return next(matches, "?")


def project_path(path: str) -> Path:
    """Return a path of the settings, which is relative to the project's folder."""
    return PROJECT / path

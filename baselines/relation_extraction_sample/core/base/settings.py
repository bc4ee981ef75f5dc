"""Settings: config.toml, overridden by flags; unknown keys and wrong values are refused.

The settings of a task are flat keys. Tables group what few users change: `[devices]`, and one for
each extra of the project.
"""

import difflib
import functools
import re
import sys
import tomllib
from collections.abc import Container, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.functional_validators import field_validator, model_validator
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict, SettingsError

from core.base.errors import InputError
from core.base.extras import EXTRA_NAMES, declared, how_to_get, settings_modules
from core.base.files import PROJECT, read_config

CONFIG = PROJECT / "config.toml"
# Former name -> name, with its table. `baselines update` reads the file too.
RENAMED: dict[str, str] = tomllib.loads(Path(__file__).with_name("renamed.toml").read_text("utf-8"))
OF_A_RUN: ContextVar[bool] = ContextVar("of_a_run", default=False)  # whether a run is read
STRATEGIES = ("auto", "single", "mirrored", "tpu")


class SettingsTable(BaseModel):
    """A table of config.toml."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DeviceTable(SettingsTable):
    """How the devices that `strategy` chooses are used."""

    tpu: str = Field("", description="name or address of the TPU; empty: as the environment says")
    logical_devices: int = Field(0, ge=0, description="split one device, to try several replicas")
    batch_size_counts: Literal["all_replicas", "one_replica"] = Field(
        "all_replicas", description="the replicas share batch_size, or each has its own"
    )
    scale_learning_rate: bool = Field(False, description="multiply the rates by the replicas")
    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = Field(
        "auto", description="auto: the one that is multiplied fastest here"
    )
    tf32: bool = Field(True, description="multiply float32 as TF32, on GPUs that can")
    xla: bool | Literal["optimizer", "auto"] = Field(
        "auto", description="compile layers and optimizer, or the latter; auto: what pays, on GPUs"
    )


class CoreSettings(BaseSettings):
    """Settings of every training; a task adds its own."""

    # No flag holds the word for None, so that "null" is a string.
    model_config = SettingsConfigDict(extra="forbid", allow_inf_nan=False, cli_parse_none_str="\0")
    task_class: ClassVar[type["CoreSettings"] | None] = None  # without the tables of extras
    task: ClassVar[str]  # name of the task; a run keeps it
    free_settings: ClassVar[tuple[str, ...]] = ()  # may change before a run is resumed

    # encoder
    encoder: str = Field("tiny", description="tiny, hf://owner/model, or a folder")
    tiny_layers: int = Field(2, ge=1, description="layers of the tiny encoder")
    tiny_width: int = Field(192, ge=16, description="width of the tiny encoder")
    max_length: int = Field(128, ge=8, description="tokens read at once, special ones included")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of hidden states in the encoder")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention weights")

    # training
    epochs: int = Field(20, ge=1, description="passes over the training file")
    steps: int = Field(0, ge=0, description="stop after this many steps; 0: after all epochs")
    batch_size: int = Field(16, ge=1, description="examples in one step")
    accumulation: int = Field(1, ge=1, description="micro-batches in one step, to save memory")
    buckets: int = Field(12, ge=1, description="padded lengths; 1: one static shape, as on TPU")
    seed: int = Field(1, ge=0, lt=2**32, description="initial weights, order of examples, dropout")

    # optimizer
    learning_rate: float = Field(1e-3, gt=0, description="peak rate of the encoder")
    head_learning_rate: float = Field(1e-3, gt=0, description="peak rate of all other layers")
    warm_up: float = Field(0.1, ge=0, lt=1, description="share of the steps until the peak rate")
    weight_decay: float = Field(0.01, ge=0, description="decay of kernels and embeddings")
    clip_norm: float = Field(1.0, ge=0, description="largest gradient norm; 0: never clip")

    # evaluation
    evaluate_steps: int = Field(0, ge=0, description="score dev every N steps too; 0: never")
    patience: int = Field(0, ge=0, description="stop after N scorings without gain; 0: never")
    prediction_batch_size: int = Field(32, ge=1, description="examples predicted together")
    shown_examples: int = Field(2, ge=0, description="dev records printed with each score")
    checkpoint_steps: int = Field(200, ge=1, description="steps between two checkpoints")

    # devices
    strategy: str = Field("auto", description="which devices train")
    devices: DeviceTable = Field(default_factory=DeviceTable, description="how they are used")

    run_name: str = Field(
        "default", description="the run is runs/<run_name>; the same name again goes on with it"
    )
    overwrite: bool = Field(False, description="replace a run of the same name")

    @field_validator("strategy")
    @classmethod
    def check_strategy(cls, name: str) -> str:
        """Refuse a strategy that neither core nor an extra of this project has."""
        known = [*STRATEGIES, *declared("STRATEGIES")]
        if name not in known:
            raise ValueError(f"choose one of {', '.join(known)}")
        return name

    @field_validator("run_name")
    @classmethod
    def check_run_name(cls, name: str) -> str:
        """Refuse all but the name of a folder in runs/, or of a folder in such a folder."""
        if not re.fullmatch(r"([\w.-]*\w[\w.-]*/)?[\w.-]*\w[\w.-]*", name):
            raise ValueError("write letters, digits, _, - and ., and at most one / between them")
        return name

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse settings that don't fit together, unless of a run; let extras complete them."""
        if self.strategy == "tpu" and self.buckets != 1:
            raise ValueError(
                f"buckets = {self.buckets}, but a TPU compiles minutes for each length: set "
                "buckets = 1 with strategy = tpu"
            )
        asked = () if OF_A_RUN.get() else declared("complain")
        for complaint in filter(None, (complain(self) for complain in asked)):
            raise ValueError(complaint)
        for complete in declared("complete"):
            complete(self)
        return self

    def describe(self) -> str:
        """Return all settings; those that differ from the defaults are marked as changed."""
        defaults = flatten(type(self).model_construct().model_dump())
        return "\n".join(
            f"{' ' if value == defaults[name] else '* changed:'} {name} = {value}"
            for name, value in flatten(self.model_dump()).items()
        )

    def __reduce__(self) -> tuple:
        # The class with the tables is made at run time: another process must make its own.
        return rebuild, (self.task_class or type(self), self.model_dump())

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: type[BaseSettings], init_settings: Any, **_: Any
    ) -> tuple:
        """Read only the given values, and no environment variable that happens to match."""
        return (init_settings,)


class RecordSettings(CoreSettings):
    """Settings of a task that learns from records."""

    train_file: str = Field("sample/train.jsonl", description="examples to learn from")
    dev_file: str = Field("sample/dev.jsonl", description="examples to choose the best epoch by")
    test_file: str = Field("sample/test.jsonl", description="examples that nothing is tuned on")
    tiny_vocabulary: int = Field(6000, ge=100, description="tokens of the tiny encoder")


class WindowSettings(RecordSettings):
    """Settings of a task that splits long texts into windows."""

    window_overlap: int = Field(32, ge=0, description="tokens that neighbouring windows share")

    @model_validator(mode="after")
    def check_overlap(self) -> Self:
        """Refuse windows that would only repeat each other."""
        if self.window_overlap >= self.max_length - 2:
            raise ValueError(
                f"window_overlap = {self.window_overlap} leaves no new token in a window of "
                f"max_length = {self.max_length}: set window_overlap lower"
            )
        return self


AnySettings = TypeVar("AnySettings", bound=CoreSettings)


@functools.cache
def with_tables(task_class: type[AnySettings]) -> type[AnySettings]:
    """Return the settings of a task with the tables of all extras of this project."""
    tables: dict[str, Any] = {
        name: (module.Table, Field(default_factory=module.Table, description=EXTRA_NAMES[name]))
        for name, module in settings_modules().items()
        if hasattr(module, "Table")
    }
    made = create_model(task_class.__name__, __base__=task_class, **tables)
    made.task_class = task_class
    return made


def rebuild(task_class: type[AnySettings], values: dict) -> AnySettings:
    """Return settings that another process has pickled."""
    return with_tables(task_class).model_validate(values)


def flatten(values: dict, prefix: str = "") -> dict[str, Any]:
    """Return `{"devices.xla": False}` of `{"devices": {"xla": False}}`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, dict)
        flat |= flatten(value, f"{prefix}{name}.") if inner else {prefix + name: value}
    return flat


def read_settings(task_class: type[AnySettings], flags: list[str] | None = None) -> AnySettings:
    """Return config.toml of this project, overridden by the flags of the command line.

    Args:
        task_class: without the tables of extras.
        flags: `["--epochs", "3", "--devices.xla", "true"]`; None: those of this process.

    Raises:
        InputError: an unknown key, a wrong type, a value out of range, a broken config.toml.
    """
    flags = split_values(sys.argv[1:] if flags is None else flags)
    settings_class = with_tables(task_class)
    try:
        values = tomllib.loads(CONFIG.read_text("utf-8-sig"))
        return CliApp.run(settings_class, cli_args=flags, cli_exit_on_error=False, **values)
    except FileNotFoundError as error:
        raise InputError("config.toml is missing: restore it, it holds all settings.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"config.toml, line {line}: not UTF-8: save it as UTF-8.") from error
    except SettingsError as error:
        raise InputError(explain_flags(str(error), settings_class)) from error
    except ValidationError as error:
        raise InputError(explain_value(error.errors(), settings_class, flags)) from error
    except ValueError as error:
        raise InputError(f"config.toml is not valid TOML ({error}): fix that line.") from error
    except RecursionError as error:
        raise InputError("config.toml or a flag nests too many brackets: remove some.") from error


def split_values(flags: list[str]) -> list[str]:
    """Return `--name=value` as two words if the value has line breaks, where it would be cut."""
    words: list[str] = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        cut = equals and name.startswith("--") and re.search(r"[\r\n]", value)
        words += [name, value] if cut else [flag]
    return words


def saved_settings(
    task_class: type[AnySettings], values: dict, file: Path = Path("config.json")
) -> AnySettings:
    """Return the settings in the config.json of a run, for the devices of this machine.

    Older runs have former names. Errors name the file.

    Raises:
        InputError: the run was trained by another version of this project.
    """
    settings_class = with_tables(task_class)
    known = fill_in(settings_class.model_construct().model_dump(), with_new_names(values))
    known["strategy"] = "single" if known["strategy"] == "single" else "auto"
    batch = read_config(CONFIG).get("prediction_batch_size")  # it may be lower than that of the run
    if type(batch) is int and batch > 0:
        known["prediction_batch_size"] = min(known["prediction_batch_size"], batch)
    token = OF_A_RUN.set(True)
    try:
        return settings_class.model_validate(known)
    except ValidationError as error:
        what = explain_value(error.errors(), settings_class)
        raise InputError(f"{file}: {what}") from error
    finally:
        OF_A_RUN.reset(token)


def with_new_names(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings under the names that they have now, in their tables."""
    former = {name for name in RENAMED.keys() & values if not isinstance(values[name], dict)}
    renewed = {name: value for name, value in values.items() if name not in former}
    for name in former:
        table, _, key = RENAMED[name].partition(".")
        renewed[table] = {key: values[name], **renewed.get(table, {})}
    return renewed


def fill_in(defaults: dict, values: dict) -> dict:
    """Return the defaults, replaced by the given values where there are any, tables included."""
    return {
        name: fill_in(default, values.get(name, {}))
        if isinstance(default, dict)
        else values.get(name, default)
        for name, default in defaults.items()
    }


def explain_flags(message: str, settings_class: type[CoreSettings]) -> str:
    """Return a message that names the unknown flag."""
    unknown = re.findall(r"--([\w.-]+)", message.partition("unrecognized arguments")[2])
    if not unknown:
        return f"{message.removeprefix('error parsing CLI: ')}: run with --help to see every flag."
    extra = unknown[0].partition(".")[0]
    if extra in EXTRA_NAMES and extra not in settings_class.model_fields:
        return f"--{unknown[0]} belongs to extras/{extra}, which is absent: {how_to_get(extra)}."
    return f"unknown flag --{unknown[0]}{suggest(unknown[0], settings_class, '--')}"


def explain_value(
    errors: Sequence[Any], settings_class: type[CoreSettings], flags: list[str] | None = None
) -> str:
    """Return which setting is wrong, where it is set, and why; no flags: in another file."""
    error, meanings = errors[0], dict(all_fields(settings_class))
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{message}."
    key = known_key(error, meanings)
    if isinstance(meanings.get(key), str) and len(errors) > 1:  # one for each type it may have
        same = [other["msg"] for other in errors if known_key(other, meanings) == key]
        message = ", or ".join(dict.fromkeys(same))
    named = dict.fromkeys(flag.partition("=")[0] for flag in flags or [])
    from_flag = [f for f in named if f == f"--{key}" or f.startswith(f"--{key}.")]
    where = " and ".join(from_flag) or key
    if flags is not None and not from_flag:
        where = f"config.toml, line {line_of(key)}: {key}"
    if error["type"] == "extra_forbidden" and key in EXTRA_NAMES:
        other = "" if from_flag else ", or delete its table"
        return f"{where} belongs to extras/{key}, which is absent: {how_to_get(key)}{other}."
    if error["type"] == "extra_forbidden" or key in RENAMED:
        return f"{where} is not a setting{suggest(key, settings_class)}"
    meaning = meanings.get(key, "")
    if not meaning:  # settings of a table that don't fit together
        return f"{where}: {message}."
    return f"{where} = {error['input']!r} ({meaning}): {message[:1].lower()}{message[1:]}."


def known_key(error: Any, names: Container[str]) -> str:
    """Return the setting of an error, without the failed type or list position at its end."""
    parts = [str(part) for part in error["loc"]]
    keys = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((key for key in keys if key in names), keys[0])


def all_fields(settings_class: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and description of every setting; those of tables as `devices.xla`."""
    for name, field in settings_class.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, SettingsTable):
            yield from all_fields(kind, f"{name}.")
        else:
            yield prefix + name, field.description or ""


def suggest(key: str, settings_class: type[CoreSettings], prefix: str = "") -> str:
    """Return `: did you mean X?`, or where to look."""
    names = [name for name, _ in all_fields(settings_class)]
    in_tables = [name for name in names if name.rpartition(".")[2] == key]
    renamed = [RENAMED[key]] if key in RENAMED else []
    close = in_tables or renamed or difflib.get_close_matches(key, names, n=1)
    return f": did you mean {prefix}{close[0]}?" if close else ": config.toml lists all settings."


def line_of(key: str) -> int | str:
    """Return the line of config.toml that sets a key, or that begins a table of this name."""
    within = ""
    for number, line in enumerate(CONFIG.read_text("utf-8-sig").splitlines(), 1):
        found = re.match(r"\s*(\[*)\s*([\w.\"'-]+)\s*[\]=]", line)
        if found:
            name = re.sub("[\"']", "", found[2] if found[1] else within + found[2])
            within = f"{name}." if found[1] else within
            if f"{name}.".startswith(f"{key}."):
                return number
    return "?"

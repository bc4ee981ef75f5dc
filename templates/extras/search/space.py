"""The settings that are searched, and their ranges: the table [search.space] of config.toml."""

import json
import math
import sys
from dataclasses import dataclass
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from pydantic import ValidationError

from core.base.errors import InputError
from core.base.extras import need
from core.base.settings import flatten, line_of, suggest
from extras.search.settings import Settings

# Settings that a search can't try, and why.
REFUSED = {
    "run_name": "each trial has a name of its own",
    "overwrite": "each trial has a folder of its own",
    "seed": "the luckiest seed teaches nothing; search.seeds trains the best settings with others",
    "dev_file": "scores on different records can't be compared",
    **dict.fromkeys(
        ("metric", "beta", "positive_label", "competition.k", "competition.beta"),
        "different scores can't be compared",
    ),
    "folds.count": "a trial is one training",
    "strategy": "it changes no score",
}
Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
KEYS = ("low", "high", "log", "step")
EXAMPLE = "{ low = 1e-5, high = 1e-3, log = true }, or a list such as [0.0, 0.1]"


@dataclass(frozen=True)
class Searched:
    """One setting of the space.

    Attributes:
        name: of the setting, that of a table with a dot.
        distribution: of the values to try.
        default: the value without a search.
    """

    name: str
    distribution: Distribution
    default: Any

    @property
    def has_default(self) -> bool:
        """Whether the value without a search is in the range."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.default in self.distribution.choices
        low, high = self.distribution.low, self.distribution.high
        steps = (self.default - low) / (self.distribution.step or 1)
        on_a_step = self.distribution.step is None or math.isclose(steps, round(steps))
        return low <= self.default <= high and on_a_step


def read_space(settings: Settings) -> list[Searched]:
    """Return the settings to search.

    Raises:
        InputError: names the setting that is unknown, or whose range is impossible.
    """
    if not settings.search.space:
        raise InputError(
            "search.space is empty: write what to search into the table [search.space] of "
            f"config.toml, as in learning_rate = {EXAMPLE}."
        )
    known = flatten(settings.model_dump())
    asked = flatten_space(settings.search.space, known)
    found = []
    for name, values in asked.items():
        fault = find_name_fault(name, known, settings)
        fault = fault or (
            find_list_fault(values)
            if isinstance(values, list)
            else find_range_fault(values, known[name])
        )
        fault = fault or find_impossible(name, values, settings)
        if fault:
            raise InputError(f"{place_of(name)}: {fault}.")
        found.append(Searched(name, make_distribution(values, known[name]), known[name]))
    return found


def place_of(name: str) -> str:
    """Return where a setting of the space is written, in words."""
    key = f"search.space.{name}"
    if any(word.startswith("--search.space") for word in sys.argv[1:]):
        return f"--{key}"
    line = line_of(key)
    return f"config.toml, line {line if line != '?' else line_of('search.space')}: {key}"


def flatten_space(space: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return `{"lora.rank": [4, 8]}` of `{"lora": {"rank": [4, 8]}}`; a range stays a dictionary.

    Args:
        space: as it is written; `known`: the settings, those of tables with a dot.
    """
    flat: dict[str, Any] = {}
    for name, values in space.items():
        is_table = any(one.startswith(f"{name}.") for one in known)
        if isinstance(values, dict) and is_table and name not in known:
            flat |= {f"{name}.{key}": value for key, value in values.items()}
        else:
            flat[name] = values
    return flat


def find_name_fault(name: str, known: dict[str, Any], settings: Settings) -> str:
    """Return why a setting can't be searched; empty: it can."""
    if name not in known:
        return f"{name} is not a setting{suggest(name, type(settings))}".rstrip(".")
    if name in need("comparison").SETTINGS_OF_GOLD:
        return f"{name} can't be searched, for scores for different answers can't be compared"
    if name in REFUSED:
        return f"{name} can't be searched, for {REFUSED[name]}: leave it out"
    if name.startswith("search."):
        return f"{name} is a setting of the search itself: leave it out"
    return ""


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    is_bool = isinstance(value, bool)
    return isinstance(value, int | float) and not is_bool and math.isfinite(value)


def find_list_fault(values: list) -> str:
    """Return what is wrong with a list of values; empty: nothing."""
    for value in values:
        if not isinstance(value, bool | str) and not is_number(value):
            return f"{value!r} is not a number, a word, true or false"
    if len({repr(value) for value in values}) < 2:
        return f"{values} has nothing to choose from: list two different values or more"
    if len({repr(value) for value in values}) < len(values):
        return f"{values} has a value twice: list each once"
    return ""


def find_range_fault(values: Any, default: Any) -> str:
    """Return what is wrong with a range of a setting; empty: nothing."""
    if not isinstance(values, dict):
        return f"{values!r} is no range and no list: write {EXAMPLE}"
    if not is_number(default):
        return "its values are no numbers: write a list of those to try"
    if unknown := [key for key in values if key not in KEYS]:
        return f"{unknown[0]} is unknown: a range has {', '.join(KEYS)}"
    if missing := [key for key in ("low", "high") if key not in values]:
        return f"{missing[0]} is missing: write {EXAMPLE}"
    numbers = {key: values[key] for key in ("low", "high", "step") if key in values}
    for key, value in numbers.items():
        if not is_number(value):
            return f"{key} = {value!r} is not a number"
        if isinstance(default, int) and not isinstance(value, int):
            return f"{key} = {value!r} must be a whole number, as the setting is"
    low, high, step = values["low"], values["high"], values.get("step")
    if not isinstance(values.get("log", False), bool):
        return f"log = {values['log']!r} must be true or false"
    if low >= high:
        return f"low = {low} must be less than high = {high}"
    if values.get("log") and low <= 0:
        return f"low = {low} must be more than 0 where log = true"
    if values.get("log") and step is not None:
        return "log and step exclude each other: leave one out"
    return find_step_fault(low, high, step)


def find_step_fault(low: float, high: float, step: float | None) -> str:
    """Return why a range has no whole number of steps; empty: it has."""
    if step is None:
        return ""
    if step <= 0:
        return f"step = {step} must be more than 0"
    steps = (high - low) / step
    if not math.isclose(steps, round(steps), abs_tol=1e-9) or round(steps) < 1:
        last = low + math.floor(steps + 1e-9) * step
        return f"high = {high} is not low = {low} and whole steps of {step}: {last:g} would be"
    return ""


def find_impossible(name: str, values: Any, settings: Settings) -> str:
    """Return which value of a list, or end of a range, the setting can't have; empty: none."""
    tried = values if isinstance(values, list) else [values["low"], values["high"]]
    for value in tried:
        try:
            with_values(settings, {name: value})
        except ValidationError as error:
            said = error.errors()[0]["msg"].removeprefix("Value error, ").rstrip(".")
            return f"{value!r} is impossible: {said[:1].lower()}{said[1:]}"
    return ""


def with_values(settings: Settings, values: dict[str, Any]) -> Settings:
    """Return settings of which some have other values.

    Args:
        settings: are left as they are.
        values: by name, that of a table with a dot.
    """
    changed = settings.model_dump()
    for name, value in values.items():
        table, _, key = name.rpartition(".")
        (changed[table] if table else changed)[key] = value
    return type(settings).model_validate(changed)


def make_distribution(values: Any, default: Any) -> Distribution:
    """Return Optuna's distribution of checked values; `default` tells whole numbers from others."""
    if isinstance(values, list):
        return CategoricalDistribution(values)
    log, step = values.get("log", False), values.get("step")
    if isinstance(default, int):
        return IntDistribution(values["low"], values["high"], log=log, step=step or 1)
    return FloatDistribution(values["low"], values["high"], log=log, step=step)


def as_flags(settings: Settings, values: dict[str, Any]) -> list[str]:
    """Return all settings as flags of train.py, so that a change of config.toml changes no trial.

    Args:
        settings: of the search; `values` replace some of them.
    """
    flat = flatten(settings.model_dump()) | values
    return [  # not as ASCII: in a list, \u00fc would be read as six characters
        f"--{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in flat.items()
        if value is not None
    ]

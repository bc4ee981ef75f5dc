"""The one door to extras/: everything optional, each a folder that can be deleted.

Core and tasks import nothing of an extra. They ask here, in three ways:

- `ask(hook, ...)`: the first extra that answers replaces a step; None: core's default runs.
- `call_all(hook, ...)`: every extra that has the hook may change what it is given.
- `need(extra, module)`: a script or task uses a module of one extra by name.

A hook is a function of `extras/NAME/hooks.py`; `extra.toml` lists the hooks of an extra, so that
nothing is imported before it is needed. `extras/NAME/settings.py` has `Table`, its settings in
config.toml. `extras/__init__.py` says what all hooks get and return, and what settings may declare.
"""

import functools
import importlib
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

from core.base.errors import InputError
from core.base.files import PROJECT

# All extras, those of other projects too: name -> title, in the order of asking.
EXTRA_NAMES: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("extra_names.toml").read_text(encoding="utf-8")
)


@functools.cache
def present() -> list[str]:
    """Return the names of the extras that this project has."""
    return [name for name in EXTRA_NAMES if (PROJECT / "extras" / name).is_dir()]


@functools.cache
def hooks_of(extra: str) -> list[str]:
    """Return the hooks that an extra has."""
    path = PROJECT / "extras" / extra / "extra.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))["hooks"] if path.is_file() else []


def functions(hook: str) -> list[Any]:
    """Return the functions of all extras for a hook."""
    return [
        getattr(open_module(name, "hooks"), hook) for name in present() if hook in hooks_of(name)
    ]


def ask(hook: str, *arguments: Any) -> Any:
    """Return the first answer of an extra to a hook; None: core's default runs."""
    return next((a for one in functions(hook) if (a := one(*arguments)) is not None), None)


def call_all(hook: str, *arguments: Any) -> None:
    """Call the function of every extra for a hook, in the order of `EXTRA_NAMES`."""
    for one in functions(hook):
        one(*arguments)


def need(extra: str, module: str = "") -> Any:
    """Return a module of an extra that a script or a task uses; by default the extra's own name.

    Raises:
        InputError: this project does not have the extra.
    """
    if extra not in present():
        raise InputError(f"this needs extras/{extra}, which is absent: {how_to_get(extra)}.")
    return open_module(extra, module or extra)


def settings_modules() -> dict[str, ModuleType]:
    """Return extra -> its settings module, for the extras that have one."""
    return {name: module for name in present() if (module := open_module(name, "settings"))}


def declared(name: str) -> list:
    """Return what the settings of extras declare under a name; tuples are joined."""
    values = [getattr(module, name, ()) for module in settings_modules().values()]
    return [one for value in values for one in (value if isinstance(value, tuple) else (value,))]


@functools.cache
def open_module(extra: str, module: str) -> ModuleType | None:
    """Import a module of an extra; None: it has no such module."""
    if not (PROJECT / "extras" / extra / f"{module}.py").is_file():
        return None
    return importlib.import_module(f"extras.{extra}.{module}")


def how_to_get(extra: str) -> str:
    """Return how an extra joins this project."""
    return f"add it with `baselines add {extra} --to {PROJECT.name}`"

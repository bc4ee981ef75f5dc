"""What a kept file depends on: values, and the code that made it."""

import ast
import functools
import hashlib
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer


def key_of(function: Callable, *values: Any) -> str:
    """Return what tells apart what a function, or a class, makes of values.

    Raises:
        TypeError: a value is of a kind that has no description.
    """
    makers = {
        "python": list(sys.version_info[:2]),
        **{name: version(name) for name in ("numpy", "tokenizers")},
        "code": code_hash(inner(function).__module__),
    }
    text = json.dumps([makers, describe(function), describe(values)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def inner(function: Callable) -> Callable:
    """Return the function that a partial is of."""
    return inner(function.func) if isinstance(function, functools.partial) else function


def describe(value: Any) -> Any:
    """Return a value as JSON that tells it apart.

    Raises:
        TypeError: there is no way.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, set | frozenset):
        return ["set", *sorted(json.dumps(describe(part)) for part in value)]
    if isinstance(value, dict):
        return ["dict", *([describe(key), describe(part)] for key, part in value.items())]
    if isinstance(value, SimpleNamespace):
        return describe(vars(value))
    if isinstance(value, Tokenizer):
        return value.to_str()
    if isinstance(value, functools.partial):
        return ["partial", describe(value.func), describe(value.args), describe(value.keywords)]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(f"{type(value).__name__} has no description")


def code_hash(module: str) -> str:
    """Return the hash of this extra, of a module, and of all in the project that it imports."""
    own = {"core", "extras", module.partition(".")[0]}
    files = {path.name: path.read_bytes() for path in Path(__file__).parent.glob("*.py")}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = getattr(sys.modules.get(name), "__file__", None)
        if name.partition(".")[0] in own and path and name not in files:
            files[name] = Path(path).read_bytes()
            waiting += imports_of(files[name])
    parts = (f"{name} {hashlib.sha256(files[name]).hexdigest()}\n" for name in sorted(files))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@functools.cache
def imports_of(code: bytes) -> list[str]:
    """Return the names of the modules that code may import."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
    return names

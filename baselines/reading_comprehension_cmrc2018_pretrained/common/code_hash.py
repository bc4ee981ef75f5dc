"""A hash of the code that makes the scores: it tells whether scores are for older code."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = ("prepare.py", "train.py", "evaluate.py")


def code_hash(project: str | Path) -> str:
    """Hash the scripts that prepare, train and evaluate, and all modules of the project they use.

    Comments, docstrings and formatting do not count, nor does the version of Python.

    Args:
        project: the project's folder.

    Returns:
        `sha256:<hex>`.
    """
    project = Path(project)
    digest = hashlib.sha256()
    modules = imported_modules(project)
    for path, tree in sorted(modules.items(), key=lambda module: module[0].as_posix()):
        digest.update(f"{path.as_posix()}\n{outline(tree)}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def imported_modules(project: Path) -> dict[Path, ast.AST]:
    """Return what the scripts import in the end: files, relative to the project, and their code."""
    found: dict[Path, ast.AST] = {}
    waiting = [Path(script) for script in SCRIPTS if (project / script).is_file()]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = ast.parse((project / path).read_bytes())
            for name in imported_names(found[path], path):
                waiting.extend(module_files(project, name))
    return found


def imported_names(tree: ast.AST, path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports; some of them name no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = list(path.parts[: -node.level]) if node.level else []
            parts += [node.module] if node.module else []
            yield ".".join(parts)
            yield from (".".join([*parts, alias.name]) for alias in node.names)


def module_files(project: Path, name: str) -> list[Path]:
    """Return the files that importing a dotted name would run, where they are the project's."""
    parts = name.split(".")
    candidates = [Path(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1)]
    candidates.append(Path(*parts).with_suffix(".py"))
    return [path for path in candidates if (project / path).is_file()]


def outline(node: ast.AST) -> str:
    """Write out a syntax tree without docstrings, positions and empty fields.

    `ast.dump` would do, but its output differs from one version of Python to the next.
    """
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list) and is_docstring(value[:1]):
            value = value[1:]
        if value not in (None, []):
            fields.append(f"{name}={outline_value(value)}")
    return f"{type(node).__name__}({', '.join(fields)})"


def outline_value(value: object) -> str:
    """Write out the value of a field: a node, a list of values, or a constant."""
    if isinstance(value, ast.AST):
        return outline(value)
    if isinstance(value, list):
        return f"[{', '.join(outline_value(item) for item in value)}]"
    return repr(value)


def is_docstring(body: list[ast.stmt]) -> bool:
    """Tell whether a body begins with a bare string."""
    return bool(body) and (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )

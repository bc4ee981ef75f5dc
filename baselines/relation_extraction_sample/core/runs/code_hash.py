"""A hash of the code that makes the scores, to tell when scores are of older code."""

import ast
import functools
import hashlib
from pathlib import Path

SCRIPTS = ("prepare.py", "train.py", "evaluate.py")
APART = ("extras", "inspection", "tests")  # extras are looked at one by one
# Extras that change no weight of a training.
ONLOOKERS = (
    *("blends", "bundle", "comparison", "doctor", "export", "host_formats", "runs_table"),
    *("search", "tpu"),
)


def code_hash(project: str | Path) -> str:
    """Return `sha256:<hex>` of a project: its scripts and packages, and the extras that train.

    Comments, docstrings and formatting do not count, nor does the version of Python.
    """
    lines = "".join(f"{path} {known}\n" for path, known in code_hashes(Path(project)).items())
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def code_hashes(project: Path) -> dict[str, str]:
    """Return path -> hash of each file in `code_hash`, to tell which one has changed."""
    codes = {path.as_posix(): (project / path).read_bytes() for path in hashed_files(project)}
    return {path: hash_of_code(codes[path]) for path in sorted(codes)}


@functools.cache
def hash_of_code(code: bytes) -> str:
    """Return the hash of one file; a training asks for it more than once."""
    try:
        code = outline(ast.parse(code)).encode()
    except (SyntaxError, ValueError):  # an unused file, or what only looks like one
        pass
    return hashlib.sha256(code).hexdigest()


def hashed_files(project: Path) -> list[Path]:
    """Return the files that can change a score, relative to the project."""
    packages = (path.parent for path in project.glob("*/__init__.py"))
    folders = [path for path in packages if path.name not in APART]
    folders += [path for path in project.glob("extras/*/") if path.name not in ONLOOKERS]
    found = [project / name for name in SCRIPTS if (project / name).is_file()]
    found += [path for folder in folders for path in folder.rglob("*.py")]
    paths = [path.relative_to(project) for path in found]
    return [path for path in paths if not any(part.startswith(".") for part in path.parts)]


def outline(value: object) -> str:
    """Write out a syntax tree, or a part, without docstrings, positions and empty fields.

    `ast.dump` would do, but its output differs from one version of Python to the next.
    """
    if isinstance(value, list):
        return f"[{', '.join(map(outline, value))}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = []
    for name, part in ast.iter_fields(value):
        match part:  # without its docstring
            case [ast.Expr(value=ast.Constant(value=str())), *others] if name == "body":
                part = others
        if part not in (None, []):
            fields.append(f"{name}={outline(part)}")
    return f"{type(value).__name__}({', '.join(fields)})"

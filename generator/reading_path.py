"""The reading path of a project: which files train its model, in which order, with their lines."""

import ast
from pathlib import Path

from generator.files import template_project, write_text

BEGIN, END = "<!-- reading: begin -->", "<!-- reading: end -->"
READMES = ("README.md", "README_zh.md")
# In the order of the data: load, encode, model, loss, training, decode, score.
TASK_FILES = (
    "data",
    "masking",
    "denoising",
    "model",
    "training",
    "decode",
    "graph",
    "metrics",
    "evaluation",
)
CORE_FILES = (
    "core/data/data_generator.py",
    "core/model/pointers.py",
    "core/model/language_model.py",
    "core/train/project.py",
    "core/train/training.py",
    "core/train/optimizer.py",
    "core/train/loop.py",
    "core/train/scoring.py",
)


def reading_path(root: Path, template: str) -> list[tuple[str, Path]]:
    """Return name and file of what a reader of a project reads, the first first."""
    project = template_project(root, template)
    own = ["train.py", *(f"task/{name}.py" for name in TASK_FILES)]
    files = [(name, project / name) for name in own]
    files += [(name, root / "templates" / name) for name in CORE_FILES if is_read(project, name)]
    return [(name, path) for name, path in files if path.is_file()]


def is_read(project: Path, core_file: str) -> bool:
    """Tell whether a task uses a module of core; of `model/` it may be one or the other."""
    module = core_file.removesuffix(".py").replace("/", ".")
    model = project / "task" / "model.py"
    used = model.is_file() and module in model.read_text(encoding="utf-8")
    return used or "/model/" not in core_file


def count_lines(path: Path) -> int:
    """Return the lines of a file, empty ones and comments too."""
    return len(path.read_text(encoding="utf-8").splitlines())


def reading_table(root: Path, template: str) -> str:
    """Return the table of the reading path, with what each file says of itself."""
    rows = ["| file | lines | what it says |", "|---|---|---|"]
    files = reading_path(root, template)
    for name, path in files:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        words = docstring.partition("\n")[0].rstrip(".")
        rows.append(f"| `{name}` | {count_lines(path)} | {words} |")
    total = sum(count_lines(path) for _, path in files)
    return "\n".join([*rows, f"| together | {total} | |"])


def update_reading_paths(root: Path, template: str) -> None:
    """Write the table between its marks in the READMEs of a template; without marks do nothing."""
    for name in READMES:
        path = template_project(root, template) / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        before, found, rest = text.partition(BEGIN)
        _, closed, after = rest.partition(END)
        updated = f"{before}{BEGIN}\n{reading_table(root, template)}\n{END}{after}"
        if found and closed and updated != text:
            write_text(path, updated)

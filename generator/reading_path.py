"""The reading path of a project: the files that train its model, in reading order, and a glossary.

The path is closed: every name that its files use is Python's, Keras's, TensorFlow's or NumPy's, is
defined on the path, or has a row in the glossary.
"""

import ast
import functools
import tomllib
from pathlib import Path

from generator import InputError
from generator.files import template_project, write_text

BEGIN, END = "<!-- reading: begin -->", "<!-- reading: end -->"
GLOSSARY_BEGIN, GLOSSARY_END = "<!-- glossary: begin -->", "<!-- glossary: end -->"
# The README and the key of its language in glossary.toml.
ENGLISH, CHINESE = "text", "text_zh"
READMES = {"README.md": ENGLISH, "README_zh.md": CHINESE}
# The words of the table, in each language.
COLUMNS = {ENGLISH: "| file | lines | what it does |", CHINESE: "| 文件 | 行数 | 内容 |"}
PARTS = {ENGLISH: ("training", "predictions and scores"), CHINESE: ("训练", "预测与分数")}
TOGETHER = {ENGLISH: "together", CHINESE: "合计"}
# What trains the model, in the order of train.py: settings, batches, examples, model, layers, step,
# optimizer. Files of task/ that are not named come after it: predictions and scores.
BEFORE = ("task/settings.py", "core/batches.py", "core/windows.py")
DATA = ("task/data.py", "task/masking.py", "task/denoising.py")
LAYERS = ("core/layers/pointers.py", "core/layers/crf.py", "core/layers/language_model.py")
TRAINING = (
    *("train.py", *BEFORE, *DATA, "task/model.py", *LAYERS),
    *("core/step.py", "core/optimizer.py"),
)
ORDER = (*TRAINING, "task/decode.py")
# File formats, a decoder that few choose, prediction by saved runs: read by those who change them.
APART = ("task/records.py", "task/loading.py", "task/decoder.py", "task/prediction.py")
# What every project reads of core; of the rest only what its task imports.
ALWAYS = ("core/batches.py", "core/step.py", "core/optimizer.py")
IF_USED = ("core/windows.py", *LAYERS)


def reading_path(root: Path, template: str) -> dict[str, Path]:
    """Return name -> file of the reading path of a project, in reading order."""
    project = template_project(root, template)
    task = {f"task/{path.name}": path for path in sorted((project / "task").glob("[!_]*.py"))}
    files = {"train.py": project / "train.py"}
    files |= {name: path for name, path in task.items() if name not in APART}
    wanted = {module for path in files.values() for module, _ in imports_of(path)}
    used = [name for name in IF_USED if module_of(name) in wanted]
    files |= {name: root / "templates" / name for name in (*ALWAYS, *used)}
    return {name: files[name] for name in sorted(files, key=rank)}


def rank(name: str) -> tuple[int, str]:
    """Return the place of a file in reading order."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def module_of(name: str) -> str:
    """Return the module of a file of a project."""
    return name.removesuffix(".py").replace("/", ".")


def imports_of(path: Path) -> list[tuple[str, str]]:
    """Return `(module, name)` for each name that a file imports from a module."""
    return imports_in(path.read_text(encoding="utf-8"))


@functools.cache
def imports_in(text: str) -> list[tuple[str, str]]:
    """Return what `imports_of` says of a file with this text."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", alias.name) for node in nodes for alias in node.names]


def outside_names(root: Path, template: str) -> dict[str, str]:
    """Return name -> file of core or of the project that the path uses and that is not on it."""
    path = reading_path(root, template)
    project, found = template_project(root, template), {}
    for file in path.values():
        for module, name in imports_of(file):
            source = module.replace(".", "/") + ".py"
            own = (root / "templates" / source).is_file() or (project / source).is_file()
            if own and source not in path:
                found[name] = source
    return found


def glossary(root: Path, template: str) -> list[tuple[list[str], dict]]:
    """Return the names and the entry of each row of a project's glossary.

    Raises:
        InputError: a name of the path has no entry in glossary.toml.
    """
    rows: list[tuple[list[str], dict]] = [([], entry) for entry in read_glossary(root)["entry"]]
    for name, source in sorted(outside_names(root, template).items()):
        fitting = [names for names, entry in rows if is_in(source, entry["modules"])]
        if not fitting:
            raise InputError(
                f"templates/{template} uses {name} of {source} on its reading path, and "
                "generator/glossary.toml has no entry for it: add one."
            )
        fitting[0].append(name)
    return [(names, entry) for names, entry in rows if names]


def is_in(source: str, modules: list[str]) -> bool:
    """Tell whether a file is one of some files, or in one of some folders."""
    return any(source == module or source.startswith(f"{module}/") for module in modules)


def count_lines(path: Path) -> int:
    """Return the lines of a file, including empty lines and comments."""
    return len(path.read_text(encoding="utf-8").splitlines())


def reading_table(root: Path, template: str, language: str = ENGLISH) -> str:
    """Return the table of the reading path, with the first line of each file's docstring.

    Raises:
        InputError: a line is not translated in glossary.toml.
    """
    rows = [COLUMNS[language], "|---|---|---|"]
    files = reading_path(root, template)
    trains = {name: path for name, path in files.items() if name in TRAINING}
    scores = {name: path for name, path in files.items() if name not in trains}
    for part, own in zip(PARTS[language], (trains, scores), strict=True):
        for name, path in own.items():
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            words = docstring.partition("\n")[0].rstrip(".")
            words = words if language == ENGLISH else translate(root, words)
            rows.append(f"| `{name}` | {count_lines(path)} | {words} |")
        rows.append(f"| *{part}* | *{sum(map(count_lines, own.values()))}* | |")
    lines = sum(map(count_lines, files.values()))
    return "\n".join([*rows, f"| {TOGETHER[language]} | {lines} | |"])


def translate(root: Path, sentence: str) -> str:
    """Return the Chinese for the first sentence of a docstring, from glossary.toml."""
    if sentence in (known := read_glossary(root).get("chinese", {})):
        return known[sentence]
    raise InputError(f"generator/glossary.toml: translate {sentence!r} in its table [chinese].")


def read_glossary(root: Path) -> dict:
    """Return what glossary.toml holds."""
    return tomllib.loads((root / "generator" / "glossary.toml").read_text(encoding="utf-8"))


def glossary_list(root: Path, template: str, key: str) -> str:
    """Return the glossary of a project in one language; only the English one explains each name."""
    rows, sources = [], outside_names(root, template)
    for names, entry in glossary(root, template):
        places = ", ".join(
            f"`{module}`"
            for module in entry["modules"]
            if any(is_in(source, [module]) for source in sources.values())
        )
        if key == ENGLISH:
            rows.append(f"- {places}: {entry[key]}")
            rows += [
                f"  - `{name}`: {meaning(root, template, sources[name], name)}" for name in names
            ]
        else:
            rows.append(f"- {places}（{'、'.join(f'`{name}`' for name in names)}）：{entry[key]}")
    return "\n".join(rows)


def meaning(root: Path, template: str, source: str, name: str) -> str:
    """Return what a name means: a sentence of glossary.toml, or the first one of its docstring.

    Raises:
        InputError: there is neither.
    """
    if own := read_glossary(root).get("names", {}).get(name):
        return own
    file = root / "templates" / source
    file = file if file.is_file() else template_project(root, template) / source
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            words = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            found = words if words.startswith("Return and") else words.removeprefix("Return ")
            return uncapitalise(found.rstrip("."))
    raise InputError(f"{source} has no docstring of {name}: explain it in generator/glossary.toml.")


def uncapitalise(sentence: str) -> str:
    """Return a sentence without the capital of its first word, unless it is a name as BERT is."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


def update_reading_paths(root: Path, template: str) -> None:
    """Write both tables between their marks in the READMEs of a template."""
    for name, key in READMES.items():
        path = template_project(root, template) / name
        text = path.read_text(encoding="utf-8")
        updated = replace_between(text, BEGIN, END, reading_table(root, template, key))
        table = glossary_list(root, template, key)
        updated = replace_between(updated, GLOSSARY_BEGIN, GLOSSARY_END, table)
        if updated != text:
            write_text(path, updated)


def replace_between(text: str, begin: str, end: str, content: str) -> str:
    """Return a text with other content between two marks; without marks as it was."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}" if found and closed else text

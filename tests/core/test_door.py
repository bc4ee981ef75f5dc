"""How the shared code hangs together: imports point down, and extras have one door."""

import ast
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from project_process import ProjectProcess
from projects import TEMPLATES, bake_project

from core.base.extras import EXTRA_NAMES
from extras import DECLARATIONS, HOOKS

CORE, EXTRA = ROOT / "templates/core", ROOT / "templates/extras"
PROJECTS = [ROOT / "templates" / name / "{{cookiecutter.project_slug}}" for name in TEMPLATES]
# From the ground up: imports point down. Modules of the reading path stand between the folders.
FLOORS = ["core.base", "core.data", "core.exact", "core.fast", "core.devices", "core.encoders"]
FLOORS += ["core.batches", "core.windows", "core.step", "core.layers", "core.optimizer"]
FLOORS += ["core.runs", "core.prediction", "core.scores"]
FLOORS += ["core.training", "core.report"]
PACKAGES = {"base", "data", "fast", "exact", "devices", "encoders", "layers", "runs", "scores"}
PACKAGES |= {"prediction", "report"}
# What a template has beside its task, such as the corpus of pre-training.
BESIDE = {path.parent for project in PROJECTS for path in project.glob("*/__init__.py")}
BESIDE = sorted(path for path in BESIDE if path.name not in {"core", "extras", "task", "tests"})
OWN = sorted({path.name for path in BESIDE})
# The task and its own libraries share a floor; what only looks at them stands above.
APART = {"core", "extras", "tests"}
SHARED = {"task", *(set(OWN) - {"inspection"})}
FLOORS += ["task", "inspection", "scripts"]
DOOR = "core.base.extras"
# Left out of the projects that have no use for them: nothing else of core may want them.
HEADS = {"core.layers.pointers", "core.layers.pointer_search", "core.layers.language_model"}
HEADS |= {"core.layers.crf", "core.layers.global_pointer"}
HEADS |= {"core.layers.many_heads"}


def find_modules() -> dict[str, list[Path]]:
    """Return module -> its files: one of core or of an extra; of `task` one in each template."""
    found: dict[str, list[Path]] = {}
    for top in (CORE, EXTRA, *BESIDE, *(project / "task" for project in PROJECTS)):
        for path in top.rglob("*.py"):
            name = ".".join(path.relative_to(top.parent).with_suffix("").parts)
            found.setdefault(name.removesuffix(".__init__"), []).append(path)
    for project in PROJECTS:
        for path in project.glob("*.py"):
            found.setdefault(f"scripts.{path.stem}" if is_run(path) else path.stem, []).append(path)
    return found


def is_run(path: Path) -> bool:
    """Tell whether a file is a script that people run, and no library beside those."""
    return 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")


MODULES = find_modules()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imported_names(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever it does; `dynamic`: by a name it makes."""
    found = set()
    tree = parse(path)
    for node in ast.walk(tree):  # what only type checkers import is not imported
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Call) and called_name(node) in {"import_module", "__import__"}:
            found.add("dynamic")
    return found


def imports_of(path: Path) -> set[str]:
    """Return the modules of a project that a file imports."""
    ours = ("core", "extras", "task", "dynamic", *OWN)
    return {name for name in imported_names(path) if name.partition(".")[0] in ours}


def called_name(node: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def all_imports(*tops: str) -> Iterator[tuple[str, str]]:
    """Yield `(module, what it imports)` for the modules below some packages."""
    for module, paths in MODULES.items():
        if module.partition(".")[0] in tops:
            for path in paths:
                yield from ((module, imported) for imported in sorted(imports_of(path)))


def floor_of(module: str) -> int:
    """Return the number of the floor that a module stands on."""
    if module == "core":
        return 0
    if module.partition(".")[0] in SHARED or "." not in module:
        module = "task"
    return next(n for n, floor in enumerate(FLOORS) if f"{module}.".startswith(f"{floor}."))


# ---------------------------------------------------------------------- the floors


def test_every_package_has_its_floor():
    assert {path.parent.name for path in CORE.rglob("*.py") if path.parent != CORE} == PACKAGES
    assert not list(CORE.glob("*/__init__.py")) and not list(EXTRA.glob("*/__init__.py"))
    assert all((project / "task/__init__.py").is_file() for project in PROJECTS)


def test_imports_point_down():
    upward = [
        f"{module} imports {imported}"
        for module, imported in all_imports("core", "task", "scripts", *OWN)
        if imported != "dynamic" and not imported.startswith("extras")
        if floor_of(imported) > floor_of(module)
    ]
    assert upward == []


def test_only_scripts_import_a_script():
    scripts = {p.stem for project in PROJECTS for p in project.glob("*.py") if is_run(p)}
    for module, paths in MODULES.items():
        names = set().union(*(imported_names(path) for path in paths))
        assert is_script(module) or not names & scripts, module


def is_script(module: str) -> bool:
    """Tell whether a module is one that people run: of a project, or of an extra."""
    return any(is_run(path) for path in MODULES[module])


def modules_below(*tops: Path) -> dict[str, set[str]]:
    """Return module -> what it imports, for the files below some folders of one project."""
    paths = {
        ".".join(path.relative_to(top.parent).with_suffix("").parts): path
        for top in tops
        for path in top.rglob("*.py")
        if "{{" in str(path) or top == CORE
    }
    return {module: imported_names(path) & paths.keys() for module, path in paths.items()}


@pytest.mark.parametrize("template", ["core", *TEMPLATES])
def test_modules_form_no_circle(template):
    project = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    tops = [path.parent for path in project.glob("*/__init__.py") if path.parent.name not in APART]
    below = modules_below(*([CORE] if template == "core" else tops))
    assert below
    while below:
        leaves = {module for module, wanted in below.items() if not wanted & below.keys()}
        assert leaves, f"a circle among {sorted(below)}"
        below = {module: wanted for module, wanted in below.items() if module not in leaves}


def test_no_module_of_core_wants_the_heads_of_some_tasks():
    wanted = [pair for pair in all_imports("core", "extras") if pair[1] in HEADS]
    assert [pair for pair in wanted if pair[0] not in HEADS] == []


# ------------------------------------------------------------------------ the door


def test_the_door_alone_imports_extras():
    """Statically and dynamically: nobody else imports a module by a name that he puts together."""
    pairs = list(all_imports("core", "task", "scripts", *OWN))
    assert [pair for pair in pairs if pair[1].startswith("extras")] == []
    assert {module for module, imported in pairs if imported == "dynamic"} == {DOOR}


def test_extras_stand_beside_each_other():
    for module, imported in all_imports("extras"):
        if module == "extras" or is_script(module) or has_one_template(module.split(".")[1]):
            continue  # such as cross_validate.py, which calls train.py
        if imported == f"inspection.{module.split('.')[1]}":
            continue  # what the tasks have for this extra
        assert imported.partition(".")[0] not in {"task", "dynamic", *OWN}, module
        if imported.startswith("extras"):
            own = ".".join(module.split(".")[:2])
            assert f"{imported}.".startswith(f"{own}."), f"{module} imports {imported}"


def has_one_template(extra: str) -> bool:
    """Tell whether an extra is for the projects of one template: it may know their task."""
    text = (EXTRA / extra / "extra.toml").read_text(encoding="utf-8")
    named = tomllib.loads(text)["templates"]
    return len(named) == 1 and named != ["all"]


def test_every_extra_is_known_and_described():
    folders = {path.name for path in EXTRA.iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert folders == set(EXTRA_NAMES)
    for name in folders:
        assert (EXTRA / name / "README.md").is_file()
        opened = any((EXTRA / name / module).is_file() for module in ("hooks.py", "settings.py"))
        assert opened or name in string_calls("need") or is_script_folder(EXTRA / name)


def is_script_folder(folder: Path) -> bool:
    """Tell whether an extra is made of scripts."""
    return any(is_run(path) for path in folder.glob("*.py"))


def public_names(path: Path, kind: type) -> set[str]:
    """Return the public functions, or the constants, that a module defines."""
    found = set()
    for node in parse(path).body if path.is_file() else ():
        if isinstance(node, kind):
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            found |= {getattr(target, "name", getattr(target, "id", "_")) for target in targets}
    return {name for name in found if not name.startswith("_")}


def string_calls(*functions: str) -> dict[str, set[str]]:
    """Return what some functions are called with, a string -> the files that call them."""
    found: dict[str, set[str]] = {}
    places = {path: ROOT / "templates" for top in (CORE, EXTRA) for path in top.rglob("*.py")}
    for project in PROJECTS:
        places |= {
            path: project for top in (project, project / "task") for path in top.glob("*.py")
        }
    for path, top in places.items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call) and called_name(node) in functions and node.args:
                if isinstance(node.args[0], ast.Constant):
                    place = path.relative_to(top).as_posix()
                    found.setdefault(node.args[0].value, set()).add(place)
    return found


MOST_HOOKS = 15
NAMES = {signature.partition("(")[0]: signature for signature in HOOKS}


def signature_of(node: ast.FunctionDef) -> str:
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def test_hooks_are_few_and_each_has_one_signature():
    assert len(NAMES) == len(HOOKS) <= MOST_HOOKS
    answered = set()
    for name in EXTRA_NAMES:
        path = EXTRA / name / "hooks.py"
        nodes = parse(path).body if path.is_file() else []
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        public = {node.name for node in functions if not node.name.startswith("_")}
        listed = tomllib.loads((EXTRA / name / "extra.toml").read_text(encoding="utf-8"))["hooks"]
        assert public == set(listed) <= NAMES.keys(), name
        assert {signature_of(n) for n in functions if n.name in public} <= HOOKS.keys(), name
        answered |= public
    assert answered == NAMES.keys()


def test_every_hook_is_asked_where_it_says():
    asked = string_calls("ask", "call_all")
    assert asked.keys() == NAMES.keys()
    for hook, signature in NAMES.items():
        where = HOOKS[signature].partition(":")[0].partition(",")[0]
        assert all(place.startswith(tuple(where.split(" and "))) for place in asked[hook]), hook


def test_core_names_no_extra_but_to_say_how_to_get_it():
    """Core knows nothing of tasks and extras: no table, no setting, no module of theirs."""
    tables = [name for name in EXTRA_NAMES if (EXTRA / name / "settings.py").is_file()]
    for path in CORE.rglob("*.py"):
        if path.name != "extras.py":
            read = {ast.unparse(n) for n in ast.walk(parse(path)) if isinstance(n, ast.Attribute)}
            assert not [name for name in tables for own in read if f"settings.{name}" in own], path


def test_every_declaration_is_known_and_read():
    """What else a settings module defines is for its own extra."""
    found = set()
    for name in EXTRA_NAMES:
        path = EXTRA / name / "settings.py"
        constants = public_names(path, ast.Assign | ast.AnnAssign)
        others = public_names(path, ast.FunctionDef) - DECLARATIONS.keys()
        own_code = "".join(file.read_text("utf-8") for file in (EXTRA / name).glob("*.py"))
        assert constants <= DECLARATIONS.keys(), name
        assert all(own_code.count(other) > 1 for other in others), name
        found |= constants | (public_names(path, ast.FunctionDef) & DECLARATIONS.keys())
    assert found == DECLARATIONS.keys() == string_calls("declared").keys()


# ------------------------------------------------------------- without what is asked for


READ = """
from core.base.errors import command
from core.base.settings import read_settings
from task.settings import Settings


@command
def main():
    print(read_settings(Settings).describe())


main()
"""
WITH_TABLES = [name for name in EXTRA_NAMES if (EXTRA / name / "config.toml").is_file()]


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Runs scripts of a project without extras, one of which reads the settings."""
    project = bake_project("relation_extraction", tmp_path_factory.mktemp("door"), "none")
    (project / "read.py").write_text(READ, encoding="utf-8")
    process = ProjectProcess(project)
    yield process
    process.stop()


def refusal(process, *command) -> str:
    """Return the one sentence that a command ends with."""
    done = process.run(*command)
    assert done.code == 1 and "Traceback" not in done.err, done.err
    [sentence] = done.err.strip().splitlines()
    return sentence


@pytest.mark.slow
def test_a_project_without_extras_has_no_trace_of_them(process):
    assert not (process.project / "extras").exists()
    done = process.run("read.py")
    assert done.code == 0, done.err
    assert not any(f"{name}." in done.out for name in EXTRA_NAMES)


@pytest.mark.parametrize("extra", WITH_TABLES)
def test_a_table_whose_folder_is_absent_says_how_to_get_it(process, extra):
    config = process.project / "config.toml"
    text = config.read_text(encoding="utf-8")
    table = (EXTRA / extra / "config.toml").read_text(encoding="utf-8")
    line = text.count("\n") + 2
    config.write_text(f"{text}\n{table}", encoding="utf-8")
    try:
        sentence = refusal(process, "read.py")
    finally:
        config.write_text(text, encoding="utf-8")
    assert sentence == (
        f"error: config.toml, line {line}: {extra} belongs to extras/{extra}, which is absent: "
        f"add it with `baselines add {extra} --to {process.project.name}`, or delete its table."
    )


@pytest.mark.parametrize("extra", WITH_TABLES)
def test_a_flag_whose_folder_is_absent_says_how_to_get_it(process, extra):
    sentence = refusal(process, "read.py", f"--{extra}.anything", "1")
    assert sentence == (
        f"error: --{extra}.anything belongs to extras/{extra}, which is absent: add it with "
        f"`baselines add {extra} --to {process.project.name}`."
    )


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server", "mirrord"])
def test_a_strategy_that_is_not_there_is_told_those_that_are(process, strategy):
    sentence = refusal(process, "read.py", "--strategy", strategy)
    assert f"--strategy = '{strategy}'" in sentence
    assert "choose one of auto, single, mirrored, tpu" in sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("doctor", ["check.py"]),
        ("comparison", ["compare.py", "RUN"]),
    ],
)
def test_a_script_whose_folder_is_absent_says_how_to_get_it(process, extra, command):
    sentence = refusal(process, *command)
    assert sentence.startswith(f"error: this needs extras/{extra}, which is absent: add it with")
    assert sentence.endswith(f"`baselines add {extra} --to {process.project.name}`.")

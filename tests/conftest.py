"""What every test shares: the repository's root."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent
# Two workers share two cores: more threads would only wait for each other.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
# XLA does all that is its own; what LLVM does to the code for CPUs takes half of a compilation.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# Tests copy projects of hundreds of files, and remove them: far faster in memory.
# To look at what a test left, name a folder: TMPDIR=/tmp python -m pytest ...
MEMORY, ENOUGH = Path("/dev/shm"), 8 * 2**30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK | os.X_OK):
    can_execute = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if can_execute and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="tests-", dir=MEMORY)
        atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
# The tests also run where the package is not installed.
sys.path.insert(0, str(ROOT))
# Templates are imported in place: nothing may be left in them that would be baked.
sys.dont_write_bytecode = True

# The shared code is imported from its one source, whatever copies there are.
sys.path.insert(0, str(ROOT / "templates"))

import core  # noqa: E402, F401
import extras  # noqa: E402, F401


def is_of_template(module: ModuleType) -> bool:
    """Return whether a module is in the project of a template."""
    return "{{" in (getattr(module, "__file__", None) or "")


def use_template(name: str) -> Path:
    """Let `import task` and its siblings use one template; return its project folder."""
    for module in [name for name, module in sys.modules.items() if is_of_template(module)]:
        del sys.modules[module]
    project = ROOT / "templates" / name / "{{cookiecutter.project_slug}}"
    sys.path[:] = [path for path in sys.path if "{{" not in path]
    # Behind the one source of `core`: the last bake has left a copy of it in the template.
    sys.path.insert(sys.path.index(str(ROOT / "templates")) + 1, str(project))
    return project


# What an extra notes for the length of a process: (module, name of a list).
NOTES = (("extras.cache.settings", "_used"), ("extras.chunks.hooks", "_plans"))


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch) -> None:
    """A test finds the notes of extras empty, as a new process does, whatever ran before it."""
    for module, name in NOTES:
        if module in sys.modules:
            monkeypatch.setattr(sys.modules[module], name, [])


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """A test draws the same weights and masks each time, whatever ran before it."""
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(1)


# The longest first: the last to start decides when all have ended.
LONGEST = ("test_replicas", "test_resume", "test_each_alone", "test_folds", "test_checks")
LONGEST += ("test_recipes", "test_writers", "test_gpu", "test_launch", "test_corpus")
LONGEST += ("test_retrieval", "test_bad_input", "test_update", "test_evaluator", "test_build")


class ProjectScheduling(LoadScopeScheduling):
    """Lets one worker run all tests of a module that share a first parameter, as a project is."""

    def _split_scope(self, nodeid: str) -> str:
        test, _, parameters = nodeid.partition("[")
        return f"{test.partition('::')[0]}[{parameters.rstrip(']').partition('-')[0]}]"


def pytest_xdist_make_scheduler(config, log) -> ProjectScheduling:
    """Share the tests among the workers: what a module makes for a project is made once."""
    config.option.loadscopereorder = False  # in the order below, not the most tests first
    return ProjectScheduling(config, log)


def pytest_collection_finish() -> None:
    """Let Python look for garbage rarely, and not in what TensorFlow and Keras have made so far."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # pytest deselects by markers afterwards
def pytest_collection_modifyitems(config, items) -> None:
    """Mark what `make test` leaves out; start with the longest modules."""
    used: dict[tuple[str, str], bool] = {}
    for item in items:
        if not (shown := item.get_closest_marker("shown")):
            continue
        name, _, parameters = item.nodeid.partition("[")
        found = {(name, part): part in f"[{parameters}" for part in shown.args}
        used |= {key: found[key] or used.get(key, False) for key in found}
        if not any(found.values()):
            item.add_marker(pytest.mark.further)
    wrong = [f"{name}: shown({part!r})" for (name, part), hit in used.items() if not hit]
    if wrong and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"no parameter has this in its id: {', '.join(wrong)}")
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.module.__name__.rpartition(".")[2], len(order)))

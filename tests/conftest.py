"""What every test shares: the repository's root."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Two workers share two cores: more threads would only wait for each other.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
# The tests also run where the package is not installed.
sys.path.insert(0, str(ROOT))
# Templates are imported in place: nothing may be left in them that would be baked.
sys.dont_write_bytecode = True

# The shared code is imported from its one source, whatever copies there are.
sys.path.insert(0, str(ROOT / "templates"))

import common  # noqa: E402, F401


def use_template(name: str) -> Path:
    """Let `import task` mean that package of one template; return its project's folder."""
    for module in [module for module in sys.modules if module.partition(".")[0] == "task"]:
        del sys.modules[module]
    project = ROOT / "templates" / name / "{{cookiecutter.project_slug}}"
    sys.path[:] = [str(project), *(path for path in sys.path if "{{" not in path)]
    return project


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items) -> None:
    """Let one worker run all tests that share a project of a template: it is made once."""
    for item in items:
        project = getattr(item, "callspec", None) and item.callspec.params.get("project")
        if project:
            item.add_marker(pytest.mark.xdist_group(f"{item.module.__name__}-{project}"))

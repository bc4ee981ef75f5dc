"""What cookiecutter loads for this template: see templates/baking.py."""

import importlib.util
from pathlib import Path

from jinja2 import Environment
from jinja2.ext import Extension

TEMPLATE = Path(__file__).resolve().parent


class BakingExtension(Extension):
    """Bakes this template with the baking.py that is there now.

    By its path, and anew for each project: a process may bake from two clones, or from one clone at
    two commits, as cruft does, and Python keeps this module from the first to the second.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        path = TEMPLATE.parent / "baking.py"
        specification = importlib.util.spec_from_file_location("baking", path)
        assert specification and specification.loader
        baking = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(baking)
        self.baking = baking.Baking(environment, TEMPLATE)

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return what Jinja sees of a file."""
        return self.baking.preprocess(source, name)

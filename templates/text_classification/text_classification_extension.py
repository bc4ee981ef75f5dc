"""What cookiecutter loads for this template: see templates/baking.py."""

import importlib.util
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).resolve().parent

# By its path and anew: another clone's may be loaded in the same process.
specification = importlib.util.spec_from_file_location("baking", TEMPLATE.parent / "baking.py")
assert specification and specification.loader
baking: Any = importlib.util.module_from_spec(specification)
specification.loader.exec_module(baking)


class BakingExtension(baking.BakingExtension):
    """Bakes this template."""

    template = TEMPLATE
    left_out = (
        *("core/layers/crf.py", "core/layers/language_model.py", "core/layers/pointer_search.py"),
        *("core/layers/pointers.py", "core/layers/rotary.py"),
    )

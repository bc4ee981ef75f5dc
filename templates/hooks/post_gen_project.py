"""When all is written: delete the extras that were not chosen, and say what comes next."""

import importlib.util
import json
from pathlib import Path

# As data, never as code: an answer inside of a string literal could end it.
FACTS = json.loads(r"""{{ cookiecutter | end_of_project | tojson }}""".strip())

specification = importlib.util.spec_from_file_location("baking", FACTS.pop("baking"))
assert specification and specification.loader
baking = importlib.util.module_from_spec(specification)
specification.loader.exec_module(baking)
baking.end_project(Path.cwd(), **FACTS)

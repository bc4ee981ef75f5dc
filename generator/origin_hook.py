"""A hook of hatchling: a wheel and an sdist hold a note of the commit they are built from."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOTE = "templates/.origin.json"


class OriginHook(BuildHookInterface):
    """Adds the note that `find_commit` of templates/baking.py reads where there is no clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the note, and have it packed."""
        root = Path(self.root)
        specification = importlib.util.spec_from_file_location(
            "baking", root / "templates" / "baking.py"
        )
        assert specification and specification.loader
        baking: Any = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(baking)
        note = root / "build" / "origin.json"
        note.parent.mkdir(exist_ok=True)
        note.write_text(json.dumps(baking.find_commit({})), encoding="utf-8")
        folder = "generator/repository/" if self.target_name == "wheel" else ""
        build_data["force_include"][str(note)] = f"{folder}{NOTE}"

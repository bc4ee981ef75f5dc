"""Bake a template into a project, the same on every machine."""

import shutil
import tempfile
from pathlib import Path

from generator.errors import InputError

# What running a project or a template in place leaves behind: it is never part of a project.
LEFTOVERS = (
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    "runs",
    "shards",
    "vocabulary",
)


def bake(template: Path, parent: Path, answers: dict[str, str] | None = None) -> Path:
    """Generate a project from a template.

    The user's own cookiecutter configuration plays no part.

    Args:
        template: the folder of a template, with its cookiecutter.json.
        parent: the folder in which the project's folder is made.
        answers: answers that differ from the defaults.

    Returns:
        The project's folder.

    Raises:
        InputError: an answer is bad, or the project's folder exists and is not empty.
    """
    from cookiecutter.exceptions import CookiecutterException
    from cookiecutter.main import cookiecutter
    from jinja2 import TemplateError

    slug = (answers or {}).get("project_slug")
    if slug and (parent / slug).is_dir():
        if any((parent / slug).iterdir()):
            raise InputError(f"{parent / slug} is not empty: bake into an empty folder.")
        (parent / slug).rmdir()
    with tempfile.TemporaryDirectory() as private:
        clean = Path(private) / template.name
        shutil.copytree(template, clean, ignore=shutil.ignore_patterns(*LEFTOVERS))
        try:
            project = cookiecutter(
                str(clean),
                no_input=True,
                extra_context=answers,
                output_dir=str(parent),
                default_config={"replay_dir": private, "cookiecutters_dir": private},
            )
        except SystemExit as refusal:  # The template's own check of the answers.
            raise InputError(str(refusal).removeprefix("error: ")) from refusal
        except (CookiecutterException, TemplateError) as error:
            raise InputError(f"{template.name} cannot be baked into {parent}: {error}") from error
    return Path(project)

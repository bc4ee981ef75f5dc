"""Where things lie in the repository."""

from pathlib import Path

from generator.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
PROJECT_FOLDER = "{{cookiecutter.project_slug}}"


def require_clone() -> Path:
    """Return the repository's root.

    Raises:
        InputError: the package was installed without the repository around it.
    """
    if not (ROOT / "cookiecutter.json").is_file():
        raise InputError(
            f"{ROOT} is not a clone of the repository: clone it and run `pip install -e .` there."
        )
    return ROOT


def template_project(root: Path, template: str) -> Path:
    """Return the project folder inside a template."""
    return root / "templates" / template / PROJECT_FOLDER

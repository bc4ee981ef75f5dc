"""Make a project by questions, as cookiecutter does with a clone; an installed wheel suffices."""

import tempfile
from pathlib import Path

from generator import InputError
from generator.bake import ORIGIN_NOTE, copy_template, forget_extension, load_baking
from generator.files import check_folder, read_json, write_json


def make_project(
    root: Path, template: str | None, parent: Path, answers: dict[str, str], no_input: bool
) -> None:
    """Choose a template, ask its questions, and make a project; the template's hook says what next.

    The template is copied first, so nothing is written into the repository.

    Args:
        root: the repository, or the copy in a wheel.
        template: its name; None: the menu asks, or without questions it is the first.
        parent: the folder that gets the project's folder.
        answers: offered instead of the defaults.
        no_input: ask nothing.

    Raises:
        InputError: there is no such template, or the project can't be made.
    """
    from cookiecutter.exceptions import CookiecutterException, OutputDirExistsException
    from cookiecutter.main import cookiecutter
    from jinja2 import TemplateError

    check_folder(parent)
    with tempfile.TemporaryDirectory() as private:
        try:
            source = choose_template(root, template, no_input)
            clean = copy_template(source, Path(private).resolve() / "templates")
            forget_extension(clean)
            # The copy is no clone of git: a note says where it came from.
            origin = load_baking(root / "templates").find_commit({})
            write_json(clean.parent / ORIGIN_NOTE, origin)
            cookiecutter(
                str(clean),
                no_input=no_input,
                extra_context=answers,
                output_dir=str(parent),
                default_config={"replay_dir": private, "cookiecutters_dir": private},
            )
        except EOFError as error:
            raise InputError("the questions have no answers: add --no-input.") from error
        except OutputDirExistsException as error:
            raise InputError(
                f"{str(error).removeprefix('Error: ')}: answer another project_slug, or name"
                " another folder with --to."
            ) from error
        except (CookiecutterException, TemplateError, UnicodeError) as error:
            raise InputError(f"the project cannot be made in {parent}: {error}") from error


def choose_template(root: Path, name: str | None, no_input: bool) -> Path:
    """Return the folder of a template, chosen by its name or from the menu of cookiecutter."""
    from cookiecutter.prompt import choose_nested_template

    menu = read_json(root / "cookiecutter.json")
    if name is None:
        return Path(choose_nested_template({"cookiecutter": menu}, root, no_input))
    templates = menu["templates"]
    if name not in templates:
        raise InputError(f"there is no task {name!r}: the names are {', '.join(templates)}.")
    return root / templates[name]["path"]

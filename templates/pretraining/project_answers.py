"""Refuse a bad answer with one sentence, before anything is written.

cookiecutter loads this as an extension (see `_extensions` in cookiecutter.json) and calls it when
all the questions are answered. A hook would come later, when the project's folder exists already,
and cookiecutter adds a traceback to the sentence of a hook that refuses.
"""

import json
import keyword
import re
import sys

from jinja2 import Environment
from jinja2.ext import Extension

STRATEGIES = ("auto", "single", "mirrored", "multi_worker", "tpu")


class AnswersExtension(Extension):
    """Adds the filter `check_answers`."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.filters["check_answers"] = check_answers


def check_answers(answers: dict[str, str]) -> str:
    """Return "checked", or leave with one sentence on the first bad answer."""
    for name, complaint in CHECKS.items():
        # A replay asks only for what is not in its file.
        if name in answers:
            sentence = complaint(answers[name])
            if sentence:
                sys.exit(f"error: {name} {shown(answers[name])} {sentence}")
    return "checked"


def complain_about_slug(value: str) -> str | None:
    """Say what is wrong with the project's name, which is its folder too."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value):
        return (
            "is no plain name: start with a letter and use English letters, digits and _ only,"
            " such as my_project."
        )
    if keyword.iskeyword(value):
        return "is a word of Python: take another name, such as my_project."
    return None


def complain_about_path(value: str) -> str | None:
    """Say what is wrong with a name or path that goes into config.toml."""
    if not value.strip():
        return "is empty: leave this answer out to get the default."
    # JSON writes a character beyond U+FFFF as two halves, which TOML refuses.
    unfit = re.search(r"[\"'`\\{}<>|\U00010000-\U0010ffff]", value)
    if unfit or value != value.strip() or not value.isprintable():
        return (
            "holds quotes, backslashes, brackets, emoji or blanks at its ends: write a plain name,"
            " or a path with /."
        )
    return None


def complain_about_strategy(value: str) -> str | None:
    """Say what is wrong with the choice of devices."""
    return None if value in STRATEGIES else f"is unknown: choose one of {', '.join(STRATEGIES)}."


def shown(value: str) -> str:
    """Return an answer on one line, in quotes."""
    return json.dumps(value, ensure_ascii=False)


CHECKS = {
    "project_slug": complain_about_slug,
    "encoder": complain_about_path,
    "data_folder": complain_about_path,
    "strategy": complain_about_strategy,
}

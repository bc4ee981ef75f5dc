"""Join columns to one text, as `text_template` says: "Question: {prompt} Answer: {answer}"."""

import string
from typing import Any

from core.base.errors import InputError

# Fields of the project's own format. Pseudo-labels hold the joined text there: it would be joined
# twice.
OWN_TEXTS = ("text_a", "text_b")


def template_parts(template: str) -> list[tuple[str, str]]:
    """Return the parts of a template: what is written as it is, and the column that follows it.

    Raises:
        ValueError: a brace has no partner, or what is between two is no name of a column.

    >>> template_parts("{title}: {{{text}}}")
    [('', 'title'), (': {', 'text'), ('}', '')]
    """
    try:
        parsed = [*string.Formatter().parse(template)]
    except ValueError as error:
        raise ValueError(
            f"a brace has no partner ({error}): write {{column}}, and {{{{ or }}}} for a brace"
        ) from error
    parts: list[tuple[str, str]] = []
    written = ""
    for text, name, form, conversion in parsed:
        written += text
        if name is None:
            continue
        if form or conversion or not name.strip():
            shown = name + f"!{conversion}" * bool(conversion) + f":{form}" * bool(form)
            raise ValueError(f"{{{shown}}} is no name of a column: write {{column}}")
        if name.strip() in OWN_TEXTS:
            what = "is a field of the project's own format"
            raise ValueError(f"{{{name}}} {what}: give the column another name")
        parts.append((written, name.strip()))
        written = ""
    if not parts:
        raise ValueError("it names no column: write {column} where its text belongs")
    return [*parts, (written, "")] if written else parts


def fill(template: str, row: dict[str, Any]) -> str:
    """Return the text of a row.

    Args:
        template: a checked one.
        row: cells of a table, or values of JSON: strings, or numbers.

    Raises:
        InputError: a column is absent, or holds neither.
    """
    text = ""
    for written, name in template_parts(template):
        text += written
        if not name:
            continue
        if name not in row:
            raise InputError(f'the field "{name}" is missing: add it to the record.')
        if type(row[name]) not in (str, int, float):
            raise InputError(f'"{name}" must be a string or a number, not {row[name]!r}.')
        text += str(row[name])
    return text

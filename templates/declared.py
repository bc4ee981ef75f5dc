"""What each extra declares in its extra.toml, and the page extras/README.md of a project.

Baking reads the declarations of templates/extras. A project has those of its own extras.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = "extra.toml"
# What a participant wants, in the order of the tables.
GROUPS = (
    "more machines",
    "less memory",
    "more score",
    "other inputs and outputs",
    "inspect and export",
)
# When an extra is part of the default answer: never, always, or where an encoder is named.
DEFAULTS = ("no", "always", "pretrained")
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


@dataclass(frozen=True)
class Extra:
    """What one extra.toml says.

    Attributes:
        name: of its folder.
        order: the place in the order in which extras are asked.
        title: a few words, for `--help`.
        sentence: what it does, for tables; links start at the root of the repository.
        sentence_zh: the same in Chinese.
        group: one of `GROUPS`.
        templates: the tasks whose projects may have it, or only `all`.
        default: one of `DEFAULTS`.
        needs: the extras without which it does nothing.
        requirements: packages that it needs beyond those of a project, as pip reads them.
        hooks: the functions of its hooks.py.
        task_files: files of the tasks that only this extra reads: a project without it lacks them.
    """

    name: str
    order: int
    title: str
    sentence: str
    sentence_zh: str
    group: str
    templates: tuple[str, ...]
    default: str
    needs: tuple[str, ...]
    requirements: tuple[str, ...]
    hooks: tuple[str, ...]
    task_files: tuple[str, ...] = ()

    def serves(self, template: str) -> bool:
        """Tell whether the projects of a template may have it."""
        return self.templates == ("all",) or template in self.templates


def read_extras(folder: Path) -> dict[str, Extra]:
    """Return name -> declaration of the extras in a folder, in the order of asking."""
    found = [read_extra(path) for path in sorted(folder.glob(f"*/{FILE}"))]
    return {extra.name: extra for extra in sorted(found, key=lambda extra: extra.order)}


def read_extra(path: Path) -> Extra:
    """Return what one extra.toml says, or leave with one sentence."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return Extra(name=path.parent.name, **{**values, **lists})
    except (tomllib.TOMLDecodeError, TypeError, RecursionError) as error:
        sys.exit(f"error: {path} is broken ({error}): compare it with that of another extra.")


def by_group(extras: Iterable[Extra]) -> dict[str, list[Extra]]:
    """Return group -> its extras, without groups that have none."""
    groups = {group: [one for one in extras if one.group == group] for group in GROUPS}
    return {group: members for group, members in groups.items() if members}


def without_links(sentence: str) -> str:
    """Return a sentence whose links became plain text."""
    return LINK.sub(r"\1", sentence)


# ------------------------------------------------------------------- the page of a project

INTRODUCTION = """# Extras of this project

Everything here is optional: delete any folder that you don't need, or all of `extras/`. In a clone
of the repository that made this project, `baselines add NAME --to FOLDER` adds an extra."""
ABOUT_HOOKS = """## Hooks

Where the folder of an extra is there, the project calls these functions of its `hooks.py`."""


def describe_extras(extras: dict[str, Extra]) -> str:
    """Return the page extras/README.md of a project that has some extras; empty: it has none."""
    if not extras:
        return ""
    rows = ["| what you want | extra | what it does |", "|---|---|---|"]
    for group, members in by_group(extras.values()).items():
        for number, one in enumerate(members):
            link, what = f"[{one.name}]({one.name}/README.md)", without_links(one.sentence)
            rows.append(f"{'| |' if number else f'| {group} |'} {link} | {what} |")
    return "\n".join([INTRODUCTION, "", *rows, *describe_hooks(extras)])


def describe_hooks(extras: dict[str, Extra]) -> list[str]:
    """Return the lines that say which extra has which hook; none: there are no hooks."""
    hooks = sorted({hook for one in extras.values() for hook in one.hooks})
    rows = ["| hook | extra |", "|---|---|"]
    for hook in hooks:
        owners = [f"[{name}]({name}/hooks.py)" for name, one in extras.items() if hook in one.hooks]
        rows.append(f"| `{hook}` | {', '.join(owners)} |")
    return ["", ABOUT_HOOKS, "", *rows] if hooks else []

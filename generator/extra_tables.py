"""What `baselines build` writes from the extra.toml of every extra: questions, tables, names."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from generator.bake import load_baking
from generator.files import template_project, write_text
from generator.marks import update_document
from generator.score_names import task_name

NAMES = Path("templates/core/base/extra_names.toml")
REQUIREMENTS = "requirements.txt"
QUESTIONS = "cookiecutter.json"


@dataclass(frozen=True)
class Language:
    """How a table says things.

    Attributes:
        header: its first line.
        sentence: the attribute of a declaration that has the sentence.
        task: of a template its task, as a reader writes it.
        groups: names of groups, where they differ from those of the declarations.
        defaults: how it says when an extra is chosen without being named.
        other, needs: for other tasks than these; with these extras.
        comma, semicolon, brackets: between names, between notes, around all notes.
    """

    header: str
    sentence: str
    task: Callable[[str], str]
    groups: dict[str, str]
    defaults: dict[str, str]
    other: str
    needs: str
    comma: str
    semicolon: str
    brackets: str


TASKS_ZH = {
    "event_extraction": "事件抽取",
    "named_entity_recognition": "命名实体识别",
    "pretraining": "预训练",
    "reading_comprehension": "阅读理解",
    "relation_extraction": "关系抽取",
    "seq2seq": "文本生成",
    "text_classification": "文本分类",
}
ENGLISH = Language(
    header="| what you want | extra | what it does |",
    sentence="sentence",
    task=task_name,
    groups={},
    defaults={"always": "by default", "pretrained": "by default where an encoder is named"},
    other="not {}",
    needs="needs {}",
    comma=", ",
    semicolon="; ",
    brackets=" ({})",
)
CHINESE = Language(
    header="| 想要什么 | 名字 | 用途 |",
    sentence="sentence_zh",
    task=lambda template: TASKS_ZH.get(template, template),
    groups={
        "more machines": "更多机器",
        "less memory": "更省内存",
        "more score": "更高分数",
        "other inputs and outputs": "其他输入输出",
        "inspect and export": "检查与导出",
    },
    defaults={"always": "默认选中", "pretrained": "指定了编码器时默认选中"},
    other="{}除外",
    needs="需要 {}",
    comma="、",
    semicolon="；",
    brackets="（{}）",
)
READMES = {"README.md": ENGLISH, "README_zh.md": CHINESE}


def read_extras(root: Path, template: str = "") -> dict[str, Any]:
    """Return name -> `templates/declared.Extra` of the extras of a template, or of all."""
    extras = load_baking(root / "templates").declared_extras()
    return {name: one for name, one in extras.items() if not template or one.serves(template)}


def list_templates(root: Path) -> list[str]:
    """Return the names of the templates, sorted."""
    return sorted(path.parent.name for path in root.glob(f"templates/*/{QUESTIONS}"))


# ------------------------------------------------------------------------------ whole files


def write_extras(root: Path) -> None:
    """Write what follows from the declarations in templates/, before anything is baked."""
    extras = read_extras(root)
    write_changed(root / NAMES, names_table(extras))
    for name, extra in extras.items():
        path = root / "templates" / "extras" / name / REQUIREMENTS
        if extra.requirements:
            write_changed(path, requirements_text(path.parent, extra))
        else:
            path.unlink(missing_ok=True)
    for template in list_templates(root):
        write_question(root, template)
        for readme, language in READMES.items():
            path = template_project(root, template) / readme
            if path.is_file():
                table = partial(extras_table, language=language, template=template)
                update_document(root, path, {"extras": table})


def written_files(root: Path) -> set[Path]:
    """Return what `write_extras` writes, relative to the repository."""
    found = {root / NAMES, *root.glob(f"templates/extras/*/{REQUIREMENTS}")}
    for template in list_templates(root):
        found |= {template_project(root, template) / readme for readme in READMES}
        found.add(root / "templates" / template / QUESTIONS)
    return {path.relative_to(root) for path in found if path.is_file()}


def write_changed(path: Path, text: str) -> None:
    """Write a file if it differs."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


def names_table(extras: dict[str, Any]) -> str:
    """Return the file of core that knows all extras, those of other projects too."""
    says = "# Extra = title, in the order of asking; `baselines build` writes this from extra.toml."
    titles = {name: json.dumps(one.title, ensure_ascii=False) for name, one in extras.items()}
    return "\n".join([says, *(f"{name} = {title}" for name, title in titles.items())]) + "\n"


def requirements_text(folder: Path, extra: Any) -> str:
    """Return a requirements.txt: with the comments right above the key of the declaration."""
    text = (folder / "extra.toml").read_text(encoding="utf-8")
    comments = re.search(r"((?:^#.*\n)*)^requirements\b", text, flags=re.M)
    above = comments[1].splitlines() if comments else []
    lines = ["# Written by `baselines build` from extra.toml.", *above, *extra.requirements]
    return "\n".join(lines) + "\n"


def write_question(root: Path, template: str) -> None:
    """Write the default of the question for extras in a cookiecutter.json, and its text."""
    path = root / "templates" / template / QUESTIONS
    questions = json.loads(path.read_text(encoding="utf-8"))
    extras = read_extras(root, template)
    always = sorted(name for name, one in extras.items() if one.default == "always")
    pretrained = sorted(name for name, one in extras.items() if one.default == "pretrained")
    named = "".join(f", {name}" for name in pretrained)
    condition = f"{{{{ '' if cookiecutter.encoder == 'tiny' else '{named}' }}}}" if named else ""
    questions["extras"] = ", ".join(always) + condition
    questions.setdefault("__prompts__", {})["extras"] = (
        f"Optional extras: names with commas ({', '.join(sorted(extras))}), all or none"
    )
    write_changed(path, json.dumps(questions, ensure_ascii=False, indent=2) + "\n")


# ----------------------------------------------------------------------------------- tables


def extras_table(root: Path, language: Language, template: str = "") -> str:
    """Return the table of extras in a README, by what a participant wants.

    Args:
        root: the repository.
        language: that of the README.
        template: the one whose projects it is of; empty: the root's, with links and with the
            tasks that each extra serves.
    """
    declared = load_baking(root / "templates").declared
    templates = [] if template else list_templates(root)
    rows = [language.header, "|---|---|---|"]
    for group, members in declared.by_group(read_extras(root, template).values()).items():
        first = f"| {language.groups.get(group, group)} |"
        for extra in members:
            name = f"`{extra.name}`{describe_choice(extra, templates, language)}"
            sentence = getattr(extra, language.sentence)
            said = declared.without_links(sentence) if template else sentence
            rows.append(f"{first} {name} | {said} |")
            first = "| |"
    return "\n".join(rows)


def describe_choice(extra: Any, templates: list[str], language: Language) -> str:
    """Return in brackets for which tasks an extra is, when it is chosen, and what it needs.

    Args:
        extra: its declaration.
        templates: all of them; empty: the tasks go without saying.
        language: that of the table.
    """
    own = [language.task(name) for name in templates if extra.serves(name)]
    other = [language.task(name) for name in templates if not extra.serves(name)]
    notes = []
    if other:
        few = len(own) <= len(other)
        notes.append(
            language.comma.join(own) if few else language.other.format(language.comma.join(other))
        )
    if extra.default in language.defaults:
        notes.append(language.defaults[extra.default])
    if extra.needs:
        notes.append(language.needs.format(quoted(extra.needs, language.comma)))
    return language.brackets.format(language.semicolon.join(notes)) if notes else ""


def quoted(names: Iterable[str], comma: str = ", ") -> str:
    """Return names as code."""
    return comma.join(f"`{name}`" for name in names)


def declarations_table(root: Path) -> str:
    """Return the table of docs/architecture.md: the order of asking, and the hooks."""
    rows = ["| order | extra | what it is | needs | hooks |", "|---|---|---|---|---|"]
    for name, extra in read_extras(root).items():
        link = f"[`{name}`](../templates/extras/{name}/README.md)"
        cells = (str(extra.order), link, extra.title, quoted(extra.needs), quoted(extra.hooks))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)

"""Prose uses the usual words: five habits of older prose stay rare in documents and docstrings."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest
from conftest import ROOT

# Words with a more usual one: next to or compared with, only, is, fix, and no such subject at all.
WORDS = ("beside", "alone", "stands", "mend", "nobody")
MOST = 15
# Baked projects repeat what is counted in templates/.
COPIES = "baselines/"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def prose() -> Iterator[tuple[str, str]]:
    """Yield path and text of each README, page of docs/ and config.toml, and of all docstrings."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.splitlines()
    for path in (path for path in listed if not path.startswith(COPIES)):
        file = ROOT / path
        if not file.is_file():
            continue
        is_page = file.name.startswith(("README", "CHANGING")) or path.startswith("docs/")
        is_settings = path.startswith("templates/") and file.name == "config.toml"
        if file.suffix == ".py":
            yield path, docstrings(file.read_text(encoding="utf-8"))
        elif (is_page and file.suffix == ".md") or is_settings:
            yield path, file.read_text(encoding="utf-8")


def docstrings(code: str) -> str:
    """Return the docstrings of a module and of everything in it."""
    nodes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, DOCUMENTED))
    return "\n".join(text for node in nodes if (text := ast.get_docstring(node)))


@pytest.fixture(scope="module")
def places() -> dict[str, Counter[str]]:
    """Return word -> how often each file has it."""
    found: dict[str, Counter[str]] = {word: Counter() for word in WORDS}
    for path, text in prose():
        words = Counter(re.findall(r"[a-z]+", text.lower()))
        for word in WORDS:
            if words[word]:
                found[word][path] = words[word]
    return found


@pytest.mark.parametrize("word", WORDS)
def test_a_word_with_a_more_usual_one_is_rare(word, places):
    assert places[word].total() < MOST, places[word].most_common()


def test_what_is_counted():
    counted = dict(prose())
    for path in ("README.md", "README_zh.md", "docs/architecture.md", "generator/cli.py"):
        assert path in counted
    assert any(re.fullmatch(r"templates/extras/\w+/config\.toml", path) for path in counted)
    assert (
        docstrings('"""One."""\ndef f():\n    """Two."""\n    x = "three"  # four') == "One.\nTwo."
    )

"""The site of the documentation builds without warnings, and its links lead somewhere."""

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow
URL = "https://example.org/repository"


@pytest.mark.parametrize("url", [URL, ""])
def test_the_site(url: str, tmp_path: Path) -> None:
    pytest.importorskip("material", reason='MkDocs is absent: pip install -e ".[docs]"')
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "REPOSITORY_URL": url, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = {path.parent.name: path.read_text("utf-8") for path in tmp_path.rglob("index.html")}
    assert {"results", "benchmarks", "README_zh", "CHANGELOG"} < pages.keys()
    assert pages["results"].count("<table>") > 3
    assert (tmp_path / "images/report.png").is_file()
    links = [unescape(link) for link in re.findall(r'href="(.+?)"', "".join(pages.values()))]
    outside = [re.fullmatch(rf"{URL}/(?:blob|tree)/main/([^#]+)(#.*)?", link) for link in links]
    found = [link[1] for link in outside if link]
    assert [path for path in found if not (ROOT / path).exists()] == []
    assert bool(found) == bool(url)
    # What is left of the address is the repository itself.
    assert [link for link in links if re.match(r"\.\./\.\./\.\.|/", link)] == []

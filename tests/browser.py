"""Open a page in headless Chromium, as narrow as a telephone, light or dark."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is absent: install the package chromium of the distribution"
)

# The smallest window of Chromium is wider than a telephone: the page stands in a frame.
FRAME = """<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
frame.width = WIDTH;
frame.srcdoc = PAGE;
frame.onload = () => {
  const inside = frame.contentDocument, told = frame.contentWindow.told;
  const root = inside.documentElement;
  const found = {
    faults: told, width: root.scrollWidth, titles: [], named: 0, focusable: 0,
    background: frame.contentWindow.getComputedStyle(inside.body).backgroundColor,
    tags: [...new Set([...inside.querySelectorAll("*")].map((node) => node.localName))],
    text: inside.body.innerText,
    drawings: inside.querySelectorAll("svg").length,
  };
  for (const figure of inside.querySelectorAll("figure")) found.titles.push(figure.dataset.chart);
  for (const drawing of inside.querySelectorAll("svg")) {
    found.named += Number(drawing.getAttribute("role") === "img"
      && drawing.getAttribute("aria-label").length > 10
      && drawing.closest("figure").querySelector("summary") !== null);
  }
  const result = document.createElement("pre");
  result.textContent = JSON.stringify(found);
  document.body.replaceChildren(result);
};
document.body.append(frame);
</script></body>"""
LISTENER = """<head><script>
window.told = [];
window.addEventListener("error", (event) => told.push(String(event.message)));
window.addEventListener("securitypolicyviolation", (event) => told.push(event.violatedDirective));
console.error = console.warn = (...words) => told.push(words.join(" "));
</script>"""


def dump(page: Path, dark: bool = False) -> str:
    """Return what a page has become, as HTML, once its scripts have run."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                CHROMIUM,
                *("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                *("--no-first-run", f"--user-data-dir={profile}", "--virtual-time-budget=10000"),
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                page.resolve().as_uri(),
            ],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_result(dumped: str) -> dict:
    """Return the JSON of the only `<pre>` of a page."""
    [text] = re.findall(r"<pre>(.*)</pre>", dumped, flags=re.DOTALL)
    return json.loads(html.unescape(text))


def open_page(page: Path, folder: Path, dark: bool = False, width: int = 390) -> dict:
    """Return what a browser finds of a page: see `FRAME`."""
    text = page.read_text(encoding="utf-8").replace("<head>", LISTENER, 1)
    literal = json.dumps(text).replace("<", "\\u003c")
    frame = FRAME.replace("WIDTH", str(width)).replace("PAGE", literal)
    path = folder / "frame.html"
    path.write_text(frame, encoding="utf-8")
    return read_result(dump(path, dark))


def assert_page_is_sound(page: Path, folder: Path) -> dict:
    """Refuse faults, a page wider than its window, and drawings without a text; light and dark."""
    found = {}
    for dark in (False, True):
        found = open_page(page, folder, dark)
        assert found["faults"] == [] and found["width"] <= 390
        assert found["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        assert found["named"] == found["drawings"] > 0
    return found

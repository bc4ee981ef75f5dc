"""Write what surrounds a bundle's project: the notebook, the Dockerfile and a page about both."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.files import read_json, write_json, write_text

NOTEBOOK = "predict.ipynb"


@dataclass(frozen=True)
class Facts:
    """What the notebook, the Dockerfile and the page say.

    Attributes:
        name: of the bundle.
        runs: names of the runs in the bundle's project.
        python: version that the wheels are for.
        suffix: of the file to predict: ".jsonl".
        has_wheels: whether any wheel is in the bundle.
        is_whole: whether all of them are.
    """

    name: str
    runs: Sequence[str]
    python: str
    suffix: str
    has_wheels: bool
    is_whole: bool


def write_notebook(folder: Path, facts: Facts) -> None:
    """Write notebook, Dockerfile and README.md into a bundle."""
    write_json(folder / NOTEBOOK, make_notebook(facts))
    write_text(folder / "Dockerfile", dockerfile(facts))
    write_text(folder / ".dockerignore", f"{NOTEBOOK}\nREADME.md\n")
    write_text(folder / "README.md", readme(facts))


def make_notebook(facts: Facts) -> dict:
    """Return the notebook, with the variables of a bundle in its first cell of code."""
    notebook = read_json(Path(__file__).with_name(NOTEBOOK))
    [answers] = [cell for cell in notebook["cells"] if cell["id"] == "answers"]
    code = "".join(answers["source"]).replace("my-bundle", facts.name)
    code = code.replace(".jsonl", facts.suffix)
    values = {"RUNS": [*facts.runs], "PYTHON": facts.python, "WHOLE": facts.is_whole}
    for name, value in values.items():
        shown = str(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
        line = f"{name} = {shown}".replace("\\", "\\\\")
        code = re.sub(rf"^{name} = .*$", line, code, flags=re.M)
    answers["source"] = code.splitlines(keepends=True)
    return notebook


def dockerfile(facts: Facts) -> str:
    """Return an image that predicts: its arguments are the file to predict and the submission."""
    image = facts.name.lower()
    entry = json.dumps(["python", "project/predict.py", *facts.runs])
    places = "--no-index --find-links wheels" if facts.is_whole else "--find-links wheels"
    # Without the wheels the image gets no layer that holds them a second time.
    mount = "--mount=type=bind,source=wheels,target=wheels " if facts.has_wheels else ""
    places = f"{places} --no-deps" if facts.has_wheels else "--no-deps"
    return f"""\
# docker build -t {image} .
# docker run --rm --network none -v "$PWD/data:/data" {image} /data/test{facts.suffix} \\
#     /data/submission{facts.suffix}        # more flags of predict.py may follow
FROM python:{facts.python}-slim
WORKDIR /bundle
COPY requirements.lock ./
RUN {mount}pip install --no-cache-dir {places} -r requirements.lock
COPY project ./project
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT {entry}
"""


def readme(facts: Facts) -> str:
    """Return what a bundle has, and how it predicts."""
    runs = " ".join(facts.runs)
    rows = [
        ("project/", "the code that predicts, and its runs in `project/runs/`"),
        ("requirements.lock", "the versions of all packages, as in the training"),
        (NOTEBOOK, "for a host that attaches this folder: set its first cell, run all cells"),
        ("Dockerfile", "for a host that takes a container: its first lines say how it is used"),
    ]
    if facts.has_wheels:
        rows.insert(2, ("wheels/", f"the packages, for Python {facts.python}"))
    table = "\n".join(f"| `{name}` | {what} |" for name, what in rows)
    return f"""\
# {facts.name}: predictions without internet

| in this folder | what it is |
|---|---|
{table}

Without notebook and container, with the packages installed:

```
python project/predict.py {runs} FILE OUT{facts.suffix}
```
"""

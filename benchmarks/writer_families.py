"""Do the writers of the extra `writers` compute and write what those of transformers do?

For each family, transformers makes and saves a small model with random weights, and the extra loads
it. The script compares the logits of targets after sources padded on the right and on the left. It
also compares greedy texts, token by token, and the scores of a beam search, with and without a
key/value cache. It rewrites the table of writers in docs/encoders.md.

python benchmarks/writer_families.py PYTHON ...: each PYTHON has torch and transformers.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("templates", "tests", "tests/tasks/seq2seq")
sys.path[:0] = [str(ROOT / place) for place in PLACES]

import numpy as np  # noqa: E402
import test_writers as ours  # noqa: E402
from writer_peer import KINDS  # noqa: E402

PAGE = ROOT / "docs/encoders.md"
BEGIN, END = "<!-- writers: begin -->", "<!-- writers: end -->"
VERSION = "import importlib.metadata as m; print(m.version('transformers'))"
HEAD = """\
| model | made by | logits, padded right | logits, padded left | greedy texts | search scores |
|---|---|---|---|---|---|
"""


def main() -> None:
    """Compare, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", nargs="+", help="with torch and transformers")
    arguments = parser.parse_args()
    rows: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for number, python in enumerate(arguments.python):
            folder = Path(place) / str(number)
            folder.mkdir()
            done = subprocess.run([python, "-c", VERSION], capture_output=True, text=True)
            subprocess.run([python, ROOT / "tests/writer_peer.py", folder], check=True)
            for kind in KINDS:
                if kind not in rows and (folder / kind).is_dir():
                    rows[kind] = compare(folder / kind, kind, done.stdout.split()[-1])
    table = HEAD + "".join(rows[kind] for kind in KINDS if kind in rows)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{after}", encoding="utf-8")
    print(table)


def compare(folder: Path, kind: str, version: str) -> str:
    """Return the row of a kind."""
    peer = dict(np.load(folder / "peer.npz"))
    logits, texts, scores = ours.differences(folder, kind, peer)
    if max(*logits, scores) >= 1e-4 or not texts:
        sys.exit(f"{kind} differs: logits {logits}, texts {texts}, scores {scores}")
    numbers = " | ".join(f"{value:.1e}" for value in logits)
    model = f"{kind}: {KINDS[kind]['model']}"
    return f"| {model} | transformers {version} | {numbers} | the same | {scores:.1e} |\n"


if __name__ == "__main__":
    main()

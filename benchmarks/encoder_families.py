"""Do the encoders of the extra `encoders` compute what those of transformers compute?

For each family, transformers makes and saves a small model with random weights, and the extra loads
it. The script compares the hidden states of padded and of single texts, and the gradient of a mean
over tokens by the embeddings. It also measures the difference between the peer in float32 and in
float64. It rewrites the table of docs/encoders.md; the last column comes from encoder_steps.py.

python benchmarks/encoder_families.py PYTHON ...: each PYTHON has torch and transformers, or
bert4keras3; a family that the first one lacks comes from the next. benchmarks/encoder_trials.py
tries in which templates each family trains.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("templates", "tests", "tests/extras", "benchmarks")
sys.path[:0] = [str(ROOT / place) for place in PLACES]

import numpy as np  # noqa: E402
import test_encoders as ours  # noqa: E402
from encoder_peer import KINDS, LENGTHS, OTHERS  # noqa: E402
from encoder_trials import trained_in  # noqa: E402

PAGE = ROOT / "docs/encoders.md"
STEPS = ROOT / "benchmarks/results/encoder_steps.json"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
ALL = {**KINDS, **OTHERS}
VERSION = """
import importlib.metadata as m, importlib.util as u
name = "transformers" if u.find_spec("transformers") else "bert4keras3"
print(name, m.version(name))
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
            peer = " ".join(done.stdout.split()[-2:])
            if peer.startswith("bert4keras3"):
                script, place_of = "tests/roformer_v2_peer.py", folder / "roformer_v2"
            else:
                script, place_of = "tests/encoder_peer.py", folder
            subprocess.run([python, ROOT / script, place_of], check=True)
            for kind in ALL:
                if kind not in rows and (folder / kind).is_dir():
                    rows |= compare(folder, kind, peer)
    head = "| model | made by | file | padded | single | gradients | rounding | trains in "
    head += "| step / torch |\n"
    head += "|---|---|---|---|---|---|---|---|---|\n"
    table = head + "".join(rows[kind] for kind in sorted(rows, key=order))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{after}", encoding="utf-8")
    print(table)


def order(name: str) -> tuple[int, str]:
    """Return the sort key of a row: families as in `KINDS`, the files of one together."""
    kind, _, file = name.partition(": ")
    return list(ALL).index(kind), file


def step_ratio(kind: str) -> str:
    """Return the time of a training step / PyTorch's; empty: not measured."""
    families = json.loads(STEPS.read_text(encoding="utf-8"))["families"] if STEPS.is_file() else {}
    return f"{families[kind]['float32']['ratio']:.2f}" if kind in families else ""


def compare(folder: Path, kind: str, peer: str) -> dict[str, str]:
    """Return the rows of a kind: one for each of its files."""
    read = dict(np.load(folder / kind / "peer.npz"))
    mask = read["attention_mask"] > 0
    seen = np.unique(read["input_ids"][mask])
    rows = {}
    names = {"model.safetensors": kind}
    names |= {f"pytorch_model.bin, {x}": f"{kind}_{x}" for x in ALL[kind].get("formats", [])}
    for file, name in names.items():
        if "bfloat16" in file:
            continue
        words = "\n".join(ours.VOCABULARY) + "\n"
        (folder / name / "vocab.txt").write_text(words, encoding="utf-8")
        encoder = ours.load(folder / name)
        hidden, gradient = ours.states_and_gradient(encoder, read)
        alone = ours.states(encoder, read, slice(1), LENGTHS[0])
        found = (
            np.abs(hidden - read["hidden"])[mask].max(),
            np.abs(alone - read["unpadded"]).max(),
            np.abs(gradient - read["gradient"])[seen].max(),
        )
        model, tried = ALL[kind]["model"], trained_in(kind, file)
        ratio = step_ratio(kind) if name == kind else ""
        rounding = [np.abs(read["hidden"] - read["exact"])[mask].max()] if "exact" in read else []
        numbers = " | ".join(f"{value:.1e}" for value in (*found, *rounding))
        numbers += "" if rounding else " | "
        rows[kind if name == kind else f"{kind}: {file}"] = (
            f"| {kind}: {model} | {peer} | {file} | {numbers} | {tried} | {ratio} |\n"
        )
        if max(found) >= 1e-4:
            sys.exit(f"{kind} differs: {json.dumps([float(value) for value in found])}")
    return rows


if __name__ == "__main__":
    main()

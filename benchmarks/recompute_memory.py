"""How much memory does recomputing the Transformer layers save, and how long does it take?

The script measures the training step of a relation extraction project (12 layers of width 256, 32
texts of 256 tokens, dropout on) with and without `recompute.enabled`, each in its own process, in
turns. Memory is the peak of the process minus its memory before the model was built.

python benchmarks/recompute_memory.py --output benchmarks/results/recompute_memory.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from project_parts import bake_sample, write_results

LENGTH, BATCH = 256, 32
SETTINGS = {
    "tiny_layers": 12,
    "tiny_width": 256,
    "max_length": LENGTH,
    "batch_size": BATCH,
    "buckets": 1,
    "train_file": "long/train.jsonl",
    "dev_file": "long/dev.jsonl",
    "test_file": "long/test.jsonl",
}


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = bake_sample("relation_extraction", "doctor,recompute", Path(folder))
        lengthen(project)
        rounds = [
            {name: measure(project, name == "recomputed") for name in ("kept", "recomputed")}
            for _ in range(arguments.rounds)
        ]
    kept, recomputed = ([row[name] for row in rounds] for name in ("kept", "recomputed"))
    results = {
        "question": "peak memory and time of the training step with and without recompute",
        "layers": SETTINGS["tiny_layers"],
        "width": SETTINGS["tiny_width"],
        "batch": [BATCH, LENGTH],
        "rounds": rounds,
        "memory_mebibytes": {
            "kept": statistics.median(one["peak"] for one in kept) / 2**20,
            "recomputed": statistics.median(one["peak"] for one in recomputed) / 2**20,
        },
        "memory_percent": 100 * ratio(recomputed, kept, "peak"),
        "times_as_long": ratio(kept, recomputed, "examples_per_second"),
        "largest_difference_of_a_loss": max(
            abs(one - other) / abs(other)
            for ours, theirs in zip(recomputed, kept, strict=True)
            for one, other in zip(ours["losses"], theirs["losses"], strict=True)
        ),
    }
    write_results(results, arguments.output)


def lengthen(project: Path) -> None:
    """Repeat the sample's texts until the longest bucket is full; the triples stay at the start."""
    (project / "long").mkdir()
    for split in ("train", "dev", "test"):
        lines = (project / "sample" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines[:BATCH]]
        for record in records:
            record["text"] = " ".join([record["text"]] * LENGTH)[: 4 * LENGTH]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (project / "long" / f"{split}.jsonl").write_text(text, encoding="utf-8")


def measure(project: Path, recompute: bool) -> dict:
    """Return check.py's measurements of one training step."""
    settings = {**SETTINGS, "recompute.enabled": str(recompute).lower()}
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "check.py", *flags, "--memory_trial"]
    done = subprocess.run(command, cwd=project, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tokens"] == LENGTH, f"the batch has {found['tokens']} tokens"
    return found


def ratio(first: list[dict], second: list[dict], key: str) -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(
        one[key] / other[key] for one, other in zip(first, second, strict=True)
    )


if __name__ == "__main__":
    main()

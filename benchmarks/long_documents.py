"""What does it cost to read documents of 3,000 words in windows, all at once, or only their start?

The script measures the training step of a text classification project (4 layers of width 256, two
documents in a batch, dropout on) in three ways, each in its own process, in turns. Memory is the
peak of the process minus its memory before the model was built.

python benchmarks/long_documents.py --output benchmarks/results/long_documents.json
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from project_parts import bake_sample, write_results

WORDS, BATCH = 3000, 2
SETTINGS = {
    "tiny_layers": 4,
    "tiny_width": 256,
    "batch_size": BATCH,
    "buckets": 1,
    "train_file": "long/train.jsonl",
    "dev_file": "long/dev.jsonl",
    "test_file": "long/test.jsonl",
}
SPEED = "examples_per_second"
# How much of a document is read, and how much at once; 0: all of it.
WAYS = {
    "windows": {"max_length": 4096, "long_documents.window": 512},
    "at_once": {"max_length": 4096, "long_documents.window": 0},
    "start": {"max_length": 512, "long_documents.window": 0},
}


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = bake_sample(
            "text_classification", "doctor,long_documents,recompute", Path(folder)
        )
        lengthen(project)
        rounds = [
            {name: measure(project, way) for name, way in WAYS.items()}
            for _ in range(arguments.rounds)
        ]
    results = {
        "question": "peak memory and time of the training step with documents of 3,000 words",
        "layers": SETTINGS["tiny_layers"],
        "width": SETTINGS["tiny_width"],
        "documents": BATCH,
        "words": WORDS,
        "rounds": rounds,
        "tokens": {name: rounds[0][name]["tokens"] for name in WAYS},
        "memory_mebibytes": {
            name: statistics.median(one[name]["peak"] for one in rounds) / 2**20 for name in WAYS
        },
        "memory_of_windows_in_percent_of_at_once": 100 * ratio(rounds, "windows", "at_once"),
        "time_of_windows_to_at_once": 1 / ratio(rounds, "windows", "at_once", SPEED),
        "time_of_windows_to_start": 1 / ratio(rounds, "windows", "start", SPEED),
    }
    write_results(results, arguments.output)


def lengthen(project: Path) -> None:
    """Repeat the words of the sample's texts until each is a document."""
    (project / "long").mkdir()
    for split in ("train", "dev", "test"):
        lines = (project / "sample" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            words = itertools.cycle(record["text_a"].split())
            record["text_a"] = " ".join(itertools.islice(words, WORDS))
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (project / "long" / f"{split}.jsonl").write_text(text, encoding="utf-8")


def measure(project: Path, way: dict[str, int]) -> dict:
    """Return check.py's measurements of one training step."""
    settings = {**SETTINGS, **way}
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "check.py", *flags, "--memory_trial"]
    done = subprocess.run(command, cwd=project, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def ratio(rounds: list[dict], first: str, second: str, key: str = "peak") -> float:
    """Return the median of the rounds' ratios."""
    return statistics.median(one[first][key] / one[second][key] for one in rounds)


if __name__ == "__main__":
    main()

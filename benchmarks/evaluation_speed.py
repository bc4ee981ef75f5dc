"""How much faster is batched evaluation than one record at a time, for each task?

The project of each sample predicts its dev file with the same weights and the same compiled
function: once in length buckets and batches, once one record at a time, as bert4keras's examples
do. Encoding and decoding are included.

baselines reproduce TASK_sample        (first, for each task: it trains in build/TASK_sample)
python benchmarks/evaluation_speed.py
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from project_parts import BUILD, write_results

TASKS = (
    *("event_extraction", "named_entity_recognition", "reading_comprehension"),
    *("relation_extraction", "seq2seq", "text_classification"),
)
RUN = "seed_1"
SINGLE = 60
MEASURE = """
import dataclasses, inspect, json, sys, time
from pathlib import Path
from task.records import read_examples
from task.prediction import load_runs, predict

run, single = sys.argv[1], int(sys.argv[2])
runs = load_runs([run])
# Where files may have columns, the settings say which.
asks = "settings" in inspect.signature(read_examples).parameters
examples = read_examples(Path("sample/dev.jsonl"), **({"settings": runs.settings} if asks else {}))
one = runs.settings.model_copy(update={"prediction_batch_size": 1})
alone = dataclasses.replace(runs, every=[one])

def seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began

def one_by_one(count):
    for example in examples[:count]:
        predict(alone, [example])

# The first time compiles: each length that occurs is a shape of its own.
predict(runs, examples), one_by_one(single)
batched = min(seconds(lambda: predict(runs, examples)) for _ in range(3))
singles = min(seconds(lambda: one_by_one(single)) for _ in range(3))
print(json.dumps([len(examples) / batched, single / singles]))
"""


def main() -> None:
    """Measure each task in its own process, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    tasks = {}
    for task in TASKS:
        project = BUILD / f"{task}_sample"
        if not (project / "runs" / RUN).is_dir():
            sys.exit(
                f"error: {project.name} has not been trained yet: run "
                f"`baselines reproduce {project.name}`."
            )
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, RUN, str(SINGLE)],
            cwd=project,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        batched, single = json.loads(done.stdout.splitlines()[-1])
        tasks[task] = {
            "batched_records_per_second": round(batched, 1),
            "single_records_per_second": round(single, 1),
            "batched_to_single": round(batched / single, 2),
        }
    results = {"question": "is batched evaluation faster than one record at a time?", **tasks}
    write_results(results, arguments.output)


if __name__ == "__main__":
    main()

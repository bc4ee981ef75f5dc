"""How long is our epoch compared with a PyTorch peer's, with the same encoder and batches?

Each round runs the peer with stock padding and shuffling, ours in float32 and in bfloat16, and the
peer with batches grouped by length, one after the other. Each makes the same number of steps,
spread over the batch lengths of an epoch, not over their order. Only the ratios of one round are
compared, because the speed of a machine drifts. The peer needs its own environment (see
peer_relation_extraction.py).

baselines bake relation_extraction_knowledgenet --to build        (first)
python benchmarks/training_speed.py --peer_python PEER/bin/python --encoder FOLDER --data FOLDER
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

import numpy as np
from project_parts import check_project, load_parts, make_parser, write_results

WARM_UP = 8
PRECISIONS = {"ours_float32": "float32", "ours_bfloat16": "mixed_bfloat16"}
PEERS = {"stock": "shuffled", "grouped": "grouped"}


def main() -> None:
    """Run the rounds, or one measurement of ours in its own process."""
    parser = make_parser(__doc__)
    parser.add_argument("--peer_python", help="python of the peer's environment")
    parser.add_argument("--steps", type=int, default=60, help="timed steps of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="measure ours once and print it")
    arguments = parser.parse_args()
    if arguments.ours:
        print(json.dumps(measure_ours(arguments)))
        return
    if not all((arguments.peer_python, arguments.data, arguments.encoder)):
        sys.exit("error: --peer_python, --data and --encoder are needed to compare the two.")
    check_project(arguments.project)
    rounds = []
    for number in range(arguments.rounds):
        row = {"peer_stock": measure_peer(arguments, PEERS["stock"])}
        row |= {name: measure_in_own_process(kind) for name, kind in PRECISIONS.items()}
        row["peer_grouped"] = measure_peer(arguments, PEERS["grouped"])
        rounds.append(row)
        print(f"round {number + 1}:", {name: round(value, 1) for name, value in row.items()})
    results = {
        "question": "seconds of an epoch, relation extraction, ours and a PyTorch peer",
        "data": arguments.data.name,
        "steps": arguments.steps,
        "seconds_per_epoch": rounds,
        **{
            f"{ours}_to_{peer}": ratios(rounds, ours, f"peer_{peer}")
            for ours in PRECISIONS
            for peer in PEERS
        },
    }
    write_results(results, arguments.output)


def ratios(rounds: list[dict], ours: str, peer: str) -> dict:
    """Return the ratio of each round, and the median to quote."""
    each = [round(row[ours] / row[peer], 3) for row in rounds]
    return {"each": each, "median": statistics.median(each)}


def measure_peer(arguments: Namespace, batching: str) -> float:
    """Return the seconds of an epoch of the peer."""
    script = Path(__file__).with_name("peer_relation_extraction.py")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "peer.json"
        command = [
            *(arguments.peer_python, script, "--data", arguments.data),
            *("--encoder", arguments.encoder, "--batching", batching),
            *("--steps", str(arguments.steps), "--output", output),
        ]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        results = json.loads(output.read_text(encoding="utf-8"))
        timing = results["timing"]
        return timing["wall_seconds"] / timing["steps"] * results["steps_per_epoch"]


def measure_in_own_process(precision: str) -> float:
    """Return the seconds of our epoch, measured like the peer in a fresh process."""
    result = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--ours", "--precision", precision],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def measure_ours(arguments: Namespace) -> float:
    """Time steps spread over an epoch, including generator and dataset."""
    parts = load_parts(arguments)
    batches, model = parts.train_batches, parts.models.training
    whole = batches.plan(0)
    by_length = sorted(whole, key=lambda batch: batch[1])
    chosen = np.linspace(0, len(whole) - 1, arguments.steps).astype(int)
    # Each length has its own graph, traced and compiled before the clock starts.
    warm_up = list({batch[1]: batch for batch in whole}.values())
    batches.plan = lambda epoch: warm_up + [by_length[index] for index in chosen]
    step = model.make_train_function() or model.train_function
    iterator = iter(batches.to_dataset())
    for _ in warm_up:
        step(iterator)
    began = time.perf_counter()
    for _ in chosen:
        logs = step(iterator)
    logs["loss"].numpy()
    return (time.perf_counter() - began) / len(chosen) * len(whole)


if __name__ == "__main__":
    main()

"""How long is a training step on a GPU, ours and that of PyTorch, on the same padded batches?

Every side is a process of its own. All of them build their models and compile at the same time;
then each in turn has the card to itself, while the others wait. The encoders are BERT-base, MiniLM
and the `tiny` one, of random weights. The peer is PyTorch with transformers' model, eager and by
torch.compile, with TF32 and in bfloat16, with fused AdamW. Its batches are those of ours, with the
same padding.

baselines bake NAME --to build        (first: the projects of CASES, without extras)
python benchmarks/gpu.py --peer_python PEER/bin/python --data FOLDER --encoders FOLDER

The data folder holds selqa, knowledgenet and squad, as `baselines data get` writes them. The folder
of encoders holds `bert` and `minilm` in Hugging Face format.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from project_parts import BUILD, open_training, write_results

WARM_UP = 8  # steps of one length, after one of each
# Ours: precision and XLA. Theirs: precision and whether torch.compile is used.
OURS = {
    "float32": ("float32", "false"),
    "float32, XLA": ("float32", "true"),
    "bfloat16, XLA": ("mixed_bfloat16", "true"),
}
PEERS = ("tf32", "bfloat16", "tf32, compiled", "bfloat16, compiled")


@dataclass(frozen=True)
class Case:
    """One task with one encoder.

    Attributes:
        task: decides about the peer's model.
        project: its name in the folder of projects.
        data: its name in the folder of data sets.
        encoder: `bert`, `minilm` or `tiny`.
        batch: examples in a step.
        length: the longest text in tokens.
        buckets: padded lengths.
    """

    task: str
    project: str
    data: str
    encoder: str
    batch: int
    length: int
    buckets: int

    @property
    def batches(self) -> str:
        """The file of the batches that both sides are trained on."""
        return f"{self.task}_{self.encoder}_{self.length}.npz"

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.task}, {self.encoder}, {self.batch} x {self.length}"


CASES = (
    Case("classification", "text_classification_selqa", "selqa", "bert", 32, 128, 5),
    Case("classification", "text_classification_selqa", "selqa", "minilm", 16, 128, 5),
    Case("relations", "relation_extraction_knowledgenet", "knowledgenet", "tiny", 16, 128, 5),
    Case("reading", "reading_comprehension_squad", "squad", "bert", 32, 512, 1),
)


def main() -> None:
    """Measure all sides of the chosen cases, or be one side."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--projects", type=Path, default=BUILD, help="folder of the projects")
    add("--data", type=Path, required=True, help="folder of the data sets")
    add("--encoders", type=Path, required=True, help="folder of the encoders")
    add("--peer_python", help="a Python with torch and transformers; none: only ours")
    add("--steps", type=int, default=60, help="timed steps")
    add("--only", default="", help="some sides, such as `0 ours float32; 0 peer tf32`")
    add("--patience", type=float, default=600, help="seconds until all sides must be ready")
    add("--work", type=Path, default=BUILD / "gpu", help="folder of the batches")
    add("--output", type=Path, help="JSON file of the results")
    add("--side", nargs=2, metavar=("CASE", "MODE"), help="be this side of ours")
    arguments = parser.parse_args()
    if arguments.side:
        be_ours(CASES[int(arguments.side[0])], arguments.side[1], arguments)
        return
    rows = measure(arguments)
    question = "milliseconds of a training step on a GPU, ours and PyTorch's"
    card = next((row["card"] for row in rows if "card" in row), "no GPU")
    facts = {"question": question, "steps": arguments.steps, "card": card}
    write_results({**facts, "rows": rows}, arguments.output)


def measure(arguments: Namespace) -> list[dict]:
    """Start all sides, and give each the card in turn; return a row for each."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    sides = [Side(number, *words, arguments) for number, *words in chosen_sides(arguments)]
    until = time.monotonic() + arguments.patience
    for side in sides:
        side.row |= side.answer(until)
        print(json.dumps(side.row), flush=True)
    for side in (side for side in sides if "failed" not in side.row):
        side.process.stdin.write("go\n")
        side.process.stdin.flush()
        side.row |= side.answer(time.monotonic() + arguments.patience)
        print(json.dumps(side.row), flush=True)
    for side in sides:
        side.process.kill()
    return [side.row for side in sides]


def chosen_sides(arguments: Namespace) -> list[tuple[int, str, str]]:
    """Return the number of its case, `ours` or `peer`, and the mode of each side."""
    if arguments.only:
        words = [side.split(maxsplit=2) for side in arguments.only.split(";")]
        return [(int(number), side, mode) for number, side, mode in words]
    modes = {"ours": OURS, "peer": PEERS if arguments.peer_python else ()}
    return [(n, side, mode) for n in range(len(CASES)) for side in modes for mode in modes[side]]


class Side:
    """A process that prepares a training, waits for its turn, and times it.

    Args:
        number: of its case.
        side: `ours` or `peer`.
        mode: of `OURS` or `PEERS`.
        arguments: of the command line.
    """

    def __init__(self, number: int, side: str, mode: str, arguments: Namespace) -> None:
        case = CASES[number]
        self.row: dict = {"case": case.name, "side": side, "mode": mode}
        command = [sys.executable, __file__, *sys.argv[1:], "--side", number, mode]
        if side == "peer":
            script = Path(__file__).with_name("peer_gpu.py")
            batches = arguments.work / case.batches
            command = [arguments.peer_python, script, case.task, case.encoder, batches, mode]
        log = arguments.work / f"{number} {side} {mode}.log"
        self.process: Any = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w", encoding="utf-8"),
            text=True,
        )
        self.lines: queue.Queue[dict] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Keep the lines of JSON that the process prints, and the end of its output."""
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line))
        self.lines.put({"failed": "ended"})

    def answer(self, until: float) -> dict:
        """Return the next line; a process that is too slow has failed."""
        try:
            return self.lines.get(timeout=max(0.1, until - time.monotonic()))
        except queue.Empty:
            self.process.kill()
            return {"failed": "too slow"}


# ---------------------------------------------------------------- ours


def be_ours(case: Case, mode: str, arguments: Namespace) -> None:
    """Build a training, write its batches for the peer, and time its steps when it is its turn."""
    began = time.perf_counter()
    precision, xla = OURS[mode]
    data = (arguments.data / case.data).resolve()
    flags = [
        *("--train_file", str(data / "train.jsonl"), "--dev_file", str(data / "dev.jsonl")),
        *("--devices.precision", precision, "--devices.xla", xla, "--strategy", "single"),
        *("--batch_size", str(case.batch), "--max_length", str(case.length)),
        *("--buckets", str(case.buckets), "--overwrite", "true", "--run_name", f"gpu{os.getpid()}"),
    ]
    made = (arguments.encoders / case.encoder).resolve()
    flags += ["--encoder", "tiny" if case.encoder == "tiny" else str(made)]
    if case.task == "classification":
        flags += ["--floor", "false"]
    work = arguments.work.resolve()
    training = open_training((arguments.projects / case.project).resolve(), flags)
    import tensorflow as tf

    model, batches = training.models.training, training.batches
    whole = sorted(batches.plan(0), key=lambda batch: batch[1])
    chosen = [whole[i] for i in np.linspace(0, len(whole) - 1, arguments.steps).astype(int)]
    write_batches(batches, chosen, work / case.batches)
    warm_up = list({batch[1]: batch for batch in whole}.values())
    warm_up += [warm_up[0]] * WARM_UP
    batches.plan = lambda epoch: warm_up + chosen
    step = model.make_train_function() or model.train_function
    iterator = iter(batches.to_dataset())
    built = time.perf_counter()
    float(step(iterator)["loss"].numpy()[0])
    first = time.perf_counter()
    for _ in warm_up[1:]:
        logs = step(iterator)
    float(logs["loss"].numpy()[0])
    facts = {"start_seconds": built - began, "first_step_seconds": first - built}
    facts["all_lengths_seconds"] = time.perf_counter() - built
    print(json.dumps({name: round(value, 1) for name, value in facts.items()}), flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for _ in chosen:
        logs = step(iterator)
    loss = float(logs["loss"].numpy()[0])
    seconds = time.perf_counter() - began
    print(json.dumps({**row_of(seconds, chosen, loss, peak_of(tf)), **card_of(tf)}), flush=True)


def row_of(seconds: float, chosen: list, loss: float, peak: float) -> dict:
    """Return what was measured, in the units of the table."""
    examples = sum(len(positions) for positions, _ in chosen)
    return {
        "milliseconds": round(seconds / len(chosen) * 1e3, 2),
        "examples_per_second": round(examples / seconds, 1),
        "loss": round(loss, 4),
        "peak_MiB": round(peak),
    }


def peak_of(tf: Any) -> float:
    """Return the peak of the GPU's memory in MiB; 0: there is no GPU."""
    if not tf.config.list_physical_devices("GPU"):
        return 0.0
    return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20


def card_of(tf: Any) -> dict[str, str]:
    """Return the name of the GPU; empty: there is none."""
    cards = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(cards[0]) if cards else {}
    return {"card": details.get("device_name", "GPU")} if cards else {}


def write_batches(batches: Any, chosen: list, path: Path) -> None:
    """Write the arrays of the timed batches for the peer, unless another side has done so."""
    if path.exists():
        return
    arrays = {}
    for number, (positions, length) in enumerate(chosen):
        filled = np.resize(positions, batches.batch_size)
        for name, array in batches.make_batch(filled, length).items():
            arrays[f"{number:04}/{name}"] = array
    temporary = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)


if __name__ == "__main__":
    main()

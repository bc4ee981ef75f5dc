"""Our reading comprehension and Hugging Face's question-answering recipe: scores and seconds.

Idea: the same encoder, files, windows, epochs and batch size. The peer reimplements the example
script `run_qa.py` of transformers: a classifier of starts and ends, the first gold answer as the
label, windows by `return_overflowing_tokens`, AdamW with linear decay, and the best of 20 x 20
starts and ends of at most 30 tokens over all windows. The peer imports nothing of this repository
and computes its own scores. Departures, all in favour of the peer: warm-up, attention dropout 0,
`--padding grouped`.

Each round times the peer with stock padding (to the maximum length), ours, and the peer with
batches grouped by length, one after the other, for the same number of steps. The timed batches are
spread evenly over the lengths of an epoch; random batches would be up to a tenth longer than the
mean. The results list the tokens of the epoch and the tokens that the timed batches represent. Only
the ratios of one round are compared, because the speed of a machine drifts.

The two trainings take long, and the timing needs an idle machine. So `--measure` chooses the
measurements; those that are already in the output file with the same settings are kept.

The peer needs its own environment: pip install torch transformers tqdm

python benchmarks/peer_reading_comprehension.py --peer_python PEER/bin/python --project PROJECT \
    --encoder ENCODER --data DATA --output benchmarks/results/peer_reading_comprehension.json
"""

import argparse
import collections
import hashlib
import json
import os
import platform
import re
import statistics
import string
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

N_BEST = 20
MAX_ANSWER_LENGTH = 30
PREDICTION_BATCH = 32
WARM_UP_STEPS = 8
# First the measurements that take hours, then those that need an idle machine.
MEASURES = ["peer", "ours", "seconds"]
SCRIPT = Path(__file__)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of train.jsonl, dev.jsonl, test.jsonl")
    add("--encoder", type=Path, required=True, help="encoder folder in Hugging Face format")
    add("--project", type=Path, help="a generated reading comprehension project: ours")
    add("--peer_python", help="python of the peer's environment")
    add("--max_length", type=int, default=384, help="tokens of a window, as in run_qa.py")
    add("--doc_stride", type=int, default=128, help="tokens that neighbouring windows share")
    add("--batch_size", type=int, default=16)
    add("--epochs", type=int, default=2)
    add("--learning_rate", type=float, default=1e-4)
    add("--seed", type=int, default=1)
    add("--rounds", type=int, default=3)
    add("--steps", type=int, default=30, help="timed steps of each measurement")
    add("--measure", nargs="+", choices=MEASURES, default=MEASURES, help="what to measure now")
    add(
        "--shipped",
        action="store_true",
        help="ours: scores.json of the baseline, no training",
    )
    parts = ["peer", "peer_steps", "our_steps", "peer_prediction"]
    add("--part", choices=parts, help="for the processes of a run")
    add("--padding", choices=["max_length", "longest", "grouped"], default="grouped")
    add("--predict", type=Path, help="file whose prediction --part peer_prediction times")
    add("--passes", type=int, default=2, help="timed ones of it, after one to warm up")
    add("--output", type=Path, help="JSON file of the results")
    return parser.parse_args()


def main() -> None:
    """Run the rounds and both trainings, or one part in its own process."""
    arguments = parse_arguments()
    if arguments.part:
        part = {
            "peer": train_peer,
            "peer_steps": time_peer,
            "our_steps": time_ours,
            "peer_prediction": time_peer_prediction,
        }
        print(json.dumps(part[arguments.part](arguments)))
        return
    if not arguments.peer_python or not arguments.project:
        sys.exit("error: --peer_python and --project are needed to compare the two.")
    from project_parts import check_project

    check_project(arguments.project)
    results = kept_results(arguments)
    measures = {
        "peer": lambda: {"peer": run_part(arguments, "peer", padding="grouped")},
        "ours": lambda: {"ours": train_ours(arguments)},
        "seconds": lambda: time_rounds(arguments),
    }
    for name in arguments.measure:
        results |= {**measures[name](), "hardware": {**results["hardware"], name: hardware()}}
        write_results(results, arguments.output)


def kept_results(arguments: argparse.Namespace) -> dict:
    """Return the settings of this benchmark, and earlier results with the same settings."""
    settings = {
        "question": "reading comprehension, ours beside the question-answering recipe",
        "data": arguments.data.name,
        **{key: getattr(arguments, key) for key in SETTINGS},
    }
    before = {}
    if arguments.output and arguments.output.is_file():
        before = json.loads(arguments.output.read_text(encoding="utf-8"))
    same = all(before.get(key) == value for key, value in settings.items())
    return {**(before if same else {}), **settings, "hardware": before["hardware"] if same else {}}


def time_rounds(arguments: argparse.Namespace) -> dict:
    """Time the three ways of training in alternating rounds."""
    rounds = []
    for number in range(arguments.rounds):
        row = {
            "peer_stock": run_part(arguments, "peer_steps", padding="max_length"),
            "ours": run_part(arguments, "our_steps"),
            "peer_grouped": run_part(arguments, "peer_steps", padding="grouped"),
        }
        rounds.append({name: part.pop("seconds_per_epoch") for name, part in row.items()})
        print(f"round {number + 1}:", rounds[-1], flush=True)
    return {
        "steps_timed": arguments.steps,
        "epoch": row,
        "seconds_per_epoch": rounds,
        "ours_to_stock": ratios(rounds, "peer_stock"),
        "ours_to_grouped": ratios(rounds, "peer_grouped"),
    }


SETTINGS = ("max_length", "doc_stride", "batch_size", "epochs", "learning_rate", "seed")


def ratios(rounds: list[dict], peer: str) -> dict:
    """Return the ratio of each round, and the median to quote."""
    each = [round(row["ours"] / row[peer], 3) for row in rounds]
    return {"each": each, "median": statistics.median(each)}


def run_part(arguments: argparse.Namespace, part: str, padding: str = "grouped") -> dict:
    """Run one part in a fresh process of the environment it belongs to."""
    python = sys.executable if part == "our_steps" else arguments.peer_python
    command = [python, SCRIPT, "--part", part, "--padding", padding]
    for name in ("data", "encoder", "project", "steps", *SETTINGS):
        command += [f"--{name}", getattr(arguments, name)]
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.decode().splitlines()[-1])


# ---------------------------------------------------------------- the peer


def read_records(path: Path) -> list[dict]:
    """Read a file of questions."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def gold_texts(record: dict) -> list[str]:
    """Return the gold answers of a question."""
    return record.get("answer_texts") or [record["context"][s:e] for s, e in record["answers"]]


def make_windows(records: list[dict], tokenizer: Any, arguments: argparse.Namespace) -> list[dict]:
    """Tokenize questions with windows of their contexts; label the first gold answer."""
    encoded = tokenizer(
        [record["question"].lstrip() for record in records],
        [record["context"] for record in records],
        truncation="only_second",
        max_length=arguments.max_length,
        stride=arguments.doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    windows = []
    for row, number in enumerate(encoded["overflow_to_sample_mapping"]):
        offsets, owners = encoded["offset_mapping"][row], encoded.sequence_ids(row)
        first = owners.index(1)
        last = len(owners) - 1 - owners[::-1].index(1)
        start = end = 0
        if records[number]["answers"]:
            begin, stop = records[number]["answers"][0]
            if offsets[first][0] <= begin and offsets[last][1] >= stop:
                start = max(i for i in range(first, last + 1) if offsets[i][0] <= begin)
                end = min(i for i in range(first, last + 1) if offsets[i][1] >= stop)
        inputs = {
            key: encoded[key][row] for key in tokenizer.model_input_names if key in encoded.keys()
        }
        context = [
            offset if own == 1 else None for offset, own in zip(offsets, owners, strict=True)
        ]
        windows.append(
            {"inputs": inputs, "start": start, "end": end, "record": number, "context": context}
        )
    return windows


def collate(windows: list[dict], tokenizer: Any, length: int | None) -> Any:
    """Pad windows to the longest, or to a fixed length."""
    import torch

    padding = {"padding": True} if length is None else {"padding": "max_length"}
    batch = tokenizer.pad(
        [window["inputs"] for window in windows], max_length=length, return_tensors="pt", **padding
    )
    batch["start_positions"] = torch.tensor([window["start"] for window in windows])
    batch["end_positions"] = torch.tensor([window["end"] for window in windows])
    return batch


def plan_epoch(windows: list[dict], arguments: argparse.Namespace, epoch: int) -> list[list[int]]:
    """Return the batches of an epoch: shuffled, or grouped by length as transformers does."""
    from peer_training import draw_batches

    lengths = [len(window["inputs"]["input_ids"]) for window in windows]
    grouped = arguments.padding == "grouped"
    return draw_batches(lengths, arguments.batch_size, grouped, arguments.seed, epoch)


def load_peer(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return tokenizer and model."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(usable_cores())
    torch.manual_seed(arguments.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.encoder)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(
        arguments.encoder, attention_probs_dropout_prob=0.0
    )
    return tokenizer, model


def prepare_peer(
    arguments: argparse.Namespace,
) -> tuple[Any, list[dict], Any, Callable[[list[int]], float]]:
    """Return tokenizer, training windows, model, and the step that trains it."""
    import torch
    import transformers
    from peer_training import WARMUP_SHARE, apply_gradient

    tokenizer, model = load_peer(arguments)
    windows = make_windows(read_records(arguments.data / "train.jsonl"), tokenizer, arguments)
    steps = -(-len(windows) // arguments.batch_size) * arguments.epochs
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=0.0)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(WARMUP_SHARE * steps), steps
    )
    length = arguments.max_length if arguments.padding == "max_length" else None

    def step(positions: list[int]) -> float:
        batch = collate([windows[position] for position in positions], tokenizer, length)
        loss = model(**batch).loss
        apply_gradient(loss, model, optimizer, schedule)
        return float(loss.detach())

    return tokenizer, windows, model, step


def time_peer(arguments: argparse.Namespace) -> dict:
    """Time steps."""
    _, windows, model, step = prepare_peer(arguments)
    batches = plan_epoch(windows, arguments, 1)
    tokens = [padded_tokens(batch, windows, arguments) for batch in batches]
    spread = spread_over(tokens, arguments.steps)
    chosen = [batches[index] for index in spread]
    model.train()
    for batch in batches[:: max(1, len(batches) // WARM_UP_STEPS)][:WARM_UP_STEPS]:
        step(batch)
    began = time.perf_counter()
    for batch in chosen:
        step(batch)
    return describe_epoch(time.perf_counter() - began, tokens, spread, len(windows))


def padded_tokens(batch: list[int], windows: list[dict], arguments: argparse.Namespace) -> int:
    """Return rows x length of a batch."""
    if arguments.padding == "max_length":
        return len(batch) * arguments.max_length
    return len(batch) * max(len(windows[position]["inputs"]["input_ids"]) for position in batch)


def spread_over(tokens: list[int], count: int) -> list[int]:
    """Return, in order, the middle batch of each of several equal parts of the sorted epoch."""
    by_tokens = np.argsort(tokens, kind="stable")
    middles = (np.arange(count) + 0.5) * len(tokens) / count
    return sorted(by_tokens[middles.astype(int)].tolist())


def describe_epoch(seconds: float, tokens: list[int], timed: list[int], windows: int) -> dict:
    """Return what the timed batches say about the whole epoch."""
    per_batch = len(tokens) / len(timed)
    return {
        "seconds_per_epoch": round(seconds * per_batch, 2),
        "windows": windows,
        "padded_tokens": int(sum(tokens)),
        "padded_tokens_by_timed_batches": round(sum(tokens[i] for i in timed) * per_batch),
    }


def train_peer(arguments: argparse.Namespace) -> dict:
    """Train all epochs; score dev and test after each."""
    tokenizer, windows, model, step = prepare_peer(arguments)
    epochs = []
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        began = time.perf_counter()
        losses = [step(batch) for batch in tqdm(plan_epoch(windows, arguments, epoch), "peer")]
        row = {"epoch": epoch, "seconds": round(time.perf_counter() - began, 1)}
        row["loss"] = round(statistics.mean(losses), 4)
        for part in ("dev", "test"):
            row[part] = score_peer(model, tokenizer, arguments, part)
        print(row, file=sys.stderr, flush=True)
        epochs.append(row)
    return {"epochs": epochs, "windows": len(windows), **describe_versions("torch", "transformers")}


def score_peer(model: Any, tokenizer: Any, arguments: argparse.Namespace, part: str) -> dict:
    """Predict a file and score it."""
    records = read_records(arguments.data / f"{part}.jsonl")
    unanswerable = any(not gold_texts(record) for record in records)
    answers = predict_peer(model, tokenizer, arguments, records, unanswerable)
    texts = [answer["text"] for answer in answers]
    return score_texts([gold_texts(record) for record in records], texts)


def time_peer_prediction(arguments: argparse.Namespace) -> dict:
    """Time the prediction of a file, from records in memory to those of the predictions file."""
    from peer_training import time_passes

    tokenizer, model = load_peer(arguments)
    # Windows have labels only if the answers are known; here they are not.
    records = [{**record, "answers": []} for record in read_records(arguments.predict)]
    length = arguments.max_length if arguments.padding == "max_length" else None
    in_order = arguments.padding != "grouped"
    answers, seconds = time_passes(
        lambda: predict_peer(model, tokenizer, arguments, records, False, in_order, length),
        arguments.passes,
    )
    return {"records": len(records), "found": len(answers), **seconds}


def predict_peer(
    model: Any,
    tokenizer: Any,
    arguments: argparse.Namespace,
    records: list[dict],
    unanswerable: bool,
    in_order: bool = False,
    length: int | None = None,
) -> list[dict]:
    """Return the best span of all windows of each question.

    Args:
        model: of starts and ends; `tokenizer` belongs to it.
        arguments: `max_length`, `doc_stride`.
        records: the questions.
        unanswerable: some have no answer.
        in_order: batches follow the file; otherwise they are sorted by length.
        length: to pad to; None: to the longest of a batch.
    """
    import torch

    windows = make_windows(records, tokenizer, arguments)
    if not in_order:
        windows.sort(key=lambda window: len(window["inputs"]["input_ids"]))
    found = collections.defaultdict(list)
    nulls: dict[int, float] = {}
    model.eval()
    for first in range(0, len(windows), PREDICTION_BATCH):
        chosen = windows[first : first + PREDICTION_BATCH]
        batch = collate(chosen, tokenizer, length)
        with torch.inference_mode():
            outputs = model(**batch)
        starts, ends = outputs.start_logits.numpy(), outputs.end_logits.numpy()
        for window, start, end in zip(chosen, starts, ends, strict=True):
            number = window["record"]
            null = float(start[0] + end[0])
            nulls[number] = min(null, nulls.get(number, null))
            found[number] += spans_of_window(window["context"], start, end)
    answers = []
    for number, record in enumerate(records):
        score, span = max(found[number], default=(-np.inf, (0, 0)))
        empty = unanswerable and nulls[number] > score
        text = "" if empty else record["context"][slice(*span)]
        answers.append({"id": record["id"], "answer": span, "text": text, "score": score})
    return answers


def spans_of_window(context: list, start: np.ndarray, end: np.ndarray) -> list[tuple]:
    """Return `(score, characters)` of the best starts joined with the best ends."""
    best_starts, best_ends = (
        np.argsort(-scores[: len(context)])[:N_BEST] for scores in (start, end)
    )
    return [
        (float(start[i] + end[j]), (context[i][0], context[j][1]))
        for i in best_starts
        for j in best_ends
        if context[i] and context[j] and i <= j < i + MAX_ANSWER_LENGTH
    ]


def score_texts(golds: list[list[str]], texts: list[str]) -> dict:
    """Return EM and F1 in percent, as SQuAD defines them."""

    def words(text: str) -> list[str]:
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    def f1(gold: list[str], found: list[str]) -> float:
        shared = sum((collections.Counter(gold) & collections.Counter(found)).values())
        return 2 * shared / (len(gold) + len(found)) if shared else float(gold == found == [])

    pairs = [
        ([words(gold) for gold in gold or [""]], words(text))
        for gold, text in zip(golds, texts, strict=True)
    ]
    exact = [any(gold == found for gold in options) for options, found in pairs]
    overlap = [max(f1(gold, found) for gold in options) for options, found in pairs]
    return {"exact_match": round(100 * np.mean(exact), 2), "f1": round(100 * np.mean(overlap), 2)}


# ---------------------------------------------------------------- ours


def our_flags(arguments: argparse.Namespace) -> list[str]:
    """Return the settings that make our project equal to the peer."""
    settings = {
        **{f"{part}_file": (arguments.data / f"{part}.jsonl").resolve() for part in PARTS},
        "encoder": arguments.encoder.resolve(),
        "max_length": arguments.max_length,
        "window_overlap": arguments.doc_stride,
        "batch_size": arguments.batch_size,
        "epochs": arguments.epochs,
        "learning_rate": arguments.learning_rate,
        "seed": arguments.seed,
    }
    return [part for name, value in settings.items() for part in (f"--{name}", str(value))]


PARTS = ("train", "dev", "test")


def time_ours(arguments: argparse.Namespace) -> dict:
    """Time steps, generator and dataset included."""
    from project_parts import compile_as_trained, open_project

    open_project(arguments.project)
    from core.base.settings import read_settings
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import global_batch_size, make_strategy
    from core.encoders.encoder import load_encoder, load_tokenizer
    from task.data import AnswerGenerator
    from task.model import build_models
    from task.records import read_examples, tokenizer_texts
    from task.settings import Settings

    settings = read_settings(Settings, [*our_flags(arguments), "--strategy", "single"])
    # One replica: it has no scope of its own.
    batch_size = global_batch_size(settings, make_strategy(settings))
    set_seed_and_precision(settings)
    examples = read_examples(settings.train_file)
    tokenizer = load_tokenizer(settings, examples, tokenizer_texts)
    models = build_models(load_encoder(settings, tokenizer), settings)
    generator = AnswerGenerator(examples, tokenizer, models.encoder_inputs, settings, batch_size)
    compile_as_trained(settings, models, generator)
    whole = generator.plan(0)
    tokens = [len(batch) * length for batch, length in whole]
    chosen = spread_over(tokens, arguments.steps)
    # First one batch of each length, because each length is compiled once.
    warm_up = list({length: (batch, length) for batch, length in whole}.values())
    generator.plan = lambda epoch: warm_up + [whole[index] for index in chosen]
    model = models.training
    step = model.make_train_function() or model.train_function
    iterator = iter(generator.to_dataset())
    for _ in warm_up:
        step(iterator)
    began = time.perf_counter()
    for _ in chosen:
        logs = step(iterator)
    logs["loss"].numpy()
    seconds = time.perf_counter() - began
    return describe_epoch(seconds, tokens, chosen, len(generator.windows))


def train_ours(arguments: argparse.Namespace) -> dict:
    """Train and score our project like a participant, or take its bundled scores."""
    if arguments.shipped:
        return describe_shipped(arguments)
    with tempfile.TemporaryDirectory(prefix="benchmark_", dir=runs_folder(arguments)) as folder:
        name = Path(folder).name
        train = ["train.py", "--run_name", name, "--shown_examples", "0", *our_flags(arguments)]
        evaluate = ["evaluate.py", name, str((arguments.data / "test.jsonl").resolve())]
        for command in (train, evaluate):
            done = [sys.executable, *command]
            subprocess.run(done, check=True, cwd=arguments.project, stdout=sys.stderr)
        return describe_scores(json.loads((Path(folder) / "scores.json").read_text("utf-8")))


def describe_shipped(arguments: argparse.Namespace) -> dict:
    """Return the scores of `baselines reproduce`, if they fit this comparison."""
    name = arguments.project.resolve().name
    shipped = SCRIPT.resolve().parents[1] / "baselines" / name / "scores.json"
    if not shipped.is_file():
        sys.exit(f"error: baselines/{name} has no scores.json: leave --shipped out.")
    scores = json.loads(shipped.read_text(encoding="utf-8"))
    config = tomllib.loads((arguments.project / "config.toml").read_text(encoding="utf-8"))
    asked = dict(zip(our_flags(arguments)[::2], our_flags(arguments)[1::2], strict=True))
    pairs = {
        name: (str(config[name]), asked[f"--{name}"])
        for name in ("max_length", "window_overlap", "batch_size", "epochs", "learning_rate")
    }
    pairs["seed"] = (str(scores["seed"]), str(arguments.seed))
    pairs["encoder"] = (scores["encoder_weights"], digest(arguments.encoder / "model.safetensors"))
    for part in ("dev", "test"):
        pairs[part] = (scores[part]["data_hash"], digest(arguments.data / f"{part}.jsonl"))
    for name, (found, wanted) in pairs.items():
        if found != wanted:
            sys.exit(f"error: the shipped scores are of {name} = {found}, not {wanted}.")
    return {"command": scores["command"], **describe_scores(scores)}


def describe_scores(scores: dict) -> dict:
    """Return the part of a run's scores.json that this comparison needs."""
    return {
        "minutes": scores["minutes"],
        "hardware": scores["hardware"],
        "best_epoch_of": scores["monitor"],
        **{part: percent((scores.get("files", {}) | scores)[part]) for part in ("dev", "test")},
        "versions": scores["versions"],
    }


def digest(path: Path) -> str:
    """Return the hash of a file as scores.json has it."""
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def runs_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder of runs of our project."""
    folder = arguments.project.resolve() / "runs"
    folder.mkdir(exist_ok=True)
    return folder


def percent(scores: dict) -> dict:
    """Return EM and F1 in percent."""
    return {name: round(100 * scores[name], 2) for name in ("exact_match", "f1")}


# ---------------------------------------------------------------- results


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def hardware() -> str:
    """Describe the machine, as far as this process may use it."""
    return f"{platform.machine()}, cores: {usable_cores()}"


def describe_versions(*packages: str) -> dict:
    """Name the versions of packages."""
    from importlib.metadata import version

    return {"versions": {"python": platform.python_version(), **{p: version(p) for p in packages}}}


def write_results(results: dict, output: Path | None) -> None:
    """Print results, and write them with versions and hardware."""
    results |= {"measured": datetime.now(UTC).isoformat(timespec="seconds")}
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    print(text)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Tokens per second of pre-training: ours and transformers' masked language model recipe.

Idea: the same text, vocabulary, encoder, weights, batch size, length and optimizer. The peer
reimplements the example script `run_mlm.py` of transformers: a BertForMaskedLM; lines cut at the
maximum length and padded to it (`padded`) or to the longest of a batch (`dynamic`), or, by default,
all lines joined and cut into pieces of that length (`packed`); its own collator, which masks 15 %
of the tokens; its trainer's AdamW with linear decay. The peer imports nothing of this repository.
Ours cuts long lines into several examples in length buckets (`bucketed`), or also joins short lines
(`packed`), and scores the vocabulary only at masked tokens.

Departures, all in favour of the peer: attention dropout 0, which is cheaper; rows in memory; no
trainer code around a step; single tokens are masked, where ours masks whole words, because the
collator of transformers 5 can't pad whole-word masks to the longest of a batch.

Before the timing, our encoder is trained for some steps and exported. Both sides read it and must
agree on the loss of the same masked tokens. The count includes all tokens except padding, so also
[CLS] and [SEP]; `text_share` is the share of text among them. The timing covers whole steps over an
epoch, including batch making, but not reading and tokenizing the text.

Each round times the compared ways one after the other. Only the ratios of one round are compared,
because the speed of a machine drifts. `--measure` chooses the measurements; those that are already
in the output file with the same settings are kept. Everything runs on the CPU.

The peer needs its own environment: pip install torch transformers

baselines bake pretraining_sample --to build
python benchmarks/peer_pretraining.py --peer_python PEER/bin/python --text TEXT \
    --output benchmarks/results/peer_pretraining.json
"""

import argparse
import hashlib
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from core.step import TrainingModel
    from corpus.special_tokens import SpecialTokens
    from corpus.texts import Texts
    from task.data import ShardGenerator

SCRIPT = Path(__file__)
SAMPLE = SCRIPT.resolve().parents[1] / "build" / "pretraining_sample"
# What a round times, in this order: the side, and how it makes batches.
MEASURES = {
    "packed": ("ours_packed", "peer_packed"),
    "bucketed": ("peer_padded", "ours_bucketed", "peer_dynamic"),
}
SETTINGS = (
    *("layers", "width", "vocabulary_size", "max_length", "batch_size", "buckets"),
    *("learning_rate", "first_steps", "seed", "steps"),
)
CLIP_NORM = 1.0
WARM_UP_STEPS = 8
AGREEMENT = 1e-4
DEV_LINES = 64
IGNORED = -100  # label of a token that the peer doesn't predict


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--text", type=Path, required=True, help="UTF-8, one text a line")
    add("--project", type=Path, default=SAMPLE, help="a generated pre-training project: ours")
    add("--peer_python", help="python of the peer's environment")
    add("--layers", type=int, default=4)
    add("--width", type=int, default=256)
    add("--vocabulary_size", type=int, default=8000)
    add("--max_length", type=int, default=128)
    add("--batch_size", type=int, default=32)
    add("--buckets", type=int, default=4, help="of ours")
    add("--learning_rate", type=float, default=5e-4)
    add("--first_steps", type=int, default=20, help="that the weights are trained beforehand")
    add("--seed", type=int, default=1)
    add("--rounds", type=int, default=3)
    add("--steps", type=int, default=30, help="timed steps of each measurement")
    add("--measure", nargs="+", choices=MEASURES, default=list(MEASURES), help="what to measure")
    add("--part", choices=PARTS, help="for the processes of a run")
    add("--batches", choices=["packed", "bucketed", "padded", "dynamic"], help="of that part")
    add("--work", type=Path, help="folder of that part")
    add("--output", type=Path, help="JSON file of the results")
    return parser.parse_args()


def main() -> None:
    """Prepare, compare losses, and run the rounds; or run one part in its own process."""
    arguments = parse_arguments()
    if arguments.part:
        print(json.dumps(PARTS[arguments.part](arguments)))
        return
    if not arguments.peer_python:
        sys.exit("error: --peer_python is needed to compare the two.")
    if not arguments.text.is_file():
        sys.exit(f"error: there is no {arguments.text}: name a file of text, one text a line.")
    from project_parts import check_project

    check_project(arguments.project)
    results = kept_results(arguments)
    with tempfile.TemporaryDirectory() as folder:
        arguments.work = Path(folder)
        prepare_ours(arguments)
        for name in arguments.measure:
            agreement = compare_losses(arguments, name)
            results[name] = {"loss_of_one_batch": agreement, **time_rounds(arguments, name)}
            write_results(results, arguments)


def kept_results(arguments: argparse.Namespace) -> dict:
    """Return the settings of this benchmark, and earlier results with the same settings."""
    settings = {
        "question": "tokens a second of pre-training, ours beside the masked language model recipe",
        "data": arguments.text.name,
        "data_hash": f"sha256:{hashlib.sha256(arguments.text.read_bytes()).hexdigest()}",
        **{name: getattr(arguments, name) for name in SETTINGS},
    }
    before = {}
    if arguments.output and arguments.output.is_file():
        before = json.loads(arguments.output.read_text(encoding="utf-8"))
    same = all(before.get(name) == value for name, value in settings.items())
    return {**settings, **{name: before[name] for name in MEASURES if same and name in before}}


def prepare_ours(arguments: argparse.Namespace) -> None:
    """Write vocabulary and shards; train the first steps; export the common start."""
    with open(arguments.text, encoding="utf-8") as lines:
        dev = "".join(itertools.islice(lines, DEV_LINES))
    (arguments.work / "dev.txt").write_text(dev, encoding="utf-8")
    for name in ("packed", "bucketed"):
        run_ours(arguments, "prepare.py", *our_flags(arguments, name))
    runs = arguments.project.resolve() / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="benchmark_", dir=runs) as folder:
        run = Path(folder).name
        first = ["--run_name", run, "--steps", str(arguments.first_steps), "--shown_examples", "0"]
        run_ours(arguments, "train.py", *our_flags(arguments, "packed"), *first)
        run_ours(arguments, "export.py", run, str(arguments.work / "encoder"))


def run_ours(arguments: argparse.Namespace, *command: str) -> None:
    """Run a command of our project."""
    subprocess.run(
        [sys.executable, *command],
        check=True,
        cwd=arguments.project,
        stdout=sys.stderr,
        env=on_the_processor(),
    )


def run_part(arguments: argparse.Namespace, part: str, batches: str) -> dict:
    """Run one part in a fresh process of the environment it belongs to."""
    python = sys.executable if part.startswith("our") else arguments.peer_python
    command = [python, SCRIPT, "--part", part, "--batches", batches]
    for name in ("text", "project", "work", *SETTINGS):
        command += [f"--{name}", getattr(arguments, name)]
    done = subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, env=on_the_processor()
    )
    return json.loads(done.stdout.decode().splitlines()[-1])


def on_the_processor() -> dict[str, str]:
    """Return an environment in which a process sees no GPU."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}


def compare_losses(arguments: argparse.Namespace, batches: str) -> dict:
    """Return the loss of one of our batches on both sides; exit if they differ."""
    losses = {
        "ours": run_part(arguments, "our_loss", batches)["loss"],
        "peer": run_part(arguments, "peer_loss", batches)["loss"],
    }
    print(f"loss of one batch, {batches}:", losses, flush=True)
    if not abs(losses["ours"] - losses["peer"]) <= AGREEMENT:
        sys.exit(f"error: {losses} of the same batch differ: the two don't compute the same.")
    return losses


def time_rounds(arguments: argparse.Namespace, measure: str) -> dict:
    """Time the ways of one measurement in alternating rounds."""
    rounds, parts = [], {}
    for number in range(arguments.rounds):
        for name in MEASURES[measure]:
            owner, _, batches = name.partition("_")
            part = {"ours": "our_speed", "peer": "peer_speed"}[owner]
            parts[name] = run_part(arguments, part, batches)
            print(f"round {number + 1}, {name}:", parts[name], flush=True)
        rounds.append({name: part["tokens_per_second"] for name, part in parts.items()})
    ours, peers = f"ours_{measure}", [name for name in parts if name.startswith("peer")]
    return {
        "tokens_per_second": rounds,
        **{f"ours_to_{peer}": ratios(rounds, ours, peer) for peer in peers},
        "batches": {
            name: {key: value for key, value in part.items() if key in DESCRIPTION}
            for name, part in parts.items()
        },
        "versions": {key: parts[key]["versions"] for key in (ours, peers[0])},
        "hardware": hardware(),
        "measured": now(),
    }


DESCRIPTION = ("examples", "real_share", "text_share", "losses")


def ratios(rounds: list[dict], ours: str, peer: str) -> dict:
    """Return the ratio of each round, and the median to quote; above 1 ours is faster."""
    each = [round(row[ours] / row[peer], 3) for row in rounds]
    return {"each": each, "median": statistics.median(each)}


def choose_steps(batches: list, steps: int) -> list:
    """Return full batches, spread over an epoch."""
    return [batches[i] for i in np.linspace(0, len(batches) - 1, steps).astype(int)]


def describe_speed(
    counts: np.ndarray, seconds: float, losses: list[float], examples: int, packages: tuple
) -> dict:
    """Return the results of one measurement.

    Args:
        counts: `[steps, 3]`: positions of each batch, those without padding, those of text.
        seconds: of all steps.
        losses: of each step, mean over the masked tokens.
        examples: of an epoch.
        packages: whose versions are named.
    """
    from importlib.metadata import version

    positions, real, text = counts.sum(axis=0).tolist()
    return {
        "tokens_per_second": round(real / seconds, 1),
        "real_share": round(real / positions, 4),
        "text_share": round(text / real, 4),
        "examples": examples,
        "losses": {"first": round(losses[0], 4), "last": round(losses[-1], 4)},
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
    }


# ---------------------------------------------------------------- the peer


def prepare_peer(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return the tokenizer and model that ours exported."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(usable_cores())
    torch.manual_seed(arguments.seed)
    folder = arguments.work / "encoder"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    if type(model) is not transformers.BertForMaskedLM:
        sys.exit(f"error: the exported model is a {type(model).__name__}.")
    return tokenizer, model


def find_peer_loss(arguments: argparse.Namespace) -> dict:
    """Return the loss of the batch that `our_loss` wrote."""
    import torch

    _, model = prepare_peer(arguments)
    arrays = np.load(arguments.work / f"{arguments.batches}.npz")
    model.eval()
    with torch.inference_mode():
        loss = model(**{name: torch.from_numpy(array) for name, array in arrays.items()}).loss
    return {"loss": float(loss)}


def make_rows(tokenizer: Any, arguments: argparse.Namespace) -> list[dict]:
    """Return the examples: one per line, cut; or all lines joined and cut into pieces."""
    with open(arguments.text, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip()]
    length = arguments.max_length
    if arguments.batches == "packed":
        encoded = tokenizer(lines, return_special_tokens_mask=True)
        joined = {name: list(itertools.chain(*rows)) for name, rows in encoded.items()}
        whole = len(joined["input_ids"]) // length * length
        return [
            {name: tokens[start : start + length] for name, tokens in joined.items()}
            for start in range(0, whole, length)
        ]
    encoded = tokenizer(
        lines,
        truncation=True,
        max_length=length,
        padding="max_length" if arguments.batches == "padded" else False,
        return_special_tokens_mask=True,
    )
    return [
        dict(zip(encoded.keys(), row, strict=True)) for row in zip(*encoded.values(), strict=True)
    ]


def plan_epoch(examples: int, arguments: argparse.Namespace) -> list[list[int]]:
    """Return the full batches of an epoch in random order."""
    import torch
    from torch.utils.data import BatchSampler, RandomSampler

    sampler = RandomSampler(
        range(examples), generator=torch.Generator().manual_seed(arguments.seed)
    )
    return list(BatchSampler(sampler, arguments.batch_size, drop_last=True))


def time_peer(arguments: argparse.Namespace) -> dict:
    """Time steps that are spread over an epoch."""
    import torch
    import transformers
    from peer_training import apply_gradient

    tokenizer, model = prepare_peer(arguments)
    rows = make_rows(tokenizer, arguments)
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    batches = plan_epoch(len(rows), arguments)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=arguments.learning_rate, weight_decay=0.0, fused=True
    )
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, len(batches))
    counts, losses = [], []

    def step(positions: list[int]) -> None:
        batch = collate([rows[position] for position in positions])
        loss = model(**batch).loss
        apply_gradient(loss, model, optimizer, schedule)
        losses.append(loss.detach())
        counts.append((batch["input_ids"].numel(), int(batch["attention_mask"].sum())))

    model.train()
    for positions in choose_steps(batches, WARM_UP_STEPS):
        step(positions)
    counts.clear()
    losses.clear()
    chosen = choose_steps(batches, arguments.steps)
    began = time.perf_counter()
    for positions in chosen:
        step(positions)
    seconds = time.perf_counter() - began
    # Padding is also marked as special.
    text = [
        sum(row["special_tokens_mask"].count(0) for row in map(rows.__getitem__, positions))
        for positions in chosen
    ]
    return describe_speed(
        np.column_stack([counts, text]),
        seconds,
        [float(loss) for loss in losses],
        len(rows),
        ("torch", "transformers"),
    )


# ---------------------------------------------------------------- ours


def our_flags(arguments: argparse.Namespace, batches: str) -> list[str]:
    """Return the settings that make our project equal to the peer."""
    work = arguments.work.resolve()
    settings = {
        "train_text": arguments.text.resolve(),
        "dev_text": work / "dev.txt",
        "tokenizer": work / "vocabulary" / "tokenizer.json",
        "shards": work / batches,
        "preparation.packing": str(batches == "packed").lower(),
        "preparation.vocabulary_size": arguments.vocabulary_size,
        "max_length": arguments.max_length,
        "tiny_layers": arguments.layers,
        "tiny_width": arguments.width,
        "attention_dropout": 0,
        "batch_size": arguments.batch_size,
        "buckets": arguments.buckets,
        "epochs": 1,
        "learning_rate": arguments.learning_rate,
        "head_learning_rate": arguments.learning_rate,
        "warm_up": 0,
        "weight_decay": 0,
        "clip_norm": CLIP_NORM,
        "seed": arguments.seed,
        "strategy": "single",
    }
    return [part for name, value in settings.items() for part in (f"--{name}", str(value))]


def prepare_our_training(
    arguments: argparse.Namespace,
) -> tuple["ShardGenerator", "TrainingModel"]:
    """Return generator and compiled model, with the weights that were exported."""
    from project_parts import compile_as_trained, open_project

    open_project(arguments.project)
    from core.base.settings import read_settings
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import global_batch_size, make_strategy
    from corpus.shards import read_shard_tokenizer, shard_folder
    from corpus.special_tokens import find_special_tokens
    from export_formats.hugging_face import load_head
    from task.data import ShardGenerator
    from task.model import build_models, language_model, load_backbone
    from task.settings import Settings

    exported = ["--encoder", str((arguments.work / "encoder").resolve())]
    settings = read_settings(Settings, [*our_flags(arguments, arguments.batches), *exported])
    # One replica: it has no scope of its own.
    batch_size = global_batch_size(settings, make_strategy(settings))
    set_seed_and_precision(settings)
    tokenizer = read_shard_tokenizer(settings)
    models = build_models(load_backbone(settings, tokenizer), settings)
    load_head(language_model(models.training), settings.encoder)
    special = find_special_tokens(tokenizer)
    generator = ShardGenerator(shard_folder(settings, "train"), special, settings, batch_size)
    compile_as_trained(settings, models, generator)
    return generator, models.training


def find_our_loss(arguments: argparse.Namespace) -> dict:
    """Write a batch for the peer, and return its loss."""
    generator, model = prepare_our_training(arguments)
    batch = next(generator.batches(0))
    weights = batch.pop("loss_weight")
    rows, slots = np.nonzero(batch["masked_labels"] >= 0)
    labels = np.full(batch["token_ids"].shape, IGNORED, np.int64)
    labels[rows, batch["masked_positions"][rows, slots]] = batch["masked_labels"][rows, slots]
    np.savez(
        arguments.work / f"{arguments.batches}.npz",
        input_ids=batch["token_ids"].astype(np.int64),
        attention_mask=batch["padding_mask"].astype(np.int64),
        labels=labels,
    )
    losses = model(batch, training=False)["token_loss"].numpy()
    return {"loss": float(losses.astype(np.float64) @ weights)}


def time_ours(arguments: argparse.Namespace) -> dict:
    """Time steps that are spread over an epoch, generator and dataset included."""
    generator, model = prepare_our_training(arguments)
    plan_pool = generator.plan_pool

    def plan_some(texts: "Texts", epoch: int, number: int) -> list[tuple[np.ndarray, int]]:
        whole = [
            (examples, length)
            for examples, length in plan_pool(texts, epoch, number)
            if len(examples) == generator.batch_size
        ]
        # Every length is among them, because each may be compiled once.
        warm_up = list({length: (batch, length) for batch, length in whole}.values())
        warm_up += choose_steps(whole, max(0, WARM_UP_STEPS - len(warm_up)))
        return warm_up[:WARM_UP_STEPS] + choose_steps(whole, arguments.steps)

    generator.plan_pool = plan_some
    step = model.make_train_function() or model.train_function
    iterator = iter(generator.to_dataset())
    for _ in range(WARM_UP_STEPS):
        step(iterator)
    model.reset_metrics()
    began = time.perf_counter()
    means = [step(iterator)["loss"] for _ in range(arguments.steps)]
    means[-1].numpy()
    seconds = time.perf_counter() - began
    last = WARM_UP_STEPS + arguments.steps
    timed = list(itertools.islice(generator.batches(0), WARM_UP_STEPS, last))
    # Each is the mean over all examples so far of the sum over an example's masked tokens.
    sums = np.diff([0.0, *(number * float(mean[0]) for number, mean in enumerate(means, 1))])
    hidden = np.array([np.sum(batch["masked_labels"] >= 0) for batch in timed])
    losses = sums * generator.batch_size / hidden
    return describe_speed(
        np.array([count_tokens(batch, generator.special) for batch in timed]),
        seconds,
        losses.tolist(),
        generator.size,
        ("tensorflow", "keras", "keras-hub"),
    )


def count_tokens(batch: dict, special: "SpecialTokens") -> tuple[int, int, int]:
    """Return the number of positions of a batch, of those without padding, and of text."""
    real = batch["padding_mask"] > 0
    # No masked token becomes one of these.
    around = np.isin(batch["token_ids"], [special.begin, special.end])
    return real.size, int(real.sum()), int((real & ~around).sum())


# ---------------------------------------------------------------- results


PARTS = {
    "our_loss": find_our_loss,
    "peer_loss": find_peer_loss,
    "our_speed": time_ours,
    "peer_speed": time_peer,
}


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def hardware() -> str:
    """Describe the machine, as far as this process may use it."""
    return f"{platform.machine()}, cores: {usable_cores()}"


def now() -> str:
    """Return the time of day, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_results(results: dict, arguments: argparse.Namespace) -> None:
    """Print results, and write them whole or not at all."""
    flags = [word for name in SETTINGS for word in (f"--{name}", str(getattr(arguments, name)))]
    command = ["python", f"benchmarks/{SCRIPT.name}", "--text", arguments.text.name, *flags]
    text = json.dumps({**results, "command": " ".join(command)}, indent=1) + "\n"
    print(text)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        part = arguments.output.with_name(f"{arguments.output.name}.part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, arguments.output)


if __name__ == "__main__":
    main()

"""What the PyTorch peers share: batches, AdamW, epochs that can be resumed, results as JSON.

The peers that are trained whole are built on it: peer_relation_extraction.py,
peer_text_classification.py and peer_named_entity_recognition.py; peer_reading_comprehension.py and
peer_pretraining.py take its batches and its step. It needs their environment, with torch and
transformers; nothing of this repository is imported.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
from tqdm import tqdm
from transformers.trainer_pt_utils import LengthGroupedSampler

WEIGHT_DECAY = 0.01
WARMUP_SHARE = 0.1
CLIP_NORM = 1.0
PREDICTION_BATCH = 32
BATCHING = ("shuffled", "grouped", "fixed")


# ---------------------------------------------------------------- settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a peer that trains whole, resumes, and times its prediction."""
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of train.jsonl, dev.jsonl, test.jsonl")
    add("--encoder", type=Path, required=True, help="encoder folder in Hugging Face format")
    add("--batch_size", type=int, default=16)
    add("--batching", choices=BATCHING, default="shuffled")
    add("--seed", type=int, default=1)
    add("--device", default="cpu", help="cpu or cuda")
    add("--steps", type=int, help="only time this many steps, spread over an epoch")
    add("--predict", type=Path, help="only time the prediction of this file, with a fresh head")
    add("--passes", type=int, default=2, help="timed ones of --predict, after one to warm up")
    add("--work", type=Path, help="folder of the checkpoint: makes the run resumable")
    add("--output", type=Path, help="JSON file of the results; predictions are put beside it")


def begin(options: argparse.Namespace) -> transformers.PreTrainedTokenizerBase:
    """Set torch up and return the tokenizer of the encoder's folder."""
    if not (options.encoder / "config.json").exists():
        raise SystemExit(
            f"{options.encoder} holds no config.json: give an encoder folder in Hugging Face "
            "format to --encoder."
        )
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(os.cpu_count() or 1)
    return transformers.AutoTokenizer.from_pretrained(options.encoder)


def describe(options: argparse.Namespace, *left_out: str) -> dict:
    """Name the settings that a result, and a checkpoint, belong to.

    Args:
        options: the command line.
        left_out: flags that change no result, besides those of all peers.
    """
    no_settings = {"data", "encoder", "work", "output", "steps", "predict", "passes", *left_out}
    settings = {key: value for key, value in vars(options).items() if key not in no_settings}
    data = hashlib.sha256((options.data / "train.jsonl").read_bytes()).hexdigest()
    return settings | {"data_hash": f"sha256:{data}"}


def describe_machine(*packages: str) -> dict:
    """Name the versions and the hardware; `packages` are those besides torch and transformers."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    versions |= {package: importlib.metadata.version(package) for package in packages}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads",
    }


# ---------------------------------------------------------------- batches


def draw_batches(
    lengths: list[int], batch_size: int, grouped: bool, seed: int, epoch: int
) -> list[list[int]]:
    """Return the positions of an epoch's batches; their order hangs on (seed, epoch).

    Args:
        lengths: tokens of each example.
        batch_size: examples in a batch.
        grouped: by length, as transformers does it; else shuffled.
        seed: of the run.
        epoch: its number.
    """
    generator = torch.Generator().manual_seed(seed * 1000 + epoch)
    if grouped:
        sampler = LengthGroupedSampler(batch_size, lengths=lengths, generator=generator)
    else:
        sampler = RandomSampler(lengths, generator=generator)
    return list(BatchSampler(sampler, batch_size, drop_last=False))


def spread_over(batches: list[list[int]], count: int) -> list[list[int]]:
    """Return some batches, from the first to the last in equal distances.

    Grouped batches come longest first: the first few would mislead.
    """
    chosen = np.linspace(0, len(batches) - 1, min(count, len(batches)))
    return [batches[round(position)] for position in chosen]


def fixed_length(options: argparse.Namespace) -> int | None:
    """Return the length that all batches are padded to; None: each to its longest text."""
    return options.max_length if options.batching == "fixed" else None


# ---------------------------------------------------------------- training


def build_optimizer(model: torch.nn.Module, rates: dict[str, float], steps: int) -> tuple:
    """AdamW without decay on biases and norms, with a linear warm-up and decay.

    Args:
        model: what it trains.
        rates: the learning rate of the weights whose names begin so; the first that fits counts.
        steps: of the whole training.
    """
    groups: dict[tuple[str, float], list] = {
        (prefix, decay): [] for prefix in rates for decay in (WEIGHT_DECAY, 0.0)
    }
    for name, weight in model.named_parameters():
        prefix = next(prefix for prefix in rates if name.startswith(prefix))
        plain = name.endswith("bias") or "LayerNorm" in name
        groups[prefix, 0.0 if plain else WEIGHT_DECAY].append(weight)
    optimizer = torch.optim.AdamW(
        [
            {"params": weights, "lr": rates[prefix], "weight_decay": decay}
            for (prefix, decay), weights in groups.items()
        ]
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(WARMUP_SHARE * steps), steps
    )
    return optimizer, schedule


def apply_gradient(loss: torch.Tensor, model: torch.nn.Module, optimizer, schedule) -> None:
    """Do what comes after the loss of a step."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()


@dataclass(frozen=True)
class Training:
    """A model that is trained, and how.

    Attributes:
        model: what is trained.
        optimizer: of its weights.
        schedule: of the learning rate.
        options: the command line.
        make_loader: returns the batches of an epoch.
        compute_loss: of a batch, which is on the device.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    options: argparse.Namespace
    make_loader: Callable[[int], DataLoader]
    compute_loss: Callable[[dict], torch.Tensor]

    def train_epoch(self, epoch: int, label: str) -> dict:
        """Train on an epoch's batches once and return the seconds, losses and padding."""
        self.model.train()
        losses, step_seconds, padded, real = [], [], 0, 0
        loader = self.make_loader(epoch)
        wall, cpu = time.perf_counter(), time.process_time()
        progress = tqdm(loader, desc=label, unit="step", mininterval=1)
        began = wall
        for batch in progress:
            batch = {key: value.to(self.options.device) for key, value in batch.items()}
            loss = self.compute_loss(batch)
            apply_gradient(loss, self.model, self.optimizer, self.schedule)
            losses.append(loss.item())
            ended = time.perf_counter()
            step_seconds.append(ended - began)
            began = ended
            padded += batch["input_ids"].numel()
            real += int(batch["attention_mask"].sum())
            progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
        return {
            "steps": len(losses),
            "wall_seconds": round(time.perf_counter() - wall, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3),
            "seconds_per_step": round(statistics.mean(step_seconds), 4),
            "median_seconds_per_step": round(statistics.median(step_seconds), 4),
            "padded_tokens": padded,
            "real_tokens": real,
            "padded_per_real": round(padded / real, 4),
            "loss": round(statistics.mean(losses), 5),
            "first_loss": round(losses[0], 5),
            "last_loss": round(losses[-1], 5),
        }

    def time_steps(self) -> dict:
        """Time some steps of the first epoch."""
        torch.manual_seed(self.options.seed * 1000 + 1)
        return self.train_epoch(1, "timing")

    def train(self, settings: dict, monitor: str, score_dev: Callable[[], dict]) -> dict:
        """Train all epochs, scoring dev after each; go on where a checkpoint ended.

        Args:
            settings: those that the checkpoint belongs to.
            monitor: the score that chooses the best epoch.
            score_dev: returns the scores of dev.

        Returns:
            The rows of all `epochs`, the `best_epoch` and its weights, `best`.
        """
        best = f"best_{monitor}"
        state = load_checkpoint(self.options.work, settings)
        if state is None:
            state = {"settings": settings, "epochs": [], best: -1.0, "best": None}
        else:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
        for epoch in range(len(state["epochs"]) + 1, self.options.epochs + 1):
            # Seeded anew each epoch, so that a resumed run draws the same dropout masks.
            torch.manual_seed(self.options.seed * 1000 + epoch)
            label = f"epoch {epoch}/{self.options.epochs}"
            record = self.train_epoch(epoch, label)
            began = time.perf_counter()
            dev = score_dev()
            record |= {"epoch": epoch, "dev": dev}
            record["dev_wall_seconds"] = round(time.perf_counter() - began, 3)
            state["epochs"].append(record)
            say_epoch(label, record, monitor)
            if dev[monitor] > state[best]:
                weights = copy_weights(self.model)
                state |= {best: dev[monitor], "best_epoch": epoch, "best": weights}
            state |= {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
            }
            save_checkpoint(self.options.work, state)
        return state


def say_epoch(label: str, record: dict, monitor: str) -> None:
    """Say what an epoch has reached."""
    score = f"dev {monitor.upper()} {record['dev'][monitor]:.4f}"
    tqdm.write(f"{label}: loss {record['loss']:.4f}, {score}", file=sys.stderr)


def copy_weights(model: torch.nn.Module) -> dict:
    """Return the weights of a model as they are now."""
    return {key: value.cpu().clone() for key, value in model.state_dict().items()}


def load_checkpoint(work: Path | None, settings: dict) -> dict | None:
    """Read the state after the last whole epoch, or None where there is none."""
    path = work / "checkpoint.pt" if work else None
    if path is None or not path.exists():
        return None
    state = torch.load(path, map_location="cpu", weights_only=True)
    changed = [key for key in settings if state["settings"].get(key) != settings[key]]
    if changed:
        raise SystemExit(
            f"{path} comes from a run with another {', '.join(changed)}: "
            "name another folder with --work, or delete this one."
        )
    return state


def save_checkpoint(work: Path | None, state: dict) -> None:
    """Write the state beside the old one and exchange them, so that one always is whole."""
    if work is None:
        return
    work.mkdir(parents=True, exist_ok=True)
    unfinished = work / "checkpoint.pt.part"
    torch.save(state, unfinished)
    os.replace(unfinished, work / "checkpoint.pt")


# ---------------------------------------------------------------- results


def time_passes(predict: Callable[[], list], passes: int) -> tuple[list, dict]:
    """Return the rows of a prediction, and the seconds of its first pass and of those behind it."""
    seconds = []
    for _ in range(1 + passes):
        began = time.perf_counter()
        rows = predict()
        seconds.append(time.perf_counter() - began)
    return rows, {"first_seconds": seconds[0], "seconds": seconds[1:]}


def score_last_and_best(
    training: Training, state: dict, score_part: Callable[[str, str], tuple[dict, list[dict]]]
) -> dict:
    """Score dev and test with the last and the best epoch's weights; write their predictions.

    Args:
        training: whose model it is.
        state: from `Training.train`.
        score_part: returns scores and rows of predictions of a part, dev first; it is also told
            what the progress bar says.
    """
    results: dict[str, dict] = {}
    output = training.options.output
    for name, weights in (("last", None), ("best", state["best"])):
        if weights is not None:
            training.model.load_state_dict(weights)
        results[name] = {"epoch": len(state["epochs"]) if weights is None else state["best_epoch"]}
        for part in ("dev", "test"):
            results[name][part], rows = score_part(part, f"{part}, {name} epoch")
            if output is not None:
                lines = "".join(json.dumps(row) + "\n" for row in rows)
                write_whole(output.with_name(f"{output.stem}.{name}.{part}.jsonl"), lines)
    return results


def write_results(results: dict, output: Path | None) -> None:
    """Print the results as JSON, and write them to the output file."""
    text = json.dumps(results, indent=2)
    print(text)
    if output is not None:
        write_whole(output, text + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)

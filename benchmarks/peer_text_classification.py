"""The PyTorch peer of the text classification baseline: transformers' own pair classifier.

Idea: the same encoder, epochs and split as our baseline, as a PyTorch user would write it. Model,
tokenizer, schedule and length-grouped sampler are transformers'; the loader and AdamW are torch's;
average precision is scikit-learn's. The script imports nothing of this repository.

Source: transformers' example `run_glue.py` (AutoModelForSequenceClassification: the first token
through the pooler and a dense layer; AdamW, linear decay, both texts in one sequence, cut at 128
tokens). Departures: batch 16 and learning rate 1e-4, as in our baseline; a warm-up; attention
dropout 0; each pair tokenized once instead of once per epoch.

Environment (separate from ours):
    pip install torch transformers safetensors scikit-learn numpy jsonlines tqdm

Run (the data folder holds train.jsonl, dev.jsonl, test.jsonl of `baselines data get selqa`):
    python benchmarks/peer_text_classification.py --data DATA --encoder ENCODER \
        --batching shuffled --work WORK --output peer.json
    python benchmarks/peer_text_classification.py --data DATA --encoder ENCODER --steps 20
    python benchmarks/peer_text_classification.py --data DATA --encoder ENCODER --predict FILE

`--batching shuffled` pads each batch to its longest pair (prediction in the order of the file);
`grouped` is transformers' grouping by length (prediction sorted by length); `fixed` pads every pair
to `--max_length`, the default of run_glue.py. After an interruption the same command resumes after
the last whole epoch.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import jsonlines
    import numpy as np
    import torch
    import transformers
    from sklearn.metrics import average_precision_score, f1_score
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler
    from tqdm import tqdm
    from transformers.trainer_pt_utils import LengthGroupedSampler
except ImportError as error:
    raise SystemExit(
        f"The PyTorch peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_text_classification.py."
    ) from error

WEIGHT_DECAY = 0.01
WARMUP_SHARE = 0.1
CLIP_NORM = 1.0
PREDICTION_BATCH = 32
POSITIVE = "1"
PARTS = ("train", "dev", "test")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train and time a pair classifier made of transformers' parts."
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of train.jsonl, dev.jsonl, test.jsonl")
    add("--encoder", type=Path, required=True, help="encoder folder in Hugging Face format")
    add("--epochs", type=int, default=2)
    add("--batch_size", type=int, default=16)
    add("--max_length", type=int, default=128, help="tokens a pair; the longer text is cut first")
    add("--batching", choices=["shuffled", "grouped", "fixed"], default="shuffled")
    add("--learning_rate", type=float, default=1e-4)
    add("--seed", type=int, default=1)
    add("--device", default="cpu", help="cpu or cuda")
    add("--steps", type=int, help="only time this many steps, spread over an epoch")
    add("--predict", type=Path, help="only time the prediction of this file, with a fresh head")
    add("--passes", type=int, default=2, help="timed ones of --predict, after one to warm up")
    add("--work", type=Path, help="folder of the checkpoint: makes the run resumable")
    add("--output", type=Path, help="JSON file of the results; predictions are put beside it")
    return parser.parse_args(arguments)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Pair:
    """One record in tokens; candidates of one group are ranked against each other."""

    id: str
    group: str
    label: int
    token_ids: list[int]
    segment_ids: list[int]


def read_pairs(path: Path, tokenizer, max_length: int) -> list[Pair]:
    """Read a file of records, one JSON object a line, and tokenize it."""
    try:
        return encode_pairs(read_records(path), tokenizer, max_length)
    except (OSError, jsonlines.Error, KeyError, TypeError) as error:
        raise SystemExit(
            f"{path} cannot be read ({error!r}): give the folder written by `baselines data get "
            "selqa` to --data."
        ) from error


def read_records(path: Path) -> list[dict]:
    """Read a file of records, one JSON object a line."""
    with jsonlines.open(path) as reader:
        return list(reader)


def encode_pairs(records: list[dict], tokenizer, max_length: int) -> list[Pair]:
    """Tokenize records."""
    batch = tokenizer(
        [record["text_a"] for record in records],
        [record["text_b"] for record in records],
        truncation="longest_first",
        max_length=max_length,
        return_token_type_ids=True,
    )
    return [
        Pair(record["id"], record["group"], int(record["label"] == POSITIVE), ids, segments)
        for record, ids, segments in zip(
            records, batch["input_ids"], batch["token_type_ids"], strict=True
        )
    ]


@dataclass(frozen=True)
class Collator:
    """Pads a list of pairs to its longest, or to `fixed_length`."""

    pad_token_id: int
    fixed_length: int | None = None

    def __call__(self, batch: list[Pair]) -> dict[str, torch.Tensor]:
        length = self.fixed_length or max(len(pair.token_ids) for pair in batch)
        token_ids = np.full((len(batch), length), self.pad_token_id, dtype=np.int64)
        segment_ids, attention_mask = np.zeros_like(token_ids), np.zeros_like(token_ids)
        for row, pair in enumerate(batch):
            token_ids[row, : len(pair.token_ids)] = pair.token_ids
            segment_ids[row, : len(pair.token_ids)] = pair.segment_ids
            attention_mask[row, : len(pair.token_ids)] = 1
        return {
            "input_ids": torch.from_numpy(token_ids),
            "token_type_ids": torch.from_numpy(segment_ids),
            "attention_mask": torch.from_numpy(attention_mask),
            "labels": torch.tensor([pair.label for pair in batch]),
        }


def make_loader(pairs: list[Pair], options, epoch: int, pad_token_id: int) -> DataLoader:
    """Order and pad one epoch's batches as `--batching` says, by (seed, epoch)."""
    generator = torch.Generator().manual_seed(options.seed * 1000 + epoch)
    if options.batching == "grouped":
        lengths = [len(pair.token_ids) for pair in pairs]
        sampler = LengthGroupedSampler(options.batch_size, lengths=lengths, generator=generator)
    else:
        sampler = RandomSampler(pairs, generator=generator)
    batches = list(BatchSampler(sampler, options.batch_size, drop_last=False))
    if options.steps:
        # Spread over the epoch, because grouped batches come longest first.
        chosen = np.linspace(0, len(batches) - 1, min(options.steps, len(batches)))
        batches = [batches[round(position)] for position in chosen]
    fixed_length = options.max_length if options.batching == "fixed" else None
    collate = Collator(pad_token_id, fixed_length)
    return DataLoader(pairs, batch_sampler=batches, collate_fn=collate)


# ---------------------------------------------------------------- model


def build_model(options) -> torch.nn.Module:
    """Load the classifier: attention dropout 0, else as in the encoder's config."""
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        options.encoder, num_labels=2, attention_probs_dropout_prob=0.0
    ).to(options.device)


def build_optimizer(model: torch.nn.Module, options, steps: int):
    """AdamW without decay on biases and norms, with a linear warm-up and decay."""
    groups = [
        {
            "params": [
                weight
                for name, weight in model.named_parameters()
                if (name.endswith("bias") or "LayerNorm" in name) is (decay == 0.0)
            ],
            "weight_decay": decay,
        }
        for decay in (WEIGHT_DECAY, 0.0)
    ]
    optimizer = torch.optim.AdamW(groups, lr=options.learning_rate)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(WARMUP_SHARE * steps), steps
    )
    return optimizer, schedule


# ---------------------------------------------------------------- training


def train_epoch(model, loader, optimizer, schedule, options, label: str) -> dict:
    """Train on the loader's batches once and return the seconds, losses and padding."""
    model.train()
    losses, step_seconds, padded, real = [], [], 0, 0
    wall, cpu = time.perf_counter(), time.process_time()
    progress = tqdm(loader, desc=label, unit="step", mininterval=1)
    began = wall
    for batch in progress:
        loss = model(**{key: value.to(options.device) for key, value in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
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


def load_checkpoint(options, settings: dict) -> dict | None:
    """Read the state after the last whole epoch, or None if there is none."""
    path = options.work / "checkpoint.pt" if options.work else None
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


def save_checkpoint(options, state: dict) -> None:
    """Write the state to a new file, then replace the old one, so one is always whole."""
    if options.work is None:
        return
    options.work.mkdir(parents=True, exist_ok=True)
    unfinished = options.work / "checkpoint.pt.part"
    torch.save(state, unfinished)
    os.replace(unfinished, options.work / "checkpoint.pt")


def train(model, optimizer, schedule, pairs, tokenizer, options, settings) -> dict:
    """Train all epochs, scoring dev after each, and return the history and the best weights."""
    state = load_checkpoint(options, settings)
    if state is None:
        state = {"settings": settings, "epochs": [], "best_map": -1.0, "best": None}
    else:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
    for epoch in range(len(state["epochs"]) + 1, options.epochs + 1):
        # Seeded in each epoch, so that a resumed run draws the same dropout masks.
        torch.manual_seed(options.seed * 1000 + epoch)
        loader = make_loader(pairs["train"], options, epoch, tokenizer.pad_token_id)
        label = f"epoch {epoch}/{options.epochs}"
        record = train_epoch(model, loader, optimizer, schedule, options, label)
        began = time.perf_counter()
        scores = predict(model, pairs["dev"], tokenizer, options, label="dev")
        dev = score(pairs["dev"], scores, best_threshold(pairs["dev"], scores))
        record |= {"epoch": epoch, "dev": dev}
        record["dev_wall_seconds"] = round(time.perf_counter() - began, 3)
        state["epochs"].append(record)
        tqdm.write(f"{label}: loss {record['loss']:.4f}, dev MAP {dev['map']:.4f}", sys.stderr)
        if dev["map"] > state["best_map"]:
            weights = {key: value.cpu().clone() for key, value in model.state_dict().items()}
            state |= {"best_map": dev["map"], "best_epoch": epoch, "best": weights}
        state |= {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        save_checkpoint(options, state)
    return state


# ---------------------------------------------------------------- prediction and scoring


@torch.inference_mode()
def predict(model, pairs, tokenizer, options, batch_size=PREDICTION_BATCH, label=None) -> dict:
    """Predict {record id: probability of the positive label}, in batches as `--batching` says."""
    model.eval()
    if options.batching == "grouped":
        pairs = sorted(pairs, key=lambda pair: len(pair.token_ids))
    fixed_length = options.max_length if options.batching == "fixed" else None
    collate = Collator(tokenizer.pad_token_id, fixed_length)
    scores = {}
    positions = range(0, len(pairs), batch_size)
    for position in tqdm(positions, desc=label, disable=label is None, leave=False):
        part = pairs[position : position + batch_size]
        batch = {key: value.to(options.device) for key, value in collate(part).items()}
        probabilities = model(**batch).logits.softmax(-1)[:, 1].cpu().tolist()
        scores |= dict(zip([pair.id for pair in part], probabilities, strict=True))
    return scores


def score(pairs: list[Pair], scores: dict[str, float], threshold: float) -> dict:
    """MAP and MRR over the groups with a positive candidate; F1 of the positive label."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.group, []).append(pair)
    average_precisions, reciprocal_ranks = [], []
    for members in groups.values():
        labels = np.array([pair.label for pair in members])
        values = np.array([scores[pair.id] for pair in members])
        if labels.any():
            average_precisions.append(float(average_precision_score(labels, values)))
            first = values[labels == 1].max()
            reciprocal_ranks.append(1 / (1 + int(np.sum(values[labels == 0] >= first))))
    labels = [pair.label for pair in pairs]
    found = [scores[pair.id] > threshold for pair in pairs]
    return {
        "map": statistics.mean(average_precisions),
        "mrr": statistics.mean(reciprocal_ranks),
        "groups": len(average_precisions),
        "f1": float(f1_score(labels, found)),
        "threshold": threshold,
    }


def best_threshold(pairs: list[Pair], scores: dict[str, float]) -> float:
    """Return the threshold, in hundredths, with the best F1 of the positive label."""
    labels = np.array([pair.label for pair in pairs])
    values = np.array([scores[pair.id] for pair in pairs])
    return max(np.arange(1, 100) / 100, key=lambda cut: f1_score(labels, values > cut)).item()


def time_prediction(model, pairs: list[Pair], tokenizer, options) -> dict:
    """Measure pairs per second from tokens to scores on dev, in batches and one at a time."""
    few = pairs[:: max(1, len(pairs) // 300)]
    began = time.perf_counter()
    predict(model, pairs, tokenizer, options)
    middle = time.perf_counter()
    predict(model, few, tokenizer, options, batch_size=1)
    ended = time.perf_counter()
    return {
        "batched_records_per_second": round(len(pairs) / (middle - began), 2),
        "single_records_per_second": round(len(few) / (ended - middle), 2),
    }


def time_file(model, tokenizer, options) -> dict:
    """Time the prediction of a file, from records in memory to records of predictions."""
    records = read_records(options.predict)
    seconds = []
    for _ in range(1 + options.passes):
        began = time.perf_counter()
        pairs = encode_pairs(records, tokenizer, options.max_length)
        rows = prediction_rows(predict(model, pairs, tokenizer, options))
        seconds.append(time.perf_counter() - began)
    return {
        "records": len(records),
        "found": len(rows),
        "first_seconds": seconds[0],
        "seconds": seconds[1:],
    }


# ---------------------------------------------------------------- results


def prediction_rows(scores: dict[str, float]) -> list[dict]:
    """Return ids and scores, without any text of the data."""
    return [{"id": name, "score": float(f"{value:.7g}")} for name, value in sorted(scores.items())]


def write_predictions(path: Path, scores: dict[str, float]) -> None:
    """Write the rows of a predictions file."""
    unfinished = path.with_name(path.name + ".part")
    with jsonlines.open(unfinished, "w") as writer:
        writer.write_all(prediction_rows(scores))
    os.replace(unfinished, path)


def write_results(results: dict, output: Path | None) -> None:
    """Print the results as JSON, and write them to the output file."""
    text = json.dumps(results, indent=2)
    print(text)
    if output is not None:
        unfinished = output.with_name(output.name + ".part")
        unfinished.write_text(text + "\n", encoding="utf-8")
        os.replace(unfinished, output)


def describe(options) -> dict:
    """Return the settings that a result or a checkpoint belongs to."""
    left_out = {"data", "encoder", "work", "output", "steps", "predict", "passes"}
    settings = {key: value for key, value in vars(options).items() if key not in left_out}
    data = hashlib.sha256((options.data / "train.jsonl").read_bytes()).hexdigest()
    return settings | {"data_hash": f"sha256:{data}"}


def describe_machine() -> dict:
    """Return the versions and the hardware."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads",
    }


def finish(model, pairs, tokenizer, state: dict, options) -> dict:
    """Score dev and test with the last and the best epoch's weights; write their predictions."""
    results = {"speed": time_prediction(model, pairs["dev"], tokenizer, options)}
    for name, weights in (("last", None), ("best", state["best"])):
        if weights is not None:
            model.load_state_dict(weights)
        results[name] = {"epoch": len(state["epochs"]) if weights is None else state["best_epoch"]}
        threshold = 0.5
        for part in ("dev", "test"):
            scores = predict(model, pairs[part], tokenizer, options, label=f"{part}, {name} epoch")
            if part == "dev":
                threshold = best_threshold(pairs[part], scores)
            results[name][part] = score(pairs[part], scores, threshold)
            if options.output is not None:
                path = options.output.with_name(f"{options.output.stem}.{name}.{part}.jsonl")
                write_predictions(path, scores)
    return results


def main(arguments: list[str] | None = None) -> None:
    """Read, encode, train, score, and report as JSON."""
    options = parse_arguments(arguments)
    if not (options.encoder / "config.json").exists():
        raise SystemExit(
            f"{options.encoder} holds no config.json: give an encoder folder in Hugging Face "
            "format to --encoder."
        )
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(options.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.encoder)
    if options.predict:
        write_results(time_file(build_model(options), tokenizer, options), options.output)
        return
    pairs = {
        part: read_pairs(options.data / f"{part}.jsonl", tokenizer, options.max_length)
        for part in PARTS
    }
    model = build_model(options)
    steps_per_epoch = -(-len(pairs["train"]) // options.batch_size)
    optimizer, schedule = build_optimizer(model, options, steps_per_epoch * options.epochs)
    settings = describe(options)
    results = {"peer": "pair classifier, transformers", **settings, **describe_machine()}
    results["records"] = {part: len(items) for part, items in pairs.items()}
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.steps:
        torch.manual_seed(options.seed * 1000 + 1)
        loader = make_loader(pairs["train"], options, 1, tokenizer.pad_token_id)
        results["timing"] = train_epoch(model, loader, optimizer, schedule, options, "timing")
        results["steps_per_epoch"] = steps_per_epoch
    else:
        state = train(model, optimizer, schedule, pairs, tokenizer, options, settings)
        results["epochs_run"] = state["epochs"]
        results |= finish(model, pairs, tokenizer, state, options)
    write_results(results, options.output)


if __name__ == "__main__":
    main()

"""The PyTorch peer of the named-entity baselines: transformers' own token classifier.

Idea: the same encoder, epochs and split as our baseline, in the way a PyTorch user would do it.
Model, tokenizer, schedule and length-grouped sampler are transformers', the loader and AdamW are
torch's; nothing of this repository is imported, and the scoring is a computation of its own.

Source: transformers' example `run_ner.py` (AutoModelForTokenClassification; BIO tags, of each word
its first piece alone is taught and read; AdamW, linear decay, texts cut at the maximum length; an
I without B begins an entity, as seqeval reads it by default). Departures: batch and epochs as our
baseline has; a warm-up and clipping; attention dropout 0; each text tokenized once instead of once
an epoch. `--learning_rate 5e-5` is the example's.

Environment (one of its own, not ours):
    pip install torch transformers safetensors numpy tqdm

Run (the data folder holds train.jsonl, dev.jsonl, test.jsonl of `baselines data get wnut17`; with
`--words characters` of `weibo`):
    python benchmarks/peer_named_entity_recognition.py --data DATA --encoder ENCODER \
        --output peer.json
    python benchmarks/peer_named_entity_recognition.py --data DATA --encoder ENCODER --steps 20

`--batching shuffled` pads each batch to its longest text; `grouped` is transformers' grouping by
length; `fixed` pads every text to `--max_length`.

Expected score: left to be measured; print it beside ours, out of one run of both.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import numpy as np
    import torch
    import transformers
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler
    from tqdm import tqdm
    from transformers.trainer_pt_utils import LengthGroupedSampler
except ImportError as error:
    raise SystemExit(
        f"The PyTorch peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_named_entity_recognition.py."
    ) from error

Entity = tuple[int, int, str]  # first and last word, type

WEIGHT_DECAY = 0.01
WARMUP_SHARE = 0.1
CLIP_NORM = 1.0
PREDICTION_BATCH = 32
IGNORED = -100  # the label that torch's cross-entropy leaves out
PARTS = ("train", "dev", "test")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train and time a token classifier made of transformers' parts."
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of train.jsonl, dev.jsonl, test.jsonl")
    add("--encoder", type=Path, required=True, help="encoder folder in Hugging Face format")
    add("--words", choices=["spaces", "characters"], default="spaces", help="what a word is")
    add("--epochs", type=int, default=5)
    add("--batch_size", type=int, default=16)
    add("--max_length", type=int, default=128, help="tokens a text; what is longer is cut")
    add("--batching", choices=["shuffled", "grouped", "fixed"], default="shuffled")
    add("--learning_rate", type=float, default=3e-4)
    add("--seed", type=int, default=1)
    add("--device", default="cpu", help="cpu or cuda")
    add("--steps", type=int, help="only time this many steps, spread over an epoch")
    add("--output", type=Path, help="JSON file of the results")
    return parser.parse_args(arguments)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Text:
    """One record in tokens; `firsts` are the tokens that words begin with, -1 beyond the cut."""

    id: str
    entities: frozenset[Entity]
    token_ids: list[int]
    firsts: list[int]


def read_texts(path: Path, tokenizer, options) -> list[Text]:
    """Read a file of records, one JSON object a line, and tokenize it."""
    pattern = r"\S+" if options.words == "spaces" else r"\S"
    texts = []
    try:
        # Lines end at "\n" alone: other separators of Unicode are part of the text.
        with open(path, encoding="utf-8", newline="\n") as file:
            records = [json.loads(line) for line in file]
        for record in records:
            spans = [match.span() for match in re.finditer(pattern, record["text"])]
            starts = {start: number for number, (start, _) in enumerate(spans)}
            ends = {end: number for number, (_, end) in enumerate(spans)}
            batch = tokenizer(
                [record["text"][start:end] for start, end in spans],
                is_split_into_words=True,
                truncation=True,
                max_length=options.max_length,
            )
            firsts = [-1] * len(spans)
            for token, word in reversed(list(enumerate(batch.word_ids()))):
                if word is not None:
                    firsts[word] = token
            entities = frozenset(
                (starts[item["span"][0]], ends[item["span"][1]], item["type"])
                for item in record["entities"]
            )
            texts.append(Text(record["id"], entities, batch["input_ids"], firsts))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(
            f"{path} cannot be read ({error!r}): give the folder written by `baselines data get "
            "wnut17` to --data, or that of weibo with --words characters."
        ) from error
    return texts


def label_tokens(text: Text, types: list[str]) -> list[int]:
    """Return the label of each token: 0 outside, 1 + 2 n begins type n, 2 + 2 n goes on with it."""
    words = [0] * len(text.firsts)
    for first, last, kind in text.entities:
        label = 1 + 2 * types.index(kind) if kind in types else 0
        words[first : last + 1] = [label + bool(label)] * (last + 1 - first)
        words[first] = label
    labels = [IGNORED] * len(text.token_ids)
    for token, label in zip(text.firsts, words, strict=True):
        if token >= 0:
            labels[token] = label
    return labels


@dataclass(frozen=True)
class Collator:
    """Pads a list of texts to its longest, or to `fixed_length`."""

    types: list[str]
    pad_token_id: int
    fixed_length: int | None = None

    def __call__(self, batch: list[Text]) -> dict[str, torch.Tensor]:
        length = self.fixed_length or max(len(text.token_ids) for text in batch)
        token_ids = np.full((len(batch), length), self.pad_token_id, dtype=np.int64)
        labels, mask = np.full_like(token_ids, IGNORED), np.zeros_like(token_ids)
        for row, text in enumerate(batch):
            count = len(text.token_ids)
            token_ids[row, :count], mask[row, :count] = text.token_ids, 1
            labels[row, :count] = label_tokens(text, self.types)
        arrays = {"input_ids": token_ids, "attention_mask": mask, "labels": labels}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def make_loader(texts: list[Text], collate: Collator, options, epoch: int) -> DataLoader:
    """Order and pad one epoch's batches as `--batching` says; the order hangs on (seed, epoch)."""
    generator = torch.Generator().manual_seed(options.seed * 1000 + epoch)
    if options.batching == "grouped":
        lengths = [len(text.token_ids) for text in texts]
        sampler = LengthGroupedSampler(options.batch_size, lengths=lengths, generator=generator)
    else:
        sampler = RandomSampler(texts, generator=generator)
    batches = list(BatchSampler(sampler, options.batch_size, drop_last=False))
    if options.steps:
        # Spread over the epoch: grouped batches come longest first, the first few would mislead.
        chosen = np.linspace(0, len(batches) - 1, min(options.steps, len(batches)))
        batches = [batches[round(position)] for position in chosen]
    return DataLoader(texts, batch_sampler=batches, collate_fn=collate)


# ---------------------------------------------------------------- training


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


def train_epoch(model, loader, optimizer, schedule, options, label: str) -> dict:
    """Train on the loader's batches once and return the seconds, losses and padding."""
    model.train()
    losses, step_seconds, padded, real = [], [], 0, 0
    wall = began = time.perf_counter()
    for batch in tqdm(loader, desc=label, unit="step", mininterval=1):
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
    return {
        "steps": len(losses),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "median_seconds_per_step": round(statistics.median(step_seconds), 4),
        "padded_per_real": round(padded / real, 4),
        "loss": round(statistics.mean(losses), 5),
    }


# ---------------------------------------------------------------- prediction and scoring


@torch.inference_mode()
def predict(model, texts: list[Text], collate: Collator, options) -> dict[str, set[Entity]]:
    """Predict {record id: entities}, in batches in the order of the file."""
    model.eval()
    if options.batching == "grouped":
        texts = sorted(texts, key=lambda text: len(text.token_ids))
    found = {}
    for position in range(0, len(texts), PREDICTION_BATCH):
        part = texts[position : position + PREDICTION_BATCH]
        batch = {key: value.to(options.device) for key, value in collate(part).items()}
        labels = model(**batch).logits.argmax(-1).cpu().tolist()
        for text, row in zip(part, labels, strict=True):
            words = [row[token] if token >= 0 else 0 for token in text.firsts]
            found[text.id] = read_entities(words, collate.types)
    return found


def read_entities(labels: list[int], types: list[str]) -> set[Entity]:
    """Return the entities of the labels of words; what goes on with nothing begins one."""
    entities: list[tuple[int, int, int]] = []
    before = -1
    for position, label in enumerate(labels):
        kind = (label - 1) // 2 if label else -1
        if label and label % 2 == 0 and kind == before:
            entities[-1] = (entities[-1][0], position, kind)
        elif label:
            entities.append((position, position, kind))
        before = kind
    return {(first, last, types[kind]) for first, last, kind in entities}


def score(texts: list[Text], found: dict[str, set[Entity]]) -> dict:
    """Strict precision, recall and F1 of entities, over all texts."""
    correct = sum(len(text.entities & found[text.id]) for text in texts)
    predicted, gold = sum(map(len, found.values())), sum(len(text.entities) for text in texts)
    return {
        "f1": 2 * correct / max(predicted + gold, 1),
        "precision": correct / max(predicted, 1),
        "recall": correct / max(gold, 1),
        "gold": gold,
    }


# ---------------------------------------------------------------- results


def write_results(results: dict, output: Path | None) -> None:
    """Print the results as JSON, and write them to the output file."""
    text = json.dumps(results, indent=2)
    print(text)
    if output is not None:
        unfinished = output.with_name(output.name + ".part")
        unfinished.write_text(text + "\n", encoding="utf-8")
        os.replace(unfinished, output)


def describe(options) -> dict:
    """Name the settings, the data, the versions and the hardware of a result."""
    left_out = {"data", "encoder", "output", "steps"}
    settings = {key: value for key, value in vars(options).items() if key not in left_out}
    data = hashlib.sha256((options.data / "train.jsonl").read_bytes()).hexdigest()
    return settings | {
        "data_hash": f"sha256:{data}",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads",
    }


def train(model, texts: dict[str, list[Text]], collate: Collator, options) -> dict:
    """Train all epochs, score dev after each, and dev and test with the best weights."""
    steps = -(-len(texts["train"]) // options.batch_size) * options.epochs
    optimizer, schedule = build_optimizer(model, options, steps)
    epochs, best, weights = [], -1.0, {}
    for epoch in range(1, options.epochs + 1):
        loader = make_loader(texts["train"], collate, options, epoch)
        label = f"epoch {epoch}/{options.epochs}"
        record = train_epoch(model, loader, optimizer, schedule, options, label)
        began = time.perf_counter()
        dev = score(texts["dev"], predict(model, texts["dev"], collate, options))
        seconds = time.perf_counter() - began
        record |= {"epoch": epoch, "dev": dev}
        record["dev_records_per_second"] = round(len(texts["dev"]) / seconds, 2)
        epochs.append(record)
        tqdm.write(f"{label}: loss {record['loss']:.4f}, dev F1 {dev['f1']:.4f}", sys.stderr)
        if dev["f1"] > best:
            best = dev["f1"]
            weights = {key: value.cpu().clone() for key, value in model.state_dict().items()}
    parts = ("dev", "test")
    last = {
        part: score(texts[part], predict(model, texts[part], collate, options)) for part in parts
    }
    model.load_state_dict(weights)
    own = {
        part: score(texts[part], predict(model, texts[part], collate, options)) for part in parts
    }
    return {"epochs_run": epochs, "last": last, "best": own}


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
    texts = {part: read_texts(options.data / f"{part}.jsonl", tokenizer, options) for part in PARTS}
    types = sorted({kind for text in texts["train"] for _, _, kind in text.entities})
    fixed_length = options.max_length if options.batching == "fixed" else None
    collate = Collator(types, tokenizer.pad_token_id, fixed_length)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        options.encoder, num_labels=1 + 2 * len(types), attention_probs_dropout_prob=0.0
    ).to(options.device)
    results = {"peer": "token classifier, transformers", **describe(options)}
    results["records"] = {part: len(items) for part, items in texts.items()}
    if options.steps:
        optimizer, schedule = build_optimizer(model, options, options.steps)
        loader = make_loader(texts["train"], collate, options, 1)
        results["timing"] = train_epoch(model, loader, optimizer, schedule, options, "timing")
        results["steps_per_epoch"] = -(-len(texts["train"]) // options.batch_size)
    else:
        results |= train(model, texts, collate, options)
    write_results(results, options.output)


if __name__ == "__main__":
    main()

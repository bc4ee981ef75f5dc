"""The PyTorch peer of the named-entity baselines: transformers' own token classifier.

Idea: the same encoder, epochs and split as our baseline, as a PyTorch user would write it. Model,
tokenizer, schedule and length-grouped sampler are transformers'; the loader and AdamW are torch's.
The script imports nothing of this repository and computes its own scores.

Source: transformers' example `run_ner.py` (AutoModelForTokenClassification; BIO tags, only the
first piece of each word is trained and read; AdamW, linear decay, texts cut at the maximum length;
an I without B begins an entity, seqeval's default). Departures: batch size and epochs of our
baseline; warm-up and clipping; each text tokenized once instead of once per epoch; our baseline's
dropout, 0.1 on hidden states and none in attention, whatever the encoder's config says.
`--learning_rate 5e-5` is the example's.

With `--project` each training of the peer is followed by one of ours, with the same encoder, seed,
epochs and batch size, on the same machine, so F1 and seconds of both come from one run.

Environment (separate from ours):
    pip install torch transformers safetensors numpy tqdm

Run (`baselines bake NAME --to build` and `baselines data get` make the project and its data):
    PEER/bin/python benchmarks/peer_named_entity_recognition.py --encoder ENCODER \
        --project build/named_entity_recognition_wnut17 --our_python python --output peer.json
    PEER/bin/python benchmarks/peer_named_entity_recognition.py --encoder ENCODER --data DATA

Seeds that are already in the output file are not trained again. The second line trains only the
peer, on a folder of train.jsonl, dev.jsonl and test.jsonl; `--steps 20` only times it.
Weibo needs `--words characters --epochs 15 --learning_rate 1e-3`.

`--batching shuffled` pads each batch to its longest text; `grouped` is transformers' grouping by
length; `fixed` pads every text to `--max_length`.

Duration: a quarter of an hour per seed for WNUT 2017, both sides, on two CPU cores.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

try:
    import numpy as np
    import torch
    import transformers
    from peer_training import (
        BATCHING,
        PREDICTION_BATCH,
        Training,
        begin,
        build_optimizer,
        copy_weights,
        describe,
        describe_machine,
        draw_batches,
        fixed_length,
        say_epoch,
        spread_over,
        write_results,
    )
    from torch.utils.data import DataLoader
except ImportError as error:
    raise SystemExit(
        f"The PyTorch peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_named_entity_recognition.py."
    ) from error

Entity = tuple[int, int, str]  # first and last word, type

IGNORED = -100  # the label that torch's cross-entropy leaves out
PARTS = ("train", "dev", "test")
# What is kept of an epoch.
MEASURED = ("steps", "wall_seconds", "median_seconds_per_step", "padded_per_real", "loss")
COUNTED = ("f1", "precision", "recall", "gold")  # what is kept of a scoring, of either side


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train and time a token classifier made of transformers' parts."
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of train.jsonl, dev.jsonl, test.jsonl")
    add(
        "--project", type=Path, help="a baked baseline with its data: ours, trained beside the peer"
    )
    add("--our_python", default="python", help="the Python that trains the project")
    add("--encoder", type=Path, required=True, help="encoder folder in Hugging Face format")
    add("--words", choices=["spaces", "characters"], default="spaces", help="what a word is")
    add("--epochs", type=int, default=5)
    add("--batch_size", type=int, default=16)
    add("--max_length", type=int, default=128, help="tokens a text; what is longer is cut")
    add("--batching", choices=BATCHING, default="shuffled")
    add("--learning_rate", type=float, default=3e-4)
    add("--seeds", type=int, nargs="+", default=[1])
    add("--device", default="cpu", help="cpu or cuda")
    add("--precision", default="float32", help="of ours: float32, mixed_bfloat16")
    add("--steps", type=int, help="only time this many steps, spread over an epoch")
    add("--output", type=Path, help="JSON file of the results")
    options = parser.parse_args(arguments)
    if options.project:
        options.data = options.data or find_data(options.project)
    if not options.data:
        parser.error("--data or --project is needed")
    return options


def find_data(project: Path) -> Path:
    """Return the folder of the records that a project is trained on."""
    config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    return (project / config["train_file"]).parent


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Text:
    """One record in tokens; `firsts` is the first token of each word, -1 beyond the cut."""

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
    """Return the label of each token: 0 outside, 1 + 2 n begins type n, 2 + 2 n continues it."""
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


def make_loader(texts: list[Text], collate: Collator, options, seed: int, epoch: int) -> DataLoader:
    """Order and pad one epoch's batches as `--batching` says; the order hangs on (seed, epoch)."""
    lengths = [len(text.token_ids) for text in texts]
    grouped = options.batching == "grouped"
    batches = draw_batches(lengths, options.batch_size, grouped, seed, epoch)
    if options.steps:
        batches = spread_over(batches, options.steps)
    return DataLoader(texts, batch_sampler=batches, collate_fn=collate)


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
    """Return the entities of the labels of words; an I without B begins one."""
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


def make_model(types: list[str], options, seed: int) -> torch.nn.Module:
    """Load the encoder and put a new head on it."""
    torch.manual_seed(seed)
    return transformers.AutoModelForTokenClassification.from_pretrained(
        options.encoder,
        num_labels=1 + 2 * len(types),
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
    ).to(options.device)


def make_training(texts: list[Text], collate: Collator, options, seed: int, steps: int) -> Training:
    """Return the training of a new model for so many steps."""
    model = make_model(collate.types, options, seed)
    optimizer, schedule = build_optimizer(model, {"": options.learning_rate}, steps)

    def loader(epoch: int) -> DataLoader:
        return make_loader(texts, collate, options, seed, epoch)

    def loss(batch: dict) -> torch.Tensor:
        return model(**batch).loss

    return Training(model, optimizer, schedule, options, loader, loss)


def train(texts: dict[str, list[Text]], collate: Collator, options, seed: int) -> dict:
    """Train all epochs, score dev after each, and dev and test with the best weights."""
    steps = -(-len(texts["train"]) // options.batch_size) * options.epochs
    training = make_training(texts["train"], collate, options, seed, steps)

    def score_part(part: str) -> dict:
        return score(texts[part], predict(training.model, texts[part], collate, options))

    epochs, best, weights = [], -1.0, {}
    for epoch in range(1, options.epochs + 1):
        label = f"epoch {epoch}/{options.epochs}"
        measured = training.train_epoch(epoch, label)
        record = {"epoch": epoch, **{name: measured[name] for name in MEASURED}}
        record["dev"] = dev = score_part("dev")
        epochs.append(record)
        say_epoch(label, record, "f1")
        if dev["f1"] > best:
            best, weights = dev["f1"], copy_weights(training.model)
    training.model.load_state_dict(weights)
    scores = {part: score_part(part) for part in ("dev", "test")}
    seconds = statistics.mean(record["wall_seconds"] for record in epochs)
    return {"seed": seed, **scores, "seconds_per_epoch": seconds, "epochs_run": epochs}


def train_ours(texts: dict[str, list[Text]], options, seed: int) -> dict:
    """Train and score our project with the encoder and the seed of the peer."""
    runs = options.project / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="benchmark_", dir=runs) as folder:
        name = Path(folder).name
        flags = ["--encoder", options.encoder.resolve(), "--devices.precision", options.precision]
        flags += ["--epochs", options.epochs, "--batch_size", options.batch_size, "--seed", seed]
        train = ["train.py", "--run_name", name, "--shown_examples", 0, *flags]
        evaluate = ["evaluate.py", name, (options.data / "test.jsonl").resolve()]
        for command in (train, evaluate):
            done = [options.our_python, *map(str, command)]
            subprocess.run(done, check=True, cwd=options.project, stdout=sys.stderr)
        scores = json.loads((Path(folder) / "scores.json").read_text(encoding="utf-8"))
        metrics = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = [json.loads(line) for line in metrics]
    seconds = [len(texts["train"]) / epoch["examples_per_second"] for epoch in epochs]
    return {
        "seed": seed,
        "dev": {name: scores["dev"][name] for name in COUNTED},
        "test": {name: scores["files"]["test"][name] for name in COUNTED},
        "hardware": scores["hardware"],
        "seconds_per_epoch": round(statistics.mean(seconds), 3),
        "versions": scores["versions"],
    }


def kept_runs(results: dict, options) -> dict[str, list[dict]]:
    """Return the runs of each side in the output file, if they belong to this comparison."""
    kept: dict[str, list[dict]] = {"peer": []} | ({"ours": []} if options.project else {})
    if options.output is None or not options.output.is_file():
        return kept
    old = json.loads(options.output.read_text(encoding="utf-8"))
    same = all(old.get(name) == value for name, value in results.items() if name != "seeds")
    return old["runs"] if same and old["runs"].keys() == kept.keys() else kept


def summarize(sides: dict[str, list[dict]]) -> dict:
    """Return the mean F1 of each side, and the ratio of their epoch times."""
    summary: dict = {
        side: {
            part: {"f1": round(statistics.mean(run[part]["f1"] for run in runs), 4)}
            for part in ("dev", "test")
        }
        for side, runs in sides.items()
    }
    if "ours" in sides:
        ratios = [
            round(ours["seconds_per_epoch"] / peer["seconds_per_epoch"], 3)
            for peer, ours in zip(sides["peer"], sides["ours"], strict=True)
        ]
        summary["ours_to_peer"] = {"each": ratios, "median": statistics.median(ratios)}
    return summary


def time_steps(texts: dict[str, list[Text]], collate: Collator, options) -> dict:
    """Time some steps of the peer, spread over an epoch."""
    seed = options.seeds[0]
    training = make_training(texts["train"], collate, options, seed, options.steps)
    measured = training.train_epoch(1, "timing")
    return {
        "timing": {name: measured[name] for name in MEASURED},
        "steps_per_epoch": -(-len(texts["train"]) // options.batch_size),
    }


def main(arguments: list[str] | None = None) -> None:
    """Read, encode, train, score, and report as JSON."""
    options = parse_arguments(arguments)
    tokenizer = begin(options)
    texts = {part: read_texts(options.data / f"{part}.jsonl", tokenizer, options) for part in PARTS}
    types = sorted({kind for text in texts["train"] for _, _, kind in text.entities})
    collate = Collator(types, tokenizer.pad_token_id, fixed_length(options))
    settings = describe(options, "project", "our_python")
    results = {"peer_is": "token classifier, transformers", **settings, **describe_machine()}
    results["records"] = {part: len(items) for part, items in texts.items()}
    if options.steps:
        write_results(results | time_steps(texts, collate, options), options.output)
        return
    sides = kept_runs(results, options)
    done = [run["seed"] for run in sides["peer"]]
    for seed in (seed for seed in options.seeds if seed not in done):
        sides["peer"].append(train(texts, collate, options, seed))
        if options.project:
            sides["ours"].append(train_ours(texts, options, seed))
        write_results(results | summarize(sides) | {"runs": sides}, options.output)


if __name__ == "__main__":
    main()

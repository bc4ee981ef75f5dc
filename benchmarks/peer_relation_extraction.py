"""The PyTorch peer of the relation extraction baseline: a GPLinker from other libraries' parts.

Idea: the same encoder, epochs and split as our baseline, as a PyTorch user would write it. The
pointers and the loss are bert4torch's; encoder, tokenizer, schedule and length-grouped sampler are
transformers'; the loader and AdamW are torch's. The script imports nothing of this repository and
computes its own scores.

Source: bert4torch's example `relation_extraction/task_relation_extraction_gplinker.py` (random
shuffle, batches padded to their longest text, texts cut at 128 tokens, loss summed over the
heads and averaged over the batch, (0, 0) as the padding label, threshold 0). Departures:
batch 16 instead of 32; AdamW with warm-up, linear decay and clipping instead of plain Adam; the
efficient pointer instead of the plain one (`--pointer plain` is the example's); labels from
character offsets instead of searching for the answer's text; each text tokenized once instead of
once per epoch; attention dropout 0. All but the first favour the peer's speed or score.

Environment (separate from ours; bert4torch's later releases need torchvision to import):
    pip install torch transformers safetensors numpy jsonlines tqdm requests six
    pip install --no-deps bert4torch==0.5.3 torch4keras==0.2.6

Run (the data folder holds train.jsonl, dev.jsonl, test.jsonl):
    python benchmarks/peer_relation_extraction.py --data DATA --encoder ENCODER \
        --batching shuffled --work WORK --output peer.json
    python benchmarks/peer_relation_extraction.py --data DATA --encoder ENCODER --steps 20
    python benchmarks/peer_relation_extraction.py --data DATA --encoder ENCODER --predict FILE

`--batching shuffled` is the stock recipe (prediction in the order of the file); `grouped` is
transformers' grouping by length (prediction sorted by length); `fixed` pads every text to
`--max_length`. After an interruption the same command resumes after the last whole epoch.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import jsonlines
    import numpy as np
    import torch
    import transformers
    from bert4torch.layers import EfficientGlobalPointer, GlobalPointer
    from bert4torch.losses import SparseMultilabelCategoricalCrossentropy
    from peer_training import (
        PREDICTION_BATCH,
        Training,
        add_arguments,
        begin,
        build_optimizer,
        describe,
        describe_machine,
        draw_batches,
        fixed_length,
        score_last_and_best,
        spread_over,
        time_passes,
        write_results,
    )
    from torch.utils.data import DataLoader
    from tqdm import tqdm
except ImportError as error:
    raise SystemExit(
        f"The PyTorch peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_relation_extraction.py, bert4torch==0.5.3 included."
    ) from error

Span = tuple[int, int]
Triple = tuple[Span, str, Span]

HEAD_SIZE = 64


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train and time a GPLinker made of bert4torch and transformers."
    )
    add_arguments(parser)
    add = parser.add_argument
    add("--pointer", choices=["efficient", "plain"], default="efficient")
    add("--epochs", type=int, default=8)
    add("--max_length", type=int, default=128, help="tokens a text; the rest is cut off")
    add("--learning_rate", type=float, default=1e-4, help="of the encoder")
    add("--head_learning_rate", type=float, default=1e-3, help="of the pointers")
    add("--prediction_batch", type=int, default=PREDICTION_BATCH, help="texts predicted together")
    add("--first_scored_epoch", type=int, default=1, help="an early model may find too many spans")
    add("--pointers", type=Path, help="weights for --predict, as prediction_speed.py writes them")
    return parser.parse_args(arguments)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Example:
    """One record; `annotated` is None if every predicate was annotated."""

    id: str
    text: str
    triples: frozenset[Triple]
    annotated: frozenset[str] | None

    def keep_annotated(self, triples: set[Triple] | frozenset[Triple]) -> set[Triple]:
        """Leave out triples whose predicate is not annotated in this record."""
        return {t for t in triples if self.annotated is None or t[1] in self.annotated}


@dataclass(frozen=True)
class EncodedExample:
    """An example in tokens; the labels are pairs of token positions, one set per head."""

    example: Example
    token_ids: list[int]
    offsets: list[Span]
    is_special: list[int]
    entities: list[set[Span]]
    heads: list[set[Span]]
    tails: list[set[Span]]
    annotated: list[float]


def read_examples(path: Path) -> list[Example]:
    """Read a file of records, one JSON object a line."""
    examples = []
    try:
        with jsonlines.open(path) as reader:
            for record in reader:
                triples = frozenset(
                    (tuple(t["subject"]), t["predicate"], tuple(t["object"]))
                    for t in record["triples"]
                )
                annotated = record.get("annotated_predicates")
                examples.append(
                    Example(
                        id=record["id"],
                        text=record["text"],
                        triples=triples,
                        annotated=None if annotated is None else frozenset(annotated),
                    )
                )
    except (OSError, jsonlines.Error, KeyError, TypeError) as error:
        raise SystemExit(
            f"{path}, record {len(examples) + 1} cannot be read ({error!r}): give the folder "
            "written by `baselines data get` to --data."
        ) from error
    return examples


def collect_predicates(examples: list[Example]) -> list[str]:
    """List the predicates of the training file, in a fixed order."""
    used = {predicate for example in examples for _, predicate, _ in example.triples}
    annotated = {predicate for example in examples for predicate in example.annotated or ()}
    return sorted(used | annotated)


def encode_examples(
    examples: list[Example],
    tokenizer: transformers.PreTrainedTokenizerBase,
    predicates: list[str],
    max_length: int,
) -> list[EncodedExample]:
    """Tokenize the texts, cut them at `max_length`, and find the tokens of the gold spans."""
    batch = tokenizer(
        [example.text for example in examples],
        truncation=True,
        max_length=max_length,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    columns = zip(
        examples,
        batch["input_ids"],
        batch["offset_mapping"],
        batch["special_tokens_mask"],
        strict=True,
    )
    return [
        EncodedExample(
            example,
            token_ids,
            offsets,
            is_special,
            *label_tokens(example, offsets, is_special, predicates),
            [float(example.annotated is None or p in example.annotated) for p in predicates],
        )
        for example, token_ids, offsets, is_special in columns
    ]


def label_tokens(
    example: Example, offsets: list[Span], is_special: list[int], predicates: list[str]
) -> tuple[list[set[Span]], list[set[Span]], list[set[Span]]]:
    """Turn gold triples into label pairs; leave out spans that are cut off or misaligned."""
    real = [position for position, special in enumerate(is_special) if not special]
    starts = {offsets[position][0]: position for position in reversed(real)}
    ends = {offsets[position][1]: position for position in real}
    entities = [set(), set()]
    heads = [set() for _ in predicates]
    tails = [set() for _ in predicates]
    for subject, predicate, object_ in example.keep_annotated(example.triples):
        tokens = (
            starts.get(subject[0]),
            ends.get(subject[1]),
            starts.get(object_[0]),
            ends.get(object_[1]),
        )
        if None in tokens or predicate not in predicates:
            continue
        subject_head, subject_tail, object_head, object_tail = tokens
        number = predicates.index(predicate)
        entities[0].add((subject_head, subject_tail))
        entities[1].add((object_head, object_tail))
        heads[number].add((subject_head, object_head))
        tails[number].add((subject_tail, object_tail))
    return entities, heads, tails


@dataclass(frozen=True)
class Collator:
    """Pads a list of encoded examples to its longest, or to `fixed_length`."""

    pad_token_id: int
    fixed_length: int | None = None

    def __call__(self, batch: list[EncodedExample]) -> dict[str, torch.Tensor]:
        length = self.fixed_length or max(len(encoded.token_ids) for encoded in batch)
        token_ids = np.full((len(batch), length), self.pad_token_id, dtype=np.int64)
        attention_mask = np.zeros_like(token_ids)
        for row, encoded in enumerate(batch):
            token_ids[row, : len(encoded.token_ids)] = encoded.token_ids
            attention_mask[row, : len(encoded.token_ids)] = 1
        return {
            "input_ids": torch.from_numpy(token_ids),
            "attention_mask": torch.from_numpy(attention_mask),
            "entities": pad_labels([encoded.entities for encoded in batch], length),
            "heads": pad_labels([encoded.heads for encoded in batch], length),
            "tails": pad_labels([encoded.tails for encoded in batch], length),
            "annotated": torch.tensor([encoded.annotated for encoded in batch]),
        }


def pad_labels(labels: list[list[set[Span]]], length: int) -> torch.Tensor:
    """Flatten pairs (i, j) to i * length + j and pad with 0, the loss's padding label."""
    most = max(1, max(len(pairs) for heads in labels for pairs in heads))
    padded = np.zeros((len(labels), len(labels[0]), most), dtype=np.int64)
    for row, heads in enumerate(labels):
        for head, pairs in enumerate(heads):
            padded[row, head, : len(pairs)] = [i * length + j for i, j in sorted(pairs)]
    return torch.from_numpy(padded)


def make_loader(encoded, options, epoch: int, pad_token_id: int) -> DataLoader:
    """Order and pad one epoch's batches as `--batching` says; the order hangs on (seed, epoch)."""
    lengths = [len(item.token_ids) for item in encoded]
    grouped = options.batching == "grouped"
    batches = draw_batches(lengths, options.batch_size, grouped, options.seed, epoch)
    if options.steps:
        # Spread over the lengths: those of a few batches in the order of an epoch are chance.
        batches.sort(key=lambda batch: max(lengths[index] for index in batch))
        batches = spread_over(batches, options.steps)
    collate = Collator(pad_token_id, fixed_length(options))
    return DataLoader(encoded, batch_sampler=batches, collate_fn=collate)


# ---------------------------------------------------------------- model


class GPLinker(torch.nn.Module):
    """Entity pointer (subject, object), head link and tail link of each predicate."""

    def __init__(self, encoder: torch.nn.Module, predicates: int, pointer: str):
        super().__init__()
        layer = EfficientGlobalPointer if pointer == "efficient" else GlobalPointer
        width = encoder.config.hidden_size
        self.encoder = encoder
        self.entities = layer(width, 2, HEAD_SIZE)
        self.heads = layer(width, predicates, HEAD_SIZE, RoPE=False, tril_mask=False)
        self.tails = layer(width, predicates, HEAD_SIZE, RoPE=False, tril_mask=False)

    def forward(self, token_ids, attention_mask):
        hidden = self.encoder(token_ids, attention_mask=attention_mask).last_hidden_state
        return {
            "entities": self.entities(hidden, attention_mask),
            "heads": self.heads(hidden, attention_mask),
            "tails": self.tails(hidden, attention_mask),
        }


def compute_loss(logits: dict, batch: dict, criterion: torch.nn.Module) -> torch.Tensor:
    """Sum the loss over the heads, average it over the batch and over the three pointers."""
    total = 0.0
    for pointer, scores in logits.items():
        of_head = criterion(scores.flatten(2), batch[pointer])
        if pointer != "entities":
            of_head = of_head * batch["annotated"]
        total = total + of_head.sum(dim=1).mean()
    return total / 3


def build_model(options, predicates: list[str]) -> GPLinker:
    """Load the encoder (attention dropout 0, else as in its config) and add pointers."""
    encoder = transformers.AutoModel.from_pretrained(
        options.encoder, attention_probs_dropout_prob=0.0
    )
    return GPLinker(encoder, len(predicates), options.pointer).to(options.device)


# ---------------------------------------------------------------- prediction and scoring


@dataclass(frozen=True)
class Run:
    """What prediction and scoring need besides the model."""

    tokenizer: transformers.PreTrainedTokenizerBase
    predicates: list[str]
    dev: list[Example]
    test: list[Example]
    options: argparse.Namespace

    def encode(self, examples: list[Example]) -> list[EncodedExample]:
        return encode_examples(examples, self.tokenizer, self.predicates, self.options.max_length)

    @torch.inference_mode()
    def predict(self, model, encoded, batch_size=None, label=None) -> dict:
        """Predict {record id: {triple: score}}, in batches made as `--batching` says."""
        model.eval()
        batch_size = batch_size or self.options.prediction_batch
        if self.options.batching == "grouped":
            encoded = sorted(encoded, key=lambda item: len(item.token_ids))
        collate = Collator(self.tokenizer.pad_token_id, fixed_length(self.options))
        predictions = {}
        positions = range(0, len(encoded), batch_size)
        for position in tqdm(positions, desc=label, disable=label is None, leave=False):
            part = encoded[position : position + batch_size]
            batch = collate(part)
            device = self.options.device
            logits = model(batch["input_ids"].to(device), batch["attention_mask"].to(device))
            logits = {pointer: scores.cpu().numpy() for pointer, scores in logits.items()}
            for row, item in enumerate(part):
                of_example = {pointer: scores[row] for pointer, scores in logits.items()}
                predictions[item.example.id] = decode(item, of_example, self.predicates)
        return predictions


def decode(encoded: EncodedExample, logits: dict, predicates: list[str]) -> dict[Triple, float]:
    """Join a subject and an object if both links of a predicate are above 0."""
    entities = logits["entities"].copy()
    special = [position for position, flag in enumerate(encoded.is_special) if flag]
    entities[:, special, :] = entities[:, :, special] = -np.inf
    subjects = np.argwhere(entities[0] > 0)
    objects = np.argwhere(entities[1] > 0)
    head = logits["heads"][:, subjects[:, :1], objects[None, :, 0]]
    tail = logits["tails"][:, subjects[:, 1:], objects[None, :, 1]]
    triples = {}
    for number, row, column in np.argwhere((head > 0) & (tail > 0)):
        if not encoded.annotated[number]:
            continue
        subject, object_ = subjects[row], objects[column]
        weakest = min(
            entities[0][tuple(subject)],
            entities[1][tuple(object_)],
            head[number, row, column],
            tail[number, row, column],
        )
        triple = (
            (encoded.offsets[subject[0]][0], encoded.offsets[subject[1]][1]),
            predicates[number],
            (encoded.offsets[object_[0]][0], encoded.offsets[object_[1]][1]),
        )
        triples[triple] = float(1 / (1 + np.exp(-weakest)))
    return triples


def set_pointers(model: GPLinker, path: Path) -> None:
    """Read the weights of efficient pointers from a file with one score per head and end."""
    with np.load(path) as arrays, torch.no_grad():
        for name in ("entities", "heads", "tails"):
            kernel, bias, types, type_bias = (
                torch.from_numpy(arrays[f"{name}_{part}"])
                for part in ("kernel", "bias", "types", "type_bias")
            )
            layer = getattr(model, name)
            layer.p_dense.weight.copy_(kernel.T)
            layer.p_dense.bias.copy_(bias)
            # The file has starts of all heads, then ends; bert4torch alternates them, and halves
            # them.
            layer.q_dense.weight.copy_(
                2 * types.T.unflatten(0, (2, -1)).swapaxes(0, 1).flatten(0, 1)
            )
            layer.q_dense.bias.copy_(2 * type_bias.unflatten(0, (2, -1)).T.flatten())


def time_file(model: GPLinker, run: Run) -> dict:
    """Time the prediction of a file, from examples in memory to rows of predictions."""
    # Without annotations all predicates are asked for.
    examples = [
        Example(example.id, example.text, frozenset(), None)
        for example in read_examples(run.options.predict)
    ]
    rows, seconds = time_passes(
        lambda: prediction_rows(run.predict(model, run.encode(examples))), run.options.passes
    )
    found = sum(len(row["triples"]) for row in rows)
    return {"records": len(examples), "found": found, **seconds}


def score(examples: list[Example], predictions: dict[str, dict[Triple, float]]) -> dict:
    """Strict micro precision, recall and F1 of whole triples over the annotated predicates."""
    correct = predicted = gold = 0
    for example in examples:
        expected = example.keep_annotated(example.triples)
        found = example.keep_annotated(set(predictions[example.id]))
        correct += len(expected & found)
        predicted += len(found)
        gold += len(expected)
    return {
        "precision": correct / predicted if predicted else 0.0,
        "recall": correct / gold if gold else 0.0,
        "f1": 2 * correct / (predicted + gold) if predicted + gold else 0.0,
        "correct": correct,
        "predicted": predicted,
        "gold": gold,
    }


def time_prediction(model, run: Run) -> dict:
    """Measure records per second from text to triples on dev, in batches and one at a time."""
    began = time.perf_counter()
    batched = run.predict(model, run.encode(run.dev))
    middle = time.perf_counter()
    single = {}
    for example in tqdm(run.dev, desc="one at a time", leave=False):
        single |= run.predict(model, run.encode([example]), batch_size=1)
    ended = time.perf_counter()
    return {
        "records": len(run.dev),
        "batched_records_per_second": round(len(run.dev) / (middle - began), 2),
        "single_records_per_second": round(len(run.dev) / (ended - middle), 2),
        "records_with_other_triples": sum(
            set(batched[example.id]) != set(single[example.id]) for example in run.dev
        ),
    }


# ---------------------------------------------------------------- results


def prediction_rows(predictions: dict[str, dict[Triple, float]]) -> list[dict]:
    """Return ids, spans and scores, without any text of the data."""
    return [
        {
            "id": identifier,
            "triples": [
                {"subject": t[0], "predicate": t[1], "object": t[2], "score": round(value, 4)}
                for t, value in sorted(triples.items())
            ],
        }
        for identifier, triples in sorted(predictions.items())
    ]


def main(arguments: list[str] | None = None) -> None:
    """Read, encode, train, score, and report as JSON."""
    options = parse_arguments(arguments)
    tokenizer = begin(options)
    torch.manual_seed(options.seed)
    examples = {
        part: read_examples(options.data / f"{part}.jsonl") for part in ("train", "dev", "test")
    }
    predicates = collect_predicates(examples["train"])
    run = Run(tokenizer, predicates, examples["dev"], examples["test"], options)
    if options.predict:
        model = build_model(options, predicates)
        if options.pointers:
            set_pointers(model, options.pointers)
        write_results(time_file(model, run), options.output)
        return
    encoded = {part: run.encode(items) for part, items in examples.items()}
    settings = describe(options, "pointers", "prediction_batch")
    results = {
        "peer": "GPLinker, bert4torch and transformers",
        **settings,
        **describe_machine("bert4torch"),
        "records": {part: len(items) for part, items in examples.items()},
    }
    training, steps_per_epoch = make_training(run, encoded["train"])
    if options.steps:
        results |= {"timing": training.time_steps(), "steps_per_epoch": steps_per_epoch}
    else:
        first = options.first_scored_epoch * steps_per_epoch
        results |= train_and_score(training, run, encoded, settings, first)
    write_results(results, options.output)


def make_training(run: Run, encoded: list[EncodedExample]) -> tuple[Training, int]:
    """Return the training of a new model, and the steps of an epoch."""
    options = run.options
    model = build_model(options, run.predicates)
    criterion = SparseMultilabelCategoricalCrossentropy(mask_zero=True)
    steps = -(-len(encoded) // options.batch_size)
    rates = {"encoder.": options.learning_rate, "": options.head_learning_rate}
    optimizer, schedule = build_optimizer(model, rates, steps * options.epochs)

    def loss(batch: dict) -> torch.Tensor:
        logits = model(batch["input_ids"], batch["attention_mask"])
        return compute_loss(logits, batch, criterion)

    def loader(epoch: int) -> DataLoader:
        return make_loader(encoded, options, epoch, run.tokenizer.pad_token_id)

    return Training(model, optimizer, schedule, options, loader, loss), steps


def train_and_score(
    training: Training, run: Run, encoded: dict, settings: dict, first_scored_step: int
) -> dict:
    """Train all epochs; time prediction; score dev and test with the last and best weights."""
    model, parts = training.model, {"dev": run.dev, "test": run.test}

    def score_part(part: str, label: str) -> tuple[dict, list[dict]]:
        predictions = run.predict(model, encoded[part], label=label)
        return score(parts[part], predictions), prediction_rows(predictions)

    def score_dev() -> dict:
        steps_done = training.schedule.last_epoch
        return score_part("dev", "dev")[0] if steps_done >= first_scored_step else {"f1": -1.0}

    state = training.train(settings, "f1", score_dev)
    return {
        "epochs_run": state["epochs"],
        "speed": time_prediction(model, run),
        **score_last_and_best(training, state, score_part),
    }


if __name__ == "__main__":
    main()

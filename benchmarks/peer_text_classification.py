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

    python benchmarks/peer_text_classification.py --data DATA --encoder ENCODER --loss listwise \
        --list_size 5 --batch_size 8 --learning_rate 5e-5 --work WORK --output peer.json
    python benchmarks/peer_text_classification.py --data PAIRS --encoder ENCODER --loss listwise \
        --max_length 192 --epochs 1 --learning_rate 5e-5 --work WORK --output peer.json

`--loss listwise` learns the candidates of a question together, as the cross-encoders of
sentence-transformers do with ListNetLoss: one score a pair, and the cross-entropy of their softmax
over the question with the labels, divided by their sum. A batch is `--batch_size` questions;
questions without a relevant candidate, or without another one, are left out. `--list_size 5` learns
the relevant candidates and others that are drawn anew in each epoch, 5 together.
PAIRS are preferences, of `baselines data get ukpconvarg`: each argument is read with its prompt,
and the list loss of two is that of Bradley and Terry. `accuracy` is the share of pairs whose better
one has the higher score.
`--batching shuffled` pads each batch to its longest pair (prediction in the order of the file);
`grouped` is transformers' grouping by length (prediction sorted by length); `fixed` pads every pair
to `--max_length`, the default of run_glue.py. After an interruption the same command resumes after
the last whole epoch.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import jsonlines
    import numpy as np
    import torch
    import transformers
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
    from sklearn.metrics import average_precision_score, f1_score
    from torch.utils.data import DataLoader
    from tqdm import tqdm
except ImportError as error:
    raise SystemExit(
        f"The PyTorch peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_text_classification.py."
    ) from error

POSITIVE, NEGATIVE = "1", "0"
CHOICES = ("a1", "a2")  # fields of preferences; the label names the better one
PARTS = ("train", "dev", "test")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train and time a pair classifier made of transformers' parts."
    )
    add_arguments(parser)
    add = parser.add_argument
    add("--epochs", type=int, default=2)
    add("--max_length", type=int, default=128, help="tokens a pair; the longer text is cut first")
    add("--learning_rate", type=float, default=1e-4)
    add("--loss", choices=("labels", "listwise"), default="labels")
    add("--list_size", type=int, default=0, help="candidates of a question in a step; 0: all")
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
            "selqa`, or `ukpconvarg`, to --data."
        ) from error


def read_records(path: Path) -> list[dict]:
    """Read a file of records, one JSON object a line; a preference becomes two candidates."""
    with jsonlines.open(path) as reader:
        return [candidate for record in reader for candidate in read_candidates(record)]


def read_candidates(record: dict) -> list[dict]:
    """Return the candidates of a record: both arguments of a preference, else itself."""
    if "prompt" not in record:
        return [record]
    return [
        {
            "id": f"{record['id']}/{name}",
            "group": record["id"],
            "text_a": record["prompt"],
            "text_b": record[name],
            "label": POSITIVE if record["label"] == name else NEGATIVE,
        }
        for name in CHOICES
    ]


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
            # Number of the question within the batch, for the list loss.
            "lists": torch.tensor(number_groups(batch)),
        }


def number_groups(batch: list[Pair]) -> list[int]:
    """Return the number of each pair's question within a batch."""
    numbers = {group: n for n, group in enumerate(dict.fromkeys(pair.group for pair in batch))}
    return [numbers[pair.group] for pair in batch]


def positions_of_groups(pairs: list[Pair]) -> list[list[int]]:
    """Return the positions of the pairs of each question from which a list loss can learn."""
    groups: dict[str, list[int]] = {}
    for position, pair in enumerate(pairs):
        groups.setdefault(pair.group, []).append(position)
    return [own for own in groups.values() if len({pairs[n].label for n in own}) == 2]


def draw_candidates(
    pairs: list[Pair], group: list[int], most: int, draw: np.random.Generator
) -> list[int]:
    """Return the relevant candidates of a question and drawn others, `most` together; 0: all."""
    if not most or len(group) <= most:
        return group
    order = draw.permutation(group)
    relevant = [n for n in order if pairs[n].label][: most - 1]
    others = [n for n in order if not pairs[n].label]
    return [*relevant, *others[: most - len(relevant)]]


def make_loader(pairs: list[Pair], options, epoch: int, pad_token_id: int) -> DataLoader:
    """Order and pad one epoch's batches as `--batching` says; the order hangs on (seed, epoch)."""
    units = [[n] for n in range(len(pairs))]
    if options.loss == "listwise":
        draw = np.random.default_rng([options.seed, epoch])
        groups = positions_of_groups(pairs)
        units = [draw_candidates(pairs, group, options.list_size, draw) for group in groups]
    lengths = [max(len(pairs[n].token_ids) for n in unit) for unit in units]
    grouped = options.batching == "grouped"
    drawn = draw_batches(lengths, options.batch_size, grouped, options.seed, epoch)
    batches = [[n for unit in batch for n in units[unit]] for batch in drawn]
    if options.steps:
        batches = spread_over(batches, options.steps)
    collate = Collator(pad_token_id, fixed_length(options))
    return DataLoader(pairs, batch_sampler=batches, collate_fn=collate)


# ---------------------------------------------------------------- model


def build_model(options) -> torch.nn.Module:
    """Load the classifier: attention dropout 0, else as in the encoder's config."""
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        options.encoder,
        num_labels=1 if options.loss == "listwise" else 2,
        attention_probs_dropout_prob=0.0,
    ).to(options.device)


def list_loss(scores: torch.Tensor, labels: torch.Tensor, lists: torch.Tensor) -> torch.Tensor:
    """Return the mean over questions of the cross-entropy of ListNet.

    Args:
        scores: of all pairs of a batch `[pairs]`.
        labels: 1 for relevant pairs `[pairs]`.
        lists: number of each pair's question `[pairs]`.
    """
    losses = []
    for number in lists.unique():
        own = lists == number
        target = labels[own].float()
        losses.append(-(target / target.sum() * scores[own].log_softmax(0)).sum())
    return torch.stack(losses).mean()


def score_pairs(model: torch.nn.Module, batch: dict) -> torch.Tensor:
    """Return one score for each pair `[pairs]`."""
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
    return model(**inputs).logits[:, 0]


# ---------------------------------------------------------------- prediction and scoring


@torch.inference_mode()
def predict(model, pairs, tokenizer, options, batch_size=PREDICTION_BATCH, label=None) -> dict:
    """Predict {record id: probability of the positive label}, in batches as `--batching` says.

    With the list loss it is the sigmoid of the score, which orders candidates as the score does.
    """
    model.eval()
    if options.batching == "grouped":
        pairs = sorted(pairs, key=lambda pair: len(pair.token_ids))
    collate = Collator(tokenizer.pad_token_id, fixed_length(options))
    scores = {}
    positions = range(0, len(pairs), batch_size)
    for position in tqdm(positions, desc=label, disable=label is None, leave=False):
        part = pairs[position : position + batch_size]
        batch = {key: value.to(options.device) for key, value in collate(part).items()}
        del batch["lists"]
        logits = model(**batch).logits if options.loss == "labels" else score_pairs(model, batch)
        probabilities = logits.softmax(-1)[:, 1] if options.loss == "labels" else logits.sigmoid()
        ids = [pair.id for pair in part]
        scores |= dict(zip(ids, probabilities.cpu().tolist(), strict=True))
    return scores


def score(pairs: list[Pair], scores: dict[str, float], threshold: float) -> dict:
    """MAP, MRR and accuracy of groups with a positive candidate; F1 of the positive label."""
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
        # Of equal scores the negative candidate counts as first.
        "accuracy": statistics.mean(float(rank == 1) for rank in reciprocal_ranks),
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

    def rows() -> list[dict]:
        pairs = encode_pairs(records, tokenizer, options.max_length)
        return prediction_rows(predict(model, pairs, tokenizer, options))

    found, seconds = time_passes(rows, options.passes)
    return {"records": len(records), "found": len(found), **seconds}


# ---------------------------------------------------------------- results


def prediction_rows(scores: dict[str, float]) -> list[dict]:
    """Return ids and scores, without any text of the data."""
    return [{"id": name, "score": float(f"{value:.7g}")} for name, value in sorted(scores.items())]


def main(arguments: list[str] | None = None) -> None:
    """Read, encode, train, score, and report as JSON."""
    options = parse_arguments(arguments)
    tokenizer = begin(options)
    torch.manual_seed(options.seed)
    if options.predict:
        write_results(time_file(build_model(options), tokenizer, options), options.output)
        return
    pairs = {
        part: read_pairs(options.data / f"{part}.jsonl", tokenizer, options.max_length)
        for part in PARTS
    }
    settings = describe(options)
    results = {
        "peer": "pair classifier, transformers",
        **settings,
        **describe_machine(),
        "records": {part: len(items) for part, items in pairs.items()},
    }
    training, steps_per_epoch = make_training(pairs["train"], tokenizer, options)
    if options.steps:
        results |= {"timing": training.time_steps(), "steps_per_epoch": steps_per_epoch}
    else:
        results |= train_and_score(training, pairs, tokenizer, settings)
    write_results(results, options.output)


def make_training(pairs: list[Pair], tokenizer, options) -> tuple[Training, int]:
    """Return the training of a new model, and the steps of an epoch."""
    model = build_model(options)
    units = positions_of_groups(pairs) if options.loss == "listwise" else pairs
    steps = -(-len(units) // options.batch_size)
    optimizer, schedule = build_optimizer(
        model, {"": options.learning_rate}, steps * options.epochs
    )

    def loader(epoch: int) -> DataLoader:
        return make_loader(pairs, options, epoch, tokenizer.pad_token_id)

    def loss(batch: dict) -> torch.Tensor:
        lists = batch.pop("lists")
        if options.loss == "listwise":
            return list_loss(score_pairs(model, batch), batch["labels"], lists)
        return model(**batch).loss

    return Training(model, optimizer, schedule, options, loader, loss), steps


def train_and_score(training: Training, pairs: dict, tokenizer, settings: dict) -> dict:
    """Train all epochs; time prediction; score dev and test with the last and best weights."""
    model, options = training.model, training.options
    threshold = 0.5

    def score_part(part: str, label: str) -> tuple[dict, list[dict]]:
        nonlocal threshold
        scores = predict(model, pairs[part], tokenizer, options, label=label)
        if part == "dev":
            threshold = best_threshold(pairs[part], scores)
        return score(pairs[part], scores, threshold), prediction_rows(scores)

    # Of groups of two MAP is (1 + accuracy) / 2, so it chooses the epoch as accuracy would.
    state = training.train(settings, "map", lambda: score_part("dev", "dev")[0])
    return {
        "epochs_run": state["epochs"],
        "speed": time_prediction(model, pairs["dev"], tokenizer, options),
        **score_last_and_best(training, state, score_part),
    }


if __name__ == "__main__":
    main()

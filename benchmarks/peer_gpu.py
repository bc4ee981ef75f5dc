"""The PyTorch side of gpu.py: times training steps on the batches that ours has written.

Model and encoder are transformers', AdamW is torch's fused one. The pointers of relation extraction
are written here after bert4torch's `EfficientGlobalPointer`, so that torch and transformers are all
that is needed.

python benchmarks/peer_gpu.py TASK ENCODER BATCHES MODE        (started by gpu.py)
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import transformers

SIZES = {
    "bert": {},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
    "tiny": {
        "hidden_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 768,
        "vocab_size": 6000,
    },
}
HEAD_SIZE = 64
MASKED = 1e9
WARM_UP = 8
PATIENCE = 300  # seconds until ours must have written the batches


class Linker(torch.nn.Module):
    """GPLinker: an entity pointer and two link pointers, each of the efficient form."""

    def __init__(self, config: transformers.BertConfig, heads: dict[str, int]) -> None:
        super().__init__()
        self.encoder = transformers.BertModel(config, add_pooling_layer=False)
        self.heads = heads
        width = config.hidden_size
        self.first = torch.nn.ModuleDict(
            {name: torch.nn.Linear(width, 2 * HEAD_SIZE) for name in self.heads}
        )
        self.second = torch.nn.ModuleDict(
            {name: torch.nn.Linear(2 * HEAD_SIZE, 2 * n) for name, n in self.heads.items()}
        )

    def forward(self, token_ids, mask, annotated, **labels):
        hidden = self.encoder(token_ids, attention_mask=mask).last_hidden_state
        loss = 0.0
        for name in self.heads:
            scores = self.scores(name, hidden, mask)
            each = sparse_loss(scores.float(), labels[f"{name}_labels"])
            loss = loss + (each if name == "entity" else each * annotated).sum(1).mean()
        return loss

    def scores(self, name, hidden, mask):
        projected = self.first[name](hidden)
        queries, keys = projected[..., ::2], projected[..., 1::2]
        if name == "entity":
            queries, keys = rotate(queries), rotate(keys)
        types = self.second[name](projected).transpose(1, 2) / 2
        scores = queries @ keys.transpose(1, 2) / HEAD_SIZE**0.5
        scores = scores[:, None] + types[:, ::2, :, None] + types[:, 1::2, None, :]
        hidden_pairs = (1 - mask[:, None, :, None] * mask[:, None, None, :]).to(scores.dtype)
        scores = scores - MASKED * hidden_pairs
        if name == "entity":
            ones = torch.ones(scores.shape[-2:], device=scores.device, dtype=scores.dtype)
            scores = scores - MASKED * torch.tril(ones, -1)
        return scores


def rotate(vectors: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of features by angles that grow with the position."""
    length, size = vectors.shape[-2:]
    places = torch.arange(length, device=vectors.device)[:, None]
    angles = places * 10000.0 ** (-2 * torch.arange(size // 2, device=vectors.device) / size)
    cosine, sine = (
        part.repeat_interleave(2, -1).to(vectors.dtype) for part in (angles.cos(), angles.sin())
    )
    turned = torch.stack([-vectors[..., 1::2], vectors[..., ::2]], -1).flatten(-2)
    return vectors * cosine + turned * sine


def sparse_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return log(1 + sum e^s) over false pairs + log(1 + sum e^-s) over true ones, by head."""
    length = scores.shape[-1]
    flat, used = scores.flatten(2), labels[..., 0] >= 0
    index = torch.where(used, labels[..., 0] * length + labels[..., 1], 0)
    true = torch.where(used, flat.gather(-1, index), MASKED)
    zeros = torch.zeros_like(flat[..., :1])
    positive = torch.logsumexp(torch.cat([zeros, -true], -1), -1)
    is_true = torch.zeros_like(flat).scatter_add(-1, index, used.to(flat.dtype)) > 0
    false = flat.masked_fill(is_true, -MASKED)
    return torch.logsumexp(torch.cat([zeros, false], -1), -1) + positive


def make_model(task: str, encoder: str, batch: dict) -> torch.nn.Module:
    """Return a model of random weights."""
    options = {"attention_probs_dropout_prob": 0.0, "attn_implementation": "sdpa"}
    config = transformers.BertConfig(**SIZES[encoder], **options)
    if task == "relations":
        names = ("entity", "head", "tail")
        return Linker(config, {name: batch[f"{name}_labels"].shape[1] for name in names})
    if task == "reading":
        return transformers.BertForQuestionAnswering(config)
    return transformers.BertForSequenceClassification(config)


def arguments_of(task: str, batch: dict) -> dict:
    """Return the arguments of the model, from the arrays of ours."""
    ids, mask = batch["token_ids"], batch["padding_mask"]
    if task == "relations":
        labels = {name: batch[name] for name in ("entity_labels", "head_labels", "tail_labels")}
        return {"token_ids": ids, "mask": mask, "annotated": batch["annotated"], **labels}
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": batch["segment_ids"]}
    if task == "reading":
        first = batch["answers"][:, 0].clip(0)
        return {**inputs, "start_positions": first[:, 0], "end_positions": first[:, 1]}
    return {**inputs, "labels": batch["targets"].argmax(1)}


def main() -> None:
    """Prepare, wait for the turn, and time the steps."""
    task, encoder, path, mode = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    began = time.perf_counter()
    while not path.exists() and time.perf_counter() - began < PATIENCE:
        time.sleep(0.2)
    arrays: dict[str, dict] = {}
    with np.load(path) as saved:
        for key in saved.files:
            number, name = key.split("/")
            arrays.setdefault(number, {})[name] = saved[key]
    batches = [arguments_of(task, arrays[number]) for number in sorted(arrays)]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(1)
    model = make_model(task, encoder, arrays[min(arrays)]).to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, weight_decay=0.01, fused=device == "cuda"
    )
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 100, 10000)
    run = torch.compile(model, dynamic=True) if "compiled" in mode else model

    def step(batch: dict) -> torch.Tensor:
        moved = {}
        for name, array in batch.items():
            tensor = torch.from_numpy(array)
            tensor = tensor if tensor.is_floating_point() else tensor.long()
            moved[name] = tensor.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled="bfloat16" in mode):
            found = run(**moved)
        loss = found if task == "relations" else found.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    built = time.perf_counter()
    step(batches[0])
    wait()
    first = time.perf_counter()
    shapes = {batch[next(iter(batch))].shape: batch for batch in batches}
    for batch in [*shapes.values(), *[batches[0]] * WARM_UP]:
        step(batch)
    wait()
    facts = {"start_seconds": built - began, "first_step_seconds": first - built}
    facts["all_lengths_seconds"] = time.perf_counter() - built
    print(json.dumps({name: round(value, 1) for name, value in facts.items()}), flush=True)
    sys.stdin.readline()
    wait()
    began = time.perf_counter()
    for batch in batches:
        loss = step(batch)
    value = loss.item()
    seconds = time.perf_counter() - began
    rows = sum(len(next(iter(batch.values()))) for batch in batches)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0
    print(
        json.dumps(
            {
                "milliseconds": round(seconds / len(batches) * 1e3, 2),
                "examples_per_second": round(rows / seconds, 1),
                "loss": round(value, 4),
                "peak_MiB": round(peak),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()

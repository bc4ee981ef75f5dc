"""The peer of `growth.py`: records encoded by `datasets.map`, batches by transformers' collators.

Texts are encoded as in transformers' example `run_glue.py`. Passages are encoded as in `run_qa.py`:
windows of 384 tokens that share 128, with the first and the last token of the answer. Relations are
encoded as in `run_ner.py`, which tags the tokens of the spans; there is no recipe for triples,
which have more labels. The epoch is shuffled, and each batch is padded to its longest text. The
script imports nothing of this repository.

Environment (separate from ours):
    pip install torch transformers datasets

`growth.py --peer PYTHON_OF_THAT_ENVIRONMENT` runs this script once for each start:
python peer_encoding.py KIND FOLDER
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

try:
    import torch
    from datasets import load_dataset
    from transformers import (
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        PreTrainedTokenizerFast,
        default_data_collator,
    )
except ImportError as error:
    raise SystemExit(
        f"The peer cannot start ({error}): make the environment described at the top of "
        "benchmarks/peer_encoding.py."
    ) from error

BATCHES, BATCH_SIZE = 2000, 16
MAX_LENGTH, PASSAGE_LENGTH, STRIDE = 128, 384, 128
SPECIAL = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}


def main() -> None:
    """Encode like a training, up to the first batch, and make more batches."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **SPECIAL)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    began, cpu = time.perf_counter(), cpu_seconds()
    loader = make_loader(kind, folder, tokenizer)
    batches = iter(loader)
    next(batches)
    found = {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(cpu_seconds() - cpu, 2),
    }
    began, made = time.perf_counter(), 0
    while made < BATCHES:
        for _ in batches:
            made += 1
            if made == BATCHES:
                break
        batches = iter(loader)
    found |= {
        "batches_a_second": round(BATCHES / (time.perf_counter() - began), 1),
        "peak_mebibytes": round((status("VmHWM") - before) / 2**20, 1),
    }
    print(json.dumps(found))


def make_loader(kind: str, folder: Path, tokenizer: PreTrainedTokenizerFast):
    """Return the batches of a file of records."""
    file = str(folder / "records.jsonl")
    records = load_dataset("json", data_files=file, split="train", cache_dir=str(folder / "peer"))
    if kind == "texts":
        names = sorted(records.unique("label"))
        encode = encode_texts(tokenizer, {name: number for number, name in enumerate(names)})
        collate = DataCollatorWithPadding(tokenizer)
    elif kind == "passages":
        encode, collate = encode_passages(tokenizer), pad_windows(tokenizer)
    else:
        encode, collate = encode_spans(tokenizer), DataCollatorForTokenClassification(tokenizer)
    encoded = records.map(encode, batched=True, remove_columns=records.column_names)
    return torch.utils.data.DataLoader(encoded, BATCH_SIZE, shuffle=True, collate_fn=collate)


def encode_texts(tokenizer: PreTrainedTokenizerFast, numbers: dict[str, int]):
    """Return the function that encodes records with a text and a label."""

    def encode(records: dict) -> dict:
        items = tokenizer(records["text_a"], truncation=True, max_length=MAX_LENGTH)
        return {**items, "labels": [numbers[label] for label in records["label"]]}

    return encode


def encode_spans(tokenizer: PreTrainedTokenizerFast):
    """Return the function that encodes records with triples: one tag per token."""

    def encode(records: dict) -> dict:
        items = tokenizer(
            records["text"], truncation=True, max_length=MAX_LENGTH, return_offsets_mapping=True
        )
        items["labels"] = [
            tag_tokens(places, triples)
            for places, triples in zip(items.pop("offset_mapping"), records["triples"], strict=True)
        ]
        return items

    return encode


def tag_tokens(places: list[tuple[int, int]], triples: list[dict]) -> list[int]:
    """Return 1 for tokens of a subject, 2 for tokens of an object, 0 for others."""
    tags = [0] * len(places)
    for triple in triples:
        for tag, name in enumerate(("subject", "object"), start=1):
            start, end = triple[name]
            for number, (first, last) in enumerate(places):
                if first < end and last > start:
                    tags[number] = tag
    return tags


def encode_passages(tokenizer: PreTrainedTokenizerFast):
    """Return the function that makes windows of questions and passages, as `run_qa.py` does."""

    def encode(records: dict) -> dict:
        items = tokenizer(
            records["question"],
            records["context"],
            truncation="only_second",
            max_length=PASSAGE_LENGTH,
            stride=STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        owners, places = items.pop("overflow_to_sample_mapping"), items.pop("offset_mapping")
        firsts, lasts = [], []
        for window, owner in enumerate(owners):
            found = find_answer(
                records["answers"][owner][0], places[window], items.sequence_ids(window)
            )
            firsts.append(found[0])
            lasts.append(found[1])
        return {**items, "start_positions": firsts, "end_positions": lasts}

    return encode


def find_answer(
    answer: list[int], places: list[tuple[int, int]], owners: list[int | None]
) -> tuple[int, int]:
    """Return the first and the last token of an answer; (0, 0): not in this window."""
    first, last = owners.index(1), len(owners) - 1 - owners[::-1].index(1)
    if places[first][0] > answer[0] or places[last][1] < answer[1]:
        return 0, 0
    while first < len(places) and places[first][0] <= answer[0]:
        first += 1
    while places[last][1] >= answer[1]:
        last -= 1
    return first - 1, last + 1


def pad_windows(tokenizer: PreTrainedTokenizerFast):
    """Return a collator that pads to the longest of a batch; the recipe pads to one length."""

    def collate(windows: list[dict]) -> dict:
        names = tokenizer.model_input_names
        padded = tokenizer.pad([{name: window[name] for name in names} for window in windows])
        places = default_data_collator(
            [{name: window[name] for name in window if "positions" in name} for window in windows]
        )
        return {**padded.convert_to_tensors("pt"), **places}

    return collate


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its ended child processes."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in own)


def status(name: str) -> int:
    """Return a memory size of this process in bytes, from the system."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(text.partition(f"{name}:")[2].split()[0])


if __name__ == "__main__":
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    main()

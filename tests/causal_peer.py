"""Computes with transformers what a decoder loses on texts, and what exported decoders compute.

python causal_peer.py TESTS FOLDER: run by another Python, see tests/peer.py; TESTS is this folder.
FOLDER gets numbers.json: the losses of `KINDS`, which tests/tasks/pretraining/causal_numbers.json
has, so that ours are compared with them without torch too. The models are those of writer_peer.py.
python causal_peer.py TESTS FOLDER read: writes what exported models compute, into their peer.npz.
"""

import json
import pathlib
import sys

import numpy as np

if __name__ == "__main__":
    sys.path.append(sys.argv[1])

import writer_peer  # noqa: E402
from writer_peer import END  # noqa: E402

KINDS = (
    *("gpt2", "llama", "llama3", "mistral", "qwen2", "qwen3", "smollm3", "gemma3"),
    "bert_decoder",
)
SIZES = (12, 9, 4)  # tokens of the texts
NO_TOKEN = -1


def batch() -> dict[str, np.ndarray]:
    """Return texts of several lines with their ends between, as pre-training lays them out."""
    random = np.random.default_rng(5)
    length = max(SIZES)
    mask = (np.arange(length) < np.array(SIZES)[:, None]).astype(int)
    ids = random.integers(10, 60, mask.shape)
    ids[:, 0] = ids[np.arange(len(SIZES)), np.array(SIZES) - 1] = ids[0, 5] = END
    ids = np.where(mask, ids, END)
    positions = np.broadcast_to(np.arange(length - 1), (len(SIZES), length - 1))
    labels = np.where(mask[:, 1:] > 0, ids[:, 1:], NO_TOKEN)
    return {
        "token_ids": ids,
        "padding_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "masked_positions": positions,
        "masked_labels": labels,
    }


def compute(model) -> dict[str, np.ndarray]:
    """Return the logits, and the loss of the whole batch: the mean over its tokens."""
    import torch

    given = batch()
    ids, mask = (torch.tensor(given[name]) for name in ("token_ids", "padding_mask"))
    with torch.no_grad():
        labels = torch.where(mask > 0, ids, -100)
        found = model(input_ids=ids, attention_mask=mask, labels=labels)
    return {"logits": found.logits.numpy(), "loss": found.loss.numpy()}


def read_exports(folder: pathlib.Path) -> None:
    """Write what transformers computes with exported decoders, and how it reads a text."""
    import transformers

    for name in KINDS:
        if (folder / name / "config.json").is_file():
            model, found = transformers.AutoModelForCausalLM.from_pretrained(
                folder / name, output_loading_info=True, attn_implementation="eager"
            )
            unread = [key for key in found["unexpected_keys"] if "pooler" not in key]
            assert not found["missing_keys"] and not unread, (name, found)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
            read = tokenizer("a cab", return_tensors="pt")
            model(**read)
            numbers = {"tokens": read["input_ids"][0].numpy()}
            np.savez(folder / name / "peer.npz", **compute(model.eval()), **numbers)


def main() -> None:
    folder, numbers = pathlib.Path(sys.argv[2]), {}
    if sys.argv[3:] == ["read"]:
        read_exports(folder)
        return
    for name in KINDS:
        model = writer_peer.make(writer_peer.KINDS[name])
        # In double precision: float32 of one machine differs from that of another.
        numbers[name] = float(compute(model.double())["loss"])
    (folder / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()

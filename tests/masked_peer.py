"""Makes small masked language models with transformers, and computes their losses and states.

python masked_peer.py TESTS FOLDER: run by another Python, see tests/peer.py; TESTS is this folder.
FOLDER gets one folder for each of `KINDS`, and numbers.json: what tests/tasks/pretraining/
masked_numbers.json has, so that the losses are compared without torch too.
python masked_peer.py TESTS FOLDER read: writes what exported models compute, into their peer.npz.
"""

import json
import pathlib
import sys

import numpy as np

if __name__ == "__main__":
    sys.path.append(sys.argv[1])

import encoder_peer  # noqa: E402
from encoder_peer import LENGTHS  # noqa: E402

# Name -> class of transformers, kind of `encoder_peer.KINDS`, and its own fields.
KINDS: dict[str, tuple[str, str, dict]] = {
    "bert": ("BertForMaskedLM", "bert", {}),
    "bert_relu": ("BertForMaskedLM", "bert_relu", {}),
    "bert_one_segment": ("BertForMaskedLM", "bert_one_segment", {}),
    "ernie": ("ErnieForMaskedLM", "ernie", {}),
    "roberta": ("RobertaForMaskedLM", "roberta", {}),
    "xlm_roberta": ("XLMRobertaForMaskedLM", "xlm_roberta", {}),
    "camembert": ("CamembertForMaskedLM", "camembert", {"hidden_act": "gelu"}),
    "distilbert": ("DistilBertForMaskedLM", "distilbert", {}),
    "electra": ("ElectraForMaskedLM", "electra", {}),
    "albert": ("AlbertForMaskedLM", "albert", {}),
    "roformer": ("RoFormerForMaskedLM", "roformer", {}),
    "deberta_v2": ("DebertaV2ForMaskedLM", "deberta_v2", {}),
    "deberta_v3": ("DebertaV2ForMaskedLM", "deberta_v3", {"legacy": False}),
    "modernbert": ("ModernBertForMaskedLM", "modernbert", {}),
    "mpnet": ("MPNetForMaskedLM", "mpnet", {}),
}
HIDDEN = 5  # tokens of a text that are predicted, at the most
NO_TOKEN = -1


def batch(name: str) -> dict[str, np.ndarray]:
    """Return what a model reads, and the tokens that it predicts: positions and labels."""
    read = encoder_peer.arrays(KINDS[name][1])
    random = np.random.default_rng(3)
    shape = (len(LENGTHS), HIDDEN)
    positions, labels = np.zeros(shape, int), np.full(shape, NO_TOKEN)
    for row, length in enumerate(LENGTHS):
        count = min(HIDDEN, length)
        positions[row, :count] = np.sort(random.permutation(length)[:count])
        labels[row, :count] = random.integers(5, 60, count)
    return {
        "token_ids": read["input_ids"],
        "padding_mask": read["attention_mask"],
        "masked_positions": positions,
        "masked_labels": labels,
    }


def compute(model, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return hidden states, and the sum of the losses of each text."""
    import torch

    inputs = {
        "input_ids": torch.tensor(given["token_ids"]),
        "attention_mask": torch.tensor(given["padding_mask"]),
    }
    target = torch.full(inputs["input_ids"].shape, -100)
    for row in range(len(target)):
        used = given["masked_labels"][row] != NO_TOKEN
        target[row, given["masked_positions"][row][used]] = torch.tensor(
            given["masked_labels"][row][used]
        )
    with torch.no_grad():
        states = model.base_model(**inputs).last_hidden_state
        one = [{n: t[row : row + 1] for n, t in inputs.items()} for row in range(len(target))]
        losses = [
            model(**one[row], labels=target[row : row + 1]).loss * (target[row] >= 0).sum()
            for row in range(len(target))
        ]
    return {"states": states.numpy(), "losses": torch.stack(losses).numpy()}


def make(name: str):
    """Return a model all of whose weights are `encoder_peer.seeded`."""
    import torch
    import transformers

    kind, base, changes = KINDS[name]
    model_class = getattr(transformers, kind)
    config = {**encoder_peer.KINDS[base]["config"], **changes}
    model = model_class(model_class.config_class(**config))
    with torch.no_grad():
        for parameter_name, parameter in learned(model).items():
            parameter.copy_(
                torch.tensor(encoder_peer.seeded(parameter_name, tuple(parameter.shape)))
            )
    return model.eval()


def learned(model) -> dict:
    """Return all parameters by their names in a file, without tables that are computed."""
    # The token table scores the vocabulary too; files have it by the name of the embeddings.
    table = model.get_input_embeddings().weight
    every = model.named_parameters(remove_duplicate=False)
    [name] = [n for n, p in every if p is table and "embeddings" in n]
    found = model.named_parameters()
    return {name if p is table else n: p for n, p in found if p.requires_grad}


def read_exports(folder: pathlib.Path) -> None:
    """Write what transformers computes with exported models."""
    import transformers

    for name in KINDS:
        if (folder / name / "config.json").is_file():
            model, found = transformers.AutoModelForMaskedLM.from_pretrained(
                folder / name, output_loading_info=True, attn_implementation="eager"
            )
            unread = [key for key in found["unexpected_keys"] if "pooler" not in key]
            assert not found["missing_keys"] and not unread, (name, found)
            assert type(model).__name__ == KINDS[name][0], (name, type(model))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
            read = tokenizer("a cab", return_tensors="pt")
            model(**read)
            numbers = {"tokens": read["input_ids"][0].numpy()}
            np.savez(folder / name / "peer.npz", **compute(model.eval(), batch(name)), **numbers)


def main() -> None:
    folder, numbers = pathlib.Path(sys.argv[2]), {}
    if sys.argv[3:] == ["read"]:
        read_exports(folder)
        return
    for name in KINDS:
        model = make(name)
        model.save_pretrained(folder / name)
        config = json.loads((folder / name / "config.json").read_text())
        numbers[name] = {
            "config": {key: value for key, value in config.items() if value is not None},
            "shapes": {key: list(value.shape) for key, value in learned(model).items()},
            # In double precision: float32 of one machine differs from that of another.
            "losses": compute(model.double(), batch(name))["losses"].tolist(),
        }
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in numbers.items()]
    (folder / "numbers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

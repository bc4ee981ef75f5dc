"""Computes with transformers what small discriminators lose on texts with replaced tokens.

python replaced_peer.py TESTS FOLDER: run by another Python, see tests/peer.py; TESTS is this
folder. FOLDER gets one folder for each of `KINDS`, and numbers.json: what tests/tasks/pretraining/
replaced_numbers.json has, so that the losses are compared without torch too.
python replaced_peer.py TESTS FOLDER read: writes what exported models compute, into their peer.npz.

transformers has no class for the head of DeBERTa-v3, whose published files have it: it is written
here with the layers of torch.
"""

import json
import pathlib
import sys

import numpy as np

if __name__ == "__main__":
    sys.path.append(sys.argv[1])

import encoder_peer  # noqa: E402
from encoder_peer import seeded  # noqa: E402

# Name -> class of transformers, and kind of `encoder_peer.KINDS` or `OTHERS`.
KINDS = {
    "electra": ("ElectraForPreTraining", "electra"),
    "electra_wide": ("ElectraForPreTraining", "electra_wide"),
    "deberta_v3": ("DebertaV2Model", "deberta_v3"),
}
HEAD = "mask_predictions"
NO_TOKEN = -1


def batch(name: str) -> dict[str, np.ndarray]:
    """Return what a model reads, and which tokens are replaced."""
    read = encoder_peer.arrays(KINDS[name][1])
    random = np.random.default_rng(4)
    mask = read["attention_mask"]
    labels = np.where(mask > 0, random.random(mask.shape) < 0.3, NO_TOKEN)
    return {
        "token_ids": read["input_ids"],
        "padding_mask": mask,
        "segment_ids": np.zeros_like(mask),
        "masked_positions": np.broadcast_to(np.arange(mask.shape[1]), mask.shape),
        "masked_labels": labels,
    }


def find_shapes(model) -> dict[str, list[int]]:
    """Return the shapes of all weights, those of DeBERTa's head among them."""
    if hasattr(model, "discriminator_predictions"):
        return {name: list(p.shape) for name, p in model.named_parameters()}
    width = model.config.hidden_size
    shapes = {f"deberta.{name}": list(p.shape) for name, p in model.named_parameters()}
    for name, inputs, outputs in (("dense", width, width), ("classifier", width, 1)):
        shapes |= {f"{HEAD}.{name}.weight": [outputs, inputs], f"{HEAD}.{name}.bias": [outputs]}
    norm = f"{HEAD}.LayerNorm"
    return {**shapes, f"{norm}.weight": [width], f"{norm}.bias": [width]}


def discriminate(model, state: dict, given: dict[str, np.ndarray]):
    """Return the logits `[batch, length]` of replaced tokens."""
    import torch
    from torch.nn import functional

    inputs = {
        "input_ids": torch.tensor(given["token_ids"]),
        "attention_mask": torch.tensor(given["padding_mask"]),
    }
    if hasattr(model, "discriminator_predictions"):
        return model(**inputs).logits
    hidden = model(**inputs).last_hidden_state
    head = {name.removeprefix(f"{HEAD}."): w.to(hidden.dtype) for name, w in state.items()}
    norm, shape = [head[f"LayerNorm.{part}"] for part in ("weight", "bias")], hidden.shape[-1:]
    hidden = hidden + hidden[:, :1]
    hidden = functional.layer_norm(hidden, shape, *norm, eps=model.config.layer_norm_eps)
    hidden = functional.gelu(functional.linear(hidden, head["dense.weight"], head["dense.bias"]))
    return functional.linear(hidden, head["classifier.weight"], head["classifier.bias"])[..., 0]


def compute(model, state: dict, name: str) -> dict[str, np.ndarray]:
    """Return the logits and the loss of the whole batch: the mean over all tokens of texts."""
    import torch

    given = batch(name)
    labels, real = (torch.tensor(given[key]) for key in ("masked_labels", "padding_mask"))
    with torch.no_grad():
        logits = discriminate(model, state, given)
        if hasattr(model, "discriminator_predictions"):
            loss = model(
                input_ids=torch.tensor(given["token_ids"]), attention_mask=real, labels=labels
            ).loss
        else:
            used = real > 0
            loss = torch.nn.BCEWithLogitsLoss()(logits[used], labels[used].to(logits.dtype))
    return {"logits": logits.numpy(), "loss": loss.numpy()}


def head_of(folder: pathlib.Path) -> dict:
    """Return the tensors of DeBERTa's head in a folder."""
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    return {name: value for name, value in state.items() if name.startswith(f"{HEAD}.")}


def read_exports(folder: pathlib.Path) -> None:
    """Write what transformers computes with exported models, and how it reads a text."""
    import transformers

    for name, (kind, _) in KINDS.items():
        of_class = transformers.AutoModel if "DebertaV2" in kind else None
        of_class = of_class or transformers.AutoModelForPreTraining
        model, found = of_class.from_pretrained(
            folder / name, output_loading_info=True, attn_implementation="eager"
        )
        unread = [key for key in found["unexpected_keys"] if not key.startswith(HEAD)]
        assert type(model).__name__ == kind and not found["missing_keys"] and not unread, found
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
        read = tokenizer("a cab", return_tensors="pt")
        model(**read)
        numbers = {"tokens": read["input_ids"][0].numpy()}
        state = head_of(folder / name)
        np.savez(folder / name / "peer.npz", **compute(model.eval(), state, name), **numbers)


def main() -> None:
    import torch
    import transformers

    folder, numbers = pathlib.Path(sys.argv[2]), {}
    if sys.argv[3:] == ["read"]:
        read_exports(folder)
        return
    for name, (kind, base) in KINDS.items():
        model_class = getattr(transformers, kind)
        model = model_class(model_class.config_class(**encoder_peer.KINDS[base]["config"]))
        shapes = find_shapes(model)
        state = {n: torch.tensor(seeded(n, tuple(shape))) for n, shape in shapes.items()}
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                prefix = "" if hasattr(model, "discriminator_predictions") else "deberta."
                parameter.copy_(state[f"{prefix}{parameter_name}"])
        model.save_pretrained(folder / name)
        config = json.loads((folder / name / "config.json").read_text())
        # In double precision: float32 of one machine differs from that of another.
        head = {n: w for n, w in state.items() if n.startswith(HEAD)}
        found = compute(model.eval().double(), head, name)
        numbers[name] = {
            "config": {key: value for key, value in config.items() if value is not None},
            "shapes": shapes,
            "loss": float(found["loss"]),
        }
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in numbers.items()]
    (folder / "numbers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

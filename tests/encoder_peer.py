"""Makes small models with transformers, and writes down what they compute.

python encoder_peer.py FOLDER: run by another Python, see tests/peer.py. FOLDER gets one folder for
each of `KINDS` that its transformers has, with arrays in peer.npz, and a few numbers of all in
numbers.json. The weights are random numbers that follow from their names: what the numbers say can
be tested without torch too, see tests/extras/encoder_numbers.json.
"""

import json
import pathlib
import sys
import zlib

import numpy as np

LENGTHS = (40, 23, 7, 1)
SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}
# Without segments: `segments` is not a field of transformers, which keeps and ignores it.
ROBERTA = {
    **SIZES,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
}
KINDS = {
    "bert": {
        "model": "BertForPreTraining",
        "config": {**SIZES, "layer_norm_eps": 1e-3, "type_vocab_size": 5},
        "formats": ["zip", "legacy", "parts", "bfloat16"],
    },
    "bert_relu": {"model": "BertModel", "config": {**SIZES, "hidden_act": "relu"}},
    "bert_tanh": {"model": "BertModel", "config": {**SIZES, "hidden_act": "gelu_new"}},
    "bert_one_segment": {
        "model": "BertModel",
        "config": {**SIZES, "type_vocab_size": 1},
    },
    "ernie": {"model": "ErnieModel", "config": {**SIZES, "use_task_id": True}},
    "roberta": {"model": "RobertaModel", "config": ROBERTA},
    "xlm_roberta": {"model": "XLMRobertaForMaskedLM", "config": ROBERTA},
    "camembert": {"model": "CamembertModel", "config": {**ROBERTA, "hidden_act": "gelu_new"}},
    "distilbert": {
        "model": "DistilBertModel",
        "config": {
            "vocab_size": 60,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 48,
            "max_position_embeddings": 66,
            "initializer_range": 0.3,
        },
    },
    "electra": {
        "model": "ElectraForPreTraining",
        "config": {**SIZES, "embedding_size": 16},
    },
    "electra_wide": {"model": "ElectraModel", "config": {**SIZES, "embedding_size": 32}},
    "albert": {
        "model": "AlbertModel",
        "config": {
            **SIZES,
            "embedding_size": 16,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
        },
    },
    "roformer": {
        "model": "RoFormerForMaskedLM",
        "config": {**SIZES, "embedding_size": 16, "rotary_value": False},
    },
    "roformer_values": {
        "model": "RoFormerModel",
        "config": {**SIZES, "embedding_size": 32, "rotary_value": True},
    },
    "deberta_v3": {
        "model": "DebertaV2Model",
        "config": {
            **SIZES,
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 8,
            "max_position_embeddings": 32,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    },
    "deberta_v2": {
        "model": "DebertaV2ForMaskedLM",
        "config": {
            **SIZES,
            "relative_attention": True,
            "pos_att_type": "c2p|p2c",
            "max_relative_positions": 9,
            "type_vocab_size": 2,
            "conv_kernel_size": 3,
            "conv_act": "gelu",
            "layer_norm_eps": 1e-6,
        },
    },
    "deberta_c2p": {
        "model": "DebertaV2Model",
        "config": {**SIZES, "relative_attention": True, "pos_att_type": ["c2p"]},
    },
    "modernbert": {
        "model": "ModernBertForMaskedLM",
        "config": {
            **SIZES,
            "num_hidden_layers": 4,
            "local_attention": 12,
            "pad_token_id": 0,
            "initializer_range": 0.1,
        },
    },
    "mpnet": {
        "model": "MPNetForMaskedLM",
        "config": {**SIZES, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    },
    "nezha": {"model": "NezhaModel", "config": {**SIZES, "max_relative_position": 7}},
}

# Families that transformers does not have: another peer computes them.
_LAYER = {
    "attention.self.query": [32, 32],
    "attention.self.key": [32, 32],
    "attention.self.value": [32, 32],
    "attention.output.dense": [32, 32],
    "intermediate.dense": [48, 32],
    "output.dense": [32, 48],
}
OTHERS = {
    "roformer_v2": {
        "model": "RoFormerV2",
        "config": {
            **SIZES,
            "model_type": "roformer",
            "embedding_size": 16,
            "hidden_act": "relu",
            "type_vocab_size": 2,
            "norm_type": "rms_norm",
            "use_bias": False,
            "rotary_value": False,
        },
        "shapes": {
            "embeddings.word_embeddings.weight": [60, 16],
            "embeddings.token_type_embeddings.weight": [2, 16],
            "embeddings_project.weight": [32, 16],
            **{
                f"encoder.layer.{number}.{name}.weight": shape
                for number in range(2)
                for name, shape in _LAYER.items()
            },
        },
    },
}


def seeded(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the weights of a name: those with one axis are near 1, or near 0 for a bias."""
    numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape)
    if len(shape) > 1:
        return (0.3 * numbers).astype("float32")
    return (0.1 * numbers + (not name.endswith("bias"))).astype("float32")


# Those whose tokens have no segments.
WITHOUT_SEGMENTS = (
    *("bert_one_segment", "roberta", "xlm_roberta", "camembert", "distilbert"),
    *("deberta_v3", "deberta_c2p", "modernbert", "mpnet"),
)


def arrays(name: str) -> dict[str, np.ndarray]:
    """Return what a model reads, and the gradient by its hidden states, of a mean of tokens."""
    random = np.random.default_rng(0)
    shape = (len(LENGTHS), max(LENGTHS))
    mask = (np.arange(shape[1]) < np.array(LENGTHS)[:, None]).astype("int64")
    pad = {**KINDS, **OTHERS}[name]["config"].get("pad_token_id", 0)
    ids = np.where(mask, random.integers(5, 60, shape), pad)
    types = (random.random(shape) < 0.5).astype("int64") * mask
    cotangent = random.normal(size=(*shape, 32)) * mask[..., None] / mask.sum()
    found = {"input_ids": ids, "attention_mask": mask, "cotangent": cotangent.astype("float32")}
    return found if name in WITHOUT_SEGMENTS else {**found, "token_type_ids": types}


def summary(hidden: np.ndarray, gradient: np.ndarray, read: dict[str, np.ndarray]) -> list[float]:
    """Return four numbers that tell hidden states and gradients by the embeddings from others."""
    mask = read["attention_mask"] > 0
    seen = np.unique(read["input_ids"][mask])
    # Of length 1 together: their sum rounds as one element does, for which the bound is meant.
    weights = np.random.default_rng(1).normal(size=gradient.shape) / gradient.size**0.5
    return [
        float((hidden * read["cotangent"]).sum()),
        float(np.abs(hidden[mask]).mean()),
        float((gradient * weights)[seen].sum()),
        float(np.abs(gradient[seen]).mean()),
    ]


def learned(model) -> dict:
    """Return the parameters of an encoder, without tables that are computed."""
    parameters = model.base_model.named_parameters()
    return {name: parameter for name, parameter in parameters if parameter.requires_grad}


def make(kind: dict):
    """Return a model whose weights are `seeded`."""
    import torch
    import transformers

    model_class = getattr(transformers, kind["model"])
    model = model_class(model_class.config_class(**kind["config"]))
    with torch.no_grad():
        for name, parameter in learned(model).items():
            parameter.copy_(torch.tensor(seeded(name, tuple(parameter.shape))))
    return model.eval()


def save(model, folder: pathlib.Path, formats: list[str]) -> None:
    """Save a model, and in further folders in the formats of torch."""
    import torch

    model.save_pretrained(folder)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    for name in formats:
        other = folder.with_name(f"{folder.name}_{name}")
        other.mkdir()
        (other / "config.json").write_text((folder / "config.json").read_text())
        target = other / "pytorch_model.bin"
        if name == "zip":
            torch.save(state, target)
        elif name == "legacy":
            torch.save(state, target, _use_new_zipfile_serialization=False)
        elif name == "bfloat16":
            torch.save({name: t.to(torch.bfloat16) for name, t in state.items()}, target)
        elif name == "parts":
            names = sorted(state)
            halves = {"a.bin": names[::2], "b.bin": names[1::2]}
            for part, its in halves.items():
                torch.save({name: state[name] for name in its}, other / part)
            places = {name: part for part, its in halves.items() for name in its}
            index = json.dumps({"weight_map": places})
            (other / "pytorch_model.bin.index.json").write_text(index)


def compute(model, name: str) -> dict[str, np.ndarray]:
    """Return what a model reads and what it makes of it."""
    import torch

    read = arrays(name)
    model, cotangent = model.base_model, torch.tensor(read["cotangent"])
    inputs = {name: torch.tensor(a) for name, a in read.items() if name != "cotangent"}
    hidden = model(**inputs).last_hidden_state
    (hidden * cotangent).sum().backward()
    with torch.no_grad():
        alone = {name: tensor[:1, : LENGTHS[0]] for name, tensor in inputs.items()}
        unpadded = model(**alone).last_hidden_state
    gradient = model.get_input_embeddings().weight.grad.numpy().copy()
    model.double().zero_grad()
    exact = model(**inputs).last_hidden_state
    (exact * cotangent).sum().backward()
    return {
        **read,
        "hidden": hidden.detach().numpy(),
        "unpadded": unpadded.numpy(),
        "gradient": gradient,
        "exact": exact.detach().numpy(),
        "exact_gradient": model.get_input_embeddings().weight.grad.numpy(),
    }


def main() -> None:
    import transformers

    folder, numbers = pathlib.Path(sys.argv[1]), {}
    for name, kind in KINDS.items():
        if not hasattr(transformers, kind["model"]):
            continue
        model = make(kind)
        save(model, folder / name, kind.get("formats", []))
        found = compute(model, name)
        np.savez(folder / name / "peer.npz", **found)
        config = json.loads((folder / name / "config.json").read_text())
        numbers[name] = {
            "config": {key: value for key, value in config.items() if value is not None},
            "shapes": {key: list(value.shape) for key, value in learned(model).items()},
            # Float32 of one machine is up to 6e-5 from that of another.
            "numbers": summary(found["exact"], found["exact_gradient"], found),
        }
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in numbers.items()]
    (folder / "numbers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

"""Makes small writers with transformers, and writes down what they compute and generate.

python writer_peer.py FOLDER: run by another Python, see tests/peer.py. FOLDER gets one folder for
each of `KINDS` that its transformers has, with arrays in peer.npz, and a few numbers of all in
numbers.json. The weights are random numbers that follow from their names: what the numbers say can
be tested without torch too, see tests/tasks/seq2seq/writer_numbers.json.
"""

import json
import pathlib
import sys
import zlib

import numpy as np

LENGTHS = (9, 4, 1)
TARGET, BEAMS, END = 8, 3, 7
LLAMA = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "eos_token_id": END,
    "bos_token_id": 1,
    "pad_token_id": 0,
}
T5 = {
    "vocab_size": 60,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "eos_token_id": END,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
KINDS = {
    "gpt2": {
        "model": "GPT2LMHeadModel",
        "config": {
            "vocab_size": 60,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 32,
            "eos_token_id": END,
            "bos_token_id": END,
        },
    },
    "llama": {"model": "LlamaForCausalLM", "config": {**LLAMA, "eos_token_id": [END, 9]}},
    "llama3": {
        "model": "LlamaForCausalLM",
        "config": {
            **LLAMA,
            "head_dim": 16,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "rope_theta": 100.0,
            "rope_scaling": LLAMA3,
        },
    },
    "mistral": {"model": "MistralForCausalLM", "config": {**LLAMA, "sliding_window": 5}},
    "qwen2": {
        "model": "Qwen2ForCausalLM",
        "config": {
            **LLAMA,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
        },
    },
    "qwen3": {"model": "Qwen3ForCausalLM", "config": {**LLAMA, "head_dim": 16}},
    "smollm3": {
        "model": "SmolLM3ForCausalLM",
        "config": {**LLAMA, "num_hidden_layers": 4, "tie_word_embeddings": True},
    },
    "gemma3": {
        "model": "Gemma3ForCausalLM",
        "config": {
            **LLAMA,
            "head_dim": 16,
            "query_pre_attn_scalar": 20,
            "sliding_window": 5,
            "sliding_window_pattern": 2,
        },
    },
    "bert_decoder": {
        "model": "BertLMHeadModel",
        "config": {
            "vocab_size": 60,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": 32,
            "layer_norm_eps": 1e-3,
            "is_decoder": True,
            "eos_token_id": END,
            "bos_token_id": 3,
        },
    },
    "bart": {
        "model": "BartForConditionalGeneration",
        "config": {
            "vocab_size": 60,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "max_position_embeddings": 32,
            "scale_embedding": True,
            "bos_token_id": 3,
            "eos_token_id": END,
            "pad_token_id": 1,
            "decoder_start_token_id": END,
            "forced_bos_token_id": 3,
            "forced_eos_token_id": None,
        },
    },
    "t5": {"model": "T5ForConditionalGeneration", "config": T5},
    "t5_gated": {
        "model": "T5ForConditionalGeneration",
        "config": {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    },
    "mt5": {
        "model": "MT5ForConditionalGeneration",
        "config": {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1},
    },
}
TWO_SIDED = ("bart", "t5", "t5_gated", "mt5")
# What classifies with the weights of a writer of the same names, and a head.
CLASSIFIERS = {"gpt2": "GPT2ForSequenceClassification", "qwen2": "Qwen2ForSequenceClassification"}
CLASSES = 3


def seeded(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the weights of a name: those with one axis are near 1, or near 0 for a bias."""
    numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape)
    if name == "final_logits_bias":
        return (0.1 * numbers).astype("float32")
    if len(shape) > 1:
        return (0.2 * numbers).astype("float32")
    return (0.1 * numbers + (not name.endswith("bias"))).astype("float32")


def write_folder(folder: pathlib.Path, made: dict, leave_out: str = "", **fields) -> pathlib.Path:
    """Make a folder with config.json and model.safetensors, as transformers did.

    Args:
        folder: of the writer.
        made: `config` and `shapes`, as in writer_numbers.json.
        leave_out: a tensor.
        **fields: other values of config.json.
    """
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True, parents=True)
    config = {**made["config"], **fields}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shapes = {name: tuple(shape) for name, shape in made["shapes"].items() if name != leave_out}
    if "vocab_size" in fields:
        rows = made["config"]["vocab_size"], fields["vocab_size"]
        shapes = {
            name: tuple(rows[1] if size == rows[0] else size for size in shape)
            for name, shape in shapes.items()
        }
    save_file({n: seeded(n, shape) for n, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def arrays(name: str) -> dict[str, np.ndarray]:
    """Return what a writer reads: sources padded on the right, and targets."""
    random = np.random.default_rng(0)
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype("int64")
    ids = np.where(mask, random.integers(10, 60, mask.shape), 0)
    return {"ids": ids, "mask": mask, "target": random.integers(10, 60, (len(LENGTHS), TARGET))}


def left(array: np.ndarray) -> np.ndarray:
    """Return sources with their padding on the left."""
    rows = [np.roll(row, -length) for row, length in zip(array, LENGTHS, strict=True)]
    return np.stack(rows)


def summary(logits: np.ndarray) -> list[float]:
    """Return numbers that tell logits `[batch, target, vocabulary]` from others."""
    weights = np.random.default_rng(1).normal(size=logits.shape)
    return [float((logits * weights).mean()), float(np.abs(logits).mean())]


def make(kind: dict):
    """Return a model whose weights are `seeded`."""
    import torch
    import transformers

    model_class = getattr(transformers, kind["model"])
    model = model_class(model_class.config_class(**kind["config"]))
    with torch.no_grad():
        for name, tensor in learned(model).items():
            tensor.copy_(torch.tensor(seeded(name, tuple(tensor.shape))))
    return model.eval()


def learned(model) -> dict:
    """Return the parameters of a model, each once, and the bias of BART's logits."""
    found = dict(model.named_parameters())
    if hasattr(model, "final_logits_bias"):
        found["final_logits_bias"] = model.final_logits_bias
    return found


def compute(model, name: str) -> dict[str, np.ndarray]:
    """Return logits of the tokens after each of a target, and what is generated."""
    import torch

    read = arrays(name)
    ids, mask, target = (torch.tensor(read[key]) for key in ("ids", "mask", "target"))
    options = {
        "max_new_tokens": TARGET,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_scores": True,
        "early_stopping": "never",
    }
    with torch.no_grad():
        if name in TWO_SIDED:
            begin = [[model.config.decoder_start_token_id]] * len(LENGTHS)
            skipped = 0
            if name == "bart":
                begin, skipped = [[END, 3]] * len(LENGTHS), 1
                options |= {"max_new_tokens": TARGET + 1, "forced_bos_token_id": 3}
            before = torch.cat([torch.tensor(begin), target[:, :-1]], dim=1)
            logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=before).logits
            logits, source, source_mask = logits[:, skipped:], ids, mask
        else:
            logits, source, source_mask = [], torch.tensor(left(ids.numpy())), None
            source_mask = torch.tensor(left(mask.numpy()))
            both = torch.cat([source, target[:, :-1]], dim=1)
            seen = torch.cat([source_mask, torch.ones_like(target[:, :-1])], dim=1)
            places = (seen.cumsum(1) - 1).clamp(min=0)
            logits = model(input_ids=both, attention_mask=seen, position_ids=places).logits
            logits = logits[:, source.shape[1] - 1 :]
        power = 0.0 if name == "bart" else 1.0
        inputs = {"input_ids": source, "attention_mask": source_mask, **options}
        greedy = model.generate(**inputs, num_beams=1)
        beams = model.generate(
            **inputs, num_beams=BEAMS, num_return_sequences=BEAMS, length_penalty=power
        )
    first = source.shape[1] if name not in TWO_SIDED else 2 if name == "bart" else 1
    return {
        **read,
        "logits": logits.numpy(),
        "greedy": greedy.sequences[:, first:].numpy(),
        "beams": beams.sequences[:, first:].numpy(),
        "scores": beams.sequences_scores.numpy(),
    }


def classify(kind: dict, name: str) -> np.ndarray:
    """Return the logits `[batch, CLASSES]` that a classifier with these weights gives sources."""
    import torch

    config = {**kind["config"], "num_labels": CLASSES, "pad_token_id": 0}
    model = make({"model": CLASSIFIERS[name], "config": config})
    read = arrays(name)
    ids, mask = (torch.tensor(read[key]) for key in ("ids", "mask"))
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask).logits.numpy()


def main() -> None:
    import transformers

    folder, numbers = pathlib.Path(sys.argv[1]), {}
    for name, kind in KINDS.items():
        if not hasattr(transformers, kind["model"]):
            continue
        model = make(kind)
        model.save_pretrained(folder / name)
        found = compute(model, name)
        if name in CLASSIFIERS:
            found["classes"] = classify(kind, name)
        np.savez(folder / name / "peer.npz", **found)
        config = json.loads((folder / name / "config.json").read_text())
        shapes = {key: list(value.shape) for key, value in learned(model).items()}
        numbers[name] = {
            "config": {key: value for key, value in config.items() if value is not None},
            "shapes": shapes,
            "logits": summary(found["logits"]),
            "greedy": found["greedy"].tolist(),
            "scores": found["scores"].tolist(),
            **({"classes": found["classes"].tolist()} if "classes" in found else {}),
        }
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in numbers.items()]
    (folder / "numbers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

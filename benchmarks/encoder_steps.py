"""Is a training step of an encoder slower here than in PyTorch?

For each family, transformers makes one model with random weights and the extra `encoders` loads it.
A step is forward, backward and AdamW over the same batch of 16 texts of 128 tokens, with the
dropout of the family's configuration. Each side is a process with two threads. The sides take turns
every few steps, and only the ratios of neighbouring turns are compared, because the speed of a
machine drifts. The table of docs/encoders.md shows the ratios, see encoder_families.py.

python benchmarks/encoder_steps.py PYTHON ...: each PYTHON has torch and transformers; a family that
the first one lacks comes from the next.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "benchmarks/results/encoder_steps.json"
THREADS = 2
BATCH, LENGTH = 16, 128
SIZES = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
OF_DISTILBERT = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
}
OF_DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
# The names are those of tests/encoder_peer.py; other fields keep the family's defaults.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {}),
    "ernie": ("ErnieModel", {"use_task_id": True}),
    "roberta": ("RobertaModel", {"type_vocab_size": 1, "max_position_embeddings": 514}),
    "distilbert": ("DistilBertModel", {}),
    "electra": ("ElectraModel", {"embedding_size": 128}),
    "albert": ("AlbertModel", {"embedding_size": 128}),
    "roformer": ("RoFormerModel", {"embedding_size": 384}),
    "deberta_v3": (
        "DebertaV2Model",
        {
            **OF_DEBERTA,
            "position_buckets": 256,
            "position_biased_input": False,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
        },
    ),
    "deberta_v2": (
        "DebertaV2Model",
        {**OF_DEBERTA, "position_buckets": 256, "share_att_key": True, "conv_kernel_size": 3},
    ),
    "modernbert": ("ModernBertModel", {"pad_token_id": 0}),
    "nezha": ("NezhaModel", {}),
}
# Names of the two dropout rates in the configuration of a family.
RATES = {
    "dropout": ("hidden_dropout_prob", "dropout", "mlp_dropout"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout"),
}


def main() -> None:
    """Compare all families, or be one of the two sides."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", nargs="*", help="with torch and transformers")
    parser.add_argument("--turns", type=int, default=12, help="timed turns of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--precision", nargs="+", default=["float32", "mixed_bfloat16"])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--side", choices=["torch", "ours"], help="be one side, for one family")
    parser.add_argument("--folder", type=Path, help="where the model of that side is")
    arguments = parser.parse_args()
    if arguments.side:
        make = {"torch": torch_step, "ours": our_step}[arguments.side]
        take_turns(make(arguments.families[0], arguments.folder, arguments.precision[0]))
        return
    if not arguments.python:
        sys.exit("error: name a Python that has torch and transformers.")
    rows = {}
    for family in arguments.families:
        with tempfile.TemporaryDirectory() as folder:
            rows[family] = compare(arguments, family, Path(folder))
        print(family, json.dumps(rows[family]), flush=True)
        write(arguments.output, rows, arguments)


def compare(arguments: argparse.Namespace, family: str, folder: Path) -> dict[str, Any]:
    """Return the ratios of a family, ours to torch, in each precision."""
    torch = next(
        side
        for python in arguments.python
        if (side := Side([python, __file__, "--side", "torch"], family, folder, "float32")).begun
    )
    row: dict[str, Any] = {"torch": torch.begun}
    try:
        for precision in arguments.precision:
            ours = Side([sys.executable, __file__, "--side", "ours"], family, folder, precision)
            try:
                row[precision] = measure(torch, ours, arguments.turns, arguments.steps)
            finally:
                ours.end()
    finally:
        torch.end()
    return row


def measure(torch: "Side", ours: "Side", turns: int, steps: int) -> dict[str, Any]:
    """Return CPU and wall seconds of a step, and the ratios of neighbouring turns."""
    pairs = []
    for _ in range(turns + 1):
        pairs.append((torch.turn(steps), ours.turn(steps)))
    pairs = pairs[1:]  # the first turn warms up
    ratios = [other["wall"] / one["wall"] for one, other in pairs]
    found: dict[str, Any] = {"ratio": round(statistics.median(ratios), 3)}
    found["quartiles"] = [round(value, 3) for value in statistics.quantiles(ratios)[::2]]
    for name, side in (("torch", 0), ("ours", 1)):
        for clock in ("wall", "cpu"):
            seconds = statistics.median(pair[side][clock] for pair in pairs)
            found[f"{name}_{clock}_seconds"] = round(seconds, 4)
    return found


class Side:
    """A process that makes steps on request."""

    def __init__(self, command: list[str], family: str, folder: Path, precision: str) -> None:
        options = ["--folder", str(folder), "--families", family, "--precision", precision]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([*command, *options], text=True, **pipes)
        self.begun = self.read()

    def read(self) -> Any:
        """Return the next line of the process; None: it has ended, or can't begin."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def turn(self, steps: int) -> dict[str, float]:
        """Return seconds of a step."""
        print(steps, file=self.process.stdin, flush=True)
        return self.read()

    def end(self) -> None:
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()


def take_turns(made: tuple[Callable[[], None], dict[str, str]]) -> None:
    """Read numbers of steps line by line; make the steps and print the seconds of one."""
    step, versions = made
    step()
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        began, busy = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step()
        wall, cpu = time.perf_counter() - began, time.process_time() - busy
        print(json.dumps({"wall": wall / int(line), "cpu": cpu / int(line)}), flush=True)


def torch_step(family: str, folder: Path, precision: str) -> tuple[Callable[[], None], dict]:
    """Return a step of transformers' model, saved in the folder."""
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    name, changes = FAMILIES[family]
    if not hasattr(transformers, name):
        sys.exit(0)
    sizes = {"max_position_embeddings": 512, **SIZES}
    if family == "distilbert":
        sizes = {OF_DISTILBERT.get(name, name): value for name, value in sizes.items()}
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**{**sizes, **changes}))
    model.save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    tokens, weights = batch()
    tokens, weights = torch.tensor(tokens), torch.tensor(weights)
    mask = torch.ones_like(tokens)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
        (hidden * weights).mean().backward()
        optimizer.step()

    return step, {"torch": torch.__version__, "transformers": transformers.__version__}


def our_step(family: str, folder: Path, precision: str) -> tuple[Callable[[], None], dict]:
    """Return a step of the same model, loaded by the extra `encoders`."""
    sys.path.insert(0, str(ROOT / "templates"))
    importlib.import_module("core")  # sets TensorFlow up, so it comes first
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    import keras

    from core.base.settings import RecordSettings, with_tables
    from core.devices.strategy import keep_freed_memory
    from core.encoders.encoder import encoder_inputs, hidden_states, load_encoder, load_tokenizer
    from core.exact.dropout import place_dropout
    from core.fast.adamw import AdamW
    from core.step import TrainingModel

    keep_freed_memory()
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(1)
    settings = with_tables(RecordSettings)(
        encoder=str(folder), max_length=LENGTH, **rates(folder / "config.json")
    )
    encoder = load_encoder(settings, load_tokenizer(settings, []))
    tokens, weights = batch()
    inputs = encoder_inputs(encoder)

    def loss(hidden):
        return tf.reduce_mean(tf.cast(hidden, "float32") * weights, axis=(1, 2))

    layer = keras.layers.Lambda(loss, output_shape=(), dtype="float32", name="loss")
    model = TrainingModel(inputs, {"loss": layer(hidden_states(encoder, inputs))})
    place_dropout(model, 1)
    model.compile(AdamW(1e-4, decay=0.01, clip_norm=0.0))
    read = {"token_ids": tokens, "padding_mask": tokens * 0 + 1, "segment_ids": tokens * 0}
    fed = {name: read[name] for name in inputs} | {"loss_weight": [1 / BATCH] * BATCH}
    data = iter(tf.data.Dataset.from_tensors(fed).cache().repeat())
    train = model.make_train_function() or model.train_function

    def step() -> None:
        train(data)["loss"].numpy()

    return step, {"tensorflow": tf.__version__, "keras": keras.__version__}


def batch() -> tuple[Any, Any]:
    """Return the tokens, and the weights of the hidden states in the loss."""
    import numpy as np

    random = np.random.default_rng(0)
    tokens = random.integers(5, SIZES["vocab_size"], (BATCH, LENGTH))
    return tokens, random.normal(size=(BATCH, LENGTH, SIZES["hidden_size"])).astype("float32")


def rates(path: Path) -> dict[str, float]:
    """Return the dropout settings of a configuration."""
    config = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: next(float(config[key]) for key in keys if key in config)
        for name, keys in RATES.items()
    }


def write(output: Path, rows: dict, arguments: argparse.Namespace) -> None:
    """Write the results with the circumstances of their measurement."""
    from project_parts import write_results

    write_results(
        {
            "question": "seconds of a training step, ours to PyTorch's, for each family",
            "batch": [BATCH, LENGTH],
            "threads": THREADS,
            "sizes": SIZES,
            "turns": arguments.turns,
            "steps": arguments.steps,
            "families": rows,
        },
        output,
    )


if __name__ == "__main__":
    main()

"""Write a trained run for others: its encoder for transformers, the whole model for TensorFlow.

python extras/export/export.py RUN DIR             DIR/encoder as on Hugging Face, DIR/saved_model;
                                                   DIR/writer of what model = pretrained trained
python extras/export/export.py RUN DIR --onnx      DIR/model.onnx, too
python extras/export/export.py RUN DIR --no-encoder

DIR appears whole or not at all; one that is there is refused.
"""

import argparse
import importlib.util
import json
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)

# What `core` sets up of TensorFlow comes first.
from core.base.errors import InputError, command  # noqa: E402, I001
from core.base.extras import need  # noqa: E402
from core.base.files import write_json, write_text  # noqa: E402
from core.exact.dropout import named_layers  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from safetensors.numpy import save  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

# How the parts of a pointer are named: a score is queries . keys / sqrt(size) + starts + ends.
PARTS = ("queries", "keys", "starts", "ends")
TOLERANCE = 1e-5  # of what was written, beside what was trained
# An example for the outputs of each kind: the file that is laid beside the model.
EXAMPLES = {"probabilities": "serve_labels.py"}
# Folder of what is written for transformers -> what reads it.
READERS = {
    "encoder": "`transformers.AutoModel`",
    "writer": "`transformers.AutoModelForCausalLM`, for BART and T5 `AutoModelForSeq2SeqLM`",
}
ONNX = "tf2onnx"


@keras.saving.register_keras_serializable("export")
class Serving(keras.Model):
    """An inference model whose outputs are all arrays with a name.

    Args:
        inference: of a task; an output may be a pointer's parts.
    """

    def __init__(self, inference: keras.Model) -> None:
        super().__init__(name="serving")
        self.inference = inference

    def call(self, inputs) -> dict[str, tf.Tensor]:
        """Return `name` or `name_part` -> array, float32 where it is not whole numbers."""
        found: dict[str, tf.Tensor] = {}
        ordered = {tensor.name: inputs[tensor.name] for tensor in self.inference.inputs}
        for name, value in self.inference(ordered, training=False).items():
            if isinstance(value, list | tuple):
                names = [f"{name}_{part}" for part in PARTS[: len(value)]]
                found |= dict(zip(names, value, strict=True))
            else:
                found[name] = value
        return {
            name: tf.cast(value, "float32" if value.dtype.is_floating else "int32")
            for name, value in found.items()
        }


@command
def main() -> None:
    """Load, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("folder", type=Path, metavar="DIR", help="that is made")
    parser.add_argument("--onnx", action="store_true", help="write model.onnx, too")
    parser.add_argument(
        "--no-encoder", action="store_true", help="leave out what is for transformers"
    )
    arguments = parser.parse_args()

    check_free(arguments.folder)
    if arguments.onnx and importlib.util.find_spec(ONNX) is None:
        raise InputError(
            f"--onnx needs the package {ONNX}: pip install -r extras/export/requirements.txt"
        )
    run, asked = load_run(arguments.run), (not arguments.no_encoder, arguments.onnx)
    write_folder(arguments.folder, lambda target: fill(target, run, *asked))
    print(f"{arguments.folder}: see README.md there")


def load_run(name: str) -> Any:
    """Return a run with its best weights, as the project's predict.py loads it.

    Raises:
        InputError: the project has no such script, or the name stands for several runs.
    """
    script = PROJECT / "predict.py"
    if not script.is_file():
        raise InputError(f"{PROJECT.name} predicts nothing: export its encoder with its export.py.")
    # An extra knows no task: who predicts does.
    loaded = runpy.run_path(str(script))["load_runs"]([name])
    if len(loaded.folders) > 1:
        folders = ", ".join(folder.name for folder in loaded.folders)
        raise InputError(f"{name} stands for several runs: name one of {folders}.")
    return loaded


def check_free(folder: Path) -> None:
    """Refuse a folder that is there already, before any work.

    Raises:
        InputError: it exists, or nobody may write there.
    """
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists already: name a new folder, or delete that one.")
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder} can't be made in {parent}: name another place.")


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder beside `folder`, then move it into place."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".writing-") as temporary:
        filled = Path(temporary) / folder.name
        filled.mkdir()
        write(filled)
        os.replace(filled, folder)


def fill(target: Path, run: Any, encoder: bool, onnx: bool) -> None:
    """Write all that a run is exported as.

    Args:
        target: an empty folder.
        run: as `load_run` returns it.
        encoder: whether that is asked for, as transformers loads it.
        onnx: whether model.onnx is asked for.
    """
    [inference] = getattr(run.models[0], "models", run.models)  # what generates asks a model
    written = write_encoder(target, find_encoder(inference), run.tokenizer) if encoder else ""
    model = Serving(inference)
    names = [tensor.name for tensor in inference.inputs]
    expected = model(sample_batch(names))
    signature = [
        {name: keras.InputSpec(shape=(None, None), dtype="int32", name=name) for name in names}
    ]
    options = {"input_signature": signature, "verbose": False}
    model.export(str(target / "saved_model"), format="tf_saved_model", **options)
    compare(target / "saved_model", names, expected)
    if onnx:
        model.export(str(target / "model.onnx"), format="onnx", **options)
    write_json(target / "tokenizer.json", json.loads(run.tokenizer.to_str()))
    outputs = {name: list(value.shape) for name, value in expected.items()}
    described = {
        "inputs": names,
        "outputs": {name: [None, *shape[1:]] for name, shape in outputs.items()},
        "max_length": run.settings.max_length,
        "labels": run.labels,
    }
    write_json(target / "serving.json", described)
    write_text(target / "README.md", readme(described, written, onnx))
    for output, example in EXAMPLES.items():
        if output in outputs:
            shutil.copy(Path(__file__).with_name(example), target / "serve.py")


def find_encoder(model: keras.Model) -> keras.Model:
    """Return the encoder within a model."""
    found = [layer for _, layer in named_layers(model) if isinstance(layer, keras.Model)]
    found += [layer.encoder for layer in model.layers if hasattr(layer, "encoder")]
    return next(layer for layer in found if hasattr(layer, "token_embedding"))


def write_encoder(target: Path, encoder: keras.Model, tokenizer: Tokenizer) -> str:
    """Write an encoder, or a writer, with its tokenizer as transformers loads it.

    Returns:
        The folder in `target`.
    """
    name = "writer" if hasattr(encoder, "write") else "encoder"
    naming, folder = need(f"{name}s", "naming"), target / name
    folder.mkdir()
    config, tensors = naming.describe_encoder(encoder)
    whole, options, vocabulary = naming.describe_tokenizer(tokenizer, encoder)
    for name, token in (("pad", options.get("pad_token")), ("cls", options.get("cls_token"))):
        if token is not None:
            config[f"{name}_token_id"] = tokenizer.token_to_id(token)
    write_json(folder / "config.json", config)
    # Not save_file: what that writes nobody else may read.
    weights = save(tensors, metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    write_json(folder / "tokenizer.json", whole)
    write_json(folder / "tokenizer_config.json", options)
    if vocabulary is not None:
        write_text(folder / "vocab.txt", vocabulary)
    return folder.name


def sample_batch(names: list[str]) -> dict[str, tf.Tensor]:
    """Return a small batch, one of whose texts is padded."""
    random = np.random.default_rng(0)
    mask = np.arange(8) < np.array([[8], [5]])
    arrays = {"token_ids": random.integers(1, 20, (2, 8)) * mask, "padding_mask": mask}
    return {name: tf.constant(arrays.get(name, np.where(mask, 1, 0)), "int32") for name in names}


def compare(folder: Path, names: list[str], expected: dict[str, tf.Tensor]) -> None:
    """Print how far what was written is from what was trained.

    Raises:
        InputError: it is further than rounding goes.
    """
    loaded = tf.saved_model.load(str(folder))  # its weights live as long as it has a name
    served = loaded.serve(sample_batch(names))
    largest = max(
        float(tf.reduce_max(tf.abs(tf.cast(value - expected[name], "float32"))))
        for name, value in served.items()
    )
    print(f"saved_model: largest difference of an output {largest:.1e}")
    scale = max(float(tf.reduce_max(tf.abs(tf.cast(v, "float32")))) for v in expected.values())
    if not largest <= TOLERANCE * max(1.0, scale):
        raise InputError(
            f"the SavedModel differs by {largest:.1e} from the run: please report it, with the "
            "versions of tensorflow and keras."
        )


def readme(described: dict[str, Any], written: str, onnx: bool) -> str:
    """Return what a folder says of itself; `written` is its folder for transformers, or empty."""
    rows = [
        ("saved_model/", "the whole model: `tf.saved_model.load(...).serve({name: array})`"),
        ("tokenizer.json", "`tokenizers.Tokenizer.from_file` reads it"),
        ("serving.json", "inputs, outputs with their shapes, labels, the most tokens"),
    ]
    if written:
        rows.insert(0, (f"{written}/", f"the {written}: `from_pretrained` of {READERS[written]}"))
    if onnx:
        rows.append(("model.onnx", "the whole model for onnxruntime"))
    inputs = ", ".join(f"`{name}`" for name in described["inputs"])
    outputs = "\n".join(f"- `{name}` {shape}" for name, shape in described["outputs"].items())
    table = "\n".join(f"| `{name}` | {what} |" for name, what in rows)
    return (
        f"| file | what it is |\n|---|---|\n{table}\n\n"
        f"Inputs: {inputs}, integers [batch, length]. Outputs (here of a length of 8):\n\n"
        f"{outputs}\n"
    )


if __name__ == "__main__":
    main()

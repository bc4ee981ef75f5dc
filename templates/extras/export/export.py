"""Export a trained run: its encoder for transformers, the whole model for TensorFlow.

python extras/export/export.py RUN DIR             DIR/encoder as on Hugging Face, DIR/saved_model;
                                                   DIR/writer if model = pretrained was trained
python extras/export/export.py RUN DIR --onnx      also DIR/model.onnx
python extras/export/export.py RUN DIR --no-encoder

DIR is written whole or not at all; an existing DIR is refused.
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

# `core` sets TensorFlow up, so it comes first.
from core.base.errors import InputError, command  # noqa: E402, I001
from core.base.extras import need  # noqa: E402
from core.base.files import write_json, write_text  # noqa: E402
from core.exact.dropout import named_layers  # noqa: E402
from core.runs.members import members  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from safetensors.numpy import save  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

# Names of the parts of a pointer: a score is queries . keys / sqrt(size) + starts + ends.
PARTS = ("queries", "keys", "starts", "ends")
TOLERANCE = 1e-5  # between the written and the trained model
# Kind of outputs -> the example file that is written next to the model.
EXAMPLES = {"probabilities": "serve_labels.py"}
# Inputs that these files make; a bi-encoder has others, of each text.
SERVED = ("token_ids", "segment_ids", "padding_mask", "text_numbers")
# Folder for transformers -> the class that reads it.
READERS = {
    "encoder": "`transformers.AutoModel`",
    "writer": "`transformers.AutoModelForCausalLM`, for BART and T5 `AutoModelForSeq2SeqLM`",
}
ONNX = "tf2onnx"


@keras.saving.register_keras_serializable("export")
class Serving(keras.Model):
    """An inference model with named arrays as outputs.

    Args:
        inference: of a task; an output may have the parts of a pointer.
    """

    def __init__(self, inference: keras.Model) -> None:
        super().__init__(name="serving")
        self.inference = inference

    def call(self, inputs) -> dict[str, tf.Tensor]:
        """Return `name` or `name_part` -> array; float32 unless it has whole numbers."""
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
    """Return a run with its best weights, loaded like in the project's predict.py.

    Raises:
        InputError: the project has no predict.py, or the name means several runs.
    """
    script = PROJECT / "predict.py"
    if not script.is_file():
        raise InputError(f"{PROJECT.name} predicts nothing: export its encoder with its export.py.")
    # An extra does not know the task, but predict.py does.
    loaded = runpy.run_path(str(script))["load_runs"]([name])
    # By their paths: folders of two searches have the same names.
    found = dict.fromkeys(run.resolve() for folder in loaded.folders for run in members(folder))
    if len(found) > 1:
        folders = ", ".join(map(str, found))
        raise InputError(f"{name} means several runs: name one of {folders}.")
    return loaded


def check_free(folder: Path) -> None:
    """Refuse an existing folder before any work.

    Raises:
        InputError: it exists, or it can't be created.
    """
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists already: name a new folder, or delete that one.")
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder} can't be made in {parent}: name another place.")


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder next to `folder`, then rename it."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".writing-") as temporary:
        filled = Path(temporary) / folder.name
        filled.mkdir()
        write(filled)
        os.replace(filled, folder)


def fill(target: Path, run: Any, encoder: bool, onnx: bool) -> None:
    """Write all exports of a run.

    Args:
        target: an empty folder.
        run: from `load_run`.
        encoder: whether to write the encoder for transformers.
        onnx: whether to write model.onnx.
    """
    [inference] = getattr(run.models[0], "models", run.models)  # generation asks a model
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
    for example in [file for output, file in EXAMPLES.items() if output in outputs]:
        copy_example(target, example, names, getattr(run.settings, "competition", None))


def copy_example(target: Path, example: str, names: list[str], table: Any) -> None:
    """Copy the example that serves a run, or print why it can't.

    Args:
        target: gets it as serve.py.
        example: a file next to this one.
        names: of the inputs.
        table: of extras/competition; None: the project has none.
    """
    texts = getattr(table, "text_columns", [])
    if len(texts) > 2:
        print(
            f"serve.py is left out: it encodes a text or a pair, and this run reads {len(texts)} "
            "texts, which extras/competition/segments.py encodes."
        )
        return
    if others := [name for name in names if name not in SERVED]:
        print(
            f"serve.py is left out: it encodes a pair as one text, and this run has the input "
            f"{others[0]}: encode your texts as serving.json names the inputs."
        )
        return
    for name in ("text_template", "turn_separator"):
        if getattr(table, name, ""):
            print(f"serve.py reads texts that competition.{name} has joined: join yours alike.")
    shutil.copy(Path(__file__).with_name(example), target / "serve.py")


def find_encoder(model: keras.Model) -> keras.Model:
    """Return the encoder inside a model."""
    found = [layer for _, layer in named_layers(model) if isinstance(layer, keras.Model)]
    found += [layer.encoder for layer in model.layers if hasattr(layer, "encoder")]
    return next(layer for layer in found if hasattr(layer, "token_embedding"))


def write_encoder(target: Path, encoder: keras.Model, tokenizer: Tokenizer) -> str:
    """Write an encoder or a writer with its tokenizer for transformers.

    Returns:
        The folder in `target`.
    """
    name = "writer" if hasattr(encoder, "write") else "encoder"
    naming, folder = need(f"{name}s", "naming"), target / name
    folder.mkdir()
    config, tensors = naming.describe_encoder(encoder)
    whole, options, vocabulary = naming.describe_tokenizer(tokenizer, encoder)
    for name, token in (("pad", options.get("pad_token")), ("cls", options.get("cls_token"))):
        if token is not None and config.get(f"{name}_token_id") is None:
            config[f"{name}_token_id"] = tokenizer.token_to_id(token)
    write_json(folder / "config.json", config)
    # Not save_file, whose files only the owner may read.
    weights = save(tensors, metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    write_json(folder / "tokenizer.json", whole)
    write_json(folder / "tokenizer_config.json", options)
    if vocabulary is not None:
        write_text(folder / "vocab.txt", vocabulary)
    return folder.name


def sample_batch(names: list[str]) -> dict[str, tf.Tensor]:
    """Return a small batch with a padded text."""
    random = np.random.default_rng(0)
    mask = np.arange(8) < np.array([[8], [5]])
    arrays = {"token_ids": random.integers(1, 20, (2, 8)) * mask, "padding_mask": mask}
    return {name: tf.constant(arrays.get(name, np.where(mask, 1, 0)), "int32") for name in names}


def compare(folder: Path, names: list[str], expected: dict[str, tf.Tensor]) -> None:
    """Print the difference between the written and the trained model.

    Raises:
        InputError: it is larger than rounding errors.
    """
    loaded = tf.saved_model.load(str(folder))  # keeps the weights alive
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
    """Return the README of a folder; `written`: its folder for transformers, or empty."""
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

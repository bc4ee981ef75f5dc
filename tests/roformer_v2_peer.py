"""Makes a small RoFormerV2, and lets bert4keras3 compute it.

python roformer_v2_peer.py FOLDER: run by a Python that has bert4keras3, which brings a RoFormerV2
of its own; transformers has none. FOLDER gets what tests/encoder_peer.py writes of a kind:
config.json and weights as on the hub of Hugging Face, and peer.npz; and google/, the same as the
authors publish it.
"""

import json
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"

import encoder_peer  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

KIND = "roformer_v2"
CONFIG = encoder_peer.OTHERS[KIND]["config"]


def state() -> dict[str, np.ndarray]:
    """Return the weights by the names of Hugging Face."""
    shapes = encoder_peer.OTHERS[KIND]["shapes"]
    return {name: encoder_peer.seeded(name, tuple(shape)) for name, shape in shapes.items()}


def google_tensors(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights by the names of Google's code, as the authors have them."""
    found = {}
    for name, value in weights.items():
        name = name.replace("encoder.layer.", "encoder.layer_")
        name = name.replace("_embeddings.weight", "_embeddings")
        if name.endswith(".weight"):
            name, value = name.removesuffix("weight") + "kernel", value.T
        name = name.replace("embeddings_project.", "encoder.embedding_hidden_mapping_in.")
        found["bert/" + name.replace(".", "/")] = value
    return found


def write_checkpoint(prefix: pathlib.Path, tensors: dict[str, np.ndarray]) -> None:
    """Write a checkpoint of TensorFlow 1."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )


def main() -> None:
    import keras
    from bert4keras3.layers import MultiHeadAttention
    from bert4keras3.models import build_transformer_model

    folder = pathlib.Path(sys.argv[1])
    google = folder / "google"
    google.mkdir(parents=True, exist_ok=True)
    weights = state()
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    own = ("model_type", "norm_type", "use_bias", "rotary_value")
    values = {name: value for name, value in CONFIG.items() if name not in own}
    (google / "bert_config.json").write_text(json.dumps(values))
    write_checkpoint(google / "bert_model.ckpt", google_tensors(weights))

    prefix = str(google / "bert_model.ckpt")
    model = build_transformer_model(
        str(google / "bert_config.json"), prefix, model="roformer_v2", dropout_rate=0.0
    )
    read = encoder_peer.arrays(KIND)
    table = next(layer for layer in model.layers if layer.name == "Embedding-Token").embeddings

    masks, attend = [], MultiHeadAttention.pay_attention_to

    def attend_to_text(self, inputs, mask=None, **kwargs):
        """Hand over the mask of padding, which Keras 3 loses on its way."""
        return attend(self, inputs, [None, masks[-1]], **kwargs)

    MultiHeadAttention.pay_attention_to = attend_to_text

    def run(rows, length):
        names = ("input_ids", "token_type_ids")
        masks.append(tf.constant(read["attention_mask"][rows, :length] > 0))
        ids, types = (tf.constant(read[name][rows, :length], "int32") for name in names)
        return model([ids, types])

    with tf.GradientTape() as tape:
        hidden = run(slice(None), None)
        product = tf.reduce_sum(hidden * read["cotangent"])
    gradient = tf.convert_to_tensor(tape.gradient(product, table.value)).numpy()
    found = {
        **read,
        "hidden": hidden.numpy(),
        "unpadded": run(slice(1), encoder_peer.LENGTHS[0]).numpy(),
        "gradient": gradient,
    }
    np.savez(folder / "peer.npz", **found)
    entry = {
        "config": CONFIG,
        "shapes": {name: list(value.shape) for name, value in weights.items()},
        "numbers": encoder_peer.summary(found["hidden"], gradient, found),
    }
    line = f"{json.dumps(KIND)}: {json.dumps(entry)}"
    (folder / "numbers.json").write_text("{\n" + line + "\n}\n")
    print(keras.__version__)


if __name__ == "__main__":
    main()

"""Frozen matrices as whole numbers: of 8 bits, or of 4 bits in groups.

Groups of 64 are those of QLoRA (Dettmers et al. 2023, https://arxiv.org/abs/2305.14314). Its uneven
steps (NF4) lose about as much of a pretrained kernel as even ones with a zero for each group.
"""

import keras
import numpy as np
import tensorflow as tf

LARGEST_CODE = 127
GROUP = 64  # inputs that share a scale of an output, of 4 bits
SMALLEST, LARGEST = -8, 7


def encode(matrix: np.ndarray, base: str) -> dict[str, np.ndarray]:
    """Return the arrays that hold a matrix.

    Args:
        matrix: floats `[inputs, outputs]`.
        base: `int8` or `int4`.
    """
    return (to_int8 if base == "int8" else to_int4)(matrix)


def to_int8(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Return whole numbers from -127 to 127, and a scale for each output."""
    scales = np.max(np.abs(matrix), axis=0, keepdims=True) / np.float32(LARGEST_CODE)
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return {"codes": np.rint(matrix / scales).astype(np.int8), "scales": scales}


def to_int4(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Return numbers from -8 to 7, two in a byte; a scale and a zero for each group and output.

    0 stays 0, also where a group has one sign: Keras's own quantizer in groups fails there.
    """
    padded = np.pad(matrix, ((0, -len(matrix) % GROUP), (0, 0)))
    groups = padded.reshape(-1, GROUP, matrix.shape[1])
    lowest, highest = np.minimum(groups.min(axis=1), 0), np.maximum(groups.max(axis=1), 0)
    scales = (highest - lowest) / np.float32(LARGEST - SMALLEST)
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    zeros = np.rint(SMALLEST - lowest / scales)
    codes = np.rint(groups / scales[:, None]) + zeros[:, None]
    codes = np.clip(codes, SMALLEST, LARGEST).astype(np.int8).reshape(padded.shape)
    packed, *_ = keras.quantizers.pack_int4(codes)
    return {"codes": np.asarray(packed), "scales": scales, "zeros": zeros.astype(np.int8)}


def decode(arrays: dict, inputs: int) -> tf.Tensor:
    """Return the floats `[inputs, outputs]` of encoded arrays."""
    codes, scales = (tf.convert_to_tensor(arrays[name]) for name in ("codes", "scales"))
    if "zeros" not in arrays:
        return tf.cast(codes, "float32") * scales
    unpacked = keras.quantizers.unpack_int4(codes, GROUP * scales.shape[0])
    groups = tf.cast(tf.reshape(unpacked, (-1, GROUP, scales.shape[1])), "float32")
    zeros = tf.cast(tf.convert_to_tensor(arrays["zeros"]), "float32")
    floats = (groups - zeros[:, None]) * scales[:, None]
    return tf.reshape(floats, (-1, scales.shape[1]))[:inputs]

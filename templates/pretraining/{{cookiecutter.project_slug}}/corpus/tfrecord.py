"""Examples as the bytes of a TFRecord file.

Written without TensorFlow, whose import costs each of many processes seconds and memory; read by
it.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import google_crc32c
import numpy as np

from corpus.encode import Example

# The features of a tf.train.Example, in the order they are written in.
FEATURES = ("token_ids", "word_starts")


@dataclass(frozen=True)
class ShardExamples:
    """The examples of a shard; `examples[number]` is `(token_ids, word_starts)`, int32.

    `token_ids` and `word_starts` hold those of all examples, one after the other; those of example
    n lie between `token_splits[n]` and `token_splits[n + 1]`, and so for words.
    """

    token_ids: np.ndarray
    token_splits: np.ndarray
    word_starts: np.ndarray
    word_splits: np.ndarray

    def __len__(self) -> int:
        return len(self.token_splits) - 1

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return (
            self.token_ids[self.token_splits[number] : self.token_splits[number + 1]],
            self.word_starts[self.word_splits[number] : self.word_splits[number + 1]],
        )


def write_examples(examples: Iterable[Example]) -> bytes:
    """Return the bytes of a TFRecord file: the same examples, the same bytes."""
    return b"".join(record(serialize(example)) for example in examples)


def record(content: bytes) -> bytes:
    """Return a record of a TFRecord file: length, its checksum, content, its checksum."""
    length = struct.pack("<Q", len(content))
    return length + masked_checksum(length) + content + masked_checksum(content)


def masked_checksum(content: bytes) -> bytes:
    """Return the CRC-32C, rotated by 15 bits and shifted, as tensorflow/core/lib/hash/crc32c.h."""
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def serialize(example: Example) -> bytes:
    """Return a tf.train.Example in the wire format of Protocol Buffers.

    A library for it leaves the order of the features open; here bytes are compared.
    """
    entries = b""
    for name in FEATURES:
        # Example.features (1) > Features.feature (1): key (1), value (2) > Feature.int64_list (3)
        # > Int64List.value (1), packed.
        feature = length_delimited(3, length_delimited(1, varints(getattr(example, name))))
        entries += length_delimited(
            1, length_delimited(1, name.encode()) + length_delimited(2, feature)
        )
    return length_delimited(1, entries)


def length_delimited(number: int, content: bytes) -> bytes:
    """Return a field that holds a string, a message or packed numbers."""
    return varints(np.array([number << 3 | 2, len(content)])) + content


def varints(numbers: np.ndarray) -> bytes:
    """Return whole numbers from 0 in groups of 7 bits, lowest first, all but the last marked."""
    numbers = numbers.astype(np.int64)
    groups = np.array([numbers >> 7 * place for place in range(5)])  # [5, numbers]
    is_needed = groups > 0
    is_needed[0] = True
    marked = groups & 127 | np.append(is_needed[1:], is_needed[:1] & False, axis=0) << 7
    return marked.T[is_needed.T].astype(np.uint8).tobytes()


def read_examples(content: bytes) -> ShardExamples:
    """Return the examples of a TFRecord file, whose bytes have been checked."""
    import tensorflow as tf  # here: preparation does without

    records, position = [], 0
    while position < len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        records.append(content[position + 12 : position + 12 + length])
        position += length + 16
    ragged = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in FEATURES}
    with tf.device("cpu:0"):
        parsed = tf.io.parse_example(tf.constant(records, tf.string, [len(records)]), ragged)
    token_ids, word_starts = (parsed[name] for name in FEATURES)
    return ShardExamples(
        token_ids.values.numpy().astype(np.int32),
        token_ids.row_splits.numpy(),
        word_starts.values.numpy().astype(np.int32),
        word_starts.row_splits.numpy(),
    )

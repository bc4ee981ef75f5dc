"""Shards of examples: TFRecord files, what is known of each, and the manifest of them all.

Written without TensorFlow, whose import costs each of many processes seconds and memory; read by
it.
"""

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

import google_crc32c
import numpy as np

from common.errors import InputError
from task import storage
from task.encode import Example
from task.preparation_settings import PreparationSettings

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
# The features of a tf.train.Example, in the order they are written in.
FEATURES = ("token_ids", "word_starts")


@dataclass(frozen=True)
class Shard:
    """What is known of a shard; it is the content of the JSON file beside it.

    Attributes:
        name: `shard-00000`; the file is `shard-00000.tfrecord`.
        source: the block that it was made from: file, start, end, and the hash of its lines.
        preparation: hash of all else that decides the bytes of the shard.
        lines: of the block, skipped ones included.
        skipped: how many lines were skipped, by reason.
        first_skipped: the first such line, counted from 1 in the block.
        examples: of the shard.
        tokens: of all examples, without the [CLS] and [SEP] that training adds.
        unknown: how many of them are [UNK].
        lengths: how many examples have so many tokens.
        bytes: of the file.
        hash: of the file, as in `common.files.file_hash`.
    """

    name: str
    source: dict
    preparation: str
    lines: int
    skipped: dict[str, int]
    first_skipped: dict[str, int]
    examples: int
    tokens: int
    unknown: int
    lengths: dict[int, int]
    bytes: int
    hash: str


@dataclass(frozen=True)
class Manifest:
    """What is known of a finished folder of shards.

    Attributes:
        folder: path or URL.
        settings: what the shards were prepared with; `max_length` among them.
        inputs: names and bytes of the files they were made from.
        tokenizer_hash: of `tokenizer.json` in the folder, as in `common.files.file_hash`.
        shards: those with examples, in the order of the text.
        lines: of all files, skipped ones included.
        examples: of all shards.
        tokens: of all examples, without [CLS] and [SEP] around.
        unknown: how many of them are [UNK].
        skipped: by reason, how many lines were, and file and line of the first.
        lengths: `[max_length - 1]`: how many examples have 0, 1, ... tokens.
    """

    folder: str
    settings: dict
    inputs: list[dict]
    tokenizer_hash: str
    shards: tuple[Shard, ...]
    lines: int
    examples: int
    tokens: int
    unknown: int
    skipped: dict[str, dict]
    lengths: np.ndarray


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


# --- writing ---


def shard_content(examples: Iterable[Example]) -> bytes:
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


def content_hash(content: bytes) -> str:
    """Return `sha256:<hex>`, as `common.files.file_hash` does of a file."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def shard_folder(settings: PreparationSettings, split: str) -> str:
    """Return the folder of the shards of `train` or `dev`."""
    return f"{storage.place(settings.shards).rstrip('/')}/{split}"


def shard_path(folder: str, name: str) -> str:
    """Return the path of a shard."""
    return f"{folder}/{name}.tfrecord"


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"shard-{number:05d}"


def write_shard(folder: str, shard: Shard, content: bytes) -> None:
    """Write a shard, and then what is known of it: what is known is there."""
    storage.write_bytes(shard_path(folder, shard.name), content)
    write_json(f"{folder}/{shard.name}.json", asdict(shard))


def write_json(path: str, value: dict) -> None:
    """Write a JSON file, whole or not at all."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    storage.write_bytes(path, text.encode("utf-8"))


# --- reading ---


def find_shard(folder: str, name: str) -> Shard | None:
    """Return what is known of a shard that was written before; None: nothing that can be read."""
    content = storage.read_bytes(f"{folder}/{name}.json")
    try:
        return None if content is None else make_shard(json.loads(content))
    except (ValueError, TypeError, KeyError):
        return None


def make_shard(values: dict) -> Shard:
    """Return a shard from JSON, whose keys are all strings."""
    lengths = {int(length): count for length, count in values["lengths"].items()}
    return Shard(**{**values, "lengths": lengths})


def read_manifest_file(folder: str) -> dict | None:
    """Return the manifest of a folder, finished or not; None: it has none.

    Raises:
        InputError: the file is torn.
    """
    content = storage.read_bytes(f"{folder}/{MANIFEST}")
    try:
        return None if content is None else json.loads(content)
    except ValueError as error:
        raise InputError(
            f"{folder}/{MANIFEST} is not valid JSON: delete it and prepare the shards again with "
            "--overwrite true; those that are whole are kept."
        ) from error


def read_manifest(folder: str) -> Manifest:
    """Read what is known of a finished folder of shards, and whether all of it is there.

    Args:
        folder: `shards/train` or `shards/dev`; path or URL.

    Raises:
        InputError: there are no shards, they are not finished, or some are missing or torn.
    """
    values = read_manifest_file(folder)
    if values is None:
        raise InputError(f"{folder} holds no shards: run python prepare.py first.")
    if values.get("format") != FORMAT:
        raise InputError(
            f"{folder} was prepared by another version of this project: run python prepare.py "
            "--overwrite true."
        )
    if not values["finished"]:
        raise InputError(f"{folder} is not finished: run python prepare.py again; it goes on.")
    shards = tuple(map(make_shard, values["shards"]))
    sizes = storage.list_folder(folder)
    for shard in shards:
        if sizes.get(f"{shard.name}.tfrecord") != shard.bytes:
            raise InputError(explain_torn(folder, shard))
    lengths = np.zeros(values["settings"]["max_length"] - 1, np.int64)
    for shard in shards:
        for length, count in shard.lengths.items():
            lengths[length] += count
    names = {field.name for field in fields(Manifest)} & set(values)
    return Manifest(
        **{
            **{name: values[name] for name in names},
            "folder": folder,
            "shards": tuple(shard for shard in shards if shard.examples),
            "lengths": lengths,
        }
    )


def explain_torn(folder: str, shard: Shard) -> str:
    """Say what to do about a shard that is not as it was written."""
    return (
        f"{shard_path(folder, shard.name)} is missing or torn: run python prepare.py again, which "
        "writes it anew and keeps the others."
    )


def read_shard(folder: str, shard: Shard) -> ShardExamples:
    """Read all examples of a shard.

    Args:
        folder: of the manifest.
        shard: of the manifest.

    Raises:
        InputError: the file is not the one that was written.
    """
    import tensorflow as tf  # here: preparation does without

    content = storage.read_bytes(shard_path(folder, shard.name))
    if content is None or content_hash(content) != shard.hash:
        raise InputError(explain_torn(folder, shard))
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

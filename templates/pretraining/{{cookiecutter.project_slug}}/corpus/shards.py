"""Shards of examples: what is known of each, the manifest of them all, and what they hold.

A folder has the shards of train or of dev: TFRecord files, a JSON file next to each, one tokenizer.
"""

import functools
import hashlib
import json
from dataclasses import asdict, dataclass, fields

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from corpus import storage
from corpus.settings import CorpusSettings
from corpus.tfrecord import ShardExamples, read_examples

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
SPLITS = ("train", "dev")
# The settings that decide which examples texts make.
ENCODING = ("max_length", "short_length", "short_share", "words", "packing")


@dataclass(frozen=True)
class Shard:
    """Facts about a shard: the content of the JSON file next to it.

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
        hash: of the file, as in `core.base.files.file_hash`.
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
        tokenizer_hash: of `tokenizer.json` in the folder, as in `core.base.files.file_hash`.
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


# --- writing ---


def content_hash(content: bytes) -> str:
    """Return `sha256:<hex>`, as `core.base.files.file_hash` does of a file."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def shard_folder(settings: CorpusSettings, split: str) -> str:
    """Return the folder of the shards of `train` or `dev`."""
    return f"{storage.place(settings.shards).rstrip('/')}/{split}"


def shard_path(folder: str, name: str) -> str:
    """Return the path of a shard."""
    return f"{folder}/{name}.tfrecord"


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"shard-{number:05d}"


def write_shard(folder: str, shard: Shard, content: bytes) -> None:
    """Write a shard, then its JSON file: where that exists, the shard is complete."""
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
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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
        return None if content is None else dict(json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
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
        hint = ", with a dev_text" if folder.endswith("/dev") else ""
        raise InputError(f"{folder} holds no shards: run python prepare.py first{hint}.")
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
    content = storage.read_bytes(shard_path(folder, shard.name))
    if content is None or content_hash(content) != shard.hash:
        raise InputError(explain_torn(folder, shard))
    return read_examples(content)


# --- for a training ---


def hash_shards(settings: CorpusSettings) -> dict[str, str]:
    """Return the hashes of what a run learns from and is scored on; all of it must be there."""
    return {f"{split}_hash": name_shards(settings, split)["data_hash"] for split in SPLITS}


def name_shards(settings: CorpusSettings, split: str) -> dict[str, str]:
    """Return `file` and `data_hash` of shards, as `core.data.records.name_file` does of a file.

    Raises:
        InputError: there are no shards, or they are not finished.
    """
    manifest = read_manifest(shard_folder(settings, split))
    # Not of the manifest, which also says what versions and files the shards were made with.
    hashes = "\n".join(shard.hash for shard in manifest.shards)
    return {"file": f"shards/{split}/{MANIFEST}", "data_hash": content_hash(hashes.encode())}


def read_shard_tokenizer(settings: CorpusSettings) -> Tokenizer:
    """Return the tokenizer that the shards were prepared with.

    Raises:
        InputError: train and dev were not prepared with the same one, or one of them with other
            settings, with which `evaluate.py` would make other examples of the same text.
    """
    folders = [shard_folder(settings, split) for split in SPLITS]
    manifests = [read_manifest(folder) for folder in folders]
    if manifests[0].tokenizer_hash != manifests[1].tokenizer_hash:
        raise InputError(
            f"{folders[0]} and {folders[1]} were prepared with different tokenizers: prepare both "
            "anew, with python prepare.py --overwrite true."
        )
    asked = {"max_length": settings.max_length, **settings.preparation.model_dump()}
    for folder, manifest in zip(folders, manifests, strict=True):
        for name in ENCODING:
            if (before := manifest.settings[name]) != asked[name]:
                raise InputError(
                    f"{folder} was prepared with {name} = {before}, not {asked[name]}: set it as "
                    "it was for prepare.py, or prepare both anew, with --overwrite true."
                )
    known = (manifest.tokenizer_hash for manifest in manifests)
    return [*map(read_folder_tokenizer, folders, known)][0]


def read_folder_tokenizer(folder: str, expected_hash: str) -> Tokenizer:
    """Read the tokenizer of a folder of shards.

    Raises:
        InputError: it is not the one that the shards were prepared with.
    """
    content = storage.read_bytes(f"{folder}/{TOKENIZER}")
    if content is None or content_hash(content) != expected_hash:
        raise InputError(
            f"{folder}/{TOKENIZER} is missing, or not the one of these shards: prepare them anew "
            "with --overwrite true."
        )
    return parse_tokenizer(content)


@functools.lru_cache(maxsize=2)
def parse_tokenizer(content: bytes) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json, once a process."""
    return Tokenizer.from_str(content.decode("utf-8"))

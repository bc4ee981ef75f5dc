"""Turn blocks of text into shards: the same block and the same recipe give the same bytes.

Nothing here knows who calls: processes of this machine (prepare.py) or workers of Apache Beam
(prepare_with_beam.py).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import TEMPORARY
from corpus import storage
from corpus.blocks import (
    Block,
    Reading,
    TextFile,
    check_first_records,
    cut_into_blocks,
    describe_skipped,
    explain_no_text,
    find_files,
    find_skipped,
    read_texts,
)
from corpus.encode import Example, encode_texts
from corpus.settings import CorpusSettings
from corpus.shards import (
    ENCODING,
    FORMAT,
    MANIFEST,
    TOKENIZER,
    Manifest,
    Shard,
    content_hash,
    find_shard,
    read_folder_tokenizer,
    read_manifest_file,
    shard_folder,
    shard_name,
    shard_path,
    write_json,
    write_shard,
)
from corpus.special_tokens import name_special_tokens
from corpus.tfrecord import write_examples
from corpus.vocabulary import find_tokenizer

# The settings of the preparation that decide the bytes of a shard, together with max_length.
DECISIVE = (*ENCODING[1:], "longest_line", "text_field", "block_megabytes")
# The packages whose versions decide them, too.
PACKAGES = ("tokenizers", "rjieba")
# A larger share of [UNK] tokens gets a warning; a vocabulary of such text leaves a tenth of it.
UNKNOWN_SHARE = 0.01
SHARD_FILE = re.compile(r"shard-\d{5,}\.(tfrecord|json)")


@dataclass(frozen=True)
class Recipe:
    """A folder of shards, and what decides their bytes, except for their text."""

    folder: str
    settings: dict
    versions: dict
    tokenizer_hash: str
    overwrite: bool

    @property
    def hash(self) -> str:
        """The same where the same text gives the same shards."""
        decisive = [FORMAT, self.settings, self.versions, self.tokenizer_hash]
        return content_hash(json.dumps(decisive, sort_keys=True).encode())


@dataclass(frozen=True)
class Plan:
    """The shards of train or of dev: one for each block."""

    recipe: Recipe
    files: tuple[TextFile, ...]
    blocks: tuple[Block, ...]


def begin_preparation(settings: CorpusSettings) -> list[Plan]:
    """Return the plans of train and dev; train the vocabulary and begin the folders where needed.

    Raises:
        InputError: the text can't be used, or a folder holds other shards.
    """
    texts = find_texts(settings)
    tokenizer = find_tokenizer(settings)
    plans = [make_plan(settings, tokenizer, *text) for text in texts.items()]
    for plan in plans:
        open_folder(plan, tokenizer)
    return plans


def find_texts(settings: CorpusSettings) -> dict[str, list[TextFile]]:
    """Return the files of `train`, and of `dev` where there are any.

    Raises:
        InputError: they can't be found or used.
    """
    texts = {"train": settings.train_text, "dev": settings.dev_text}
    files = {
        split: find_files(text, f"{split}_text") for split, text in texts.items() if text.strip()
    }
    for found in files.values():
        check_first_records(
            found, settings.preparation.text_field, settings.preparation.longest_line
        )
    return files


def make_plan(
    settings: CorpusSettings, tokenizer: Tokenizer, split: str, files: list[TextFile]
) -> Plan:
    """Return the plan of train or of dev.

    Args:
        settings: `max_length`, those of `DECISIVE`, `shards`, `overwrite`.
        tokenizer: that cuts the text.
        split: `train` or `dev`.
        files: of it.
    """
    chosen = settings.preparation
    recipe = Recipe(
        shard_folder(settings, split),
        {"max_length": settings.max_length, **{name: getattr(chosen, name) for name in DECISIVE}},
        package_versions(),
        content_hash(tokenizer_content(tokenizer)),
        settings.overwrite,
    )
    size = max(1, round(chosen.block_megabytes * 1e6))
    return Plan(recipe, tuple(files), tuple(cut_into_blocks(files, size)))


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide the bytes of a shard."""
    return {package: version(package) for package in PACKAGES}


def tokenizer_content(tokenizer: Tokenizer) -> bytes:
    """Return the content of tokenizer.json; reading and writing it again changes no byte."""
    return (tokenizer.to_str(pretty=True) + "\n").encode("utf-8")


# --- before ---


def open_folder(plan: Plan, tokenizer: Tokenizer) -> None:
    """Begin a folder of shards, or find out that it can go on.

    Raises:
        InputError: it holds shards of another recipe, or of other files, and `overwrite` is false.
    """
    folder, manifest = plan.recipe.folder, describe_plan(plan)
    known = None if plan.recipe.overwrite else read_manifest_file(folder)
    if known is None:
        files = storage.list_folder(folder)
        if not plan.recipe.overwrite and any(map(SHARD_FILE.fullmatch, files)):
            raise InputError(
                f"{folder} holds shards and no {MANIFEST}: name another folder with --shards, or "
                "prepare them anew with --overwrite true."
            )
        write_json(f"{folder}/{MANIFEST}", {**manifest, "finished": False})
    elif {name: known.get(name) for name in manifest} != manifest:
        raise InputError(
            f"{folder} holds shards {explain_difference(known, manifest)}: name another folder "
            "with --shards, or prepare them anew with --overwrite true."
        )
    content = tokenizer_content(tokenizer)
    if storage.read_bytes(f"{folder}/{TOKENIZER}") != content:
        storage.write_bytes(f"{folder}/{TOKENIZER}", content)


def describe_plan(plan: Plan) -> dict:
    """Return what the manifest says before there are shards."""
    return {
        "format": FORMAT,
        "settings": plan.recipe.settings,
        "versions": plan.recipe.versions,
        "tokenizer_hash": plan.recipe.tokenizer_hash,
        "inputs": [{"name": file.name, "bytes": file.size} for file in plan.files],
    }


def explain_difference(known: dict, manifest: dict) -> str:
    """Say what differs first between the shards that are there and those to be made."""
    for part in ("settings", "versions"):
        for name, value in manifest[part].items():
            before = known.get(part, {}).get(name)
            if before != value:
                return f"that were prepared with {name} = {before}, not {value}"
    if known.get("tokenizer_hash") != manifest["tokenizer_hash"]:
        return "that were prepared with another tokenizer"
    if known.get("inputs") != manifest["inputs"]:
        return "of other text"
    return "of another version of this project"


# --- each block ---


def prepare_block(
    recipe: Recipe, number: int, block: Block, go_on: Callable[[], None] = lambda: None
) -> Shard:
    """Return the shard of a block: the one that is there, if it is whole, or a new one.

    Args:
        recipe: of the folder.
        number: of the block, and of its shard.
        block: the text.
        go_on: is called again and again, and may raise.

    Raises:
        InputError: the text has changed since the shard was made, or is gone.
    """
    shard = find_finished(recipe, number, block, go_on)
    if shard is not None:
        return shard
    check_versions(recipe)
    reading = Reading()
    tokenizer = read_folder_tokenizer(recipe.folder, recipe.tokenizer_hash)
    texts = watch(read_block(recipe, block, reading), go_on)
    examples = encode_texts(texts, tokenizer, recipe.settings)
    unknown = tokenizer.token_to_id(name_special_tokens(tokenizer).get("unk", ""))
    content = write_examples(watch(examples, go_on))
    shard = Shard(
        name=shard_name(number),
        source=describe_source(block, reading),
        preparation=recipe.hash,
        lines=reading.lines,
        skipped=dict(sorted(reading.skipped.items())),
        first_skipped=dict(sorted(reading.first_skipped.items())),
        **count_tokens(examples, unknown),
        bytes=len(content),
        hash=content_hash(content),
    )
    write_shard(recipe.folder, shard, content)
    return shard


def check_versions(recipe: Recipe) -> None:
    """Refuse to work on a machine that would make other shards than the rest.

    Raises:
        InputError: its packages differ from those where the preparation was started.
    """
    for package, here in package_versions().items():
        if here != recipe.versions[package]:
            raise InputError(
                f"{package} is {recipe.versions[package]} where the preparation was started and "
                f"{here} on a worker: install the same on both."
            )


def count_tokens(examples: list[Example], unknown: int | None) -> dict:
    """Return the counts of a shard: its examples, tokens, unknown tokens and lengths.

    Args:
        examples: of the shard.
        unknown: id of the unknown token; None: there is none.
    """
    lengths = Counter(len(example.token_ids) for example in examples)
    return {
        "examples": len(examples),
        "tokens": sum(length * count for length, count in lengths.items()),
        "unknown": sum(int(np.sum(example.token_ids == unknown)) for example in examples),
        "lengths": dict(sorted(lengths.items())),
    }


def find_finished(
    recipe: Recipe, number: int, block: Block, go_on: Callable[[], None]
) -> Shard | None:
    """Return the shard of a block if it is there, whole, and of this text."""
    shard = find_shard(recipe.folder, shard_name(number))
    if shard is None or shard.preparation != recipe.hash:
        return None
    reading = Reading()
    for _ in watch(read_block(recipe, block, reading), go_on):
        pass
    if shard.source != describe_source(block, reading):
        if not recipe.overwrite:
            raise InputError(
                f"{block.file.path} has changed since {shard.name} was made of it: name another "
                "folder with --shards, or prepare what has changed anew with --overwrite true."
            )
        return None
    content = storage.read_bytes(shard_path(recipe.folder, shard.name))
    return shard if content is not None and content_hash(content) == shard.hash else None


def read_block(recipe: Recipe, block: Block, reading: Reading) -> Iterator[str]:
    """Yield the texts of a block as the recipe says."""
    return read_texts(
        block, recipe.settings["text_field"], recipe.settings["longest_line"], reading
    )


def describe_source(block: Block, reading: Reading) -> dict:
    """Return what a shard was made from."""
    return {
        "file": block.file.name,
        "start": block.start,
        "end": block.end,
        "hash": "sha256:" + reading.hash.hexdigest(),
    }


def watch(items: Iterable, go_on: Callable[[], None]) -> Iterator:
    """Yield the same items; ask now and then whether to go on."""
    for number, item in enumerate(items):
        if number % 256 == 0:
            go_on()
        yield item


# --- after ---


def find_prepared(plan: Plan) -> list[Shard]:
    """Return the shards that workers have made of the blocks of a plan.

    Raises:
        InputError: one is not there, or another preparation made it.
    """
    folder, shards = plan.recipe.folder, []
    for number in range(len(plan.blocks)):
        shard = find_shard(folder, shard_name(number))
        if shard is None or shard.preparation != plan.recipe.hash:
            raise InputError(
                f"{folder} lacks {shard_name(number)}, which a worker has prepared: text and "
                "shards must lie where all machines see them, at the same paths."
            )
        shards.append(shard)
    return shards


def finish(plan: Plan, shards: Iterable[Shard]) -> None:
    """Write the manifest: from now on the shards can be trained on.

    Args:
        plan: of the folder.
        shards: of all its blocks, in any order.

    Raises:
        InputError: they hold no example.
    """
    folder = plan.recipe.folder
    by_name = {shard.name: shard for shard in shards}
    shards = [by_name[shard_name(number)] for number in range(len(plan.blocks))]
    totals = {
        name: sum(getattr(shard, name) for shard in shards)
        for name in ("lines", "examples", "tokens", "unknown")
    }
    skipped = find_skipped(plan.blocks, shards)
    if not totals["examples"]:
        raise InputError(f"no text for {folder}: {explain_no_text(totals['lines'], skipped)}")
    for name in storage.list_folder(folder):
        of_more_blocks = SHARD_FILE.fullmatch(name) and name.partition(".")[0] not in by_name
        if of_more_blocks or name.startswith(TEMPORARY):  # or of a process that was killed
            storage.remove(f"{folder}/{name}")
    write_json(
        f"{folder}/{MANIFEST}",
        {
            **describe_plan(plan),
            "finished": True,
            **totals,
            "skipped": skipped,
            "shards": [asdict(shard) for shard in shards],
        },
    )


def describe(manifest: Manifest) -> str:
    """Return a summary of a folder of shards."""
    mean, longest = manifest.tokens / manifest.examples, int(np.flatnonzero(manifest.lengths)[-1])
    lines = [
        f"{manifest.folder}: {manifest.examples:,} examples, {manifest.tokens:,} tokens, shards: "
        f"{len(manifest.shards):,}; an example has {mean:.0f} tokens on average, {longest} at the "
        f"most; {manifest.unknown / manifest.tokens:.2%} are [UNK]"
    ]
    if manifest.unknown > UNKNOWN_SHARE * manifest.tokens:
        lines.append(
            f"{manifest.folder}: the tokenizer doesn't know much of this text: train it on more of "
            "it or with a larger vocabulary_size, or name an encoder of this language"
        )
    if manifest.skipped:
        lines.append(describe_skipped(manifest.lines, manifest.skipped))
    return "\n".join(lines)

"""Read and check examples; lay out sources and targets in blocks of static shape."""

import functools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.errors import InputError
from core.base.extras import ask
from core.batches import Batch, DataGenerator, pad
from core.data.records import Id, read_field, read_id, read_records
from generation.settings import TargetTokens
from task.settings import Settings

FIELDS = ("id", "source", "targets")
NO_TOKEN = -1  # where a target has ended there is nothing to predict


@dataclass(frozen=True)
class Example:
    """One record of a file; its targets are equally good."""

    id: Id
    source: str
    targets: tuple[str, ...]
    line: int


def read_examples(
    path: str | Path, require_targets: bool = True, settings: Settings | None = None
) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "source", "targets"}`.
        require_targets: False for files to predict, whose targets nobody knows.
        settings: may ask an extra for records of another kind; None: they don't.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    if settings and settings.extractor:
        return settings.extractor.read_examples(path, require_targets)
    read_one = functools.partial(read_example, require_targets=require_targets)
    return read_records(path, FIELDS, read_one)


def read_example(record: dict, line: int, require_targets: bool) -> Example:
    """Check one record."""
    source, targets = read_field(record, "source", str), []
    if not source.strip():
        raise InputError('"source" is empty: write the text to start from, or drop the record.')
    if require_targets or "targets" in record:
        targets = read_field(record, "targets", list)
        for target in targets:
            if not isinstance(target, str):
                raise InputError(f'"targets" must be a list of strings, but holds {target!r}.')
            if not target.strip():
                raise InputError('"targets" holds an empty text: drop it, or drop the record.')
        if not targets and require_targets:
            raise InputError('"targets" is empty: give at least one text, or drop the record.')
    return Example(read_id(record), source, tuple(dict.fromkeys(targets)), line)


def encode(tokenizer: Tokenizer, texts: Sequence[str], progress: str = "") -> Iterator[list[int]]:
    """Yield the tokens of each text, none around it and none cut off."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    chunks = range(0, len(texts), 1024)
    for chunk in tqdm(chunks, desc=progress, disable=None if progress else True, leave=False):
        batch = list(texts[chunk : chunk + 1024])
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            yield encoding.ids


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], settings: Settings
) -> list[np.ndarray]:
    """Return the tokens of each source with those around it; long ones lose their end."""
    if (prompts := ask("encode_prompts", tokenizer, texts, settings)) is not None:
        return prompts
    frame = tokenizer.encode("").ids
    before, after = frame[: len(frame) // 2], frame[len(frame) // 2 :]
    room = settings.max_length - len(frame)
    return [
        np.array([*before, *ids[:room], *after], np.int32)
        for ids in encode(tokenizer, texts, "encode sources")
    ]


class SourceGenerator(DataGenerator):
    """Batches of sources, whose targets are to be written.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        encoder_inputs: names of the inputs of the encoder.
        settings: `max_length`, `target_length`, `buckets`, `seed`.
        batch_size: sources in a batch.
    """

    of_items = ("sources",)

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
    ) -> None:
        self.examples = list(examples)
        self.encoder_inputs = list(encoder_inputs)
        self.target_length = settings.target_length
        self.sources = encode_sources(tokenizer, [one.source for one in examples], settings)
        lengths = [len(ids) for ids in self.sources]
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        batch = source_block([self.sources[index] for index in examples], length)
        draws = [self.draw_numbers(self.examples[index].id) for index in examples]
        return {**{name: batch[name] for name in self.encoder_inputs}, "draws": np.stack(draws)}

    def draw_numbers(self, identity: Id) -> np.ndarray:
        """Return the random numbers `[target_length]` in [0, 1) that sampling takes for a record.

        They are its own: what it gets depends on no other record.
        """
        random = np.random.default_rng([self.seed, zlib.crc32(str(identity).encode())])
        return random.random(self.target_length, np.float32)


class PairGenerator(DataGenerator):
    """Batches of sources with a target each: every target of a record is an example.

    Source and target are padded apart, so that the head, which scores the whole vocabulary, reads
    the block of targets alone. Buckets are chosen by the tokens of both.

    Args: as in `SourceGenerator`, and `tokens`, those that begin and end a target.
    """

    of_items = ("sources", "targets")

    def __init__(
        self,
        examples: Sequence[Example],
        tokens: TargetTokens,
        tokenizer: Tokenizer,
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
    ) -> None:
        self.examples, self.begin = list(examples), tokens.begin
        self.encoder_inputs = list(encoder_inputs)
        targets = [target for example in examples for target in example.targets]
        sources = encode_sources(tokenizer, [one.source for one in examples], settings)
        # What is too long is cut, and has no end.
        self.targets = [
            np.array([*ids, tokens.end][: settings.target_length], np.int32)
            for ids in encode(tokenizer, targets, "encode targets")
        ]
        self.example_of = [row for row, one in enumerate(self.examples) for _ in one.targets]
        self.sources = [sources[index] for index in self.example_of]
        self.sizes = np.array([[*map(len, both)] for both in (self.sources, self.targets)]).T
        super().__init__(self.sizes.sum(axis=1), batch_size, settings.buckets, settings.seed)
        self.measure()

    def measure(self) -> None:
        """Give sources and targets of each bucket one shape, from their `sizes`."""
        # `signature` asks for a boundary + 1, to see which axes grow: it may not be one too.
        apart = ~np.isin(self.boundaries + 1, self.boundaries)
        self.boundaries = self.boundaries[apart]
        bucket_of = np.searchsorted(self.boundaries, self.lengths)
        buckets = range(len(self.boundaries))
        longest = [self.sizes[bucket_of == bucket].max(axis=0) for bucket in buckets]
        # What a bucket leaves over joins the next one, which must have room for it.
        self.shapes = np.maximum.accumulate(longest)

    def block_lengths(self, length: int) -> tuple[int, int]:
        """Return the padded lengths of sources and targets in the bucket of a boundary."""
        bucket = np.searchsorted(self.boundaries, length, side="right") - 1
        beyond = length - self.boundaries[bucket]
        source, target = self.shapes[bucket] + beyond
        return int(source), int(target)

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        source_length, target_length = self.block_lengths(length)
        batch = source_block([self.sources[index] for index in examples], source_length)
        targets = [self.targets[index] for index in examples]
        labels = pad(targets, target_length, NO_TOKEN)
        before = np.full((len(targets), 1), self.begin, np.int32)
        return {
            **{name: batch[name] for name in self.encoder_inputs},
            "target_ids": np.concatenate([before, np.maximum(labels[:, :-1], 0)], axis=1),
            "target_labels": labels,
        }

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / target tokens of the whole batch, so that the
        weighted sum of the examples' losses is the mean over tokens; 0 for those that fill up.
        """
        for batch in super().batches(epoch, skip):
            real = batch["loss_weight"] > 0
            tokens = np.sum(batch["target_labels"][real] != NO_TOKEN)
            yield {**batch, "loss_weight": (real / tokens).astype(np.float32)}


def pack_pairs(pairs: PairGenerator, settings: Settings) -> DataGenerator:
    """Return pairs as they are batched, or several of them in a row, where that is asked."""
    return ask("pack_pairs", settings, pairs) or pairs


def source_block(sources: Sequence[np.ndarray], length: int) -> Batch:
    """Return the arrays `[examples, length]` that encoders read, by name."""
    return {
        "token_ids": pad(sources, length),
        "segment_ids": np.zeros((len(sources), length), np.int32),
        "padding_mask": pad([np.ones(len(ids), np.int32) for ids in sources], length),
    }

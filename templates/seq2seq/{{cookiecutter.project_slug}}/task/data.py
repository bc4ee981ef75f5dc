"""Batches of sources, and of sources with their targets."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from core.base.extras import need
from core.base.files import project_path
from core.batches import Batch, DataGenerator, pad
from generation.encoding import encode, encode_sources
from generation.settings import TargetTokens
from task.records import Example, read_examples
from task.settings import Settings

NO_TOKEN = -1  # label of padding: nothing to predict


class SourceGenerator(DataGenerator):
    """Batches of sources for prediction.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        encoder_inputs: names of the inputs of the encoder.
        settings: `model`, `max_length`, `target_length`, `buckets`, `seed`, `generation`.
        batch_size: sources in a batch.
    """

    of_items = ("sources",)  # extras/cache keeps these: one entry for each row

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
        self.settings = settings
        self.sources = encode_sources(tokenizer, [one.source for one in examples], settings)
        lengths = [len(ids) for ids in self.sources]
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        sources = [self.sources[position] for position in positions]
        batch = source_block(sources, length, self.encoder_inputs)
        # Random numbers for sampling: neither the model nor beam search reads them. Drawn here, so
        # that the samples of a record don't depend on its batch.
        draw, most = self.settings.generation.draw_numbers, self.settings.target_length
        draws = [draw(self.seed, self.examples[position].id, most) for position in positions]
        return {**batch, "draws": np.stack(draws)}


class PairGenerator(DataGenerator):
    """Batches of sources with one target each: a record with two targets gives two rows.

    Each target has the whole weight of its record (extras/distillation may give it a share).
    Source and target are arrays of their own, so logits, over the whole vocabulary, are computed
    for targets only. The bucket of a row depends on the tokens of both together.

    `examples` are records; row n belongs to `examples[record_of[n]]`, and `of` gives it its weight.

    Args: those of `SourceGenerator`, and `tokens`, which begin and end a target.
    """

    of_items = ("sources", "targets")  # extras/cache keeps these: one entry for each row

    def __init__(
        self,
        examples: Sequence[Example],
        tokens: TargetTokens,
        tokenizer: Tokenizer,
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
    ) -> None:
        self.examples, self.encoder_inputs = list(examples), list(encoder_inputs)
        self.begin_token, self.settings = tokens.begin, settings
        targets = [target for example in examples for target in example.targets]
        sources = encode_sources(tokenizer, [one.source for one in examples], settings)
        # A target that is too long is cut and has no end token.
        self.targets = [
            np.array([*ids, tokens.end][: settings.target_length], np.int32)
            for ids in encode(tokenizer, targets, "encode targets")
        ]
        self.record_of = [number for number, one in enumerate(examples) for _ in one.targets]
        self.sources = [sources[number] for number in self.record_of]
        pairs = zip(self.sources, self.targets, strict=True)
        self.sizes = np.array([(len(source), len(target)) for source, target in pairs])
        super().__init__(self.sizes.sum(axis=1), batch_size, settings.buckets, settings.seed)
        self.measure()

    def measure(self) -> None:
        """Set `padded_lengths` `[buckets, 2]`: to what each bucket pads sources, and targets.

        `boundaries` are the largest sums of both in each bucket. Rows too few for a batch join the
        next bucket, so it pads to the longest of its own and of all before: with (30, 5) in the
        first bucket and (20, 40) in the second, the second pads to (30, 40).
        """
        bucket_of = np.searchsorted(self.boundaries, self.lengths)
        buckets = range(len(self.boundaries))
        longest = [self.sizes[bucket_of == bucket].max(axis=0) for bucket in buckets]
        self.padded_lengths = np.maximum.accumulate(longest)

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        bucket = np.searchsorted(self.boundaries, length)  # length: of source and target
        source_length, target_length = self.padded_lengths[bucket].tolist()
        sources = [self.sources[position] for position in positions]
        targets = [self.targets[position] for position in positions]
        # A target [a, b, end] is read as [begin, a, b]; its labels are [a, b, end].
        read = [np.array([self.begin_token, *target[:-1]], np.int32) for target in targets]
        return {
            **source_block(sources, source_length, self.encoder_inputs),
            "target_ids": pad(read, target_length),
            "target_labels": pad(targets, target_length, NO_TOKEN),
        }

    @property
    def mean_tokens(self) -> float:
        """The mean tokens of a row, source and target together, for `tokens_per_second`."""
        return float(self.sizes.sum() / len(self.sizes))

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        """Read a further file, for extras."""
        return read_examples(project_path(path), labelled, self.settings)

    def loss_divisor(self, batch: Batch, real_rows: int) -> int:
        """Return the number of target tokens: the loss of a row is a sum over its tokens."""
        return int(np.sum(batch["target_labels"][:real_rows] != NO_TOKEN))  # filler comes last


def pack_pairs(pairs: PairGenerator, settings: Settings) -> DataGenerator:
    """Return the batches as they are, or with several pairs in a row if `writers.packing`."""
    if not settings.packs:
        return pairs
    return need("writers", "packing").pack(pairs, settings.max_length + settings.target_length)


def source_block(sources: Sequence[np.ndarray], length: int, names: Sequence[str]) -> Batch:
    """Return the named inputs of the encoder, `[examples, length]`."""
    block = {
        "token_ids": pad(sources, length),
        "segment_ids": np.zeros((len(sources), length), np.int32),
        "padding_mask": pad([np.ones(len(ids), np.int32) for ids in sources], length),
    }
    return {name: block[name] for name in names}

"""Checks of the shards for check.py: are the tokens known, and is dev not in train?"""

from dataclasses import dataclass

from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from core.data.checks import Finding
from core.step import Models
from corpus.encode import SPECIAL_TOKENS_AROUND
from corpus.shards import SPLITS, read_manifest, read_shard, shard_folder
from task.model import build_models, load_backbone
from task.settings import Settings

# Above this share of unknown tokens the vocabulary is of another language.
MOST_UNKNOWN = 0.01


@dataclass(frozen=True)
class SplitContent:
    """The content of the shards of train or dev.

    Attributes:
        name: of their folder.
        texts: a hash of the tokens of each example.
        lengths: tokens of each example, [CLS] and [SEP] included.
        unknown: share of the tokens that are [UNK].
    """

    name: str
    texts: list[int]
    lengths: list[int]
    unknown: float


def check_shards(settings: Settings) -> list[Finding]:
    """Describe the shards of train and of dev; return the findings."""
    train, dev = (read_split(settings, split) for split in SPLITS)
    draw = need("doctor", "record_checks").draw_histogram
    for content in (train, dev):
        tokens = sum(content.lengths)
        head = f"\n{content.name}: {len(content.lengths)} examples, {tokens} tokens"
        print(head, *draw(content.lengths, "tokens"), sep="\n")
    return find_shard_faults(train, dev)


def read_split(settings: Settings, split: str) -> SplitContent:
    """Read all shards of train or of dev, one after the other."""
    manifest = read_manifest(shard_folder(settings, split))
    texts, lengths = [], []
    for shard in tqdm(manifest.shards, split, leave=False, disable=None):
        examples = read_shard(manifest.folder, shard)
        for number in range(len(examples)):
            token_ids, _ = examples[number]
            texts.append(hash(token_ids.tobytes()))
            lengths.append(len(token_ids) + SPECIAL_TOKENS_AROUND)
    unknown = sum(shard.unknown for shard in manifest.shards)
    name = f"{settings.shards}/{split}"
    return SplitContent(name, texts, lengths, unknown / max(manifest.tokens, 1))


def find_shard_faults(train: SplitContent, dev: SplitContent) -> list[Finding]:
    """Find unknown tokens, and dev texts that are also in train."""
    findings = [
        Finding(
            "warning",
            f"tokens that the vocabulary does not know: {100 * content.unknown:.1f} %",
            content.name,
            "train a vocabulary on these texts, or start from an encoder of their language.",
        )
        for content in (train, dev)
        if content.unknown > MOST_UNKNOWN
    ]
    known = set(train.texts)
    leaked = sum(text in known for text in dev.texts)
    if leaked:
        findings.append(
            Finding(
                "warning",
                f"examples that are in {train.name} too: {leaked} of {len(dev.texts)}",
                dev.name,
                "remove them from dev_text: scores of memorised texts say little.",
            )
        )
    return findings


def build(tokenizer: Tokenizer, settings: Settings) -> Models:
    """Return models on a new encoder."""
    return build_models(load_backbone(settings, tokenizer), settings)

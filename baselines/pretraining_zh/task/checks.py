"""What check.py asks of the shards: are the tokens known, and is dev not in train?"""

from dataclasses import dataclass

from tqdm import tqdm

from common.data_checks import Finding, length_histogram
from common.encoder import freeze_layers
from common.optimizers import make_optimizer
from common.regularization import make_regularization
from common.training import TrainingModel
from task.data import read_tokenizer, shard_folder
from task.encode import SPECIAL_TOKENS_AROUND
from task.model import build_models, compared_scores, load_backbone
from task.settings import Settings
from task.shards import read_manifest, read_shard

# Above this share of unknown tokens the vocabulary is of another language.
MOST_UNKNOWN = 0.01


@dataclass(frozen=True)
class Part:
    """What the shards of train or dev hold.

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


def read_part(settings: Settings, part: str) -> Part:
    """Read all shards of a part, one after the other."""
    manifest = read_manifest(shard_folder(settings, part))
    texts, lengths = [], []
    for shard in tqdm(manifest.shards, part, leave=False, disable=None):
        examples = read_shard(manifest.folder, shard)
        for number in range(len(examples)):
            token_ids, _ = examples[number]
            texts.append(hash(token_ids.tobytes()))
            lengths.append(len(token_ids) + SPECIAL_TOKENS_AROUND)
    unknown = sum(shard.unknown for shard in manifest.shards)
    return Part(f"{settings.shards}/{part}", texts, lengths, unknown / max(manifest.tokens, 1))


def describe_part(part: Part) -> str:
    """Return the numbers and the histogram of a part."""
    tokens = sum(part.lengths)
    head = f"\n{part.name}: {len(part.lengths)} examples, {tokens} tokens"
    return "\n".join([head, length_histogram(part.lengths, "tokens")])


def find_shard_faults(train: Part, dev: Part) -> list[Finding]:
    """Find tokens that nobody knows, and dev texts that are learned by heart."""
    findings = [
        Finding(
            "warning",
            f"tokens that the vocabulary does not know: {100 * part.unknown:.1f} %",
            part.name,
            "train a vocabulary on these texts, or go on from an encoder of their language.",
        )
        for part in (train, dev)
        if part.unknown > MOST_UNKNOWN
    ]
    known = set(train.texts)
    leaked = sum(text in known for text in dev.texts)
    if leaked:
        findings.append(
            Finding(
                "warning",
                f"examples that stand in {train.name} too: {leaked} of {len(dev.texts)}",
                dev.name,
                "take them out of dev_text, or its scores tell what was learned by heart.",
            )
        )
    return findings


def build_compiled(settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    encoder = load_backbone(settings, read_tokenizer(settings))
    model, _ = build_models(encoder, settings)
    freeze_layers(encoder, settings.frozen_layers)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(model)),
    )
    return model

"""The settings of the corpus: which text, which tokens, which shards."""

from typing import Literal

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable


class PreparationTable(SettingsTable):
    """How text is turned into shards of examples."""

    text_field: str = Field("text", description="the field of a JSON record that holds its text")
    longest_line: int = Field(
        1_000_000, ge=1, description="bytes; a longer line is skipped and counted"
    )
    vocabulary_size: int = Field(8000, ge=100, description="most tokens of a new vocabulary")
    vocabulary_megabytes: float = Field(
        200.0, gt=0, description="text that a vocabulary is trained on, at the most"
    )
    lowercase: bool = Field(
        True, description="lower-case letters, without accents, as BERT uncased"
    )
    words: Literal["auto", "spaces", "tokens"] = Field(
        "auto", description="masked as a whole: auto knows the words of Chinese as well"
    )
    packing: bool = Field(True, description="fill an example with several lines, [SEP] between")
    # Floats have float defaults: the hash of a recipe tells 0 from 0.0.
    short_share: float = Field(
        0.0, ge=0, le=1, description="share of the lines that are cut to short_length tokens"
    )
    short_length: int = Field(64, ge=8, description="tokens of an example of these lines")
    block_megabytes: float = Field(16.0, gt=0, description="text in one shard")
    processes: int = Field(0, ge=0, description="processes of prepare.py; 0: as many as cores")


class CorpusSettings(CoreSettings):
    """The settings of core, and those that name and prepare text."""

    train_text: str = Field(
        "sample/train.txt", description="files or globs, with commas; .jsonl and .json: records"
    )
    dev_text: str = Field("sample/dev.txt", description="the same for dev; empty: no dev shards")
    tokenizer: str = Field(
        "vocabulary/tokenizer.json", description="trained on train_text where there is none"
    )
    shards: str = Field("shards", description="folder, or URL, of the shards of train and dev")
    preparation: PreparationTable = Field(
        default_factory=PreparationTable, description="how text is turned into shards"
    )

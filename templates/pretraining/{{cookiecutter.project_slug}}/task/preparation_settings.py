"""The settings of the preparation: which text, which words, which shards."""

from typing import Literal

from pydantic import Field

from common.settings import CommonSettings


class PreparationSettings(CommonSettings):
    """The common settings and those that turn text into shards of examples."""

    train_text: str = Field(
        "sample/train.txt", description="files or globs, with commas; .jsonl and .json: records"
    )
    dev_text: str = Field("sample/dev.txt", description="the same for dev; empty: no dev shards")
    text_field: str = Field("text", description="the field of a JSON record that holds its text")
    longest_line: int = Field(
        1_000_000, ge=1, description="bytes; a longer line is skipped and counted"
    )

    tokenizer: str = Field(
        "vocabulary/tokenizer.json", description="trained on train_text where there is none"
    )
    vocabulary_size: int = Field(8000, ge=100, description="tokens at the most, when it is trained")
    vocabulary_megabytes: float = Field(
        200, gt=0, description="of train_text that the vocabulary is trained on, at the most"
    )
    lowercase: bool = Field(
        True, description="lower-case letters, without accents, as BERT uncased"
    )

    words: Literal["auto", "spaces", "tokens"] = Field(
        "auto", description="masked as a whole: auto knows the words of Chinese as well"
    )
    packing: bool = Field(True, description="fill an example with several lines, [SEP] between")
    short_share: float = Field(
        0, ge=0, le=1, description="share of the lines that are cut to short_length tokens"
    )
    short_length: int = Field(64, ge=8, description="tokens of an example of these lines")
    shards: str = Field("shards", description="folder, or URL, of the shards of train and dev")
    block_megabytes: float = Field(16, gt=0, description="of text in one shard")
    processes: int = Field(0, ge=0, description="that prepare shards; 0: as many as cores")

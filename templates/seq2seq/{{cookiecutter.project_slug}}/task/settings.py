"""The settings of seq2seq."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from core.base.extras import need
from core.base.settings import RecordSettings
from generation.settings import GenerationTable


class Settings(RecordSettings):
    """The settings of all tasks, such as `max_length` (core/base/settings.py), and of this one."""

    task: ClassVar[str] = "Seq2seq"

    # model
    model: Literal["unilm", "encoder_decoder", "pretrained"] = Field(
        "unilm",
        description="unilm: a BERT writes; encoder_decoder: a new decoder; pretrained: a writer",
    )
    decoder_layers: int = Field(2, ge=1, description="layers of the decoder of encoder_decoder")
    target_length: int = Field(64, ge=2, description="tokens of a target, its end included")
    keep_tokens: Literal["all", "used"] = Field(
        "all", description="used: keep only tokens of the training file, for a faster head"
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability spread over all tokens"
    )

    # scores
    metric: Literal["bleu", "exact_match", "rouge_l"] = Field(
        "bleu", description="the score that chooses the best epoch"
    )
    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = Field(
        "13a", description="of sacrebleu; zh for Chinese"
    )
    lowercase_scores: bool = Field(False, description="ignore case in scores")

    generation: GenerationTable = Field(
        default_factory=GenerationTable, description="how targets are written"
    )

    @property
    def writers_table(self) -> Any:
        """The table that extras/writers adds to these settings; None: without the extra."""
        return getattr(self, "writers", None)

    @property
    def packs(self) -> bool:
        """Whether several training examples share a row, with extras/writers."""
        return self.writers_table is not None and self.writers_table.packing

    @property
    def extractor(self) -> Any:
        """Reads and scores triples or events (extras/extraction); None: targets are plain texts."""
        table = getattr(self, "extraction", None)
        if table is None or not table.kind:
            return None
        return need("extraction", "extractor").open_extractor(table, self.generation.n_best)

    @property
    def monitor(self) -> str:
        """The score that chooses the best epoch."""
        return self.extractor.monitor if self.extractor else self.metric

    def with_generation(self, **changes: Any) -> Self:
        """Return a copy with changes: keys of the table `generation`, or other settings."""
        in_table = {k: value for k, value in changes.items() if k in GenerationTable.model_fields}
        others = {k: value for k, value in changes.items() if k not in in_table}
        table = self.generation.model_copy(update=in_table)
        return self.model_copy(update={**others, "generation": table})

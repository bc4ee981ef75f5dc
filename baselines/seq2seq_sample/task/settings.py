"""The settings of seq2seq."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from core.base.extras import ask
from core.base.settings import RecordSettings
from generation.settings import GenerationTable


class Settings(RecordSettings):
    """The settings of core, those of models and scores, and the table of generation."""

    task: ClassVar[str] = "Seq2seq"

    # model
    model: Literal["unilm", "encoder_decoder", "pretrained"] = Field(
        "unilm", description="the encoder writes; a decoder beside it writes; a pretrained writer"
    )
    decoder_layers: int = Field(2, ge=1, description="layers of the decoder of encoder_decoder")
    target_length: int = Field(64, ge=2, description="tokens of a target, its end included")
    keep_tokens: Literal["all", "used"] = Field(
        "all", description="used: only the tokens that the training file uses, a faster head"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability of all other tokens")

    # scores
    metric: Literal["bleu", "exact_match", "rouge_l"] = Field(
        "bleu", description="the score that chooses the best epoch"
    )
    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = Field(
        "13a", description="of sacrebleu; zh for Chinese"
    )
    lowercase_scores: bool = Field(False, description="score without regard to case")

    generation: GenerationTable = Field(
        default_factory=GenerationTable, description="how targets are written"
    )

    @property
    def extractor(self) -> Any:
        """What reads and scores records of another kind; None: they are sources and targets."""
        return ask("open_extraction", self)

    @property
    def monitor(self) -> str:
        """The score that chooses the best epoch."""
        return self.extractor.monitor if self.extractor else self.metric

    def generating(self, **changes: Any) -> Self:
        """Return these settings with changes: keys of `generation`, or flat ones."""
        in_table = {key: changes.pop(key) for key in GenerationTable.model_fields if key in changes}
        table = self.generation.model_copy(update=in_table)
        return self.model_copy(update={**changes, "generation": table})

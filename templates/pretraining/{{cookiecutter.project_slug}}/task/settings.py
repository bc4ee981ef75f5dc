"""The settings of pre-training."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from corpus.settings import CorpusSettings

METRIC = "accuracy"  # chooses the best epoch


class Settings(CorpusSettings):
    """The settings of the corpus, and those of the objective."""

    task: ClassVar[str] = "Pre-training"
    free_settings: ClassVar[tuple[str, ...]] = ("preparation.processes",)

    objective: Literal["masked", "causal", "unilm", "denoising", "replaced"] = Field(
        "masked",
        description="hidden words; each token from those before; the rest of a text; all of it "
        "from a damaged copy; which tokens were replaced",
    )
    mask_rate: float = Field(0.15, gt=0, lt=1, description="share of the tokens that are hidden")
    mask_share: float = Field(0.8, ge=0, le=1, description="share of the hidden that become [MASK]")
    random_share: float = Field(0.1, ge=0, le=1, description="share of the hidden that change")
    span_length: float = Field(
        3.0, ge=1, description="mean tokens of a span that one [MASK] hides, for denoising"
    )
    permute_sentences: bool = Field(True, description="read sentences in any order, for denoising")
    pool_examples: int = Field(
        100_000, ge=1, description="examples in memory at once, which are shuffled together"
    )

    @model_validator(mode="after")
    def check_shares(self) -> Self:
        """Refuse shares of hidden tokens that sum to more than 1."""
        if self.mask_share + self.random_share > 1:
            raise ValueError(
                f"mask_share + random_share = {self.mask_share + self.random_share:g} is more than "
                "all hidden tokens: lower one of them"
            )
        return self

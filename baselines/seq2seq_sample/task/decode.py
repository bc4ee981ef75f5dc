"""From sources to texts, and to the records of a predictions file."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from core.data.records import Id
from core.train.prediction import Predictor
from generation.settings import TargetTokens
from task.data import Example, SourceGenerator
from task.tokens import decode_texts


def predict_texts(
    predictor: Predictor,
    generator: SourceGenerator,
    tokenizer: Tokenizer,
    tokens: TargetTokens,
    progress: str = "",
) -> dict[Id, tuple[str, float]]:
    """Return record id -> the text that was written, and its score.

    Args:
        predictor: of a `Writer`.
        generator: of the examples.
        tokenizer: of the encoder.
        tokens: the one that ends a target.
        progress: title of the progress bar; empty: none.
    """

    def decode(_: np.ndarray, outputs: dict[str, np.ndarray]) -> list[tuple[str, float]]:
        ends = np.cumsum(outputs["tokens"] == tokens.end, axis=1)
        rows = [row[ended == 0] for row, ended in zip(outputs["tokens"], ends, strict=True)]
        texts = decode_texts(tokenizer, rows)
        return list(zip(texts, outputs["scores"].tolist(), strict=True))

    return {
        generator.examples[position].id: found
        for position, found in predictor.decode(generator, decode, progress)
    }


def prediction_records(
    examples: Sequence[Example], predictions: dict[Id, tuple[str, float]]
) -> list[dict]:
    """Return the records of the predictions file, in the order of the examples."""
    found = [(example.id, *predictions[example.id]) for example in examples]
    return [
        {"id": identity, "prediction": text, "score": round(value, 4)}
        for identity, text, value in found
    ]

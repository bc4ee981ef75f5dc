"""From tokens to texts, and to the records of a predictions file."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from tokenizers import Tokenizer

from common.prediction import Predictor
from task.data import Example, SourceGenerator
from task.metrics import RecordScore
from task.tokens import TargetTokens, decode_texts


def predict_texts(
    predictor: Predictor,
    generator: SourceGenerator,
    tokenizer: Tokenizer,
    tokens: TargetTokens,
    progress: str = "",
) -> dict[str, tuple[str, float]]:
    """Return record id -> the text that was written, and its score.

    Args:
        predictor: of a `Writer`.
        generator: of the examples.
        tokenizer: of the encoder.
        tokens: the one that ends a target.
        progress: title of the progress bar; empty: none.
    """

    def decode(_: np.ndarray, outputs: dict[str, np.ndarray]) -> list[tuple[str, float]]:
        rows = [until_end(row.astype(int), tokens.end) for row in outputs["tokens"]]
        texts = decode_texts(tokenizer, rows)
        return list(zip(texts, outputs["scores"].tolist(), strict=True))

    return {
        generator.examples[position].id: found
        for position, found in predictor.decode(generator, decode, progress)
    }


def until_end(row: np.ndarray, end: int) -> np.ndarray:
    """Return the tokens before the end."""
    ends = np.flatnonzero(row == end)
    return row[: ends[0]] if len(ends) else row


def prediction_records(
    examples: Sequence[Example],
    predictions: dict[str, tuple[str, float]],
    scores: Sequence[RecordScore] | None = None,
) -> list[dict]:
    """Return the records of the predictions file.

    Args:
        examples: in the order of the file.
        predictions: from `predict_texts`.
        scores: of each record; None: nobody knows the targets.
    """
    records = []
    for number, example in enumerate(examples):
        text, value = predictions[example.id]
        record = {"id": example.id, "prediction": text, "score": round(value, 4)}
        if scores is not None:
            record |= asdict(scores[number])
        records.append(record)
    return records

"""Write texts for sources; turn them into the records of a predictions file."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from core.data.records import Id
from core.prediction.predictor import Predictor
from generation.texts import Written, describe_written, read_texts
from task.data import SourceGenerator
from task.records import Example


def predict_texts(
    predictor: Predictor, generator: SourceGenerator, tokenizer: Tokenizer, progress: str = ""
) -> dict[Id, Written]:
    """Return record id -> the text that was written for it.

    Args:
        predictor: runs a `Writer`, which chooses the tokens (generation/search.py), not a model.
        generator: of the examples; `predictor.decode` yields the position of each, and its text.
        tokenizer: of the encoder.
        progress: title of the progress bar; empty: none.
    """
    [writer] = predictor.models

    def read(_positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[Written]:
        # `constraints`: stop strings and allowed texts.
        return read_texts(outputs, writer.tokens, writer.constraints, tokenizer)

    return {
        generator.examples[position].id: found
        for position, found in predictor.decode(generator, read, progress)
    }


def prediction_records(examples: Sequence[Example], predictions: dict[Id, Written]) -> list[dict]:
    """Return the records of the predictions file, in the order of the examples."""
    return [{"id": one.id, **describe_written(predictions[one.id])} for one in examples]

"""Score a model on held-out texts, and show some of its predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from core.base.words import excerpt
from core.prediction.predictor import Predictor
from core.scores.evaluation import DevScorer, Evaluation
from corpus.pieces import in_words
from task.data import HeldOutGenerator
from task.masking import NO_TOKEN
from task.metrics import score
from task.settings import Settings

SHOWN_IN_REPORT = 200  # texts whose predicted tokens are kept
HIDDEN = "[…]"


@dataclass(frozen=True)
class Prediction:
    """The predictions for one text.

    `statistics` are its correct and predicted tokens and the sum of -log p; `tokens` are the
    likeliest ones at each of its places `[slots, best]`.
    """

    statistics: tuple[float, float, float]
    tokens: np.ndarray


def predict(
    predictor: Predictor, generator: HeldOutGenerator, progress: str = ""
) -> list[Prediction]:
    """Return the predictions for each text, in the order of the texts.

    Args:
        predictor: of the inference model.
        generator: of the texts.
        progress: title of the progress bar; empty: none.
    """
    labels = generator.layout["masked_labels"]

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[Prediction]:
        counts = (labels[positions] != NO_TOKEN).sum(axis=1)
        rows = zip(outputs["correct"], counts, outputs["surprise"], outputs["tokens"], strict=True)
        return [
            Prediction((float(correct), float(count), float(surprise)), tokens)
            for correct, count, surprise, tokens in rows
        ]

    found = dict(predictor.decode(generator, decode, progress))
    return [found[position] for position in range(len(found))]


def evaluate(
    generator: HeldOutGenerator,
    predictions: Sequence[Prediction],
    tokenizer: Tokenizer,
    named: dict[str, str],
    shown: int = 0,
) -> Evaluation:
    """Score the predictions for the texts of a file.

    Args:
        generator: of the texts.
        predictions: from `predict`.
        tokenizer: of the texts.
        named: `file` and `data_hash` of the texts.
        shown: how many texts to show in words.
    """
    columns = np.array([prediction.statistics for prediction in predictions])
    records = [
        {"id": str(number), "statistics": [round(value, 4) for value in prediction.statistics]}
        for number, prediction in enumerate(predictions)
    ]
    for number, record in enumerate(records[:SHOWN_IN_REPORT]):
        row = {name: array[number] for name, array in generator.layout.items()}
        best, objective = predictions[number].tokens, generator.settings.objective
        record |= in_words(row, best, tokenizer, objective)
    return Evaluation(
        scores={**named, "records": len(records), **score(columns)},
        predictions=records,
        shown=[describe(record) for record in records[:shown]],
    )


class TokenScorer(DevScorer):
    """Scores dev with the current weights of a training.

    Args:
        predictor: of the inference model.
        batches: of dev.
        settings: `shown_examples`.
        tokenizer: of the texts.
        named: `file` and `data_hash` of the texts.
    """

    def __init__(
        self,
        predictor: Predictor,
        batches: HeldOutGenerator,
        settings: Settings,
        tokenizer: Tokenizer,
        named: dict[str, str],
    ) -> None:
        super().__init__(predictor, batches, settings)
        self.tokenizer, self.named = tokenizer, named

    def score(self, batches: HeldOutGenerator, tuned: dict | None = None) -> Evaluation:
        predictions = predict(self.predictor, batches)
        shown = self.settings.shown_examples
        return evaluate(batches, predictions, self.tokenizer, self.named, shown)


def describe(record: dict) -> str:
    """Return a text with gaps, and the likeliest tokens of each gap."""
    shown, end, rows, gaps = "", 0, [], []
    for hidden in sorted(record["hidden"], key=lambda hidden: hidden["span"]):
        start, stop = hidden["span"]
        shown += record["text"][end:start] + HIDDEN
        gaps.append((len(shown) - len(HIDDEN), len(shown)))
        end = stop
        rows.append(f"  {record['text'][start:stop]}: {', '.join(hidden['predicted'])}")
    return "\n".join([excerpt(shown + record["text"][end:], gaps), *rows, ""])

"""Score a model on held-out texts, and say in words what it predicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from core.report.report import ErrorExample, ErrorItem
from core.prediction.predictor import Predictor
from core.scores.evaluation import Evaluation
from task.data import HeldOutGenerator
from task.masking import NO_TOKEN
from task.metrics import score

SHOWN_IN_REPORT = 200  # texts whose predictions are kept in words
HIDDEN = "[…]"


@dataclass(frozen=True)
class Prediction:
    """What was predicted of one text.

    `statistics` are its correct and predicted tokens and the sum of -log p; `tokens` the likeliest
    at each of its places `[slots, best]`.
    """

    statistics: tuple[float, float, float]
    tokens: np.ndarray


def predict(
    predictor: Predictor, generator: HeldOutGenerator, progress: str = ""
) -> list[Prediction]:
    """Return what is predicted of each text, in their order.

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
    """Score what was predicted of the texts of a file.

    Args:
        generator: of the texts.
        predictions: of each of them.
        tokenizer: of the texts.
        named: `file` and `data_hash` of the texts.
        shown: texts to put into words.
    """
    columns = np.array([prediction.statistics for prediction in predictions])
    records = [
        {"id": str(number), "statistics": [round(value, 4) for value in prediction.statistics]}
        for number, prediction in enumerate(predictions)
    ]
    for number, record in enumerate(records[:SHOWN_IN_REPORT]):
        record |= in_words(generator, number, predictions[number], tokenizer)
    return Evaluation(
        scores={**named, "records": len(records), **score(columns)},
        predictions=records,
        shown=[describe(record) for record in records[:shown]],
    )


def in_words(
    generator: HeldOutGenerator, number: int, prediction: Prediction, tokenizer: Tokenizer
) -> dict:
    """Return a text with what was hidden of it: places in the text, and the likeliest tokens.

    Args:
        generator: of the texts.
        number: of the text.
        prediction: of the text.
        tokenizer: of the texts.
    """
    row = {name: array[number] for name, array in generator.layout.items()}
    used, objective = row["masked_labels"] != NO_TOKEN, generator.settings.objective
    if objective == "denoising":  # what is read is another text
        token_ids, places = np.append(row["target_ids"], 0), np.flatnonzero(used) + 1
        size = len(places) + 1
    else:
        token_ids, size = row["token_ids"].copy(), row["padding_mask"].sum()
        # Others than masked predict the token after the place that they predict from.
        places = row["masked_positions"][used] + int(objective != "masked")
    token_ids[places] = row["masked_labels"][used]
    ids = token_ids[:size].tolist()
    pieces = [tokenizer.id_to_token(token_id) or "" for token_id in ids]
    text, spans = join_pieces(pieces)
    best = prediction.tokens[: len(used)][used[: len(prediction.tokens)]]
    return {
        "text": text,
        "hidden": [
            {"span": spans[place], "predicted": [tokenizer.id_to_token(int(i)) for i in tokens]}
            for place, tokens in zip(places, best, strict=True)
        ],
    }


def join_pieces(pieces: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a text of WordPiece tokens, and the characters `[start, end)` of each.

    No space stands beside ideographs, each of which is a token.
    """
    text, spans = "", []
    for piece in pieces:
        inner = piece.startswith("##") and len(piece) > 2
        piece = piece[2:] if inner else piece
        apart = text and not inner and not (is_ideograph(text[-1]) or is_ideograph(piece[0]))
        text += " " if apart else ""
        spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, spans


def is_ideograph(character: str) -> bool:
    """Tell whether a character is Chinese, its punctuation included."""
    return "\u3000" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef"


def describe(record: dict) -> str:
    """Return a text with gaps, and what was found for each."""
    pieces, end, rows = [], 0, []
    for hidden in sorted(record["hidden"], key=lambda hidden: hidden["span"]):
        start, stop = hidden["span"]
        pieces += [record["text"][end:start], HIDDEN]
        end = stop
        rows.append(f"  {record['text'][start:stop]}: {', '.join(hidden['predicted'])}")
    return "\n".join(["".join([*pieces, record["text"][end:]]), *rows, ""])


def find_errors(predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return the texts that are kept in words, with what was predicted right and wrong."""
    reports = []
    for record in predictions:
        if "hidden" in record:
            text, (correct, count, _) = record["text"], record["statistics"]
            items = [describe_hidden(text, hidden) for hidden in record["hidden"]]
            ranks = [rank_hidden(text, hidden) for hidden in record["hidden"]]
            measures = {"accuracy": correct / max(count, 1)}
            reports.append(ErrorExample(record["id"], text, items, measures, ranks=ranks))
    return reports


def rank_hidden(text: str, hidden: dict) -> int:
    """Return where a hidden token stands among the likeliest, from 1; 0: it is none of them."""
    tokens = [token.removeprefix("##") for token in hidden["predicted"]]
    token = text[slice(*hidden["span"])]
    return tokens.index(token) + 1 if token in tokens else 0


def describe_hidden(text: str, hidden: dict) -> ErrorItem:
    """Return one hidden token, and the likeliest ones."""
    start, end = hidden["span"]
    kind = "correct" if rank_hidden(text, hidden) == 1 else "missed"
    return ErrorItem(kind, ", ".join(hidden["predicted"]) + " ←", [(start, end, "")])

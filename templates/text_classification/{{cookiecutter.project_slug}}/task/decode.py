"""From the model's outputs to labels."""

import numpy as np

from core.base.extras import need
from core.prediction.predictor import Predictor
from library.candidates import Candidates, make_candidates
from task.data import ExampleGenerator
from task.records import Labels

# One for all labels, or label -> its own. For numbers (extras/competition): target -> the
# cuts between its grades.
Threshold = float | dict


def predict_probabilities(
    predictor: Predictor, generator: ExampleGenerator, progress: str = ""
) -> Candidates:
    """Return the outputs for every example: probabilities, or numbers.

    Args:
        predictor: of the inference model.
        generator: of the examples, `with_labels=False`.
        progress: title of the progress bar; empty: none.
    """

    def rows_of(_positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        [probabilities] = outputs.values()  # the inference model has one output
        return [*probabilities]

    def predict(batches: ExampleGenerator) -> np.ndarray:  # called twice with `swap_prediction`
        rows = np.zeros((len(batches.examples), len(batches.labels.names)))
        # `decode` calls `rows_of` with each batch, and yields its results with their positions.
        for position, row in predictor.decode(batches, rows_of, progress):
            rows[position] = row
        return rows

    rows = predict(generator)
    competition = getattr(generator.settings, "competition", None)  # the table of the extra
    if competition and competition.swap_prediction:
        rows = need("competition", "swapping").average_orders(rows, generator, predict)
    return make_candidates(generator.examples, rows, generator.labels)


def choose_labels(
    probabilities: np.ndarray, labels: Labels, threshold: Threshold
) -> tuple[str, ...]:
    """Return the labels of one record.

    Several labels: all whose probability is above the threshold, which may be none. Two labels, one
    of them positive: the positive one if its probability is above the threshold, else the other.
    Otherwise the most likely label; on a tie, the first by name.

    Args:
        probabilities: `[labels]`.
        labels: from `collect_targets`.
        threshold: from 0 to 1, or label -> threshold, in the order of `labels.names`.
    """
    if labels.several:
        each = np.array([*threshold.values()]) if isinstance(threshold, dict) else threshold
        return tuple(labels.names[index] for index in np.flatnonzero(probabilities > each))
    if labels.has_threshold:  # two labels: the threshold is a number
        index = labels.names.index(labels.positive)
        return (labels.names[index if probabilities[index] > threshold else 1 - index],)
    return (labels.names[int(np.argmax(probabilities))],)

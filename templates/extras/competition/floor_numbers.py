"""The lower bound for numbers: ridge regression on the features of the classical model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from tqdm import tqdm

from extras.competition.targets import gold_numbers

# Tried by cross-validation on the training file.
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
FOLDS = 5


def fit_ridge(
    inputs: sparse.csr_matrix, examples: Sequence[Any], labels: Any
) -> Callable[[sparse.csr_matrix], np.ndarray]:
    """Return a function from features to numbers `[examples, targets]`.

    Predictions stay between the lowest and the highest number of the training file.

    Args:
        inputs: features `[examples, features]` of the training file.
        examples: of the training file.
        labels: with the `scaling` of `collect_numbers`.
    """
    scaling = labels.scaling
    numbers = gold_numbers(examples)
    targets = (numbers - numbers.mean(axis=0)) / np.array(scaling["deviations"])
    models = [
        RidgeCV(PENALTIES, cv=KFold(FOLDS, shuffle=True, random_state=1)).fit(inputs, column)
        if len(numbers) > FOLDS
        else RidgeCV(PENALTIES).fit(inputs.toarray(), column)
        for column in tqdm(targets.T, "floor", leave=False, disable=None)
    ]

    def predict(features: sparse.csr_matrix) -> np.ndarray:
        found = np.column_stack([model.predict(features) for model in models])
        found = found * scaling["deviations"] + numbers.mean(axis=0)
        return np.clip(found, scaling["lowest"], scaling["highest"])

    return predict

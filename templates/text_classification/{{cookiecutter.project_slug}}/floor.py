"""The classical model: TF-IDF of words and characters, and logistic or ridge regression.

It trains in seconds, and is the floor that every neural score is held against: what it reaches is
what the words alone tell, without their order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.base.extras import ask, need
from core.base.files import PROJECT, project_path, write_json, write_json_lines
from core.runs.provenance import provenance
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation
from task.data import Example, Labels, check_kind, fold_keys, label_targets, read_examples
from task.decode import Candidates, make_candidates, threshold_of
from task.evaluation import evaluate
from task.settings import FLOOR, Settings

FOLDER = PROJECT / "runs" / FLOOR
MOST_FEATURES = 100_000
HASHED_FEATURES = 2**20
INVERSE_REGULARISATION = 1.0


class Features:
    """Sparse features of texts or pairs, fitted to the training examples.

    A text is its TF-IDF vector over words and word pairs, and over one to three characters: the
    latter serve languages without spaces, and misspellings. A pair is the words of the second text,
    the features that both texts share, and a few numbers that say how much they share: for those,
    words that no training text has count too, and most of all, which only hashing knows.

    Args:
        examples: of the training file.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        shape = {"sublinear_tf": True, "max_features": MOST_FEATURES, "dtype": np.float32}
        self.pairs = any(example.text_b is not None for example in examples)
        self.known = [
            TfidfVectorizer(token_pattern=r"(?u)\w+", ngram_range=(1, 2), **shape),
            TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **shape),
        ]
        hashed = {"n_features": HASHED_FEATURES, "alternate_sign": False, "norm": None}
        self.hashed = [
            make_pipeline(
                HashingVectorizer(analyzer=known.build_analyzer(), dtype=np.float32, **hashed),
                TfidfTransformer(sublinear_tf=True),
            )
            for known in self.known
            if self.pairs
        ]
        self.scaler = StandardScaler()
        texts = sorted({text for example in examples for text in example.texts})
        for vectorizer in self.known:
            vectorizer.fit([*texts, "a"])  # one feature at least, whatever the texts
        for pipeline in self.hashed:
            pipeline.fit(texts)

    def __call__(self, examples: Sequence[Example], fit: bool = False) -> sparse.csr_matrix:
        """Return `[examples, features]`.

        Args:
            examples: to describe.
            fit: they are those of the training file.
        """
        texts_a = [example.text_a for example in examples]
        texts_b = [example.text_b or "" for example in examples]
        known_a, known_b = vectors(texts_a, self.known), vectors(texts_b, self.known)
        if not self.pairs:
            return sparse.hstack(known_a, "csr")
        hashed = zip(vectors(texts_a, self.hashed), vectors(texts_b, self.hashed), strict=True)
        lengths = [[len(a), len(b)] for a, b in zip(texts_a, texts_b, strict=True)]
        columns = [column for both in hashed for column in overlaps(*both)]
        numbers = np.column_stack([*columns, np.log1p(lengths)])
        numbers = self.scaler.fit_transform(numbers) if fit else self.scaler.transform(numbers)
        shared = [a.multiply(b) for a, b in zip(known_a, known_b, strict=True)]
        return sparse.hstack([known_b[0], *shared, sparse.csr_matrix(numbers)], "csr")


def vectors(texts: list[str], transformers: list) -> list[sparse.csr_matrix]:
    """Return the vectors `[texts, features]` of each transformer; a text is read only once."""
    unique, rows = np.unique(np.array(texts, object), return_inverse=True)
    return [transformer.transform(unique)[rows] for transformer in transformers]


def overlaps(first: sparse.csr_matrix, second: sparse.csr_matrix) -> list[np.ndarray]:
    """Return the cosine of each pair, and the share of either's weight that the other has too."""
    columns = [row_sums(first.multiply(second))]
    for one, other in ((first, second), (second, first)):
        columns.append(row_sums(one.multiply(other > 0)) / np.maximum(row_sums(one), 1e-9))
    return columns


def row_sums(matrix: sparse.csr_matrix) -> np.ndarray:
    """Return the sum of each row."""
    return np.asarray(matrix.sum(axis=1)).ravel()


def predict_floor(
    labels: Labels, train_examples: Sequence[Example], *files: Sequence[Example]
) -> list[Candidates]:
    """Train the classical model and return the probabilities of the examples of each file.

    Args:
        labels: from `collect_labels`.
        train_examples: to learn from.
        *files: the examples of each.
    """
    features = Features(train_examples)
    inputs, targets = features(train_examples, fit=True), label_targets(train_examples, labels)
    if labels.scaling:
        fit = need("competition", "floor_numbers").fit_ridge(inputs, train_examples, labels.scaling)
        return [make_candidates(examples, fit(features(examples))) for examples in files]
    # A label without any example, or that all have, as in a fold, has its share for a probability.
    shares = targets.mean(axis=0)
    learnable = np.flatnonzero((shares > 0) & (shares < 1))
    # One label after the other: the memory of one, however many there are.
    single = LogisticRegression(C=INVERSE_REGULARISATION, solver="liblinear", max_iter=1000)
    # Models, the labels whose probabilities each gives, and where these stand in its output.
    models: list[tuple[Any, Any, Any]] = []
    if labels.several:
        models = [(clone(single).fit(inputs, targets[:, n]), [n], [1]) for n in learnable]
    elif len(learnable):
        model = OneVsRestClassifier(single).fit(inputs, targets.argmax(axis=1))
        models = [(model, model.classes_, slice(None))]
    predicted = []
    for examples in files:
        rows = np.tile(shares, (len(examples), 1)).astype(float)
        known = features(examples)
        for model, numbers, columns in models:
            rows[:, numbers] = model.predict_proba(known)[:, columns]
        predicted.append(make_candidates(examples, rows, labels))
    return predicted


def score_floor(
    settings: Settings, labels: Labels, examples: Sequence[Example], dev_examples: Sequence[Example]
) -> dict[str, Evaluation]:
    """Return the scores of the classical model on dev, and on test where its labels are known.

    With folds it is cross-validated as the neural model is: `dev` is the whole training file then.

    Args:
        settings: of the project.
        labels: from `collect_labels`.
        examples: of the training file.
        dev_examples: tune the threshold.
    """
    fold_of = ask("assign_folds", settings, fold_keys(examples))
    if fold_of is not None:
        candidates: Candidates = {}
        for fold in range(max(fold_of) + 1):
            kept = [example for example, own in zip(examples, fold_of, strict=True) if own != fold]
            held = [example for example, own in zip(examples, fold_of, strict=True) if own == fold]
            candidates |= predict_floor(labels, kept, held)[0]
        train_path = project_path(settings.train_file)
        return {"dev": evaluate(examples, candidates, labels, train_path, settings)}
    test_path = project_path(settings.test_file)
    test: Sequence[Example] = []
    if test_path.is_file():
        test = read_examples(test_path, require_labels=False, settings=settings)
        check_kind(test, labels, test_path)
        test = test if all(example.labelled for example in test) else []
    found = predict_floor(labels, examples, dev_examples, *([test] if test else []))
    dev = evaluate(dev_examples, found[0], labels, project_path(settings.dev_file), settings)
    if not test:
        return {"dev": dev}
    threshold = threshold_of(dev.scores, labels)
    return {"dev": dev, "test": evaluate(test, found[1], labels, test_path, settings, threshold)}


def keep_floor(settings: Settings, metric: str, evaluations: dict[str, Evaluation]) -> None:
    """Write the scores and predictions of the classical model to runs/floor, as a run's are.

    Args:
        settings: of the project.
        metric: the score that decides.
        evaluations: by the name of the file, `dev` among them.
    """
    facts = {**provenance(settings), "encoder": "none: TF-IDF and a linear model"}
    for name, evaluation in evaluations.items():
        write_json_lines(FOLDER / "predictions" / f"{name}.jsonl", evaluation.predictions)
    files = {name: {**evaluation.scores, **facts} for name, evaluation in evaluations.items()}
    scores = {**facts, "monitor": metric, "dev": files.pop("dev"), "files": files}
    write_json(FOLDER / "scores.json", scores)


def find_floor(data_hash: str, metric: str) -> float | None:
    """Return what the classical model scores on a file; None: it was not scored on it.

    Args:
        data_hash: of the file.
        metric: name of the score.
    """
    scores = read_scores(FOLDER)
    parts = [scores.get("dev", {}), *scores.get("files", {}).values()]
    same = [part for part in parts if part.get("data_hash") == data_hash]
    return same[0].get(metric) if same else None

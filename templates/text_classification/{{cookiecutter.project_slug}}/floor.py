"""The classical model: TF-IDF of words and characters, and logistic or ridge regression.

It trains in seconds and ignores the order of words. Its score is the floor: a neural model that
scores no higher has learned nothing but words.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from core.base.extras import need
from core.base.files import PROJECT, delete, project_path, write_json, write_json_lines
from core.base.settings import flatten
from core.runs.opening import record_hashes
from core.runs.provenance import provenance
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation
from inspection.errors import find_errors
from library.candidates import Candidates, make_candidates
from library.saved_thresholds import threshold_of
from task.evaluation import evaluate
from task.metrics import choose_metric
from task.records import Example, Labels, check_kind, collect_targets, read_examples
from task.settings import FLOOR, Settings

FOLDER = PROJECT / "runs" / FLOOR
# Settings, besides files and tables, that a floor depends on.
READ = ("output", "positive_label", "metric")
# Characters of the training texts, times the models that learn from them: a minute or two.
MOST_WORK = 100_000_000
WORK_OF_FEATURES = 3  # in models
MOST_FEATURES = 100_000
HASHED_FEATURES = 2**20
INVERSE_REGULARISATION = 1.0


class Features:
    """Sparse features of texts or pairs, fitted to the training examples.

    A text is its TF-IDF vector over words and word pairs, and over one to three characters, which
    help with languages without spaces and with misspellings. A pair is the words of the second
    text, the features that both texts share, and a few numbers that say how much they share. Those
    numbers also count words that no training text has, so they come from hashing. If texts are read
    before both, their words are features too, and those of the first text.

    Args:
        examples: of the training file.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        shape = {"sublinear_tf": True, "max_features": MOST_FEATURES, "dtype": np.float32}
        self.pairs = any(example.text_b is not None for example in examples)
        self.with_context = any(example.context for example in examples)
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
            vectorizer.fit(progress([*texts, "a"]))  # one feature at least, whatever the texts
        for pipeline in self.hashed:
            pipeline.fit(progress(texts))

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
        if self.with_context:
            contexts = ["\n".join(example.context or ()) for example in examples]
            shared += [known_a[0], *vectors(contexts, self.known[:1])]
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


def progress(items: Sequence) -> Iterable:
    """Return items, with a bar of how many of them are done."""
    return tqdm(items, FLOOR, leave=False, disable=None)


def score_floor(
    settings: Settings,
    examples: Sequence[Example],
    dev_examples: Sequence[Example],
    fold_of: np.ndarray | None = None,
    always: bool = False,
) -> dict[str, Evaluation]:
    """Return and print the scores of the classical model, by the name of the file.

    These are `dev`, and `test` where the labels of test_file are known. In a cross-validation it is
    only `dev`: all training examples, each scored by the model that never saw it. Empty: with so
    many texts and labels it would take minutes, so it is left out, which is printed.

    Args:
        settings: the project's.
        examples: of the training file.
        dev_examples: tune the threshold; in a cross-validation they are the same.
        fold_of: the fold that holds out each example `[examples]`; None: no cross-validation.
        always: train it, however long that takes.
    """
    labels = collect_targets(examples, settings)
    folds = 1 if fold_of is None else int(max(fold_of)) + 1
    if not always and is_too_much(labels, examples, folds):
        return {}
    metric = choose_metric(settings.metric, labels, dev_examples).removeprefix("neg_")
    test_path = project_path(settings.test_file)
    test: Sequence[Example] = []
    if fold_of is None and test_path.is_file():
        test = read_examples(test_path, require_labels=False, settings=settings)
        check_kind(test, labels, test_path)
        # A host's file may have -1, or another placeholder, in place of each label.
        known = labels.are_numbers or any({*one.labels} & {*labels.names} for one in test)
        test = test if known and all(example.labelled for example in test) else []
    if fold_of is None:
        found = predict_floor(labels, examples, dev_examples, *([test] if test else []))
    else:
        found = [predict_held_out(labels, examples, fold_of)]
    dev_path = project_path(settings.dev_file)
    scored = {"dev": evaluate(dev_examples, found[0], labels, dev_path, settings)}
    if test:
        threshold = threshold_of(scored["dev"].scores)
        scored["test"] = evaluate(test, found[1], labels, test_path, settings, threshold)
    for name, evaluation in scored.items():
        print(f"floor: {name} {metric} {evaluation.scores[metric]:.4f}")
    return scored


def predict_held_out(
    labels: Labels, examples: Sequence[Example], fold_of: np.ndarray
) -> Candidates:
    """Return the probabilities of each example by a model that was not trained on its fold."""
    found: Candidates = {}
    for fold in range(max(fold_of) + 1):
        kept = [example for example, own in zip(examples, fold_of, strict=True) if own != fold]
        held = [example for example, own in zip(examples, fold_of, strict=True) if own == fold]
        found |= predict_floor(labels, kept, held)[0]
    return found


def predict_floor(
    labels: Labels, train_examples: Sequence[Example], *files: Sequence[Example]
) -> list[Candidates]:
    """Train the classical model and return the probabilities of the examples of each file.

    Args:
        labels: from `collect_targets`.
        train_examples: to learn from.
        *files: the examples of each.
    """
    features = Features(train_examples)
    inputs = features(train_examples, fit=True)
    if labels.are_numbers:
        fit = need("competition", "floor_numbers").fit_ridge(inputs, train_examples, labels)
        return [make_candidates(examples, fit(features(examples)), labels) for examples in files]
    targets = labels.hits(train_examples)  # a classical model learns no probabilities
    # A label that no example has, or all have, as may happen in a fold, gets its share.
    shares = targets.mean(axis=0)
    learnable = np.flatnonzero((shares > 0) & (shares < 1))
    known = [features(examples) for examples in files]
    found = [np.tile(shares, (len(examples), 1)).astype(float) for examples in files]
    of_two = not labels.several and len(learnable) == 2
    # One label after the other: the memory of one, however many there are.
    single = LogisticRegression(C=INVERSE_REGULARISATION, solver="liblinear", max_iter=1000)
    for number in progress((learnable[1:] if of_two else learnable).tolist()):
        model = clone(single).fit(inputs, targets[:, number])
        for rows, own in zip(found, known, strict=True):
            rows[:, number] = model.predict_proba(own)[:, 1]
    for rows in found if not labels.several and len(learnable) else ():
        if of_two:
            rows[:, learnable[0]] = 1 - rows[:, learnable[1]]
        sums = rows[:, learnable].sum(axis=1, keepdims=True)
        rows[:, learnable] /= np.where(sums == 0, 1, sums)
    return [make_candidates(own, rows, labels) for own, rows in zip(files, found, strict=True)]


def is_too_much(labels: Labels, examples: Sequence[Example], folds: int) -> bool:
    """Tell, and say, whether the classical model would train for minutes.

    Args:
        labels: from `collect_targets`.
        examples: to learn from.
        folds: times that it is trained.
    """
    models = len(labels.names)
    if models == 2 and not labels.several and not labels.are_numbers:
        models = 1  # the other label has what is left
    characters = sum(len(text) for example in examples for text in example.texts)
    if folds * characters * (models + WORK_OF_FEATURES) <= MOST_WORK:
        return False
    each = f"{models} models, one for each label, " if models > 1 else "the classical model "
    times = f", {folds} times" if folds > 1 else ""
    print(
        f"floor: left out, because {each}would learn from {characters} characters{times}, which "
        "takes minutes: python train_floor.py trains it without the network."
    )
    return True


def report_floor(
    settings: Settings,
    evaluations: dict[str, Evaluation] | None,
    gold: Sequence[Example],
    metric: str,
) -> tuple[dict, list]:
    """Keep the classical model's scores; return those of dev and its errors, for the report.

    Args:
        settings: the project's.
        evaluations: from `score_floor`; empty: the classical model was not trained.
        gold: the examples of dev.
        metric: the score that decides.
    """
    if not evaluations:
        return {}, []
    keep_floor(settings, evaluations, metric)
    scores = evaluations["dev"].scores
    return scores, find_errors(gold, evaluations["dev"].predictions, scores)


def keep_floor(settings: Settings, evaluations: dict[str, Evaluation], metric: str) -> None:
    """Write the scores and predictions of the classical model, as a run's are.

    They go to runs/floor; if that has a floor of other data or labels, to a folder in it.

    Args:
        settings: the project's.
        evaluations: from `score_floor`.
        metric: the score that decides.
    """
    made_of = describe_data({**settings.model_dump(), **record_hashes(settings)})
    folder = find_folder(made_of) or FOLDER
    if (folder / "scores.json").is_file() and folder == FOLDER and not is_of(folder, made_of):
        digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
        folder = FOLDER / f"of_{digest[:8]}"
        place = f"runs/{FLOOR}/{folder.name}"
        print(f"runs/{FLOOR} has the floor of other data: this one is in {place}")
    facts = {**provenance(settings), "encoder": "none: TF-IDF and a linear model"}
    for path in (folder / "predictions").glob("*.jsonl"):
        delete(path)  # of a file that is no longer scored
    for name, evaluation in evaluations.items():
        write_json_lines(folder / "predictions" / f"{name}.jsonl", evaluation.predictions)
    files = {name: {**evaluation.scores, **facts} for name, evaluation in evaluations.items()}
    scores = {**facts, "monitor": metric, "dev": files.pop("dev"), "files": files}
    write_json(folder / "scores.json", {**scores, "made_of": made_of})


def describe_data(config: dict) -> dict:
    """Return what a floor depends on: the data of a run, and how it is read and scored.

    Args:
        config: of a run, with the hashes of its files.
    """
    values = flatten(config)
    names = {*READ, "train_hash", "dev_hash"}
    names |= {name for name in values if name.startswith(("competition.", "folds."))}
    names |= {"seed"} if values.get("folds.count") else set()
    return {name: values[name] for name in sorted(names & values.keys())}


def is_of(folder: Path, made_of: dict) -> bool:
    """Tell whether the floor in a folder is of some data, by the facts that both of them have."""
    scores = read_scores(folder)
    dev_hash = scores.get("dev", {}).get("data_hash")
    known = {"dev_hash": dev_hash, **scores.get("made_of", {})}
    return all(known[name] == made_of[name] for name in known.keys() & made_of.keys())


def find_folder(made_of: dict) -> Path | None:
    """Return the folder of the floor of some data, from `describe_data`; None: there is none."""
    return next((place for place in (FOLDER, *FOLDER.glob("of_*")) if is_of(place, made_of)), None)


def find_floor(config: dict, data_hash: str, metric: str) -> float | None:
    """Return what the classical model of a run's data scores on a file; None: it was not scored.

    Args:
        config: of the run.
        data_hash: of the file.
        metric: name of the score.
    """
    folder = find_folder(describe_data(config))
    scores = read_scores(folder) if folder else {}
    parts = [scores.get("dev", {}), *scores.get("files", {}).values()]
    same = [part for part in parts if part.get("data_hash") == data_hash]
    return same[0].get(metric) if same else None

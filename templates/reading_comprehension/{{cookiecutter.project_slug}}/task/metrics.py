"""Exact match and F1 as the scripts of SQuAD 1.1, SQuAD 2.0 and CMRC2018 define them."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

import numpy as np

from core.data.records import Id
from core.scores.thresholds import count_above, precision_recall
from library.segments import segment, without_punctuation
from task.records import Example

# Kinds of questions, by the length of the shortest gold answer in characters.
ANSWER_KINDS = ("none", "1 to 5 characters", "6 to 15 characters", "16 to 40 characters", "longer")

Scorer = Callable[[Sequence[str], str], tuple[float, float]]


def normalise(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, no punctuation, no articles."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def score_squad1(golds: Sequence[str], text: str) -> tuple[float, float]:
    """Return exact match and F1 of an answer as SQuAD 1.1 defines them: the best of all golds."""
    predicted = normalise(text)
    exact = f1 = 0.0
    for gold in map(normalise, golds):
        shared = sum((Counter(gold.split()) & Counter(predicted.split())).values())
        exact = max(exact, float(gold == predicted))
        if shared:
            f1 = max(f1, 2 * shared / (len(gold.split()) + len(predicted.split())))
    return exact, f1


def score_squad2(golds: Sequence[str], text: str) -> tuple[float, float]:
    """Return exact match and F1 of an answer as SQuAD 2.0 defines them.

    A question without answers has the gold "", which only an empty normalised answer matches.
    """
    golds = [gold for gold in golds if normalise(gold)] or [""]
    if normalise(text) and golds != [""]:
        return score_squad1(golds, text)
    agree = float(not normalise(text) and golds == [""])
    return agree, agree


def score_cmrc(golds: Sequence[str], text: str) -> tuple[float, float]:
    """Return exact match and F1 of an answer as CMRC2018 defines them.

    F1 is that of the longest common run of segments: Chinese characters, and words of other
    scripts. A question without answers, which CMRC2018 doesn't have, expects "".
    """
    if not golds:
        return float(not text), float(not text)
    predicted = segment(text)
    exact = max(float(without_punctuation(gold) == without_punctuation(text)) for gold in golds)
    f1 = 0.0
    for gold in map(segment, golds):
        matcher = SequenceMatcher(None, gold, predicted, autojunk=False)
        common = matcher.find_longest_match(0, len(gold), 0, len(predicted)).size
        if common:
            f1 = max(f1, 2 * common / (len(gold) + len(predicted)))
    return exact, f1


def choose_scorer(metric: str, examples: Sequence[Example]) -> tuple[str, Scorer]:
    """Return the name and the function of the score that fits a file.

    A file with unanswerable questions is scored by SQuAD 2.0, any other by 1.1. The two differ for
    golds such as "the", which normalise to nothing.

    Args:
        metric: of the settings.
        examples: all questions of the file.
    """
    if metric == "cmrc2018":
        return "CMRC2018", score_cmrc
    if all(example.gold_texts for example in examples):
        return "SQuAD 1.1", score_squad1
    return "SQuAD 2.0", score_squad2


def score_records(examples: Sequence[Example], texts: dict[Id, str], metric: str) -> np.ndarray:
    """Return exact match and F1 of each question `[questions, 2]`, from 0 to 1.

    Args:
        examples: gold.
        texts: id -> answer; "": none; an absent question has no answer.
        metric: of the settings.
    """
    _, scorer = choose_scorer(metric, examples)
    return np.array([scorer(e.gold_texts, texts.get(e.id, "")) for e in examples])


def score(examples: Sequence[Example], texts: dict[Id, str], metric: str) -> dict:
    """Return the mean exact match and F1, and the same for each kind of question.

    Args:
        examples: gold.
        texts: id -> answer; "": none.
        metric: of the settings.
    """
    records = score_records(examples, texts, metric)
    return {
        "metric": metric,
        "definition": choose_scorer(metric, examples)[0],
        **means(records),
        "answered": sum(bool(texts.get(example.id)) for example in examples),
        "unanswerable": sum(not example.gold_texts for example in examples),
        "per_answer": {kind: means(records[at]) for kind, at in group_kinds(examples).items()},
    }


def group_kinds(examples: Sequence[Example]) -> dict[str, np.ndarray]:
    """Return the positions of the questions of each kind, in the order of `ANSWER_KINDS`."""
    shortest = [min(map(len, example.gold_texts), default=0) for example in examples]
    numbers = np.searchsorted((0, 5, 15, 40), shortest)
    return {
        ANSWER_KINDS[number]: np.flatnonzero(numbers == number) for number in np.unique(numbers)
    }


def means(records: np.ndarray) -> dict[str, float | int]:
    """Return the means of exact match and F1 `[questions, 2]`, and the number of questions."""
    exact, f1 = records.mean(axis=0)
    return {"exact_match": float(exact), "f1": float(f1), "gold": len(records)}


def best_threshold(
    examples: Sequence[Example], answers: dict[Id, tuple[str, float]], metric: str
) -> dict:
    """Return the `threshold` with the best F1, if answers that score at least as much are given.

    If every question has an answer the threshold is 0, which gives every answer. Of several equally
    good thresholds the one nearest to 0.5 is taken. Also returns `precision_recall`, with F1 in
    place of hits.

    Args:
        examples: gold.
        answers: id -> the best answer and its score from 0 to 1; absent where there is none.
        metric: of the settings.
    """
    if all(example.gold_texts for example in examples):
        return {"threshold": 0.0}
    scores = [answers[e.id][1] for e in examples if e.id in answers]
    if not scores:
        return {"threshold": 0.5}
    texts = {record_id: text for record_id, (text, _) in answers.items()}
    nothing = score_records(examples, {}, metric)[:, 1]  # F1 of each question if none is answered
    given = score_records(examples, texts, metric)[:, 1]  # if all are
    answered = [example.id in answers for example in examples]
    values, _, gains = count_above(scores, (given - nothing)[answered].tolist())
    # Cut k gives the answers that score values[k] or more, the last one gives none. Of the scores
    # [0.9, 0.6, 0.2] the thresholds are [0.75, 0.4, 0.1], and 0.95 for none.
    lower = np.append(values[1:], 0.0)
    halfway = lower + (values - lower) / 2
    # Between neighbouring floats it may round down to the lower one, which must not be given.
    halfway = np.where(halfway > lower, halfway, values)
    none = (1.0 + values[0]) / 2 if values[0] < 1.0 else np.nextafter(1.0, 2.0)  # above all scores
    thresholds = np.append(halfway, none)
    reached = nothing.sum() + np.append(gains, 0.0)
    equally_good = thresholds[reached >= reached.max() - 1e-9]
    threshold = float(equally_good[np.argmin(np.abs(equally_good - 0.5))])
    answerable = sum(bool(example.gold_texts) for example in examples)
    curve = precision_recall(scores, given[answered].tolist(), answerable, threshold)
    return {"threshold": threshold, "precision_recall": curve}

"""Can a simple model tell the training texts from those of another file, and by which words?

If it can, the other file has other texts, and a score on a part of the training file says little
about it. This is known as adversarial validation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from core.data.checks import Finding

MOST_TEXTS, FEWEST_TEXTS = 2000, 100  # of a file: more tell nothing new, fewer too little
FOLDS, SHOWN_WORDS = 5, 8
TOLD_APART = 0.75  # 0.5 is chance, 1.0 means that no text could be of the other file
# Words; of Chinese and Japanese each pair of characters.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\W_]+")
FIRST_OF_CHINESE = "\u3040"


def find_drift(texts: Mapping[str, Iterable[tuple[str, str]]]) -> Iterator[Finding]:
    """Find files whose texts differ from those of the training file.

    Args:
        texts: file -> of each record what others may share with it, such as a passage, and its
            whole text; the training file first.
    """
    (train, known), *others = ((file, choose(own)) for file, own in texts.items())
    for file, own in others:
        # Texts that both files have are a leak, which others look for.
        both = {*known} & {*own}
        new = [text for text in own if text not in both]
        if min(len(known), len(new)) < FEWEST_TEXTS:
            continue
        area, words = tell_apart(known, new)
        if area > TOLD_APART:
            yield Finding(
                "note",
                f"a model of words tells {train} from {file}: area under the curve {area:.2f}",
                f"by {', '.join(words)}",
                f"if {file} is what counts, let dev have texts like these, for a score on others "
                "may be too good; take out what gives a file away, such as a header.",
            )


def choose(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return at most `MOST_TEXTS` texts, spread over the file.

    Of records that share something, as questions share a passage, only one counts: the model
    would recognise the passage.
    """
    once = [*dict(texts).values()]
    places = np.unique(np.linspace(0, len(once) - 1, min(len(once), MOST_TEXTS)).astype(int))
    return [once[place] for place in places]


def tell_apart(first: Sequence[str], second: Sequence[str]) -> tuple[float, list[str]]:
    """Return the area under the ROC curve of a model that never saw the texts, and its words.

    Args:
        first: texts of the one file.
        second: texts of the other.

    Returns:
        The area; the words that speak most for either file, those of the second marked with +.
    """
    labels = np.repeat([0, 1], [len(first), len(second)])
    model = make_pipeline(
        TfidfVectorizer(analyzer=split_words, min_df=2, sublinear_tf=True),
        LogisticRegression(class_weight="balanced", max_iter=200),
    )
    texts = [*first, *second]
    # Neighbours in a file, such as paragraphs of one article, stay together: not shuffled.
    folds = StratifiedKFold(FOLDS)
    try:
        held_out = cross_val_predict(model, texts, labels, cv=folds, method="predict_proba")[:, 1]
        vectorizer, classifier = (step for _, step in model.fit(texts, labels).steps)
    except ValueError:  # no word occurs twice
        return 0.5, []
    weights, names = classifier.coef_[0], vectorizer.get_feature_names_out()
    strongest = np.argsort(-np.abs(weights))[:SHOWN_WORDS]
    words = [f"{'+' if weights[place] > 0 else '-'}{names[place]}" for place in strongest]
    return float(roc_auc_score(labels, held_out)), words


def split_words(text: str) -> list[str]:
    """Return the words of a text, in small letters.

    >>> split_words("A boat, 小船在")
    ['a', 'boat', '小船', '船在']
    """
    found: list[str] = []
    for part in WORD.findall(text.casefold()):
        pairs = [part[place : place + 2] for place in range(max(1, len(part) - 1))]
        found += pairs if FIRST_OF_CHINESE <= part[0] <= "\u9fff" else [part]
    return found

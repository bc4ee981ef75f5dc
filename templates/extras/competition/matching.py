"""Which answer each column of a submission holds: found by names, never by order."""

import difflib
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from core.base.errors import InputError
from extras.competition.records import SHOWN_COLUMNS, show

# Two labels of which the second one is what a single column of probabilities is about.
OPPOSITES = (
    *(("0", "1"), ("0.0", "1.0"), ("-1", "1"), ("false", "true"), ("no", "yes"), ("n", "y")),
    *(("neg", "pos"), ("negative", "positive")),
)


def match_columns(
    answers: Sequence[str], names: Sequence[str], given: Mapping[str, str], id_column: str
) -> list[str]:
    """Return which answer each column holds: the one that is given for it, or that of its name.

    Names may differ in case, in what separates their words, and in words that all columns or all
    answers begin or end with: `prob_spam, prob_ham` are `Ham` and `Spam`.

    Args:
        answers: the columns without the id.
        names: of the labels, or of the numbers.
        given: column -> answer, by --columns.
        id_column: the header's first name.

    Raises:
        InputError: the columns are fewer or more than the answers, or have other names.
    """
    if unknown := set(given.values()) - {*names}:
        raise InputError(
            f"--columns gives a column {min(unknown)!r}, which this run does not predict: it "
            f"predicts {show(names)}."
        )
    free = [name for name in answers if name not in given]
    if len(answers) != len(names) or len(set(given.values())) < len(given):
        raise InputError(
            f"the columns {show(answers)} are not those of the predictions: {show(names)}."
        )
    found = {**given, **pair_names(free, [name for name in names if name not in given.values()])}
    if len(found) < len(answers):
        raise InputError(
            f"the columns {show(answers)} have other names than the predictions {show(names)}, and "
            f"their order may be another: say what each holds with "
            f'--columns "{suggest(id_column, answers, names)}".'
        )
    return [found[column] for column in answers]


def pair_names(columns: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return column -> name where all of them are the same but for spelling; else nothing."""
    if len(columns) == len(names) == 1:
        return {columns[0]: names[0]}
    for form in (lambda own: list(own), normalise_all, strip_common):
        ours, theirs = form(columns), form(names)
        if len({*ours}) == len(ours) and {*ours} == {*theirs} and len(theirs) == len(ours):
            number = {key: name for key, name in zip(theirs, names, strict=True)}
            return {column: number[key] for column, key in zip(columns, ours, strict=True)}
    return {}


def same_name(column: str, names: Sequence[str]) -> str | None:
    """Return the only name that a column has, but for spelling; None: there is none."""
    found = [name for name in names if name == column]
    found = found or [name for name in names if words_of(name) == words_of(column)]
    return found[0] if len(found) == 1 else None


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name without case: those of `Prob_Tie`, `probTie` and `prob tie`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name))
    # Without any letter or digit the name itself: labels may be "+" and "-".
    return tuple(re.findall(r"[^\W_]+", name.casefold())) or (name.strip(),)


def normalise_all(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each name."""
    return [words_of(name) for name in names]


def strip_common(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each name without those that all begin or end with."""
    words = normalise_all(names)
    if len(words) < 2:
        return words
    for step in (1, -1):
        turned = [own[::step] for own in words]
        same = itertools.takewhile(lambda column: len({*column}) == 1, zip(*turned, strict=False))
        # A name may be all that the others begin with: `a` beside `a_b`.
        count = min(sum(1 for _ in same), min(map(len, turned)) - 1)
        words = [own[count:][::step] for own in turned]
    return words


def suggest(id_column: str, answers: Sequence[str], names: Sequence[str]) -> str:
    """Return the value of --columns that pairs the names which look most alike."""

    def likeness(pair: tuple[str, str]) -> tuple[int, float]:
        one, other = map(words_of, pair)
        ratio = difflib.SequenceMatcher(None, " ".join(one), " ".join(other)).ratio()
        return len({*one} & {*other}), ratio

    found: dict[str, str] = {}
    for column, name in sorted(itertools.product(answers, names), key=likeness, reverse=True):
        if column not in found and name not in found.values():
            found[column] = name
    pairs = [f"{column}={found[column]}" for column in answers[:SHOWN_COLUMNS]]
    return ",".join([id_column, *pairs, *(["..."] if len(answers) > SHOWN_COLUMNS else [])])


def label_of_column(column: str, labels: Any, given: Mapping[str, str], id_column: str) -> str:
    """Return the label whose probability the only column holds.

    It is the one that --columns gives, that of the column's name, the positive one, or the second
    of such as "no" and "yes".

    Raises:
        InputError: nothing says which label it is, or one column can't hold what is predicted.
    """
    names = labels.names
    known = given.get(column) or same_name(column, names) or labels.positive
    if known is not None:
        if known not in names:
            raise InputError(
                f"--columns gives {column} the label {known!r}: it is none of these: {show(names)}."
            )
        return known
    if len(names) > 2 or len(names) == 2 and labels.several:
        raise InputError(
            f"one column can't hold the probabilities of {len(names)} labels: name a column for "
            "each, or write labels with --values labels."
        )
    if len(names) == 1 or tuple(name.casefold() for name in names) in OPPOSITES:
        return names[-1]
    raise InputError(
        f"which label's probability does the column {column!r} hold, that of {names[0]!r} or of "
        f'{names[1]!r}? Say it with --columns "{id_column},{column}={names[1]}", or train with '
        "positive_label."
    )

"""Lists: the records of a group, such as the choices of a question, are learned together.

The loss of a group is the cross-entropy of the softmax of its scores with a distribution that the
grades give: their shares of the sum, or their softmax. Source: Cao et al. 2007, ListNet with the
top-one probability, https://doi.org/10.1145/1273496.1273513.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.data.checks import Finding
from core.data.records import read_field
from extras.competition.choices import SCORE
from extras.competition.number_cells import is_finite, parse_number, shorten
from extras.competition.settings import Table

LISTWISE = "listwise"
# Fields of the project's own JSON Lines that hold the relevance of a record.
OWN_NAMES = (SCORE, "target", "label")
DRAW = 9  # separates these random numbers from others of the same seed


def read_relevance(record: dict, table: Table, require: bool) -> dict[str, float]:
    """Return the relevance of a candidate, under the name `score`; empty: it is unknown.

    Args:
        record: of JSON Lines; that of a table has `targets`.
        table: may name the field.
        require: whether it must be there.

    Raises:
        InputError: it is absent, or no number from 0 on.
    """
    if "targets" in record:
        given = record["targets"]
        if not given:
            return {}
        [(name, value)] = given.items()
    else:
        names = (*table.target_names, table.label_column, *OWN_NAMES)
        name = next((name for name in names if name in record), "label")
        if name not in record and not require:
            return {}
        value = read_field(record, name, object)
        if isinstance(value, str):
            number = parse_number(value.strip(), table)
            value = value if number is None else number
    if type(value) not in (int, float) or not is_finite(value) or value < 0:
        if not require:
            return {}
        raise InputError(
            f'the relevance "{name}" is {shorten(value)}: with loss = "listwise" write a number '
            "from 0 on, such as 1 for a right candidate and 0 for the others."
        )
    return {SCORE: float(value)}


def collect_lists(examples: Sequence[Any]) -> dict[str, Any]:
    """Return what the training file says of its candidates, as the fields of `NumberTargets`.

    Raises:
        InputError: the records have no groups, or no group has anything to learn.
    """
    if examples[0].group is None:
        raise InputError(
            'loss = "listwise" learns the records of a group together, and the records have no '
            "group: name its column with competition.group_column, or the columns of the choices "
            "with competition.choice_columns."
        )
    numbers = np.array([example.numbers for example in examples], np.float64)
    counts = count_idle(examples)
    if sum(counts.values()) == len({example.group for example in examples}):
        raise InputError(
            f"no group of the training file has anything to learn: {describe_idle(counts)}: a "
            "group needs a relevant record and another one."
        )
    deviation = numbers.std(axis=0)
    scaling = {
        "loss": LISTWISE,
        "means": [0.0],
        "deviations": np.where(deviation > 0, deviation, 1).tolist(),
        "lowest": numbers.min(axis=0).tolist(),
        "highest": numbers.max(axis=0).tolist(),
        "levels": [],
    }
    return {
        "names": (SCORE,),
        "several": False,
        "positive": None,
        "counts": (len(examples),),
        "records": len(examples),
        "pairs": examples[0].text_b is not None,
        "scaling": scaling,
    }


def group_rows(examples: Sequence[Any]) -> dict[str, list[int]]:
    """Return group -> the positions of its records; without groups each record is one."""
    rows: dict[str, list[int]] = {}
    for position, example in enumerate(examples):
        name = f"{position}" if example.group is None else example.group
        rows.setdefault(name, []).append(position)
    return rows


def why_idle(relevance: np.ndarray) -> str:
    """Return why a group with such records teaches nothing; empty: it does."""
    if len(relevance) < 2:
        return "one record"
    if relevance.min() == relevance.max():
        return "equally relevant records" if relevance.max() else "no relevant record"
    return ""


def count_idle(examples: Sequence[Any]) -> Counter[str]:
    """Return how many groups teach nothing, by the reason."""
    relevance = np.array([example.numbers[0] for example in examples])
    reasons = (why_idle(relevance[rows]) for rows in group_rows(examples).values())
    return Counter(filter(None, reasons))


def describe_idle(counts: Counter[str]) -> str:
    """Return in words how many groups teach nothing, and why."""
    return ", ".join(f"{count} with {why}" for why, count in counts.most_common())


def target_shares(grades: np.ndarray, kind: str) -> np.ndarray:
    """Return the distribution that a group learns, from the grades of its records.

    Args:
        grades: `[candidates]`, none below 0 and one above 0 at least.
        kind: "shares": each grade divided by their sum; "softmax": their softmax, as in ListNet.

    Example:
        >>> target_shares(np.array([1.0, 0.0, 3.0]), "shares").tolist()
        [0.25, 0.0, 0.75]
    """
    shares = np.exp(grades - grades.max()) if kind == "softmax" else grades
    return shares / shares.sum()


def draw_candidates(
    rows: Sequence[int], relevance: np.ndarray, most: int, seed: Sequence[int]
) -> list[int]:
    """Return the records of a group that a step learns from, drawn anew in each epoch.

    Relevant ones come first; at least one other is kept. Source: Gao, Dai and Callan 2021,
    https://arxiv.org/abs/2101.08751, who rerank with one relevant passage among drawn others.

    Args:
        rows: positions of the records of the group.
        relevance: of all records.
        most: how many records are kept; 0: all.
        seed: of what is drawn.
    """
    if not most or len(rows) <= most:
        return [*rows]
    order = np.random.default_rng([*seed, DRAW]).permutation(np.array(rows))
    relevant = order[relevance[order] > 0]
    others = order[relevance[order] == 0]
    kept = relevant[: most - 1] if len(others) else relevant[:most]
    return np.sort([*kept, *others[: most - len(kept)]]).tolist()


def find_list_faults(files: dict[str, Sequence[Any]]) -> list[Finding]:
    """Find groups that teach nothing, that hold a text twice, or that are in two files."""
    findings, places = [], dict[str, str]()
    for name, examples in files.items():
        known = [example for example in examples if example.labelled]
        if counts := count_idle(known) if known else None:
            what = f"groups that teach nothing: {describe_idle(counts)}"
            findings.append(Finding("warning", what, name, "are labels missing?"))
        groups = group_rows(examples) if examples[0].group is not None else {}
        shared: dict[str, list[str]] = {}
        # A question with its choices is a group by its id, which often counts the rows of a file.
        for group in groups if not examples[0].choice else ():
            if places.setdefault(group, name) != name:
                shared.setdefault(places[group], []).append(group)
        for other, own in shared.items():
            what = f"groups that are also in {other}: {len(own)} of {len(groups)}"
            first = examples[groups[own[0]][0]].line
            where = f"{name}, line {first}, group {own[0]!r}, for one"
            findings.append(Finding("warning", what, where, "move each into one file."))
        twice = [own for own in groups.values() if has_equal_texts([examples[r] for r in own])]
        if twice:
            what = f"groups with the same candidate twice: {len(twice)} of {len(groups)}"
            where = f"{name}, line {examples[twice[0][0]].line} for one"
            findings.append(Finding("warning", what, where, "leave one of the two out."))
    return findings


def has_equal_texts(examples: Sequence[Any]) -> bool:
    """Return whether two records have the same texts."""
    return len({example.texts for example in examples}) < len(examples)


def describe_groups(examples: Sequence[Any]) -> str:
    """Return in words how many groups there are, and of how many records."""
    if examples[0].group is None:
        return "groups: none, so each record has a score and no probability"
    sizes = [len(rows) for rows in group_rows(examples).values()]
    return f"groups: {len(sizes)}, of {min(sizes)} to {max(sizes)} records"

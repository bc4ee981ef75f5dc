"""Scores of a submission by the rules of its host, where these are not those of spans.

Scores of `evaluate.py` compare spans. These hosts compare words, or entities with several mentions.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from core.scores.precision_recall import precision_recall_f1
from extras.host_formats.docred import read_label
from extras.host_formats.duie import read_slots
from extras.host_formats.records import read_id
from extras.host_formats.semeval import OTHER, relation_of
from extras.host_formats.source_files import SourceError, check_kind, field, named, objects

Placed = Iterable[tuple[str, dict]]


def score_duie(submission: Placed, golds: Placed, known: Placed = ()) -> dict[str, float | int]:
    """Return the scores of a submission of DuIE: a triple is right with all of its slots.

    Words count in any case, and without the marks of a title (《》). Of lines with the same text
    the last one counts, as in the host's script. The host's list of aliases is not published, so a
    host may find more of them right.

    Args:
        submission: `(place, line)`.
        golds: `(place, line)` of the labelled file, in the same order.
        known: not read.

    Raises:
        SourceError: the texts are not the same, or a part is missing.
    """
    texts: dict[str, tuple[set, set]] = {}
    for (line, where), (gold, place) in pair_texts(submission, golds):
        texts[field(line, "text", str, where)] = read_words(line, where), read_words(gold, place)
    hits = sum(len(own & true) for own, true in texts.values())
    found, right = (sum(len(pair[side]) for pair in texts.values()) for side in (0, 1))
    return precision_recall_f1(hits, found, right)


def pair_texts(
    submission: Placed, golds: Placed
) -> list[tuple[tuple[dict, str], tuple[dict, str]]]:
    """Return `((line, place), (gold line, place))` of two files in the same order.

    Raises:
        SourceError: one has more lines, or a line with another text.
    """
    predicted, wanted = list(submission), list(golds)
    if len(predicted) != len(wanted):
        fault = f"the submission has {len(predicted)} lines, and the labelled file {len(wanted)}"
        raise SourceError(fault, "predict this file")
    for (where, line), (place, gold) in zip(predicted, wanted, strict=True):
        text = field(gold, "text", str, place)
        if line.get("text", text) != text:
            raise SourceError(f"{where}: the text is not that of {place}", "predict this file")
    pairs = zip(predicted, wanted, strict=True)
    return [((line, where), (gold, place)) for (where, line), (place, gold) in pairs]


def read_words(line: dict, where: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """Return `(subject, {(predicate or its slot, words)})` of each triple of a line."""
    return {
        (
            plain_words(field(item, "subject", str, where)),
            frozenset((name, plain_words(words)) for name, words, _ in read_slots(item, where)),
        )
        for item in objects(line, "spo_list", where)
    }


def plain_words(words: str) -> str:
    """Return words as the host compares them."""
    words = words.lower()
    return words[1:-1] if words.startswith("《") and words.endswith("》") else words


def score_cluener(submission: Placed, golds: Placed, known: Placed = ()) -> dict[str, float | int]:
    """Return the scores of a submission of CLUENER: the mean of the F1 of the types.

    Of each text and type the different words count, however often they are in the text. The rule is
    that of https://github.com/CLUEbenchmark/CLUENER2020.

    Args:
        submission: `(place, line)`.
        golds: `(place, line)` of the labelled file, in the same order.
        known: not read.

    Raises:
        SourceError: the texts are not the same, or a part is missing.
    """
    hits, found, right = Counter[str](), Counter[str](), Counter[str]()
    for pair in pair_texts(submission, golds):
        own, true = (
            {
                (kind, words)
                for kind, mentions in field(one, "label", dict, at).items()
                for words in check_kind(mentions, dict, f"the label {kind!r}", at)
            }
            for one, at in pair
        )
        for counts, pairs in ((hits, own & true), (found, own), (right, true)):
            counts.update(kind for kind, _ in pairs)
    kinds = sorted(right.keys() | found.keys())
    f1 = [precision_recall_f1(hits[n], found[n], right[n])["f1"] for n in kinds]
    return {"macro_f1": math.fsum(f1) / max(len(f1), 1), "types": len(kinds)}


# Type of the event and role -> argument -> all ways to write it, in lower case.
Arguments = dict[tuple[str, str], dict[str, set[str]]]


def score_duee(submission: Placed, golds: Placed, known: Placed = ()) -> dict[str, float | int]:
    """Return the scores of a submission of DuEE 1.0: arguments count by the characters they share.

    A predicted argument earns the F1 of its characters with the most similar gold argument of its
    type of event and role, in any case. Of a gold argument with aliases the best one counts. Equal
    arguments of a text count once. The rule is that of
    https://github.com/PaddlePaddle/PaddleNLP (the example DuEE), which names no script.

    Args:
        submission: `(place, line)`.
        golds: `(place, line)` of the labelled file, in any order.
        known: not read.

    Raises:
        SourceError: the lines are not those of the labelled file, or a part is missing.
    """
    earned, wanted = [], 0
    for line, gold_line in pair_lines(submission, golds):
        arguments, gold = read_arguments(*line), read_arguments(*gold_line)
        wanted += sum(map(len, gold.values()))
        for part, words in arguments.items():
            written = set().union(*gold.get(part, {}).values())
            for word in words:
                earned.append(max((shared_part(word, one) for one in written), default=0.0))
    return precision_recall_f1(math.fsum(earned), len(earned), wanted)


def pair_lines(
    submission: Placed, golds: Placed, missing: dict | None = None
) -> list[tuple[tuple[dict, str], tuple[dict, str]]]:
    """Return `((line, place), (gold line, place))` of each id.

    Args:
        submission: `(place, line)`.
        golds: `(place, line)` of the labelled file.
        missing: a line that the submission lacks; None: it must have all.

    Raises:
        SourceError: an id comes twice in a file, or is missing in one of them.
    """
    found, right = dict[str, tuple[dict, str]](), dict[str, tuple[dict, str]]()
    for lines, read in ((submission, found), (golds, right)):
        for where, line in lines:
            name = str(read_id(line, "id", where))
            if name in read:
                raise SourceError(f"{where}: id {named(name)} comes twice", "keep one")
            read[name] = line, where
    if missing is not None:
        found = {name: (missing, where) for name, (_, where) in right.items()} | found
    for one, other in ((found, right), (right, found)):
        for name, (_, where) in one.items():
            if name not in other:
                fault = f"{where}: id {named(name)} is in one of the two files only"
                raise SourceError(fault, "predict this file")
    return [(line, right[name]) for name, line in found.items()]


def read_arguments(line: dict, where: str) -> Arguments:
    """Return the arguments of a line."""
    arguments: Arguments = {}
    for event in objects(line, "event_list", where):
        kind = field(event, "event_type", str, where)
        for part in objects(event, "arguments", where) if event.get("arguments") else []:
            aliases = field(part, "alias", list, where) if part.get("alias") else []
            words = (field(part, "argument", str, where), *aliases)
            written = [check_kind(one, str, "an alias", where).lower() for one in words]
            own = arguments.setdefault((kind, field(part, "role", str, where)), {})
            own.setdefault(written[0], set()).update(written)
    return arguments


def shared_part(one: str, other: str) -> float:
    """Return the F1 of the characters that two words share, repeated ones included."""
    both = len(one) + len(other)
    return 2 * (Counter(one) & Counter(other)).total() / both if both else 0.0


def score_docred(submission: Placed, golds: Placed, known: Placed = ()) -> dict[str, float | int]:
    """Return the scores of a submission as the host's `evaluation.py` computes them.

    `ign_f1` leaves right relations out whose names are related in the training file too.
    https://github.com/thunlp/DocRED

    Args:
        submission: `(place, relation)`.
        golds: `(place, document)` of the labelled file.
        known: `(place, document)` of the training file, or none: then there is no `ign_f1`.

    Raises:
        SourceError: a part of a file is missing.
    """
    names: dict[str, list[set[str]]] = {}
    right: set[tuple[str, int, str, int]] = set()
    for where, document in golds:
        title = str(read_id(document, "title", where))
        if title in names:
            raise SourceError(
                f"{where}: another document has the title {named(title)}", "give each its own"
            )
        names[title] = read_names(document, where)
        labels = objects(document, "labels", where)
        right |= {(title, *read_label(label, len(names[title]), where)) for label in labels}
    found = {read_relation(relation, names, where) for where, relation in submission}
    facts = {fact for where, document in known for fact in read_facts(document, where)}
    hits = found & right
    in_training = sum(
        any(
            (*pair, predicate) in facts
            for pair in product(names[title][first], names[title][second])
        )
        for title, first, predicate, second in hits
    )
    scores = precision_recall_f1(len(hits), len(found), len(right))
    if not facts:
        return scores
    others = len(found) - in_training
    precision = (len(hits) - in_training) / others if others else 0.0
    both = precision + scores["recall"]
    return {**scores, "ign_f1": 2 * precision * scores["recall"] / both if both else 0.0}


def read_names(document: dict, where: str) -> list[set[str]]:
    """Return the names of the mentions of each entity."""
    return [
        {
            field(check_kind(one, dict, "a mention", where), "name", str, where)
            for one in check_kind(mentions, list, "an entity", where)
        }
        for mentions in field(document, "vertexSet", list, where)
    ]


def read_facts(document: dict, where: str) -> set[tuple[str, str, str]]:
    """Return `(name, name, predicate)` of each two mentions that a document relates."""
    names = read_names(document, where)
    labels = {read_label(label, len(names), where) for label in objects(document, "labels", where)}
    return {
        (*pair, predicate)
        for first, predicate, second in labels
        for pair in product(names[first], names[second])
    }


def read_relation(
    relation: dict, names: Mapping[str, Sequence[object]], where: str
) -> tuple[str, int, str, int]:
    """Return `(title, h, r, t)` of an item of a submission.

    Raises:
        SourceError: the labelled file lacks this document or entity.
    """
    first, second = (field(relation, name, int, where) for name in ("h_idx", "t_idx"))
    title = str(read_id(relation, "title", where))
    if title not in names:
        raise SourceError(f"{where}: no document has the title {named(title)}", "score its file")
    if not 0 <= min(first, second) <= max(first, second) < len(names[title]):
        raise SourceError(f"{where}: {named(title)} has {len(names[title])} entities, from 0")
    return title, first, field(relation, "r", str, where), second


def score_semeval(submission: Placed, golds: Placed, known: Placed = ()) -> dict[str, float | int]:
    """Return the scores of a submission of SemEval-2010 task 8 as the official scorer gives them.

    `macro_f1` is the mean over the relations of the gold file, without Other. A relation in the
    wrong direction is wrong: it is one more of those predicted. A sentence that the submission
    lacks counts as Other. https://aclanthology.org/S10-1006

    Args:
        submission: `(place, sentence)`.
        golds: `(place, sentence)` of the labelled file.
        known: not read.

    Raises:
        SourceError: an id is not in the labelled file, or a relation or its direction is missing.
    """
    hits, found, right = Counter[str](), Counter[str](), Counter[str]()
    lines = pair_lines(submission, golds, {"label": OTHER})
    for both in lines:
        label, gold = (read_relation_label(*one) for one in both)
        found[relation_of(label)] += 1
        right[relation_of(gold)] += 1
        hits[relation_of(gold)] += label == gold
    relations = sorted(right.keys() - {OTHER})
    f1 = [precision_recall_f1(hits[n], found[n], right[n])["f1"] for n in relations]
    return {
        "macro_f1": math.fsum(f1) / max(len(f1), 1),
        "accuracy": hits.total() / max(len(lines), 1),
        "relations": len(relations),
        "sentences": len(lines),
    }


def read_relation_label(line: dict, where: str) -> str:
    """Return the relation of a line.

    Raises:
        SourceError: it has no direction, as in the host's file of keys.
    """
    label = field(line, "label", str, where)
    if label != OTHER and not label.endswith(("(e1,e2)", "(e2,e1)")):
        fault = f"{where}: the relation {named(label)} has no direction, (e1,e2) or (e2,e1)"
        raise SourceError(fault, "score a file that has directions, such as TEST_FILE_FULL.TXT")
    return label


SCORERS = {
    "cluener": score_cluener,
    "docred": score_docred,
    "duee": score_duee,
    "duie": score_duie,
    "semeval": score_semeval,
}

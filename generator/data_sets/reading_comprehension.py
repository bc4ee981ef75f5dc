"""The format of SQuAD, also that of DRCD and CMRC2018, and its neighbours: rows and passages.

A file is one of three things: articles with paragraphs with questions, as SQuAD has them; rows with
a question and its context each, as Hugging Face writes them, also one a line; or passages with
questions whose answers are texts without a place, as the competition of CMRC2018 had them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extras.host_formats.records import Conversion, Span, nearest_place, occurrences, read_id
from extras.host_formats.source_files import (
    SourceError,
    check_kind,
    field,
    named,
    objects,
    parse_json,
    read_lines,
    read_text,
    shown,
)

SHAPES = '[{"text": ..., "answer_start": ...}] or {"text": [...], "answer_start": [...]}'
# What id and words of a question are called, by whether CMRC2018's competition wrote them.
NAMES = {False: ("id", "question"), True: ("query_id", "query_text")}
# An answer and where it begins; None: the file does not say.
Answer = tuple[str, int | None]


@dataclass(frozen=True)
class Question:
    """A question of a file.

    Attributes:
        where: its place.
        name: its id.
        words: the question itself.
        context: the passage that it is about.
        answers: those that have a text; None: the file holds none.
        impossible: whether it is marked to have no answer; None: it is not marked.
    """

    where: str
    name: str | int
    words: str
    context: str
    answers: list[Answer] | None
    impossible: bool | None


def read_squad(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted questions."""
    for path in files:
        questions = list(read_questions(path, conversion))
        # Test files often keep the field of the answers, and leave it empty.
        labelled = any(question.answers or question.impossible for question in questions)
        for question in questions:
            record = {"id": question.name, "question": question.words, "context": question.context}
            if question.answers is not None and labelled:
                record |= read_gold(question, conversion)
            yield question.where, record


# ------------------------------------------------------------------------- shapes


def read_questions(path: Path, conversion: Conversion) -> Iterator[Question]:
    """Yield the wanted questions of a file, whatever its shape."""
    for where, item in read_items(path):
        if "context" in item and "question" in item:
            found = [(where, item, field(item, "context", str, where))]
        elif "context_text" in item:
            context = field(item, "context_text", str, where)
            found = [(where, question, context) for question in objects(item, "qas", where)]
        else:
            found = [
                (where, question, field(paragraph, "context", str, where))
                for paragraph in objects(item, "paragraphs", where)
                for question in objects(paragraph, "qas", where)
            ]
        for place, question, context in found:
            name_field, words = NAMES["context_text" in item]
            name = read_id(question, name_field, place)
            if name in conversion.wanted:
                place = f"{path}, question {named(name)}"
                yield read_question(question, name, words, context, place, conversion)


def read_items(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield `(place, item)` of each article, row or passage of a file.

    Raises:
        SourceError: it is no JSON, or holds something else.
    """
    text = read_text(path)
    if is_json_lines(text):
        document = [parse_json(line, f"{path}, line {n}") for n, line in read_lines(path)]
    else:
        document = parse_json(text, str(path))
    if isinstance(document, dict):
        alone = document.keys() & {"context", "context_text", "paragraphs"}
        document = [document] if alone else field(document, "data", list, str(path))
    check_kind(document, list, "the file", str(path))
    for number, item in enumerate(document, start=1):
        where = f"{path}, item {number}"
        yield where, check_kind(item, dict, "it", where)


def is_json_lines(text: str) -> bool:
    """Tell whether the first of several lines is a JSON object of its own."""
    first, _, rest = text.strip().partition("\n")
    try:
        return bool(rest) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def read_question(
    question: dict, name: str | int, words: str, context: str, where: str, conversion: Conversion
) -> Question:
    """Return a question after checking its fields; count what is no answer of it."""
    impossible = question.get("is_impossible")
    if not isinstance(impossible, bool | None):
        what = shown(impossible)
        raise SourceError(f"{where}: the field 'is_impossible' is {what} instead of true or false")
    answers = question.get("answers")
    if answers is not None:
        answers = list(read_answers(answers, where))
        given = [(text, start) for text, start in answers if text.strip()]
        if not impossible:
            conversion.remark("answers without a text, left out", where, len(answers) - len(given))
        answers = given
    elif impossible:
        answers = []
    if impossible and answers:
        what = "answers of questions that is_impossible marks as unanswerable, left out"
        conversion.remark(what, where, len(answers))
        answers = []
    if question.get("plausible_answers"):
        what = "questions with plausible_answers, which are no answers: these are left out"
        conversion.remark(what, where)
    return Question(where, name, field(question, words, str, where), context, answers, impossible)


def read_answers(answers: Any, where: str) -> Iterator[Answer]:
    """Yield the answers of a question in any of the shapes that are about.

    Raises:
        SourceError: they are of another.
    """
    for answer in answers if isinstance(answers, list) else [answers]:
        if isinstance(answer, str) and isinstance(answers, list):
            answer = {"text": answer}
        if not isinstance(answer, dict) or "text" not in answer:
            raise SourceError(f"{where}: its answers are {shown(answers)} instead of {SHAPES}")
        texts, starts = answer["text"], answer.get("answer_start")
        if not isinstance(texts, list):
            texts, starts = [texts], [starts]
        elif starts is None:
            starts = [None] * len(texts)
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise SourceError(f"{where}: its answers are {shown(answers)} instead of {SHAPES}")
        for text, start in zip(texts, starts, strict=True):
            check_kind(text, str, "the text of an answer", where)
            if isinstance(start, float) and start.is_integer():
                start = int(start)
            if start is not None:
                check_kind(start, int, "the answer_start of an answer", where)
            yield text, start


# -------------------------------------------------------------------------- records


def read_gold(question: Question, conversion: Conversion) -> dict:
    """Return the answers of a question as spans, which count characters of its context.

    An answer whose place is unknown gives no span: another place that reads alike need not be
    the one that was meant (CMRC2018 marks with -1 those that are no span of their passage). Such a
    record has all its answers as texts too, for the score.
    """
    answers = question.answers or []
    if not answers and not question.impossible:
        what = "questions without an answer that are not marked so: read as unanswerable"
        conversion.remark(what, question.where)
    found = [find_answer(question, *answer, conversion) for answer in answers]
    placed = [span for span in found if span]
    spans = list(dict.fromkeys(placed))
    what = "answers that repeat another of their question, kept once"
    conversion.remark(what, question.where, len(placed) - len(spans))
    gold: dict = {"answers": [list(span) for span in spans]}
    if None in found:
        gold["answer_texts"] = [text for text, _ in answers]
    return gold


def find_answer(
    question: Question, text: str, start: int | None, conversion: Conversion
) -> Span | None:
    """Return the span of an answer in its context; None: its place is unknown."""
    context, blanks = question.context, len(text) - len(text.lstrip())
    if text != text.strip() and not conversion.pinned:
        conversion.remark("answers with blanks around them, left out of the span", question.where)
        text, start = text.strip(), start + blanks if start is not None and start >= 0 else start
    place = start
    if start is None:
        places = occurrences(context, text)
        place = places[0] if len(places) == 1 else None
    elif start < 0:
        place = None
    elif not context.startswith(text, start):
        place = None if conversion.pinned else nearest_place(context, text, start)
        if place is not None:
            what = "answers whose offset was corrected to where the passage reads like them"
            conversion.remark(what, question.where)
    if place is None:
        what = "answers whose place in the passage is unknown: see answer_texts"
        conversion.remark(what, question.where)
        return None
    return place, place + len(text)

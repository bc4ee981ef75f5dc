"""The format of SQuAD, DRCD and partly CMRC2018: articles, paragraphs, questions."""

from collections.abc import Container, Iterator
from pathlib import Path

from generator.data_sets.reading import fields_checked, parse_json, pool, read_text


def convert_squad_format(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert files in SQuAD format to the records of each split, one per question.

    Args:
        files: in that format; any file may hold any question.
        splits: the pinned question ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned question is missing.
    """
    return pool(files, splits, read_records)


def read_records(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted questions of a file."""
    document = parse_json(read_text(path), str(path))
    with fields_checked(str(path)):
        questions = [
            (question["id"], question, paragraph)
            for article in document["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
            if question["id"] in wanted
        ]
    for name, question, paragraph in questions:
        where = f"{path}, question {name}"
        with fields_checked(where):
            record = read_record(question, paragraph["context"])
        yield where, record


def read_cmrc(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted questions of a file of CMRC2018, in either format.

    The competition's own format is a list of passages, and answers are texts without positions. An
    answer that occurs once in its passage becomes a span. An answer that occurs twice is ambiguous
    and stays a text.
    """
    document = parse_json(read_text(path), str(path))
    if not isinstance(document, list):
        yield from read_records(path, wanted)
        return
    for passage in document:
        with fields_checked(str(path)):
            context, questions = passage["context_text"], passage["qas"]
        for question in questions:
            with fields_checked(f"{path}, passage {passage.get('context_id')}"):
                name, words = question["query_id"], question["query_text"]
                answers = [
                    {"text": text, "answer_start": only_place(context, text)}
                    for text in question["answers"]
                ]
                known = {"id": name, "question": words, "answers": answers}
                record = read_record(known, context)
            if name in wanted:
                yield f"{path}, question {name}", record


def only_place(context: str, text: str) -> int:
    """Return the position of a text that occurs once in a context; -1: never, or twice."""
    first = context.find(text)
    return first if context.find(text, first + 1) < 0 else -1


def read_record(question: dict, context: str) -> dict:
    """Convert a question to a record; spans count characters of the context.

    If the context at an answer's start differs from the answer, the answer gives no span, because
    another place with the same text may not be the intended one. (CMRC2018 marks answers that are
    no span of their passage with -1.) Such a record also has all its answers as texts, for the
    score.
    """
    spans: list[list[int]] = []
    all_spans = True
    for answer in question["answers"]:
        start, text = answer["answer_start"], answer["text"]
        span = [start, start + len(text)]
        if not is_span(context, start, text):
            all_spans = False
        elif span not in spans:
            spans.append(span)
    record = {
        "id": question["id"],
        "question": question["question"],
        "context": context,
        "answers": spans,
    }
    if not all_spans:
        record["answer_texts"] = [answer["text"] for answer in question["answers"]]
    return record


def is_span(context: str, start: int, text: str) -> bool:
    """Return whether the context has the text at `start`."""
    return start >= 0 and text != "" and context.startswith(text, start)

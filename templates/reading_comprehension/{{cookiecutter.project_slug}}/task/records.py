"""The records of a file: questions about passages; read and checked field by field."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import InputError
from core.data.checks import normalise
from core.data.records import Id, Span, check_span, read_field, read_records

FIELDS = ("id", "question", "context", "answers", "answer_texts")


@dataclass(frozen=True)
class Example:
    """One record of a file.

    `answers` are spans of the context. `answer_texts` are all gold answers as texts, if some of
    them are not spans; the score then uses these. `weight` is that of the record in the loss.
    """

    id: Id
    question: str
    context: str
    answers: tuple[Span, ...]
    answer_texts: tuple[str, ...]
    line: int
    weight: float = 1.0

    @property
    def gold_texts(self) -> list[str]:
        """The answers as texts; empty: the question has no answer here."""
        return list(self.answer_texts) or [self.context[slice(*span)] for span in self.answers]

    @property
    def teachable(self) -> bool:
        """Whether the place of the answer is known, or that there is no answer."""
        return bool(self.answers) or not self.answer_texts


def read_examples(path: str | Path, require_answers: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "question", "context", "answers", "answer_texts" (optional)}`.
        require_answers: False for files to predict.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    read_one = functools.partial(read_example, require_answers=require_answers)
    return read_records(path, FIELDS, read_one)


def read_example(record: dict, line: int, require_answers: bool) -> Example:
    """Check one record."""
    question, context = (read_field(record, name, str) for name in ("question", "context"))
    required = require_answers or record.get("answers") is not None  # null: unknown
    answers = read_field(record, "answers", list) if required else []
    written = record.get("answer_texts") is not None
    texts = read_field(record, "answer_texts", list) if written else []
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(
            '"answer_texts" must be a list of strings that are not empty: leave it out where all '
            "answers are spans."
        )
    spans = tuple(check_span(span, "answers", context) for span in answers)
    for start, end in spans:
        words = context[start:end]
        if texts and normalise(words) not in map(normalise, texts):
            raise InputError(
                f'"answers" [{start}, {end}] reads {words!r}, which "answer_texts" does not list: '
                "correct the span, or list it there too."
            )
    return Example(
        id=read_field(record, "id", Id),
        question=question,
        context=context,
        answers=spans,
        answer_texts=tuple(texts),
        line=line,
    )


def tokenizer_texts(examples: Sequence[Example]) -> Iterator[str]:
    """Yield the texts that a vocabulary is learned from: each passage once, every question."""
    yield from dict.fromkeys(example.context for example in examples)
    yield from (example.question for example in examples)

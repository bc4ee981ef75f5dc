"""Read and check questions; cut their passages into windows that each hold the question."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from common.errors import InputError
from common.generator import Batch, Generator, pad
from common.records import Span, check_span, read_field, read_id, read_records
from common.tokens import Window, exact_offsets, window_starts
from task.settings import Settings

# Where the score of "not in this window" stands: the first token, which no answer can hold.
NULL = (0, 0)
TEXTS_AT_ONCE = 1024


@dataclass(frozen=True)
class Example:
    """One record of a file.

    `answers` are spans of the context. `answer_texts` are gold answers of which some are no
    spans; the score takes them instead.
    """

    id: str
    question: str
    context: str
    answers: tuple[Span, ...]
    answer_texts: tuple[str, ...]
    line: int

    @property
    def gold_texts(self) -> list[str]:
        """The answers as texts; none: the question has no answer here."""
        return list(self.answer_texts) or [self.context[slice(*span)] for span in self.answers]

    @property
    def teachable(self) -> bool:
        """Whether it is known where the answer stands, or that there is none."""
        return bool(self.answers) or not self.answer_texts


def read_examples(path: str | Path, require_answers: bool = True) -> list[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "question", "context", "answers", "answer_texts" (optional)}`.
        require_answers: False for files to predict, whose answers nobody knows.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, lambda record, line: read_example(record, line, require_answers))


def read_example(record: dict, line: int, require_answers: bool) -> Example:
    """Check one record."""
    question, context = (read_field(record, name, str) for name in ("question", "context"))
    answers, texts = [], []
    if require_answers or "answers" in record:
        answers = read_field(record, "answers", list)
    if "answer_texts" in record:
        texts = read_field(record, "answer_texts", list)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise InputError(
                '"answer_texts" must be a list of strings that are not empty: leave it out where '
                "all answers are spans."
            )
    return Example(
        id=read_id(record),
        question=question,
        context=context,
        answers=tuple(check_span(span, "answers", context) for span in answers),
        answer_texts=tuple(texts),
        line=line,
    )


def check_answers(examples: Sequence[Example]) -> None:
    """Refuse training examples that teach nothing.

    Raises:
        InputError: none of them has an answer that is a span.
    """
    if not any(example.answers for example in examples):
        raise InputError("no training example has an answer: there is nothing to learn.")


def tokenizer_texts(examples: Sequence[Example]) -> list[str]:
    """Return the texts that a vocabulary is learned from: each passage once, every question."""
    return [*dict.fromkeys(e.context for e in examples), *(e.question for e in examples)]


@dataclass(frozen=True)
class Frame:
    """What stands before, between and after question and context, and the segment of each token."""

    before: list[int]
    between: list[int]
    after: list[int]
    segments: list[int]

    @property
    def size(self) -> int:
        """Tokens of the frame."""
        return len(self.before) + len(self.between) + len(self.after)


def read_frame(tokenizer: Tokenizer) -> Frame:
    """Return the frame that a tokenizer puts around a pair of texts.

    BERT: [CLS] question [SEP] context [SEP], RoBERTa: <s> question </s></s> context </s>.
    """
    pair = tokenizer.encode("a", "a")
    parts = {part: [] for part in ("before", "between", "after")}
    segments = {}
    for token, owner, segment in zip(pair.ids, pair.sequence_ids, pair.type_ids, strict=True):
        if owner is None:
            part = ("before", "between", "after")[len(segments.keys() & {0, 1})]
            parts[part].append(token)
            segments.setdefault(part, segment)
        else:
            segments[owner] = segment
    if not parts["between"]:
        # A tokenizer that knows single texts only, as a preset's BPE does: RoBERTa's frame.
        single = tokenizer.encode("a")
        first = single.sequence_ids.index(0)
        last = len(single.ids) - single.sequence_ids[::-1].index(0)
        parts["before"], parts["after"] = single.ids[:first], single.ids[last:]
        parts["between"] = 2 * parts["after"]
        segments = {}
    order = ("before", 0, "between", 1, "after")
    return Frame(**parts, segments=[segments.get(part, 0) for part in order])


@dataclass(frozen=True)
class QuestionWindow(Window):
    """A question and a slice of its context; tokens of the question have no offsets."""

    segment_ids: np.ndarray
    question_cut: bool

    @property
    def is_context(self) -> np.ndarray:
        """Which tokens an answer may hold."""
        return self.starts >= 0


def split_into_windows(
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    max_length: int,
    overlap: int,
    progress: str = "",
) -> list[list[QuestionWindow]]:
    """Return the windows of each question: all of the context, cut nowhere.

    A question longer than half a window loses its end, so that the context always has room.

    Args:
        tokenizer: gives ids and character offsets.
        examples: from `read_examples`.
        max_length: tokens of a window, special ones included.
        overlap: tokens of the context that neighbouring windows share, half of them at the most.
        progress: title of the progress bar; empty: none.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    frame = read_frame(tokenizer)
    # Many questions are asked of one passage: it is encoded once.
    questions = encode_texts(tokenizer, [example.question for example in examples], "")
    contexts = encode_texts(tokenizer, [example.context for example in examples], progress)
    return [
        question_windows(
            questions[example.question][0], contexts[example.context], frame, max_length, overlap
        )
        for example in examples
    ]


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], progress: str
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Return text -> token ids, starts, ends and the number of characters."""
    unique = list(dict.fromkeys(texts))
    encoded = {}
    chunks = range(0, len(unique), TEXTS_AT_ONCE)
    for chunk in tqdm(chunks, desc=progress, disable=None if progress else True, leave=False):
        batch = unique[chunk : chunk + TEXTS_AT_ONCE]
        for text, encoding in zip(
            batch, tokenizer.encode_batch(batch, add_special_tokens=False), strict=True
        ):
            ids = np.array(encoding.ids, np.int32)
            encoded[text] = (ids, *exact_offsets(text, encoding.offsets), len(text))
    return encoded


def question_windows(
    question: np.ndarray,
    context: tuple[np.ndarray, np.ndarray, np.ndarray, int],
    frame: Frame,
    max_length: int,
    overlap: int,
) -> list[QuestionWindow]:
    """Return the windows of one question.

    Args:
        question: token ids.
        context: from `encode_texts`.
        frame: from `read_frame`.
        max_length: tokens of a window.
        overlap: tokens of the context that neighbours share.
    """
    ids, starts, ends, characters = context
    longest = max(1, max_length // 2 - len(frame.before) - len(frame.between))
    question_cut = len(question) > longest
    question = question[:longest]
    front = np.concatenate([frame.before, question, frame.between]).astype(np.int32)
    front_segments = np.repeat(
        frame.segments[:3], [len(frame.before), len(question), len(frame.between)]
    )
    room = max(1, max_length - len(front) - len(frame.after))
    windows = []
    for first in window_starts(len(ids), room, min(overlap, room // 2)):
        part, end = slice(first, first + room), first + room
        around = (len(front), len(frame.after))
        length = len(ids[part])
        windows.append(
            QuestionWindow(
                np.concatenate([front, ids[part], frame.after]).astype(np.int32),
                np.pad(starts[part], around, constant_values=-1),
                np.pad(ends[part], around, constant_values=-1),
                # A character of several byte-level tokens may lie on both sides of a border.
                (
                    int(min(ends[first - 1], starts[first])) if first else 0,
                    int(max(starts[end], ends[end - 1])) if end < len(ids) else characters,
                ),
                np.concatenate(
                    [front_segments, np.repeat(frame.segments[3:], [length, len(frame.after)])]
                ).astype(np.int32),
                question_cut,
            )
        )
    return windows


def gold_pairs(example: Example, window: Window) -> list[Span]:
    """Return the first and the last token of every answer that the window holds."""
    pairs = (window.token_span(span) for span in example.answers)
    return [pair for pair in pairs if pair is not None]


class AnswerGenerator(Generator):
    """Batches of windows, with the gold pairs of tokens unless they are to be predicted.

    Every window is one example of the training; one without an answer is taught the pair (0, 0).
    Questions whose answer no window holds whole teach nothing and are left out.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        encoder_inputs: names of the inputs of the encoder.
        max_length: tokens of a window.
        window_overlap: tokens that neighbouring windows share.
        answers: `marginal`: all gold pairs of a window; `sample`: one drawn for each epoch, as
            often as it was annotated.
        labels: False for prediction.
        progress: title of the progress bar; empty: none.
        **kwargs: as in `Generator`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        encoder_inputs: Sequence[str],
        max_length: int,
        window_overlap: int,
        answers: str = "marginal",
        labels: bool = True,
        progress: str = "",
        **kwargs,
    ):
        self.examples = list(examples)
        self.encoder_inputs = list(encoder_inputs)
        self.labels = labels
        self.sampled = answers == "sample"
        self.epoch = 0
        self.windows, self.example_of, self.pairs = [], [], []
        groups = split_into_windows(tokenizer, examples, max_length, window_overlap, progress)
        for number, (example, windows) in enumerate(zip(self.examples, groups, strict=True)):
            pairs = [gold_pairs(example, window) for window in windows] if labels else []
            if labels and (not example.teachable or example.answers and not any(pairs)):
                continue
            self.windows += windows
            self.pairs += pairs
            self.example_of += [number] * len(windows)
        if not self.windows:
            raise InputError(
                "no answer lies whole in a window: raise max_length, or correct the offsets."
            )
        # One width for all batches: a static shape.
        distinct = 1 if self.sampled else max((len(set(pairs)) for pairs in self.pairs), default=1)
        self.width = max(1, distinct)
        super().__init__([len(window) for window in self.windows], **kwargs)

    def batches(self, epoch: int | None, skip: int = 0):
        self.epoch = epoch or 0
        return super().batches(epoch, skip)

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        windows = [self.windows[index] for index in examples]
        arrays = {
            "token_ids": pad([window.token_ids for window in windows], length),
            "segment_ids": pad([window.segment_ids for window in windows], length),
            "padding_mask": pad([np.ones(len(w), np.int32) for w in windows], length),
        }
        batch = {name: arrays[name] for name in self.encoder_inputs}
        batch["context_mask"] = pad([w.is_context.astype(np.int32) for w in windows], length)
        if self.labels:
            batch["answers"] = np.full((len(examples), self.width, 2), -1, np.int32)
            for row, index in zip(batch["answers"], examples, strict=True):
                pairs = self.taught_pairs(int(index))
                row[: len(pairs)] = pairs
        return batch

    def taught_pairs(self, index: int) -> list[Span]:
        """Return the pairs that one window is taught in this epoch."""
        pairs = self.pairs[index] or [NULL]
        if self.sampled:
            # Of (seed, epoch, window) alone: a resumed epoch draws the same again.
            random = np.random.default_rng([self.seed, self.epoch, index])
            return [pairs[random.integers(len(pairs))]]
        return list(dict.fromkeys(pairs))


def make_generator(
    examples: Sequence[Example],
    settings: Settings,
    tokenizer: Tokenizer,
    encoder_inputs: Sequence[str],
    **kwargs,
) -> AnswerGenerator:
    """Return batches of examples, laid out as the settings say.

    Args:
        examples: from `read_examples`.
        settings: `max_length`, `window_overlap`, `answers`, `buckets`.
        tokenizer: of the encoder.
        encoder_inputs: names of the inputs of the encoder.
        **kwargs: as in `AnswerGenerator`.
    """
    return AnswerGenerator(
        examples,
        tokenizer,
        encoder_inputs,
        settings.max_length,
        settings.window_overlap,
        settings.answers,
        buckets=settings.buckets,
        progress="encode",
        **kwargs,
    )


def answer_lengths(examples: Sequence[Example], tokenizer: Tokenizer, longest: int) -> list[float]:
    """Return the log-probability of each length of an answer in tokens, 1 to `longest`.

    Add-one smoothing: a length that the training file never shows stays possible.

    Args:
        examples: of the training file; longer answers count as `longest`.
        tokenizer: of the encoder.
        longest: `answer_length` of the settings.
    """
    texts = [
        example.context[slice(*span)]
        for example in examples
        for span in dict.fromkeys(example.answers)
    ]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    counts = np.ones(longest)
    for encoding in encodings:
        counts[min(max(len(encoding.ids), 1), longest) - 1] += 1
    return [round(float(value), 6) for value in np.log(counts / counts.sum())]

"""Cut passages into windows that each hold the question; lay out the true answers."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.errors import InputError
from core.base.files import project_path
from core.batches import Batch, DataGenerator, pad
from core.data.records import Span, collect
from core.data.tokens import Window, token_rows, window_starts
from task.records import Example, read_examples
from task.settings import Settings

# The pair of tokens whose score means "not in this window": no answer can hold the first token.
NULL = (0, 0)
TEXTS_AT_ONCE = 1024


@dataclass(frozen=True)
class Frame:
    """The special tokens around a question and its context, as rows of `tokens_of`.

    `segments` are the segment ids of the question and of the context.
    """

    before: np.ndarray
    between: np.ndarray
    after: np.ndarray
    segments: tuple[int, int]


def read_frame(tokenizer: Tokenizer) -> Frame:
    """Return the frame that a tokenizer puts around a pair of texts.

    BERT: [CLS] question [SEP] context [SEP], RoBERTa: <s> question </s></s> context </s>.
    """
    pair = tokenizer.encode("a", "a")
    parts: dict[str, list[int]] = {"before": [], "between": [], "after": []}
    segments: dict[str | int, int] = {}  # of each part, and of the texts 0 and 1
    place = "before"
    for token, owner, segment in zip(pair.ids, pair.sequence_ids, pair.type_ids, strict=True):
        if owner is None:
            parts[place].append(token)
            segments.setdefault(place, segment)
        else:
            segments[owner] = segment
            place = ("between", "after")[owner]
    if not parts["between"]:
        # The tokenizer knows only single texts, as the BPE of a preset does: use RoBERTa's frame.
        single = tokenizer.encode("a")
        first = single.sequence_ids.index(0)
        last = len(single.ids) - single.sequence_ids[::-1].index(0)
        after = single.ids[last:]
        parts, segments = {"before": single.ids[:first], "between": 2 * after, "after": after}, {}
    rows = {name: tokens_of(ids, segments.get(name, 0)) for name, ids in parts.items()}
    return Frame(**rows, segments=(segments.get(0, 0), segments.get(1, 0)))


def tokens_of(ids: Sequence[int] | np.ndarray, segment: int) -> np.ndarray:
    """Return tokens outside the context `[4, tokens]`: ids, starts and ends (-1), segments.

    >>> tokens_of([7, 8], segment=1)
    array([[ 7,  8],
           [-1, -1],
           [-1, -1],
           [ 1,  1]], dtype=int32)
    """
    rows = np.full((4, len(ids)), -1, np.int32)
    rows[0], rows[3] = ids, segment
    return rows


@dataclass(frozen=True)
class QuestionWindow(Window):
    """A question and a slice of its context; tokens of the question have no offsets."""

    segment_ids: np.ndarray
    question_cut: bool

    @property
    def is_context(self) -> np.ndarray:
        """Which tokens an answer may have."""
        return self.starts >= 0


def split_into_windows(
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    max_length: int,
    overlap: int,
    progress: str = "",
) -> list[list[QuestionWindow]]:
    """Return the windows of each question, which together hold the whole context.

    A question longer than half a window loses its end, so the context always has room.

    Args:
        tokenizer: gives ids and character offsets.
        examples: from `read_examples`.
        max_length: tokens of a window, special ones included.
        overlap: tokens of the context that neighbouring windows share, at most half a window.
        progress: title of the progress bar; empty: none.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    frame = read_frame(tokenizer)
    # Many questions share a passage: it is encoded once.
    questions = encode_texts(tokenizer, [example.question for example in examples])
    contexts = encode_texts(tokenizer, [example.context for example in examples], progress)
    windows = []
    for example in examples:
        asked = questions[example.question][0]  # only the ids: a question needs no offsets
        context = contexts[example.context]
        characters = len(example.context)
        windows.append(question_windows(asked, context, characters, frame, max_length, overlap))
    return windows


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], progress: str = ""
) -> dict[str, np.ndarray]:
    """Return the tokens of each text: ids, starts and ends `[3, tokens]`."""
    unique = list(dict.fromkeys(texts))
    encoded: dict[str, np.ndarray] = {}
    chunks = range(0, len(unique), TEXTS_AT_ONCE)
    for chunk in tqdm(chunks, desc=progress, disable=None if progress else True, leave=False):
        batch = unique[chunk : chunk + TEXTS_AT_ONCE]
        encoded |= zip(batch, token_rows(tokenizer, batch), strict=True)
    return encoded


def question_windows(
    question: np.ndarray,
    context: np.ndarray,
    characters: int,
    frame: Frame,
    max_length: int,
    overlap: int,
) -> list[QuestionWindow]:
    """Return the windows of one question.

    Args:
        question: token ids.
        context: ids, starts and ends `[3, tokens]` of a text of so many `characters`.
        frame: the special tokens; others as in `split_into_windows`.
    """
    longest = max(1, max_length // 2 - frame.before.shape[1] - frame.between.shape[1])
    asked = tokens_of(question[:longest], frame.segments[0])
    front = np.concatenate([frame.before, asked, frame.between], axis=1)
    tokens = np.concatenate([context, np.full_like(context[:1], frame.segments[1])])
    _, starts, ends = context
    room = max(1, max_length - front.shape[1] - frame.after.shape[1])
    windows = []
    for first in window_starts(len(starts), room, min(overlap, room // 2)):
        end = first + room
        parts = [front, tokens[:, first:end], frame.after]
        ids, token_starts, token_ends, segment_ids = np.concatenate(parts, axis=1)
        # The characters in which an answer must lie to be in this window: from the end of the token
        # before the window to the start of the token after it. min and max: the byte-level tokens
        # of one character may be on both sides of the border.
        reach = (
            int(min(ends[first - 1], starts[first])) if first else 0,
            int(max(starts[end], ends[end - 1])) if end < len(starts) else characters,
        )
        was_cut = len(question) > longest
        windows.append(
            QuestionWindow(ids, token_starts, token_ends, reach, segment_ids, question_cut=was_cut)
        )
    return windows


def gold_pairs(example: Example, window: Window) -> list[Span]:
    """Return the first and the last token, both included, of every answer in the window."""
    pairs = (window.token_span(span) for span in example.answers)
    return [pair for pair in pairs if pair is not None]


class AnswerGenerator(DataGenerator):
    """Batches of windows, with the gold pairs of tokens unless they are for prediction.

    Each window is one row. `examples` are the records; `record_of` has the number of the record of
    each window. A window without an answer is taught the pair (0, 0).
    Questions whose answer fits into no window, or is known only as a text, are left out.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        encoder_inputs: names of the encoder's inputs.
        settings: `max_length`, `window_overlap`, `answers`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "pairs")  # extras/cache keeps these: one entry for each window
    learns_unlabelled = True  # `labels` may be False in training, for extras/regularization

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        labels: bool = True,
    ) -> None:
        self.examples = list(examples)
        self.encoder_inputs = list(encoder_inputs)
        self.labels = labels
        self.sampled = settings.answers == "sample"
        self.epoch = 0
        self.windows: list[QuestionWindow] = []
        self.record_of: list[int] = []
        self.pairs: list[list[Span]] = []
        length, overlap = settings.max_length, settings.window_overlap
        groups = split_into_windows(tokenizer, examples, length, overlap, "encode")
        for number, (example, windows) in enumerate(zip(self.examples, groups, strict=True)):
            pairs = [gold_pairs(example, window) for window in windows] if labels else []
            fits_nowhere = example.answers and not any(pairs)
            if labels and (fits_nowhere or not example.teachable):
                continue
            self.windows += windows
            self.pairs += pairs
            self.record_of += [number] * len(windows)
        lengths = [len(window) for window in self.windows]
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)
        self.measure()

    def measure(self) -> None:
        """Give the answers of all batches one width: a static shape, at least 1 for (0, 0)."""
        self.width = 1 if self.sampled else max([1, *(len(set(pairs)) for pairs in self.pairs)])

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        self.epoch = epoch or 0
        return super().batches(epoch, skip)

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        windows = [self.windows[position] for position in positions]
        arrays = {
            "token_ids": pad([window.token_ids for window in windows], length),
            "segment_ids": pad([window.segment_ids for window in windows], length),
            "padding_mask": pad([np.ones(len(w), np.int32) for w in windows], length),
        }
        batch = {name: arrays[name] for name in self.encoder_inputs}
        batch["context_mask"] = pad([w.is_context.astype(np.int32) for w in windows], length)
        if self.labels:
            pairs = [self.taught_pairs(int(position)) for position in positions]
            batch["answers"] = pad(pairs, self.width, -1)
        return batch

    def taught_pairs(self, position: int) -> np.ndarray:
        """Return the pairs `[pairs, 2]` that one window is taught in this epoch."""
        pairs = self.pairs[position] or [NULL]
        if self.sampled:
            # Seeded by (seed, epoch, window): a resumed epoch draws the same again.
            random = np.random.default_rng([self.seed, self.epoch, position])
            pairs = [pairs[random.integers(len(pairs))]]
        return np.array(list(dict.fromkeys(pairs)), np.int32)

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        return read_examples(project_path(path), labelled)


def check_answers(batches: AnswerGenerator) -> None:
    """Refuse training examples that teach nothing.

    Raises:
        InputError: none has an answer, or no answer fits into a window.
    """
    if not any(example.answers for example in batches.examples):
        raise InputError("no training example has an answer: there is nothing to learn.")
    if not batches.size:
        raise InputError("no answer fits into a window: raise max_length, or correct the offsets.")


def collect_answer_lengths(
    examples: Sequence[Example], tokenizer: Tokenizer, settings: Settings
) -> list[float] | None:
    """Return what `answer_lengths` returns, if there is a `length_prior`; else None.

    Without them, runs on other training files can predict together.
    """
    if not settings.length_prior:
        return None
    count = functools.partial(answer_lengths, tokenizer=tokenizer, longest=settings.answer_length)
    return collect(count, examples)


def answer_lengths(examples: Sequence[Example], tokenizer: Tokenizer, longest: int) -> list[float]:
    """Return the log-probability of each length of an answer in tokens, 1 to `longest`.

    Add-one smoothing keeps lengths possible that are not in the training file.

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
    counts = np.ones(longest)
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        counts[min(max(len(encoding.ids), 1), longest) - 1] += 1
    return [round(float(value), 6) for value in np.log(counts / counts.sum())]

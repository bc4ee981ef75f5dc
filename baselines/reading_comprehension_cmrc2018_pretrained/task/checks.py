"""What check.py asks of the data: can the answers be taught, and found again?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from common.data_checks import (
    Finding,
    Texts,
    find_duplicates,
    find_leaks,
    length_histogram,
    lines_by_text,
)
from common.encoder import freeze_layers, load_encoder
from common.layers import MASKED
from common.optimizers import make_optimizer
from common.records import Span
from common.regularization import make_regularization
from common.settings import project_path
from common.tokens import is_aligned
from common.training import TrainingModel
from task.data import Example, QuestionWindow, gold_pairs, read_examples, split_into_windows
from task.decode import decode_batch
from task.metrics import score
from task.model import build_models, compared_scores
from task.settings import Settings

# Gold that the best possible model could not find: below this the data is at fault.
LOWEST_ORACLE_F1 = 0.9


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        windows: of each question.
        tokens: of each window, question included.
        lengths: of each answer, in tokens.
        unaligned: spans that don't begin and end with a token, with their examples.
        outside: examples whose answers no window holds whole.
        too_long: examples whose answers are all longer than `answer_length`.
        cut: examples whose question has lost its end.
        oracle: scores of the gold answers after encoding and decoding.
    """

    windows: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    unaligned: list[tuple[Example, Span]] = field(default_factory=list)
    outside: list[Example] = field(default_factory=list)
    too_long: list[Example] = field(default_factory=list)
    cut: list[Example] = field(default_factory=list)
    oracle: dict = field(default_factory=dict)


def read_files(settings: Settings) -> dict[str, list[Example]]:
    """Return file -> examples, the training file first; a test file may lack, or lack answers."""
    files = {
        settings.train_file: read_examples(project_path(settings.train_file)),
        settings.dev_file: read_examples(project_path(settings.dev_file)),
    }
    if project_path(settings.test_file).is_file():
        test = read_examples(project_path(settings.test_file), require_answers=False)
        files.setdefault(settings.test_file, test)
    return files


def find_data_faults(files: dict[str, list[Example]]) -> list[Finding]:
    """Find repeats and leaks of questions, shared passages, and what dev does not measure."""
    texts: Texts = {
        name: [(e.id, f"{e.question}\n{e.context}", e.line) for e in examples]
        for name, examples in files.items()
    }
    return [
        *find_duplicates(texts),
        *find_leaks(texts),
        *find_shared_passages(files),
        *find_untaught(files),
        *find_untuned(files),
    ]


def find_shared_passages(files: dict[str, list[Example]]) -> list[Finding]:
    """Find passages of the training file that other files ask about too."""
    lines = {
        name: lines_by_text([(e.id, e.context, e.line) for e in examples])
        for name, examples in files.items()
    }
    (train, known), *others = lines.items()
    findings = []
    for name, passages in others:
        shared = [text for text in passages if text in known]
        if shared:
            findings.append(
                Finding(
                    "warning",
                    f"passages of {name} that stand in {train} too: {len(shared)} of "
                    f"{len(passages)}",
                    f"{name}, line {passages[shared[0]]}, is {train}, line {known[shared[0]]}, for "
                    "one",
                    "keep all questions of a passage in one file, or the score is higher than on "
                    "new passages.",
                )
            )
    return findings


def find_untaught(files: dict[str, list[Example]]) -> list[Finding]:
    """Find questions whose answers are no spans of the passage."""
    findings = []
    for position, (name, examples) in enumerate(files.items()):
        left_out = [example for example in examples if not example.teachable]
        if left_out:
            fate = "left out of training" if position == 0 else "scored, and out of reach"
            findings.append(
                Finding(
                    "note",
                    f"questions with answer_texts and no span: {len(left_out)}, {fate}",
                    f"{name}, line {left_out[0].line} for one",
                    "mark the answer in the passage where it stands there after all.",
                )
            )
    return findings


def find_untuned(files: dict[str, list[Example]]) -> list[Finding]:
    """Find a dev file that can't choose the threshold of unanswerable questions."""
    (train, first), (dev, second), *_ = [*files.items(), *files.items()]
    if share_unanswerable(first) > 0 and share_unanswerable(second) == 0:
        return [
            Finding(
                "warning",
                f"{share_unanswerable(first):.0%} of {train} is unanswerable, nothing of {dev}",
                dev,
                "add unanswerable questions: without them every question is answered.",
            )
        ]
    return []


def share_unanswerable(examples: Sequence[Example]) -> float:
    """Return the share of questions without an answer."""
    return sum(not example.gold_texts for example in examples) / len(examples)


def measure_reach(examples: Sequence[Example], tokenizer: Tokenizer, settings: Settings) -> Reach:
    """Encode the gold answers as pairs of tokens, and decode them as if a model had found them."""
    overlap = settings.window_overlap
    groups = split_into_windows(tokenizer, examples, settings.max_length, overlap, "encode")
    reach, texts = Reach(), {}
    bar = tqdm(
        zip(examples, groups, strict=True), "oracle", len(examples), leave=False, disable=None
    )
    for example, windows in bar:
        reach.windows.append(len(windows))
        reach.tokens.extend(map(len, windows))
        if windows[0].question_cut:
            reach.cut.append(example)
        for span in dict.fromkeys(example.answers):
            if not any(is_aligned(span, window) for window in windows):
                reach.unaligned.append((example, span))
        pairs = [pair for window in windows for pair in gold_pairs(example, window)]
        lengths = [end - start + 1 for start, end in pairs]
        reach.lengths.extend(lengths[:1])
        if example.answers and not pairs:
            reach.outside.append(example)
        elif lengths and min(lengths) > settings.answer_length:
            reach.too_long.append(example)
        texts[example.id] = decode_gold(example, windows, settings)
    reach.oracle.update(score(examples, texts, settings.metric))
    return reach


def decode_gold(example: Example, windows: Sequence[QuestionWindow], settings: Settings) -> str:
    """Return the text that is decoded from the gold pairs of the windows of a question."""
    best, odds = "", 0.0
    for window in windows:
        pairs = gold_pairs(example, window)
        if not pairs:
            continue
        scores = np.full((1, len(window), len(window)), MASKED, np.float32)
        scores[0, 0, 0] = 0
        for start, end in pairs:
            scores[0, start, end] = 10
        (spans,) = decode_batch(scores, [window], settings.answer_length)
        for span, value in sorted(spans.items()):
            if value > odds:
                best, odds = example.context[slice(*span)], value
    return best


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    spans = sum(len(set(example.answers)) for example in examples)
    passages = len({example.context for example in examples})
    lines = [
        f"\n{name}: {len(examples)} questions on {passages} passages, "
        f"{share_unanswerable(examples):.1%} unanswerable",
        f"aligned with tokens: {1 - len(reach.unaligned) / max(spans, 1):.2%} of {spans} answers",
        f"oracle (gold, encoded and decoded): EM {reach.oracle['exact_match']:.4f}, "
        f"F1 {reach.oracle['f1']:.4f}, by the definition of {reach.oracle['definition']}",
        length_histogram(reach.windows, "windows a question"),
        length_histogram(reach.tokens, "tokens a window"),
        length_histogram(reach.lengths, "tokens an answer"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach) -> list[Finding]:
    """Find the answers that no model can learn, or that decoding loses."""
    findings = []
    if reach.unaligned:
        example, span = reach.unaligned[0]
        findings.append(
            Finding(
                "warning",
                f"answers that don't begin and end with a token: {len(reach.unaligned)}",
                f"{name}, line {example.line}, {list(span)} "
                f"{example.context[slice(*span)]!r} for one",
                "correct the offsets, or choose an encoder with shorter tokens.",
            )
        )
    counted = (
        ("warning", reach.outside, "answers that no window holds whole", "raise max_length."),
        ("warning", reach.too_long, "answers longer than answer_length", "raise answer_length."),
        (
            "note",
            reach.cut,
            "questions longer than half a window, whose end is cut off",
            "raise max_length.",
        ),
    )
    findings += [
        Finding(level, f"{what}: {len(found)}", f"{name}, line {found[0].line} for one", mend)
        for level, found, what, mend in counted
        if found
    ]
    oracle = reach.oracle
    if oracle["f1"] < 1:
        findings.append(
            Finding(
                "error" if oracle["f1"] < LOWEST_ORACLE_F1 else "warning",
                f"a perfect model would score F1 {oracle['f1']:.4f}",
                f"{name}, EM {oracle['exact_match']:.4f}",
                "mend the findings above.",
            )
        )
    return findings


def build_compiled(tokenizer: Tokenizer, settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    encoder = load_encoder(settings, tokenizer)
    model, inference = build_models(encoder, settings)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    freeze_layers(encoder, settings.frozen_layers)
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(inference)),
    )
    return model

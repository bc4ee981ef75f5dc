"""The checks of check.py on the data: can the answers be taught, and found again?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from core.data.checks import Finding, normalise
from core.encoders.encoder import load_encoder
from core.fast.transformer import MASKED
from core.step import Models
from task.data import QuestionWindow, gold_pairs, split_into_windows
from task.decode import decode_batch
from task.metrics import score
from task.model import build_models
from task.records import Example
from task.settings import Settings

# Below this F1 of a perfect model the data is at fault.
LOWEST_ORACLE_F1 = 0.9
# Chinese characters, which have no spaces between them; CMRC 2018 compares them one by one.
UNSPACED = re.compile("[\u4e00-\u9fa5]")


@dataclass(frozen=True)
class Reach:
    """The scores of a perfect model on one file, and what it can't find.

    Attributes:
        tokens: of each window, question included.
        lengths: of each answer, in tokens.
        unaligned: answers that don't start and end with a token, from the doctor.
        outside: `line N` of questions whose answers fit into no window.
        too_long: the same of questions whose answers are all longer than `answer_length`.
        cut: the same of questions that have lost their end.
        oracle: scores of the gold answers after encoding and decoding.
    """

    tokens: list[int]
    lengths: list[int]
    unaligned: list
    outside: list[str]
    too_long: list[str]
    cut: list[str]
    oracle: dict


def find_data_faults(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find repeats and leaks of questions, shared passages, and what dev doesn't measure."""
    find = need("doctor", "record_checks").find_record_faults
    return [
        *find(
            files,
            lambda example: [f"{example.question}\n{example.context}"],
            describe_answers,
            gold="answers",
            passage_of=lambda example: example.context,
        ),
        *find_blanks(files),
        *find_shared_passages(files),
        *find_untaught(files),
        *find_untuned(files),
    ]


def describe_answers(example: Example) -> list[str]:
    """Return the answers of a question in words."""
    spans = [f"{[*span]} {example.context[slice(*span)]!r}" for span in example.answers]
    return [*spans, *map(repr, example.answer_texts)]


def find_blanks(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find empty questions or passages; records in which both are empty are found elsewhere."""
    findings = []
    for name, examples in files.items():
        blank = [one for one in examples if bool(one.question.strip()) != bool(one.context.strip())]
        if blank:
            what = f"records with an empty question or passage: {len(blank)} of {len(examples)}"
            where = f"{name}, line {blank[0].line} for one"
            findings.append(Finding("warning", what, where, "write both, or drop the record."))
    return findings


def find_unspaced_answers(files: dict[str, Sequence[Example]], metric: str) -> list[Finding]:
    """Find answers without blanks between words, which SQuAD's F1 takes for one word each."""
    findings = []
    for name, examples in files.items() if metric == "squad" else ():
        texts = [text for example in examples for text in example.gold_texts]
        unspaced = [text for text in texts if 2 * len(UNSPACED.findall(text)) > len(text)]
        if 2 * len(unspaced) > len(texts):
            what = f"answers without blanks between words: {len(unspaced)} of {len(texts)}"
            where = f"{name}, {unspaced[0][:60]!r} for one"
            fix = 'set metric = "cmrc2018", whose F1 compares characters.'
            findings.append(Finding("warning", what, where, fix))
    return findings


def find_shared_passages(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find passages of the training file that other files also ask about."""
    lines: dict[str, dict[str, list[int]]] = {name: {} for name in files}
    for name, examples in files.items():
        for example in examples:
            lines[name].setdefault(normalise(example.context), []).append(example.line)
    (train, known), *others = lines.items()
    findings = []
    for name, passages in others:
        shared = [text for text in passages if text in known]
        if shared:
            count, first = f"{len(shared)} of {len(passages)}", shared[0]
            what = f"passages of {name} that are also in {train}: {count}"
            where = f"{name}, line {passages[first]}, is {train}, line {known[first]}, for example"
            fix = (
                "keep all questions of a passage in one file, or the score is higher than on new "
                "passages."
            )
            scored = any(example.gold_texts for example in files[name])
            findings.append(Finding("warning" if scored else "note", what, where, fix))
    return findings


def find_untaught(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find questions whose answers are not spans of the passage."""
    findings = []
    for position, (name, examples) in enumerate(files.items()):
        lines = [example.line for example in examples if not example.teachable]
        if lines:
            fate = "scored, but no model can find them" if position else "left out of training"
            what = f"questions with answer_texts and no span: {len(lines)}, {fate}"
            fix = "mark the answer if the passage has it after all."
            findings.append(Finding("note", what, f"{name}, line {lines[0]} for example", fix))
    return findings


def find_untuned(files: dict[str, Sequence[Example]]) -> list[Finding]:
    """Find a dev file that can't choose the threshold of unanswerable questions."""
    (train, first), (dev, second), *_ = 2 * list(files.items())
    share = share_unanswerable(first)
    if not share or share_unanswerable(second):
        return []
    what = f"{share:.0%} of {train} is unanswerable, but nothing of {dev}"
    fix = "add unanswerable questions to it: without them every question is answered."
    return [Finding("warning", what, dev, fix)]


def share_unanswerable(examples: Sequence[Example]) -> float:
    """Return the share of questions without an answer."""
    return sum(not example.gold_texts for example in examples) / len(examples)


def measure_reach(examples: Sequence[Example], tokenizer: Tokenizer, settings: Settings) -> Reach:
    """Encode the gold answers as pairs of tokens, and decode them as if a model had found them."""
    length, overlap = settings.max_length, settings.window_overlap
    groups = split_into_windows(tokenizer, examples, length, overlap, "encode")
    tokens = [len(window) for windows in groups for window in windows]
    faults = need("doctor", "span_faults")
    lengths, unaligned, outside, too_long, cut, texts = [], [], [], [], [], {}
    pairs = zip(examples, groups, strict=True)
    for example, windows in tqdm(pairs, "oracle", len(examples), leave=False, disable=None):
        line = f"line {example.line}"
        for span in dict.fromkeys(example.answers):
            unaligned.append(faults.find_cut_span(example.context, span, example.line, windows))
        sizes = [last - first + 1 for w in windows for first, last in gold_pairs(example, w)]
        lengths += sizes[:1]
        blank = all(faults.is_blank(example.context, span) for span in example.answers)
        outside += [line] if not blank and not sizes else []
        too_long += [line] if sizes and min(sizes) > settings.answer_length else []
        cut += [line] if windows[0].question_cut else []
        texts[example.id] = decode_gold(example, windows, settings)
    oracle = score(examples, texts, settings.metric)
    unaligned = [*filter(None, unaligned)]
    return Reach(tokens, lengths, unaligned, outside, too_long, cut, oracle)


def decode_gold(example: Example, windows: Sequence[QuestionWindow], settings: Settings) -> str:
    """Return the text that is decoded from the gold pairs of the windows of a question."""
    for window in windows:
        if pairs := gold_pairs(example, window):
            scores = np.full((1, len(window), len(window)), MASKED, np.float32)
            scores[0, 0, 0] = 0
            scores[0, *np.transpose(pairs)] = 10
            (spans,) = decode_batch(scores, [window], settings.answer_length)
            if spans:
                return example.context[slice(*min(spans))]
    return ""


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    spans = sum(len(set(example.answers)) for example in examples)
    passages = len({example.context for example in examples})
    answered = any(example.gold_texts for example in examples)
    gold = f"{share_unanswerable(examples):.1%} unanswerable" if answered else "no answers"
    lines = [
        f"\n{name}: {len(examples)} questions on {passages} passages, {gold}",
        f"windows: {len(reach.tokens) / len(examples):.2f} a question",
        f"aligned with tokens: {1 - len(reach.unaligned) / max(spans, 1):.2%} of {spans} answers",
        f"oracle (gold, encoded and decoded): EM {reach.oracle['exact_match']:.4f}, "
        f"F1 {reach.oracle['f1']:.4f}, by the definition of {reach.oracle['definition']}"
        if answered
        else "oracle: none, because no question has an answer",
        *draw(reach.tokens, "tokens a window"),
        *draw(reach.lengths, "tokens an answer"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach) -> list[Finding]:
    """Find the answers that no model can learn, or that decoding loses."""
    cut_off = "questions longer than half a window, whose end is cut off"
    faults = (
        ("warning", "answers that fit into no window", reach.outside, "raise max_length."),
        ("warning", "answers longer than answer_length", reach.too_long, "raise answer_length."),
        ("note", cut_off, reach.cut, "raise max_length."),
    )
    findings = need("doctor", "span_faults").find_span_faults(name, reach.unaligned)
    findings += [
        Finding(level, f"{what}: {len(places)}", f"{name}, {places[0]} for example", fix)
        for level, what, places, fix in faults
        if places
    ]
    f1, exact = reach.oracle["f1"], reach.oracle["exact_match"]
    if f1 < 1:
        level = "error" if f1 < LOWEST_ORACLE_F1 else "warning"
        what, where = f"a perfect model would score F1 {f1:.4f}", f"{name}, EM {exact:.4f}"
        fix = "fix the findings above."
        if not findings:  # words are compared without articles and punctuation
            fix = "correct answers of articles or marks alone, such as 'the': they have no words."
        findings.append(Finding(level, what, where, fix))
    return findings


def build(tokenizer: Tokenizer, settings: Settings) -> Models:
    """Return new models on a new encoder."""
    return build_models(load_encoder(settings, tokenizer), settings)

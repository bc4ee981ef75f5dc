"""From the scores of token pairs to answers: the best spans of all windows of a question."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.data.records import Id, Span
from core.fast.transformer import MASKED
from core.prediction.predictor import Predictor
from task.data import AnswerGenerator, QuestionWindow
from task.settings import Settings

# Spans kept for each question: enough for the n-best list, even if some have the same text.
MOST_SPANS = 20


@dataclass(frozen=True)
class Candidate:
    """A span that may be the answer; `log_odds` are those against "not in this window"."""

    span: Span
    log_odds: float

    @property
    def score(self) -> float:
        """The probability, which is compared with the threshold."""
        return float(1 / (1 + np.exp(-np.clip(self.log_odds, -700.0, 700.0))))


# Record id -> candidate answers, best first.
Candidates = dict[Id, list[Candidate]]


def decode_batch(
    scores: np.ndarray,
    windows: Sequence[QuestionWindow],
    answer_length: int,
    length_scores: np.ndarray | None = None,
    most: int = MOST_SPANS,
) -> list[dict[Span, float]]:
    """Return the best spans of each window with their log-odds against its pair (0, 0).

    Worked example: 4 tokens, answer_length 2. Only pairs of at most 2 tokens are looked at:
    starts [0, 0, 1, 1, 2, 2, 3], ends [0, 1, 1, 2, 2, 3, 3]. The log-odds of (1, 2) are
    scores[1, 2] - scores[0, 0].

    Args:
        scores: `[windows, length, length]`; impossible pairs are `MASKED`.
        windows: of these scores.
        answer_length: tokens of the longest span.
        length_scores: added to the scores of spans of 1, 2, ... tokens `[answer_length]`.
        most: spans kept for each window.
    """
    length = scores.shape[-1]
    # Only the band of pairs that are near enough: at most length x answer_length pairs.
    widths = np.arange(length)[None, :] - np.arange(length)[:, None]  # tokens - 1
    starts, ends = np.nonzero((widths >= 0) & (widths < answer_length))
    values = scores[:, starts, ends]
    log_odds = values.astype(np.float64) - scores[:, :1, 0]
    log_odds[:, starts == 0] = -np.inf
    log_odds[values <= MASKED / 2] = -np.inf
    if length_scores is not None:
        log_odds += np.asarray(length_scores)[ends - starts]
    most = min(most, log_odds.shape[1])
    best = np.argpartition(-log_odds, most - 1, axis=1)[:, :most]
    found = []
    for window, row, positions in zip(windows, log_odds, best, strict=True):
        spans: dict[Span, float] = {}
        for position in positions[np.isfinite(row[positions])]:
            span = (int(window.starts[starts[position]]), int(window.ends[ends[position]]))
            # Several byte-level tokens of one character: two pairs of tokens, one span.
            value = float(row[position])
            if span[0] < span[1]:
                spans[span] = max(value, spans.get(span, value))
        found.append(spans)
    return found


def predict_answers(
    predictor: Predictor,
    generator: AnswerGenerator,
    settings: Settings,
    lengths: Sequence[float] | None = None,
    progress: str = "",
) -> Candidates:
    """Return the candidates of every question, best first.

    Windows of one question are merged: a span found in several has its highest log-odds, so the
    window with the most confident answer decides.

    Args:
        predictor: of the inference model.
        generator: of the examples, `labels=False`.
        settings: `answer_length`, `length_prior`.
        lengths: log-probabilities of answers of 1, 2, ... tokens; needed for a `length_prior`.
        progress: title of the progress bar; empty: none.
    """
    length_scores = settings.length_prior * np.array(lengths) if settings.length_prior else None

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[dict]:
        windows = [generator.windows[position] for position in positions]
        return decode_batch(outputs["scores"], windows, settings.answer_length, length_scores)

    found: dict[Id, dict[Span, float]] = {example.id: {} for example in generator.examples}
    for position, spans in predictor.decode(generator, decode, progress):
        merged = found[generator.examples[generator.record_of[position]].id]
        for span, log_odds in spans.items():
            merged[span] = max(log_odds, merged.get(span, log_odds))
    return {
        record_id: [
            Candidate(span, log_odds)
            for span, log_odds in sorted(spans.items(), key=lambda item: (-item[1], item[0]))
        ][:MOST_SPANS]
        for record_id, spans in found.items()
    }


def rank_texts(
    context: str, candidates: Sequence[Candidate], n_best: int
) -> list[tuple[Candidate, str, float]]:
    """Return the best candidates of distinct texts, with their texts and probabilities.

    The probabilities are a softmax over all candidates and "no answer".

    Args:
        context: that the spans are of.
        candidates: best first.
        n_best: texts at the most.
    """
    log_odds = np.array([0.0, *(candidate.log_odds for candidate in candidates)])
    weights = np.exp(log_odds - log_odds.max())
    probabilities = weights[1:] / weights.sum()
    ranked: dict[str, tuple[Candidate, str, float]] = {}
    for candidate, probability in zip(candidates, probabilities, strict=True):
        text = context[slice(*candidate.span)]
        ranked.setdefault(text, (candidate, text, float(probability)))
    return list(ranked.values())[:n_best]

"""BLEU, chrF, ROUGE-L and exact match, against all targets of a record.

BLEU and chrF are from 0 to 100, the numbers that sacrebleu's command line prints: sacrebleu counts
the n-grams of each record, and `bleu_score` computes BLEU from the sums of any records.
ROUGE-L and exact match are means over records, from 0 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

from core.data.records import Id
from generation.text_metrics import WordsAndIdeographs, bleu_score
from task.records import Example
from task.settings import Settings


@dataclass(frozen=True)
class RecordScore:
    """Numbers of one record from which the scores of a file are computed.

    `statistics` are BLEU's: length of the prediction, that of the target nearest in length, then
    matches and totals of 1-grams to 4-grams. Their sums over records give the BLEU of the file.
    """

    exact_match: int
    rouge_l: float
    statistics: tuple[int, ...]


def score_records(
    examples: Sequence[Example], predictions: dict[Id, str], settings: Settings
) -> list[RecordScore]:
    """Score each record.

    ROUGE-L is the F1 of the longest common subsequence with the most similar target. A prediction
    is an exact match if it equals one of the targets after `normal_form`. ROUGE ignores case.

    Args:
        examples: gold.
        predictions: record id -> text.
        settings: `bleu_tokenizer`, `lowercase_scores`.
    """
    bleu = BLEU(tokenize=settings.bleu_tokenizer, lowercase=settings.lowercase_scores)
    rouge = RougeScorer(["rougeL"], tokenizer=WordsAndIdeographs())
    scores = []
    for example in examples:
        text = predictions[example.id]
        ngrams = bleu.corpus_score([text], [[target] for target in example.targets])
        exact = normal_form(text, settings) in {
            normal_form(target, settings) for target in example.targets
        }
        similar = max(rouge.score(target, text)["rougeL"].fmeasure for target in example.targets)
        scores.append(
            RecordScore(
                int(exact),
                round(similar, 6),  # as the predictions file has it
                (ngrams.sys_len, ngrams.ref_len, *ngrams.counts, *ngrams.totals),
            )
        )
    return scores


def normal_form(text: str, settings: Settings) -> str:
    """Return a text with single spaces, and in lower case if `lowercase_scores`."""
    text = " ".join(text.split())
    return text.lower() if settings.lowercase_scores else text


def score(
    examples: Sequence[Example],
    predictions: dict[Id, str],
    records: Sequence[RecordScore],
    settings: Settings,
) -> dict[str, float]:
    """Return the scores of a file.

    Args:
        examples: gold.
        predictions: record id -> text.
        records: from `score_records`.
        settings: `lowercase_scores`.
    """
    # sacrebleu wants the first targets of all records, then the second ones; None: it has none.
    streams: list = [list(nth) for nth in zip_longest(*(example.targets for example in examples))]
    chrf = CHRF(lowercase=settings.lowercase_scores)
    texts = [predictions[example.id] for example in examples]
    statistics = np.array([record.statistics for record in records])
    return {
        "bleu": float(bleu_score(*statistics.T)),  # it sums each column
        "chrf": chrf.corpus_score(texts, streams).score,
        "rouge_l": float(np.mean([record.rouge_l for record in records])),
        "exact_match": float(np.mean([record.exact_match for record in records])),
    }

"""The records of a predictions file."""

from collections.abc import Sequence

from task.decode import Candidates, rank_texts
from task.records import Example


def prediction_records(
    examples: Sequence[Example], candidates: Candidates, threshold: float, n_best: int
) -> list[dict]:
    """Return the records of the predictions file.

    Args:
        examples: of these candidates.
        candidates: from `predict_answers`.
        threshold: an answer with a lower score is not given.
        n_best: at most so many answers for each question.
    """
    records = []
    for example in examples:
        ranked = rank_texts(example.context, candidates[example.id], n_best)
        given = ranked[:1] if ranked and ranked[0][0].score >= threshold else []
        records.append(
            {
                "id": example.id,
                "answer": list(given[0][0].span) if given else None,
                "text": given[0][1] if given else "",
                "score": round(ranked[0][0].score, 4) if ranked else 0.0,
                "n_best": [
                    {
                        "answer": list(candidate.span),
                        "text": text,
                        "probability": round(probability, 4),
                    }
                    for candidate, text, probability in ranked
                ],
            }
        )
    return records

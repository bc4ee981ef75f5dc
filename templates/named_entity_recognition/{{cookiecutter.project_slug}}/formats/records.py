"""The records of a predictions file."""

from collections.abc import Sequence

from core.data.records import Id
from task.decode import Scored
from task.records import Example


def prediction_records(examples: Sequence[Example], predictions: dict[Id, Scored]) -> list[dict]:
    """Return the records of the predictions file, with texts and scores."""
    return [
        {
            "id": example.id,
            "text": example.text,
            "entities": [
                {
                    "type": entity.type,
                    "span": list(entity.span),
                    "text": example.text[slice(*entity.span)],
                    "score": round(float(score), 4),
                }
                for entity, score in sorted(predictions[example.id])
            ],
        }
        for example in examples
    ]

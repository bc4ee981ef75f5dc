"""Score any predictions file on a file with gold triples; no run is needed.

python score.py PREDICTIONS GOLD        the scores that evaluate.py gives for these predictions
"""

from core.base.errors import command
from core.base.extras import need
from core.scores.precision_recall import print_precision_recall_f1
from task.metrics import score
from task.records import Example, Triple, read_example, read_examples


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__)
    golds = read_examples(arguments.gold)
    scores = score(golds, scoring.read_answers(arguments.predictions, golds, read_triples))
    scoring.finish(arguments, scores)
    print_precision_recall_f1("predicate", {**scores["per_predicate"], "all": scores})


def read_triples(place: str, record: dict, gold: Example) -> tuple[Triple, ...]:
    """Return the predicted triples of a record, after checking their spans."""
    scoring = need("comparison", "scoring")
    record = scoring.with_text(record, gold)
    triples = read_example({**record, "annotated_predicates": None}, gold.line, True).triples
    words = {"subject": "subject_text", "object": "object_text"}
    scoring.check_words(record["triples"], words, gold.text)
    return triples


if __name__ == "__main__":
    main()

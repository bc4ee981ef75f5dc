"""Score any predictions file on a file with gold events; no run is needed.

python score.py PREDICTIONS GOLD        the scores that evaluate.py gives for these predictions
"""

from core.base.errors import command
from core.base.extras import need
from core.scores.precision_recall import print_precision_recall_f1
from evaluate import TITLES
from task.metrics import score
from task.records import Event, Example, read_example, read_examples


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__)
    golds = read_examples(arguments.gold)
    scores = score(golds, scoring.read_answers(arguments.predictions, golds, read_events))
    scoring.finish(arguments, scores)
    for name, title in TITLES.items():
        print()
        print_precision_recall_f1(title, scores[name])


def read_events(place: str, record: dict, gold: Example) -> list[Event]:
    """Return the predicted events of a record, after checking their spans."""
    scoring = need("comparison", "scoring")
    record = scoring.with_text(record, gold)
    events = read_example(record, gold.line, True).events
    for item in record["events"]:
        scoring.check_words([item], {"trigger": "trigger_text"}, gold.text)
        scoring.check_words(item["arguments"], {"span": "text"}, gold.text)
    return list(events)


if __name__ == "__main__":
    main()

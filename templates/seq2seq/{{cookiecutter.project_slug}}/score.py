"""Score any predictions file on a file with gold targets; no run is needed.

python score.py PREDICTIONS GOLD [--KEY VALUE ...]   the scores that evaluate.py gives for them
"""

from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import need
from core.base.settings import read_settings
from core.report.report import name_score
from task.metrics import score, score_records
from task.records import Example, read_examples
from task.settings import Settings


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__, settings=True)
    settings = read_settings(Settings, arguments.flags)
    golds = read_examples(arguments.gold, settings=settings)
    read_one = read_record if settings.extractor else read_text
    if arguments.predictions.suffix.lower() == ".txt" and not settings.extractor:
        found = read_lines(arguments.predictions, golds)
    else:
        found = scoring.read_answers(arguments.predictions, golds, read_one)
    scores = score_found(golds, found, settings)
    scoring.finish(arguments, scores)
    for name, value in scores.items():
        if isinstance(value, float):
            print(f"{name_score(name):<14}{value:>10.4f}")


def read_lines(path: Path, golds: Sequence[Example]) -> dict:
    """Return record id -> text of a file with a line for each record, as predict.py writes it."""
    text = need("comparison", "scoring").read_text(path).replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != len(golds):
        what = f"{len(lines)} lines, and the gold {len(golds)} records"
        raise InputError(f"{path} has {what}: predict this file.")
    return {gold.id: line for gold, line in zip(golds, lines, strict=True)}


def read_text(place: str, record: dict, gold: Example) -> str:
    """Return the text that was written for a record."""
    if not isinstance(record.get("prediction"), str):
        raise InputError('"prediction" must be the text that was written, a string.')
    return record["prediction"]


def read_record(place: str, record: dict, gold: Example) -> tuple[str, dict]:
    """Return a record with triples or events, and its place."""
    return place, record


def score_found(golds: Sequence[Example], found: dict, settings: Settings) -> dict:
    """Return the scores of texts, or with extras/extraction of triples or events."""
    if not settings.extractor:
        return score(golds, found, score_records(golds, found, settings), settings)
    kind, records = settings.extractor.kind, need("extraction", "records")
    items = {name: records.read_prediction(*row, kind) for name, row in found.items()}
    return need("extraction", "scores").score(golds, items, kind)


if __name__ == "__main__":
    main()

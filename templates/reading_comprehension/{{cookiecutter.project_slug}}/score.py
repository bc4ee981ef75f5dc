"""Score any predictions file on a file with gold answers; no run is needed.

python score.py PREDICTIONS GOLD [--KEY VALUE ...]   the scores that evaluate.py gives for them
"""

from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import need
from core.base.settings import read_settings
from inspection.comparison import read_answer
from task.metrics import score
from task.records import Example, read_examples
from task.settings import Settings


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__, settings=True)
    golds = read_examples(arguments.gold)
    if arguments.predictions.suffix.lower() == ".json":
        texts = read_submission(arguments.predictions, golds)
    else:
        texts = scoring.read_answers(arguments.predictions, golds, read_text)
    scores = score(golds, texts, read_settings(Settings, arguments.flags).metric)
    scoring.finish(arguments, scores)
    print(f"{'answer (' + scores['definition'] + ')':<32}{'EM':>10}{'F1':>10}{'gold':>8}")
    for kind, row in {**scores["per_answer"], "all": scores}.items():
        print(f"{kind:<32}{row['exact_match']:>10.4f}{row['f1']:>10.4f}{row['gold']:>8}")


def read_submission(path: Path, golds: Sequence[Example]) -> dict:
    """Return record id -> answer of a file {id: answer}, as SQuAD and CMRC2018 submit it."""
    scoring = need("comparison", "scoring")
    answers = scoring.read_object(path)
    if not all(isinstance(answer, str) for answer in answers.values()):
        raise InputError(f"{path} is to hold {{id: answer}}, or records in a file named .jsonl.")
    scoring.match_ids(path, answers, golds)
    return {gold.id: answers[str(gold.id)] for gold in golds}


def read_text(place: str, record: dict, gold: Example) -> str:
    """Return the answer of a record, from its text or else its span; "" is none."""
    if "text" not in record and "answer" in record:
        return read_answer(place, record, gold)
    if not isinstance(record.get("text"), str):
        raise InputError('"text" must be the answer, a string: "" says that there is none.')
    return record["text"]


if __name__ == "__main__":
    main()

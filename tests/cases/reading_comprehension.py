"""What the tests of all tasks need to know of reading comprehension."""

import json
from pathlib import Path

# One window for each passage of the sample: as many examples as records.
SMALL = {"pointer_size": 16, "tiny_vocabulary": 700, "max_length": 160, "window_overlap": 16}
DEV_SCORE = "f1"
# The score that CHANGING.md adds.
CHANGED_SCORE = "average"
FIELDS = ("id", "question", "context", "answers", "answer_texts", "weight")
RECORD = {
    "id": "1",
    "question": "Who founded Zenco?",
    "context": "Ada founded Zenco.",
    "answers": [[0, 3]],
}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


GOOD = record(id="0")
PLAIN = '{"id": "a", "question": "Who?", "context": "Ada"}\n'
PLAIN_REFUSED = 'line 1: the field "answers"'
NOTHING_TO_LEARN = {"no answer": (record(answers=[]), "no training example has an answer")}
BROKEN_FILES = {
    "no question": (GOOD + record(question=None), 'line 2: the field "question" is missing: add'),
    "no context": (GOOD + record(context=None), 'line 2: the field "context" is missing: add it'),
    "no answers": (GOOD + record(answers=None), 'line 2: the field "answers" is missing: add it'),
    "question a list": (record(question=["Who?"]), 'line 1: "question" must be a string'),
    "answers a string": (record(answers="Ada"), "line 1: \"answers\" must be a list, not 'Ada'"),
    "answers of strings": (
        GOOD + record(answers=["Ada"]),
        "line 2: \"answers\" must be [start, end], two whole numbers, not 'Ada'",
    ),
    "one span instead of a list of them": (
        record(answers=[0, 3]),
        'line 1: "answers" must be [start, end], two whole numbers, not 0',
    ),
    "span of fractions": (
        record(answers=[[0.0, 3]]),
        'line 1: "answers" must be [start, end], two whole numbers',
    ),
    "span outside the context": (
        GOOD + record(answers=[[0, 3], [12, 19]]),
        'line 2: the span "answers" [12, 19] is not inside the text of 18 characters',
    ),
    "span reversed": (record(answers=[[3, 0]]), 'line 1: the span "answers" [3, 0] is not inside'),
    "span empty": (record(answers=[[3, 3]]), 'line 1: the span "answers" [3, 3] is not inside'),
    "start of -1": (record(answers=[[-1, 3]]), 'line 1: the span "answers" [-1, 3] is not inside'),
    "answer_texts a string": (
        record(answer_texts="Ada"),
        "line 1: \"answer_texts\" must be a list, not 'Ada'",
    ),
    "answer_texts that contradict the spans": (
        GOOD + record(answer_texts=["Bob"]),
        'line 2: "answers" [0, 3] reads \'Ada\', which "answer_texts" does not list: correct the',
    ),
    "answer_texts with an empty one": (
        GOOD + record(answer_texts=["Ada", " "]),
        'line 2: "answer_texts" must be a list of strings that are not empty',
    ),
    "answer_texts of numbers": (
        record(answer_texts=[3]),
        'line 1: "answer_texts" must be a list of strings that are not empty',
    ),
}
BAD_COMMANDS = {
    "run without a threshold": (
        "predict.py unscored sample/test.jsonl out.jsonl",
        "has no threshold in scores.json",
    ),
    "run with a threshold of text": (
        "predict.py textual sample/test.jsonl out.jsonl",
        "has no threshold in scores.json",
    ),
    "overlap of whole windows": (
        "train.py --max_length 32 --window_overlap 32",
        "window_overlap = 32 leaves no new token in a window of max_length = 32",
    ),
    "odd pointer": ("train.py --pointer_size 15", "--pointer_size = '15'", "multiple of 2"),
    "unknown metric": ("train.py --metric bleu", "--metric = 'bleu'", "'squad' or 'cmrc2018'"),
    "unknown use of answers": ("train.py --answers all", "--answers = 'all'", "'marginal' or"),
    "no answer at all": ("train.py --n_best 0", "--n_best = '0'", "greater than"),
    "negative prior": ("train.py --length_prior -1", "--length_prior = '-1'", "greater than"),
}
# The submission proper, {id: answer}, knows no scores: two models may well agree in it.
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed: answers are slices of the passages."""
    records, wanted = (
        [json.loads(line) for line in path.open(encoding="utf-8")] for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record, question in zip(records, wanted, strict=True):
        assert record["n_best"]
        for answer in [record, *record["n_best"]]:
            span = answer["answer"]
            assert answer["text"] == (question["context"][slice(*span)] if span else "")

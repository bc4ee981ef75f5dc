"""What the tests of all tasks need to know of relation extraction."""

import json
from pathlib import Path

SMALL = {"pointer_size": 16, "window_overlap": 16}
DEV_SCORE = "f1"
# The score that CHANGING.md adds.
CHANGED_SCORE = "macro_f1"
FIELDS = (
    "id",
    "text",
    "triples",
    "annotated_predicates",
    "subject",
    "predicate",
    "object",
    "weight",
    "probability",
)
RECORD = {
    "id": "1",
    "text": "Ada founded Zenco.",
    "triples": [{"subject": [0, 3], "predicate": "founded", "object": [12, 17]}],
}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


def triple(**changes) -> str:
    """Return a record whose triple is changed."""
    return record(triples=[{**RECORD["triples"][0], **changes}])


GOOD = record(id="0")
PLAIN = '{"id": "a", "text": "Ada"}\n'
PLAIN_REFUSED = 'line 1: the field "triples"'
# These are true of the whole file: their sentences name no line.
NOTHING_TO_LEARN = {"no triple": (record(triples=[]), "no training example has a triple")}
BROKEN_FILES = {
    "no text": (GOOD + record(text=None), 'line 2: the field "text" is missing: add it'),
    "no triples": (GOOD + record(triples=None), 'line 2: the field "triples" is missing'),
    "no predicate": (
        GOOD + record(triples=[{"subject": [0, 3], "object": [12, 17]}]),
        'line 2: the field "predicate" is missing',
    ),
    "span outside the text": (
        GOOD + triple(object=[12, 19]),
        'line 2: the span "object" [12, 19] is not inside the text of 18 characters',
    ),
    "predicate empty": (GOOD + triple(predicate=""), 'line 2: "predicate" is empty: write a name'),
    "span reversed": (triple(object=[17, 12]), 'line 1: the span "object" [17, 12] is not inside'),
    "span empty": (triple(object=[3, 3]), 'line 1: the span "object" [3, 3] is not inside'),
    "span not of integers": (
        triple(subject=[0.0, 3]),
        'line 1: "subject" must be [start, end], two whole numbers',
    ),
    "span a string": (triple(subject="Ada"), 'line 1: "subject" must be [start, end], two whole'),
    "triple a list": (record(triples=[[0, 3]]), "line 1: the triple [0, 3] must be"),
    "predicate not annotated": (
        record(annotated_predicates=["born_in"]),
        "line 1: the triple with predicate 'founded' is not among \"annotated_predicates\"",
    ),
    "annotated_predicates not a list": (
        record(annotated_predicates="founded"),
        'line 1: "annotated_predicates" must be a list of strings, or absent',
    ),
}
BAD_COMMANDS = {
    "records in a file of text": (
        "predict.py done sample/test.jsonl out.txt",
        "out.txt is to hold records: let its name end in .jsonl.",
    ),
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
}
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed."""
    records, wanted = (
        [json.loads(line) for line in path.open(encoding="utf-8")] for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record in records:
        for found in record["triples"]:
            for role in ("subject", "object"):
                assert record["text"][slice(*found[role])] == found[f"{role}_text"]
            assert 0 <= found["score"] <= 1

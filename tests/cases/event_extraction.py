"""What the tests of all tasks need to know of event extraction."""

import json
from pathlib import Path

# One window for each text of the sample: as many examples as records.
SMALL = {"pointer_size": 16, "max_length": 128, "window_overlap": 16}
DEV_SCORE = "argument_classification_f1"
# The score that CHANGING.md adds.
CHANGED_SCORE = "argument_text"
EVENT = {"type": "buy", "trigger": [4, 10], "arguments": [{"role": "buyer", "span": [0, 3]}]}
FIELDS = ("id", "text", "events", "type", "trigger", "arguments", "role", "span", "weight")
FIELDS += ("probability",)
RECORD = {"id": "1", "text": "Ada bought Zenco.", "events": [EVENT]}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


def event(**changes) -> str:
    """Return a record whose event is changed; "absent" takes a field away."""
    fields = {**EVENT, **changes}
    kept = {name: value for name, value in fields.items() if value != "absent"}
    return record(events=[kept])


def argument(**fields) -> str:
    """Return a record whose event has one argument of these fields."""
    return event(arguments=[fields])


GOOD = record(id="0")
PLAIN = '{"id": "a", "text": "Ada"}\n'
PLAIN_REFUSED = 'line 1: the field "events"'
NOTHING_TO_LEARN = {"no event": (record(events=[]), "no training example has an event")}
BROKEN_FILES = {
    "no text": (GOOD + record(text=None), 'line 2: the field "text" is missing: add it'),
    "no events": (GOOD + record(events=None), 'line 2: the field "events" is missing'),
    "events not a list": (record(events="buy"), "line 1: \"events\" must be a list, not 'buy'"),
    "event a string": (record(events=["buy"]), "line 1: the event 'buy' must be {"),
    "no type": (GOOD + event(type="absent"), 'line 2: the field "type" is missing'),
    "type a number": (event(type=3), 'line 1: "type" must be a string, not 3'),
    "type of blanks": (event(type=" \u3000"), 'line 1: "type" is empty: write a name.'),
    "no trigger": (GOOD + event(trigger="absent"), 'line 2: the field "trigger" is missing'),
    "role empty": (argument(role="", span=[0, 3]), 'line 1: "role" is empty: write a name.'),
    "no arguments": (event(arguments="absent"), 'line 1: the field "arguments" is missing'),
    "argument a list": (event(arguments=[[0, 3]]), "line 1: the argument [0, 3] must be {"),
    "no role": (GOOD + argument(span=[0, 3]), 'line 2: the field "role" is missing'),
    "no span": (argument(role="buyer"), 'line 1: the field "span" is missing'),
    "span outside the text": (
        GOOD + argument(role="buyer", span=[11, 19]),
        'line 2: the span "span" [11, 19] is not inside the text of 17 characters',
    ),
    "span empty": (
        argument(role="buyer", span=[3, 3]),
        'line 1: the span "span" [3, 3] is not inside',
    ),
    "span not of integers": (
        argument(role="buyer", span=[0.0, 3]),
        'line 1: "span" must be [start, end], two whole numbers',
    ),
    "trigger outside the text": (
        event(trigger=[4, 18]),
        'line 1: the span "trigger" [4, 18] is not inside the text of 17 characters',
    ),
    "trigger a string": (event(trigger="bought"), 'line 1: "trigger" must be [start, end]'),
    "event of nothing": (
        GOOD + event(trigger=None, arguments=[]),
        "line 2: the event of type 'buy' has neither a trigger nor an argument",
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
    "unknown model": ("train.py --model lstm", "--model = 'lstm'", "'gplinker' or 'crf'"),
    "unknown metric": ("train.py --metric f1", "--metric = 'f1'", "'trigger_classification'"),
}
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed."""
    records, wanted = (
        [json.loads(line) for line in path.open(encoding="utf-8")] for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record in records:
        for found in record["events"]:
            assert isinstance(found["type"], str) and (found["trigger"] or found["arguments"])
            if found["trigger"]:
                assert record["text"][slice(*found["trigger"])] == found["trigger_text"]
                assert 0 <= found["trigger_score"] <= 1
            for part in found["arguments"]:
                assert record["text"][slice(*part["span"])] == part["text"]
                assert 0 <= part["score"] <= 1

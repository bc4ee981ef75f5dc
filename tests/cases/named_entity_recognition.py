"""What the tests of all tasks need to know of named-entity recognition."""

import json
from pathlib import Path

# One window for each text of the sample: as many examples as records.
SMALL = {"pointer_size": 16, "max_length": 128, "window_overlap": 16}
DEV_SCORE = "f1"
# The score that CHANGING.md adds.
CHANGED_SCORE = "weighted_f1"
ENTITY = {"type": "person", "span": [0, 3]}
FIELDS = ("id", "text", "entities", "type", "span", "label", "start_offset", "end_offset")
FIELDS += (
    "labels",
    "data",
    "relations",
    "from_id",
    "to_id",
    "Comments",
    "comments",
    "meta",
    "weight",
)
FIELDS += ("probability",)
RECORD = {"id": "1", "text": "Ada bought Zenco.", "entities": [ENTITY]}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


def entity(**changes) -> str:
    """Return a record whose entity is changed; "absent" takes a field away."""
    fields = {**ENTITY, **changes}
    kept = {name: value for name, value in fields.items() if value != "absent"}
    return record(entities=[kept])


def label(*values) -> str:
    """Return a record as doccano exports it, with one label."""
    return record(entities=None, label=[[*values]])


def offsets(**fields) -> str:
    """Return a record of a doccano export with relations, with one entity."""
    return record(entities=[{"id": 7, "label": "person", **fields}], relations=[])


GOOD = record(id="0")
PLAIN = '{"id": "a", "text": "Ada"}\n'
PLAIN_REFUSED = 'line 1: the field "entities"'
NOTHING_TO_LEARN = {"no entity": (record(entities=[]), "no training example has an entity")}
BROKEN_FILES = {
    "no text": (GOOD + record(text=None), 'line 2: the field "text" is missing: add it'),
    "no entities": (GOOD + record(entities=None), 'line 2: the field "entities" is missing'),
    "entities not a list": (record(entities="Ada"), 'line 1: "entities" must be a list'),
    "entity a list": (record(entities=[[0, 3]]), "line 1: the entity [0, 3] must be {"),
    "no type": (GOOD + entity(type="absent"), 'line 2: the field "type" is missing'),
    "type a number": (entity(type=3), 'line 1: "type" must be a string, not 3'),
    "type empty": (GOOD + entity(type=""), 'line 2: "type" is empty: write a name.'),
    "label empty": (label(0, 3, " "), 'line 1: "type" is empty: write a name.'),
    "no span": (GOOD + entity(span="absent"), 'line 2: the field "span" is missing'),
    "span outside the text": (
        GOOD + entity(span=[11, 19]),
        'line 2: the span "span" [11, 19] is not inside the text of 17 characters',
    ),
    "span empty": (entity(span=[3, 3]), 'line 1: the span "span" [3, 3] is not inside'),
    "span reversed": (entity(span=[3, 0]), 'line 1: the span "span" [3, 0] is not inside'),
    "span not of integers": (
        entity(span=[0.0, 3]),
        'line 1: "span" must be [start, end], two whole numbers',
    ),
    "several pieces": (
        GOOD + entity(span=[[0, 3], [11, 16]]),
        'line 2: "span" is [[0, 3], [11, 16]]: an entity of several pieces is not possible',
    ),
    "label without a type": (label(0, 3), 'line 1: the label [0, 3] must be [start, end, "type"]'),
    "label outside the text": (
        GOOD + label(11, 19, "company"),
        'line 2: the span "label" [11, 19] is not inside the text of 17 characters',
    ),
    "labels not a list": (record(entities=None, label="Ada"), 'line 1: "label" must be a list'),
    "no end_offset": (offsets(start_offset=0), 'line 1: the field "end_offset" is missing'),
    "offsets outside the text": (
        offsets(start_offset=11, end_offset=19),
        'line 1: the span "start_offset" [11, 19] is not inside',
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
    "unknown tagger": ("train.py --tagger lstm", "--tagger = 'lstm'", "'pointer' or 'crf'"),
    "unknown scheme": ("train.py --conll.scheme bioe", "--conll.scheme = 'bioe'", "'bioes'"),
    "column of no counting": (
        "train.py --conll.tag_column 0",
        "columns are counted from 1, or from -1",
    ),
    "beta of nothing": ("train.py --beta 0", "--beta = '0'", "greater than 0"),
}
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed."""
    records, wanted = (
        [json.loads(line) for line in path.open(encoding="utf-8")] for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record in records:
        for found in record["entities"]:
            assert record["text"][slice(*found["span"])] == found["text"]
            assert isinstance(found["type"], str) and 0 <= found["score"] <= 1

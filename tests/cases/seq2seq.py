"""What the tests of all tasks need to know of seq2seq."""

import json
from pathlib import Path

SMALL = {"target_length": 24, "generation.beams": 2}
DEV_SCORE = "bleu"
# The score that CHANGING.md adds.
CHANGED_SCORE = "ROUGE mean"
FIELDS = ("id", "source", "targets", "weight")
RECORD = {"id": "1", "source": "town: Zenby; sky: fog", "targets": ["There is fog in Zenby."]}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


GOOD = record(id="0")
PLAIN = '{"id": "a", "source": "town: Zenby"}\n'
PLAIN_REFUSED = 'line 1: the field "targets"'
NOTHING_TO_LEARN = {}  # a record without targets is refused by itself
BROKEN_FILES = {
    "no source": (GOOD + record(source=None), 'line 2: the field "source" is missing: add it'),
    "no targets": (GOOD + record(targets=None), 'line 2: the field "targets" is missing: add it'),
    "source a list": (record(source=["fog"]), "line 1: \"source\" must be a string, not ['fog']"),
    "source empty": (GOOD + record(source=" \n"), 'line 2: "source" is empty: write the text'),
    "targets a string": (record(targets="fog"), "line 1: \"targets\" must be a list, not 'fog'"),
    "targets empty": (GOOD + record(targets=[]), 'line 2: "targets" is empty: give at least one'),
    "target a number": (record(targets=["fog", 3]), '"targets" must be a list of strings', "3"),
    "target empty": (record(targets=["fog", ""]), 'line 1: "targets" holds an empty text'),
    "id of a wrong type": (
        record(id=[1]),
        'line 1: "id" must be a string or a whole number, not [1]',
    ),
}
BAD_COMMANDS = {
    "unknown model": ("train.py --model lstm", "--model = 'lstm'", "'unilm', 'encoder_decoder' or"),
    "no beams": ("train.py --generation.beams 0", "--generation.beams = '0'", "greater than"),
    "unknown metric": ("train.py --metric f1", "--metric = 'f1'", "'exact_match'"),
    "target of one token": ("train.py --target_length 1", "--target_length = '1'", "greater than"),
    "more texts than beams": (
        "predict.py done sample/test.jsonl out.jsonl --n_best 3 --beams 2",
        "n_best = 3, but a search with beams = 2 has no more texts: raise beams, lower n_best",
    ),
    "impossible top_p": ("predict.py done plain.jsonl out.jsonl --top_p 2", "--top_p = '2'"),
}
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed."""
    records, wanted = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record in records:
        assert set(record) == {"id", "prediction", "score"}
        assert isinstance(record["prediction"], str) and record["score"] <= 0
    # A model that was trained writes something, and not the same for every record.
    assert len({record["prediction"] for record in records}) > 1

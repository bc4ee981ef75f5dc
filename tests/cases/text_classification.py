"""What the tests of all tasks need to know of text classification."""

import json
from pathlib import Path

# The classical model has tests of its own.
SMALL = {"floor": False}
DEV_SCORE = "accuracy"
# The score that CHANGING.md adds.
CHANGED_SCORE = "balanced_accuracy"
FIELDS = ("id", "context", "text_a", "text_b", "label", "labels", "group", "fold_group")
FIELDS += ("target", "weight")
RECORD = {"id": "1", "text_a": "Please book the room.", "label": "book"}


def record(**changes) -> str:
    """Return a good record as a line, but for some fields; None takes a field away."""
    fields = {**RECORD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}) + "\n"


GOOD = record(id="0", label="cancel")
PLAIN = '{"id": "a", "text_a": "Ada"}\n'
PLAIN_REFUSED = 'line 1: the field "label" is missing'
NOTHING_TO_LEARN = {
    "one label": (record(), "every training example has the label 'book'"),
    "rank by which label": (
        "".join(record(id=n, label=n, group="q") for n in "abc"),
        "the records have groups to rank, and 3 labels: say with positive_label",
    ),
    "labels that all have": (
        record(label=None, labels=["a", "b"]) + record(id="2", label=None, labels=["b", "a"]),
        "every training example has the label 'a', 'b': there is nothing to learn",
    ),
    "no record with any label": (
        record(label=None, labels=[]),
        "every training example has no label: there is nothing to learn",
    ),
}
BROKEN_FILES = {
    "no text": (GOOD + record(text_a=None), 'line 2: the field "text_a" is missing: add it'),
    "text a list": (record(text_a=["a"]), "line 1: \"text_a\" must be a string, not ['a']"),
    "second text a number": (record(text_b=1), 'line 1: "text_b" must be a string, not 1'),
    "no label": (GOOD + record(label=None), 'line 2: the field "label" is missing: add it'),
    "label a list": (record(label=["a"]), 'line 1: "label" must be a string or a whole number'),
    "label with a fraction": (
        record(label=1.5),
        'line 1: "label" must be a string or a whole number, not 1.5',
    ),
    "label empty": (record(label=""), "line 1: a label is empty: give it a name"),
    "labels a string": (record(label=None, labels="a"), 'line 1: "labels" must be a list'),
    "labels of lists": (
        record(label=None, labels=[["a"]]),
        'line 1: "labels" must be a list of strings or numbers',
    ),
    "label and labels": (record(labels=["a"]), 'line 1: the record has both "label" and "labels"'),
    "labels after label": (
        GOOD + record(label=None, labels=["a"]),
        'line 2: the record has "labels", but line 1 has "label": write "labels" in every record',
    ),
    "group of a wrong type": (
        record(group=[1]),
        'line 1: "group" must be a string or a whole number',
    ),
    "group in one record only": (
        GOOD + record(group="q1"),
        'line 2: the record has a "group", but line 1 has none: give it to all records',
    ),
    "pair among single texts": (
        GOOD + record(text_b="Thanks."),
        'line 2: the record has a "text_b", but line 1 has none: give it to all records',
    ),
}
BAD_COMMANDS = {
    "records in a file of text": (
        "predict.py done sample/test.jsonl out.txt",
        "out.txt is to hold records or a table: let it end in .jsonl or .csv.",
    ),
    "run without a threshold": (
        "predict.py unscored sample/test.jsonl out.jsonl",
        "has no threshold in scores.json",
    ),
    "run with a threshold of text": (
        "predict.py textual sample/test.jsonl out.jsonl",
        "has no threshold in scores.json",
    ),
    "positive label that is none": (
        "train.py --positive_label yes",
        "positive_label = 'yes', but no training example has it: the labels are ",
    ),
    "ranking score without groups": (
        "train.py --metric map",
        "metric = 'map' needs records with a \"group\": give it, or set metric",
    ),
    "F1 without a positive label": ("train.py --metric f1", "metric = 'f1' needs a positive_label"),
    "the floor's own folder": (
        "train.py --run_name floor",
        "runs/floor is the classical model's: choose another name",
    ),
    "number without its table": (
        "train.py --output number",
        'line 1: the field "target" is missing: add it to the record',
    ),
    "class weights of numbers": (
        "train.py --output number --class_weights balanced",
        "class_weights and label_smoothing are of labels",
    ),
    "class weight of a label that is none": (
        'train.py --class_weights {"book":2,"spam":3}',
        "class_weights names 'spam', which no training example has: write the label as the",
    ),
    "class weight below 0": (
        'train.py --class_weights {"book":-2}',
        """--class_weights = '{"book":-2}'""",
        "'book' weighs -2: give it a number above 0",
    ),
    "class weight that is not finite": (
        'train.py --class_weights {"book":NaN}',
        "'book' weighs nan: give it a number above 0",
    ),
    "class weights that are a word": (
        "train.py --class_weights often",
        'choose "none", "balanced", or weights by label: { spam = 2.0 }',
    ),
    "score of numbers for labels": (
        "train.py --metric rmse",
        "metric = 'rmse' is of numbers: set output = 'number', or metric = 'auto'",
    ),
    "table that is broken": (
        "train.py --train_file config.toml.csv",
        "config.toml.csv is not a file",
    ),
    "share of everything": (
        "split.py sample/dev.jsonl --share 1",
        "--share 1: hold out more than 0",
    ),
    "unknown pooling": ("train.py --pooling max", "--pooling = 'max'", "'auto', 'cls', 'mean'"),
    "classical model without data": ("train_floor.py --train_file no.jsonl", "is not a file"),
}
SUBMISSION_SUFFIX = ".jsonl"


def check_submission(out: Path, source: Path) -> None:
    """Assert that a submission is well-formed."""
    records, wanted = (
        [json.loads(line) for line in path.open(encoding="utf-8")] for path in (out, source)
    )
    assert [record["id"] for record in records] == [record["id"] for record in wanted]
    for record in records:
        probabilities = record["probabilities"]
        assert abs(sum(probabilities.values()) - 1) < 1e-4
        assert record["score"] == probabilities[record["label"]] == max(probabilities.values())

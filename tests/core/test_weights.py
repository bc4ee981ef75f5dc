"""The weight of a record multiplies its loss, whatever the task."""

import json

import pytest
from conftest import ROOT
from projects import TASKS, bake_project, flags, run, shorten

WORKER = ROOT / "tests" / "weights_worker.py"

pytestmark = pytest.mark.trains


@pytest.mark.shown("relation_extraction", "classification", "seq2seq")
@pytest.mark.shown(
    "relation_extraction", "named_entity_recognition", "text_classification", "seq2seq"
)
@pytest.mark.parametrize("template", TASKS)
def test_gradients_are_those_of_single_examples_times_their_weights(template, tmp_path):
    project = bake_project(template, tmp_path, "none")
    shorten(project, {"train": 24, "dev": 8})
    path = project / "sample" / "train.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, record in enumerate(records):
        record |= [{}, {"weight": 0}, {"weight": 2.5}, {"weight": 0.25}][number % 4]
    path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    plain = {"dropout": 0, "batch_size": 8, "buckets": 1}
    done = run(WORKER, project, *flags(project, **plain), cwd=tmp_path)
    assert "checked 8 examples" in done.stdout

"""extras/distillation: pseudo-labels, soft targets, more files, a second stage."""

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from conftest import use_template
from project_process import Done, ProjectProcess
from projects import TASKS, bake_project, check_records, flags, further, shorten, template_of

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from extras.distillation.added_files import refuse_unknown_labels, weighed  # noqa: E402
from extras.distillation.pseudo_labels import (  # noqa: E402
    is_empty,
    label_record,
    record_of,
    soften,
)  # noqa: E402
from extras.distillation.soft_labels import read_soft_labels  # noqa: E402
from extras.distillation.teachers import refuse_gold, refuse_teacher  # noqa: E402
from task.model import SigmoidLoss, SoftmaxLoss  # noqa: E402
from task.records import Example, Labels, read_labelled  # noqa: E402

LABEL = "extras/distillation/label.py"
STEPS = {"steps": 2, "epochs": 1, "shown_examples": 0}


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, records: list[dict]) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module", params=further(TASKS, "text_classification"))
def process(request, tmp_path_factory):
    """A process of a project with a run `teacher`, and test files without gold."""
    project = bake_project(request.param, tmp_path_factory.mktemp("project"))
    shorten(project, {"train": 48, "dev": 12, "test": 20})
    process = ProjectProcess(project)
    succeeds(process, "train.py", *flags(project, run_name="teacher", **STEPS))
    yield process
    process.stop()


def succeeds(process: ProjectProcess, *command) -> Done:
    done = process.run(*command)
    assert done.code == 0, f"{done.out}\n{done.err}"
    return done


def settings_of(process: ProjectProcess, **changes) -> list[str]:
    texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in changes.items()}
    asked = {f"distillation.{name}": text for name, text in texts.items()}
    return flags(process.project, **STEPS, **asked)


@pytest.mark.parametrize("temperature", [0.5, 2.0, 3.0])
def test_a_temperature_divides_the_logits(temperature):
    logits = np.array([2.0, -1.0, 0.5])
    names = ["a", "b", "c"]

    def shares(values: np.ndarray) -> dict[str, float]:
        return dict(zip(names, values.tolist(), strict=True))

    softmax, sigmoid = (lambda x: np.exp(x) / np.exp(x).sum()), (lambda x: 1 / (1 + np.exp(-x)))
    one = {"label": "a", "probabilities": shares(softmax(logits))}
    labelled, sure = label_record({"id": "1"}, one, False, temperature)
    assert labelled["label"] == pytest.approx(shares(softmax(logits / temperature)))
    assert sure == pytest.approx(softmax(logits).max())
    several = {"labels": ["a"], "probabilities": shares(sigmoid(logits))}
    labelled, _ = label_record({"id": "1"}, several, False, temperature)
    assert labelled["labels"] == pytest.approx(shares(sigmoid(logits / temperature)))
    assert label_record({"id": "1"}, one, True, temperature)[0]["label"] == "a"


@pytest.mark.trains
def test_a_student_learns_what_a_teacher_wrote(process, tmp_path):
    """From the commands of the README: label, check, train; then a second stage."""
    project, out = process.project, tmp_path / "pseudo.jsonl"
    done = succeeds(process, LABEL, "teacher", "sample/test.jsonl", out, "--weigh")
    assert "predictions.jsonl" not in done.out
    records = read(out)
    assert f"{len(records)} records to learn from" in done.out and len(records) == 20
    note = json.loads((tmp_path / "pseudo.jsonl.teachers.json").read_text(encoding="utf-8"))
    assert [teacher["run"] for teacher in note["teachers"]] == ["teacher"]

    asked = settings_of(process, files=[str(out)], weights=[0.5])
    # No error about texts that are in test_file, too: it is what competitions ask for.
    check = process.run(check_records(project), *asked, "--test_file", "none.jsonl")
    assert "Traceback" not in check.err and "pseudo.jsonl" in check.out, check.err
    done = succeeds(process, "train.py", *asked, "--run_name", "student")
    assert "20 more records to learn from, of weight 0.5" in done.out
    config = json.loads((project / "runs" / "student" / "config.json").read_text("utf-8"))
    assert config["distillation.files_hash"].startswith("sha256:")

    second = settings_of(process, init_from="student")
    still = ("--learning_rate", "1e-12", "--head_learning_rate", "1e-12", "--run_name", "second")
    done = succeeds(process, "train.py", *second, *still)
    assert "the training starts from the weights of student\n" in done.out
    scores = [
        json.loads((project / "runs" / name / "scores.json").read_text("utf-8"))["dev"]
        for name in ("student", "second")
    ]
    refused = process.run("train.py", *settings_of(process, init_from="x"), "--run_name", "third")
    assert refused.code == 1 and "x is not a run" in refused.err
    assert not (project / "runs" / "third").exists()
    numbers = [{k: v for k, v in own.items() if isinstance(v, float)} for own in scores]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)


@pytest.mark.trains
def test_check_compares_replicas_with_more_to_learn_from(process, tmp_path):
    """The model is checked too, although no run is there yet."""
    if template_of(process.project) not in ("text_classification", "relation_extraction"):
        pytest.skip("the same code for other tasks")
    out = tmp_path / "pseudo.jsonl"
    succeeds(process, LABEL, "teacher", "sample/test.jsonl", out)
    asked = settings_of(process, files=[str(out)], init_from="teacher")
    done = process.run("check.py", *asked, "--test_file", "none.jsonl", "--run_name", "new")
    assert "an update failed" not in done.out + done.err, done.out + done.err
    assert "replicas" in done.out and "Traceback" not in done.err
    assert not (process.project / "runs/new").exists()


@pytest.mark.trains
def test_a_teacher_that_knows_the_dev_file_is_refused(process, tmp_path):
    """Also one of a cross-validation, which knows what another fold holds out."""
    out = tmp_path / "pseudo.jsonl"
    succeeds(process, LABEL, "teacher", "sample/test.jsonl", out)
    asked = settings_of(process, files=[str(out)])
    refused = process.run("train.py", *asked, "--dev_file", "sample/train.jsonl", "--run_name", "x")
    assert refused.code == 1 and "was labelled by teacher, which learned from" in refused.err
    assert not (process.project / "runs" / "x").exists()
    crossing = (*asked, "--run_name", "y", "--folds.count", "2")
    refused = process.run("extras/folds/cross_validate.py", *crossing)
    assert refused.code == 1 and "fold 1 holds out: the score would be too good" in refused.err
    write(out, read(out)[1:])
    refused = process.run("train.py", *asked, "--run_name", "x")
    assert refused.code == 1 and "pseudo.jsonl has changed since" in refused.err


@pytest.mark.further
@pytest.mark.trains
def test_each_fold_has_a_teacher_of_its_own(process, tmp_path):
    project, folds = process.project, "extras/folds/cross_validate.py"
    if template_of(project) not in ("text_classification", "relation_extraction"):
        pytest.skip("the same code of folds and files as for other tasks")
    two = ("--folds.count", "2")
    succeeds(process, folds, *flags(project, run_name="teachers", **STEPS), *two)
    out = tmp_path / "pseudo"
    succeeds(process, LABEL, "runs/teachers", "sample/test.jsonl", out)
    assert sorted(p.name for p in out.glob("*.jsonl")) == ["fold_1.jsonl", "fold_2.jsonl"]
    asked = (*settings_of(process, files=[str(out)], init_from="teachers"), *two)
    done = succeeds(process, folds, *asked, "--run_name", "students")
    assert done.out.count("20 more records to learn from") == 2
    # Each fold starts from the one that never saw what it holds out.
    assert done.out.count("the training starts from the weights of teachers\n") == 2
    asked = (*settings_of(process, init_from="teacher"), *two)
    refused = process.run(folds, *asked, "--run_name", "z")
    assert refused.code == 1 and "which learned from records that fold 1 holds out" in refused.err
    asked = (*settings_of(process, files=["sample/train.jsonl"]), *two)
    refused = process.run(folds, *asked, "--run_name", "z")
    assert refused.code == 1 and "records that fold 1 holds out: the score would be" in refused.err
    refused = process.run("train.py", *settings_of(process, files=[str(out)]), "--run_name", "z")
    assert refused.code == 1 and "a folder with a file for each fold" in refused.err
    # Other tokens: the corrected command may have the same name.
    other = {"distillation.init_from": "teachers", "tiny_vocabulary": 100}
    refused = process.run(folds, *flags(project, **STEPS, **other), *two, "--run_name", "y")
    assert refused.code == 1 and "reads other tokens" in refused.err
    assert not (project / "runs/y/config.json").exists()
    # The file of one fold, learned by the others: its teacher saw what they hold out.
    own = (*settings_of(process, files=[str(out / "fold_2.jsonl")]), *two)
    refused = process.run(folds, *own, "--run_name", "z")
    assert refused.code == 1 and "teachers/fold_2, which learned from records" in refused.err


@pytest.mark.trains
def test_a_table_is_labelled_by_the_columns_of_the_run(process, tmp_path):
    """The columns have names that only the run's settings know."""
    project = process.project
    if template_of(project) != "text_classification":
        pytest.skip("one task reads tables")
    texts = [record["text_a"] for record in read(project / "sample" / "train.jsonl")]
    rows = [[number, text, "ab"[number % 2]] for number, text in enumerate(texts)]
    parts = {"train": rows[:24], "dev": rows[24:32], "test": [row[:2] for row in rows[32:]]}
    for name, part in parts.items():
        header = ["row", "words", "kind"][: len(part[0])]
        with open(tmp_path / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *part])
    train, dev, out = (tmp_path / name for name in ("train.csv", "dev.csv", "pseudo.jsonl"))
    columns = {"id_column": "row", "text_column": "words", "label_column": "kind"}
    named = [p for n, v in columns.items() for p in (f"--competition.{n}", v)]
    asked = (*named, "--train_file", train, "--dev_file", dev)
    succeeds(process, "train.py", *flags(project, run_name="table", **STEPS), *asked)
    succeeds(process, LABEL, "table", tmp_path / "test.csv", out)
    labelled = read(out)
    assert [record["text_a"] for record in labelled] == texts[32:]
    assert all(sum(record["label"].values()) == pytest.approx(1) for record in labelled)
    done = succeeds(
        process,
        "train.py",
        *settings_of(process, files=[str(out)]),
        *asked,
        "--run_name",
        "of_table",
    )
    assert f"{len(labelled)} more records to learn from" in done.out


@pytest.mark.trains
def test_a_second_stage_with_other_labels_takes_the_encoder(process, tmp_path):
    """The weights of the encoder after a step without a learning rate are those of the teacher."""
    project = process.project
    if template_of(project) != "text_classification":
        pytest.skip("the labels of one task show what holds for all")
    records = read(project / "sample" / "train.jsonl")
    for record in records:
        record["label"] = "new" if record["label"] == records[0]["label"] else "old"
    path = tmp_path / "train.jsonl"
    write(path, records)
    asked = (*settings_of(process, init_from="teacher"), "--train_file", path, "--dev_file", path)
    still = ("--learning_rate", "1e-12", "--run_name", "other")
    done = succeeds(process, "train.py", *asked, *still)
    assert "weights of teacher, but for the head" in done.out
    found = [weights_of(project / "runs" / name) for name in ("teacher", "other")]
    encoder = [name for name in found[0] if "encoder" in name and found[0][name].size > 1]
    assert len(encoder) > 10
    for name in encoder:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-6)


@pytest.mark.further
@pytest.mark.trains
def test_what_a_teacher_saw_is_known_after_two_stages(process, tmp_path):
    """A learned from dev, B started from A and C from B; pseudo-labels of B tell it, too."""
    project = process.project
    if template_of(project) != "text_classification":
        pytest.skip("the same code for other tasks")
    other = tmp_path / "other.jsonl"
    write(other, read(project / "sample" / "train.jsonl")[:12])
    dev = ("--train_file", "sample/dev.jsonl", "--dev_file", other)
    # The tokens of `tiny` are those of its training file.
    succeeds(process, "extras/export/export.py", "teacher", tmp_path / "export")
    named = ("--encoder", tmp_path / "export" / "encoder")
    succeeds(process, "train.py", *flags(project, run_name="saw_dev", **STEPS), *named, *dev)
    asked = (*settings_of(process, init_from="saw_dev"), *named, "--dev_file", other)
    succeeds(process, "train.py", *asked, "--run_name", "between")
    asked = (*settings_of(process, init_from="between"), *named)
    refused = process.run("train.py", *asked, "--run_name", "late")
    assert refused.code == 1, refused.out
    assert "between, which learned from saw_dev, which learned from records that" in refused.err
    out = tmp_path / "pseudo.jsonl"
    succeeds(process, LABEL, "between", "sample/test.jsonl", out)
    asked = (*settings_of(process, files=[str(out)]), *named)
    refused = process.run("train.py", *asked, "--run_name", "late")
    assert "labelled by between, which learned from saw_dev, which learned" in refused.err
    assert not (project / "runs/late").exists()


@pytest.mark.trains
def test_a_source_that_can_not_be_taken_over_is_refused(process, tmp_path):
    project, runs = process.project, process.project / "runs"
    if template_of(project) != "text_classification":
        pytest.skip("the same code for other tasks")
    weights = {path: path.read_bytes() for path in (runs / "teacher").rglob("*.h5")}
    asked = (*settings_of(process, init_from="teacher"), "--overwrite", "true")
    refused = process.run("train.py", *asked, "--run_name", "teacher")
    assert refused.code == 1 and "teacher is the run that is trained" in refused.err
    asked = (*settings_of(process, init_from="runs/teacher"), "--overwrite", "true")
    refused = process.run("train.py", *asked, "--run_name", "teacher")
    assert refused.code == 1 and "teacher is the run that is trained" in refused.err
    assert weights == {path: path.read_bytes() for path in weights}

    def copy(name: str, **changes: object) -> Path:
        shutil.copytree(runs / "teacher", runs / name)
        if changes:
            config = json.loads((runs / name / "config.json").read_text(encoding="utf-8"))
            for table, values in changes.items():
                config.setdefault(table, {}).update(values)
            (runs / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
            (runs / name / "manifest.json").unlink()
        return runs / name / "best.weights.h5"

    def refusal(name: str, *more: str) -> str:
        done = process.run(
            "train.py", *settings_of(process, init_from=name), *more, "--run_name", f"of_{name}"
        )
        assert done.code == 1 and "Traceback" not in done.err, done.err
        return done.err

    copy("updates", lora={"rank": 4})
    assert "was trained with lora or used_rows, and its file does not hold" in refusal("updates")
    path = copy("damaged")
    path.write_bytes(path.read_bytes()[:2000])
    assert "best.weights.h5 is missing, damaged or swapped" in refusal("damaged")
    path = copy("moved")
    with h5py.File(path, "a") as file:
        layers = file["layers"]
        [encoder] = [name for name in layers if "bert" in name or "encoder" in name]
        layers.move(encoder, "elsewhere")
    (path.parent / "manifest.json").unlink()
    assert "moved has a model of another shape" in refusal("moved")
    records = read(project / "sample" / "train.jsonl")
    for record in records:
        record["label"] = f"new {record['label']}"
    write(tmp_path / "train.jsonl", records)
    files = (
        "--train_file",
        str(tmp_path / "train.jsonl"),
        "--dev_file",
        str(tmp_path / "train.jsonl"),
    )
    # The refused training has left no run that another command could not overwrite.
    assert "moved has its encoder in another place of its model" in refusal("moved", *files)
    assert not (runs / "of_moved/config.json").exists()


def weights_of(run: Path) -> dict[str, np.ndarray]:
    """Return the best weights of a run by their names in the file."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(run / "best.weights.h5") as file:
        file.visititems(keep)
    return found


SOFT = {
    "one label": ({"label": {"a": 0.7, "b": 0.3}}, ["a"], (("a", 0.7), ("b", 0.3))),
    "rounded": ({"label": {"a": 0.3333, "b": 0.6667}}, ["b"], (("a", 0.3333), ("b", 0.6667))),
    "several": ({"labels": {"a": 0.9, "b": 0.5, "c": 0.1}}, ["a", "b"], None),
    "none of several": ({"labels": {"a": 0.1}}, [], (("a", 0.1),)),
}


@pytest.mark.parametrize("name", SOFT)
def test_probabilities_are_read(name):
    record, labels, probabilities = SOFT[name]
    found = read_soft_labels(record, "labels" in record)
    assert found[0] == labels
    assert dict(found[1]) == pytest.approx(dict(probabilities or record["labels"]))


BAD = {
    "sum": ({"label": {"a": 0.7, "b": 0.7}}, 'of "label" add up to 1.4: divide each by that'),
    "nothing": ({"label": {}}, '"label" must give each label a probability from 0 to 1'),
    "negative": ({"labels": {"a": -0.1}}, '"labels" must give each label a probability'),
    "above": ({"labels": {"a": 1.5}}, "probability from 0 to 1, not"),
    "text": ({"label": {"a": "1"}}, "probability from 0 to 1, not"),
    "true": ({"labels": {"a": True}}, "probability from 0 to 1, not"),
    "no number": ({"label": {"a": float("nan")}}, "probability from 0 to 1, not"),
    "no name": ({"label": {"": 1.0}}, "probability from 0 to 1, not"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_probabilities_are_one_sentence(name):
    record, words = BAD[name]
    with pytest.raises(InputError) as error:
        read_soft_labels(record, "labels" in record)
    assert words in str(error.value)


def make_example(**given) -> Example:
    return read_labelled({"id": 1, "text_a": "x", **given}, 1, True)


def test_losses_of_soft_targets_are_cross_entropies():
    """Against the formulas, in float64."""
    names, rows = ("a", "b", "c"), [[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]
    logits = np.array([[0.3, -1.2, 2.0], [1.5, 0.1, -0.4]])
    for several, loss in ((False, SoftmaxLoss()), (True, SigmoidLoss())):
        field = "labels" if several else "label"
        examples = [make_example(**{field: dict(zip(names, row, strict=True))}) for row in rows]
        labels = Labels(names, several, None, (1, 1, 1), 2, False)
        targets = labels.targets(examples)
        np.testing.assert_allclose(targets, rows, atol=1e-6)
        shares = np.array(rows)
        if several:
            p = 1 / (1 + np.exp(-logits))
            expected = -(shares * np.log(p) + (1 - shares) * np.log(1 - p)).sum(axis=-1)
        else:
            expected = -(shares * (logits - np.log(np.exp(logits).sum(-1, keepdims=True)))).sum(-1)
        np.testing.assert_allclose(loss(logits.astype("float32"), targets), expected, rtol=1e-5)


PREDICTED = {
    "triples": (
        {
            "text": "t",
            "triples": [
                {"subject": [0, 1], "predicate": "p", "object": [2, 3], "score": 0.9},
                {"subject": [0, 1], "predicate": "q", "object": [2, 3], "score": 0.6},
            ],
        },
        {
            "triples": [
                {"subject": [0, 1], "predicate": "p", "object": [2, 3], "probability": 0.9},
                {"subject": [0, 1], "predicate": "q", "object": [2, 3], "probability": 0.6},
            ]
        },
        0.6,
    ),
    "nothing found": ({"entities": []}, {"entities": []}, None),
    "tags": (
        {"entities": [{"type": "e", "span": [0, 1], "text": "a", "score": 1.0}]},
        {"entities": [{"type": "e", "span": [0, 1]}]},
        1.0,
    ),
    "events": (
        {
            "events": [
                {
                    "type": "e",
                    "trigger": [0, 1],
                    "trigger_text": "a",
                    "trigger_score": 0.8,
                    "arguments": [{"role": "r", "span": [2, 3], "text": "c", "score": 0.7}],
                }
            ]
        },
        {
            "events": [
                {
                    "type": "e",
                    "trigger": [0, 1],
                    "arguments": [{"role": "r", "span": [2, 3], "probability": 0.7}],
                    "probability": 0.8,
                }
            ]
        },
        0.7,
    ),
    "answer": ({"answer": [0, 3], "score": 0.98, "n_best": []}, {"answers": [[0, 3]]}, 0.98),
    "no answer": ({"answer": None, "score": 0.2, "n_best": []}, {"answers": []}, 0.8),
    "sure argument": (
        {
            "events": [
                {
                    "type": "e",
                    "trigger": [0, 1],
                    "trigger_text": "a",
                    "trigger_score": 0.6,
                    "arguments": [{"role": "r", "span": [2, 3], "text": "c", "score": 1.0}],
                }
            ]
        },
        {
            "events": [
                {
                    "type": "e",
                    "trigger": [0, 1],
                    "arguments": [{"role": "r", "span": [2, 3], "probability": 1.0}],
                    "probability": 0.6,
                }
            ]
        },
        0.6,
    ),
    "text": ({"prediction": "hi", "score": np.log(0.25)}, {"targets": ["hi"]}, 0.25),
    "label": (
        {"label": "a", "probabilities": {"a": 0.75, "b": 0.25}},
        {"label": {"a": 0.75, "b": 0.25}},
        0.75,
    ),
    "labels": (
        {"labels": ["a"], "probabilities": {"a": 0.75, "b": 0.1}},
        {"labels": {"a": 0.75, "b": 0.1}},
        0.75,
    ),
    "numbers": ({"targets": {"grade": 2.5}}, {"grade": 2.5}, None),
}


@pytest.mark.parametrize("name", PREDICTED)
def test_predictions_become_gold(name):
    prediction, gold, sure = PREDICTED[name]
    labelled, found = label_record({"id": 7, "text": "abc"}, {"id": 7, **prediction}, False)
    assert labelled == {"id": 7, "text": "abc", **gold}
    assert found == pytest.approx(sure) if sure else found is None


def test_records_of_tables_and_of_writers_can_be_learned():
    one = SimpleNamespace(id=3, text_a="", text_b="b", group=None)
    assert record_of(one) == {"id": 3, "text_a": "", "text_b": "b"}
    written = [{"targets": [""]}, {"targets": [" "]}, {"targets": ["a"]}, {"targets": {"a": 1}}]
    assert [*map(is_empty, [*written, {"label": "x"}])] == [True, True, False, False, False]


def test_a_hard_label_is_as_sure_as_its_own_probability():
    """With a tuned threshold the label need not be the likeliest."""
    one = {"label": "spam", "probabilities": {"spam": 0.3, "ham": 0.7}}
    assert label_record({"id": 7}, one, True)[1] == 0.3
    several = {"labels": ["a"], "probabilities": {"a": 0.05, "b": 0.3}}
    assert label_record({"id": 7}, several, True)[1] == 0.05
    assert label_record({"id": 7}, {**several, "labels": ["b"]}, True)[1] == 0.3


@pytest.mark.parametrize("prediction", [{"targets": {"grade": 2.5}}, {"targets": {"a": 1.0}}])
def test_numbers_are_neither_hard_nor_softened(prediction):
    for hard, temperature in ((True, 1.0), (False, 2.0)):
        with pytest.raises(InputError, match="these runs predict numbers: leave it out"):
            label_record({"id": 7}, prediction, hard, temperature)


@pytest.mark.parametrize("exclusive", [True, False])
def test_no_temperature_divides_by_nothing(exclusive):
    assert soften({"a": 0.6, "b": 0.4}, 1e-4, exclusive) == {"a": 1.0, "b": 0.0}


def gold(number, text="", group=None):
    return Example(number, text or f"text {number}", None, ("a",), False, group, 1)


def test_gold_of_scored_records_is_no_gold_to_learn_from(capsys):
    scored, config = [gold(number) for number in range(10)], {"dev_hash": "d"}
    refuse_gold(Path("a.jsonl"), [gold(11)], scored, config)
    assert capsys.readouterr().out == ""
    refuse_gold(Path("a.jsonl"), [gold(11), gold(12, " TEXT  3")], scored, config)
    assert "a.jsonl has 1 of the 10 records that dev_file has" in capsys.readouterr().out
    with pytest.raises(InputError, match="has 5 of the 10 records that fold 2 holds out"):
        refuse_gold(Path("a.jsonl"), scored[:5], scored, {"fold": 2, "train_hash": "t"})


TEACHER = {
    "run": "x",
    "train_hash": "t",
    "fold": 1,
    "folds.count": 5,
    "seed": 1,
    "output": "labels",
}
OF_FOLD = {**TEACHER, "dev_hash": "t"}
OF_DEV = {"dev_hash": "d"}


@pytest.mark.parametrize(
    ("teacher", "training", "saw"),
    [
        ({"train_hash": "t"}, {"dev_hash": "d"}, False),
        ({"train_hash": "d"}, {"dev_hash": "d"}, True),
        ({"train_hash": "t", "added_hashes": ["d"]}, {"dev_hash": "d"}, True),
        (TEACHER, OF_FOLD, False),
        ({**TEACHER, "fold": 2}, OF_FOLD, True),
        ({**TEACHER, "seed": 2}, OF_FOLD, True),
        ({**TEACHER, "competition.fold_group_column": "author"}, OF_FOLD, True),
        ({"train_hash": "t"}, OF_FOLD, True),
        ({"train_hash": "other"}, OF_FOLD, False),
        ({"train_hash": "other", "added_hashes": ["t"]}, OF_FOLD, True),
        ({"train_hash": "t", "ancestors": [{"run": "a", "train_hash": "o"}]}, OF_DEV, False),
        ({"train_hash": "t", "ancestors": [{"run": "a", "train_hash": "d"}]}, OF_DEV, True),
        ({"train_hash": "t", "ancestors": [{"run": "a", "added_hashes": ["d"]}]}, OF_DEV, True),
    ],
)
def test_a_run_that_saw_what_is_scored_teaches_nothing(teacher, training, saw):
    if not saw:
        refuse_teacher(teacher, training, "it", "another way")
        return
    with pytest.raises(InputError, match="it, (which learned from a, )?which learned from records"):
        refuse_teacher(teacher, training, "it", "another way")


def test_groups_of_two_files_stay_apart():
    """Files may number their questions alike; the weight of a record counts too."""
    one, other = (weighed(gold(1, group="0"), 0.5, name) for name in ("a.csv", "b.csv"))
    assert len({one.group, other.group, "0"}) == 3 and one.weight == 0.5
    assert weighed(gold(1), 2.0, "a.csv").group is None


@dataclass
class Item:
    type: str = ""
    predicate: str = ""


@pytest.mark.parametrize(
    ("known", "items", "said"),
    [
        ({"predicates": ["in"]}, {"triples": (Item(predicate="of"),)}, "the predicate 'of'"),
        ({"types": ["place"]}, {"entities": (Item("PLACE"),)}, "the type 'PLACE'"),
        ({"schema": SimpleNamespace(types={"buy": {}})}, {"events": (Item("sell"),)}, "'sell'"),
    ],
)
def test_types_that_no_record_has_are_refused(known, items, said):
    batches, example = SimpleNamespace(**known), SimpleNamespace(line=3, **items)
    with pytest.raises(InputError, match=f"line 3: no record of the training file has .*{said}"):
        refuse_unknown_labels(Path("a.jsonl"), [example], batches)


def test_hard_labels_and_old_gold():
    prediction = {"label": "a", "probabilities": {"a": 0.75, "b": 0.25}}
    labelled, _ = label_record({"id": 7, "label": "b", "text_a": "x"}, prediction, True)
    assert labelled == {"id": 7, "text_a": "x", "label": "a"}

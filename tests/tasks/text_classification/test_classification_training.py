"""Pairs, rankings and several labels, from train.py to the submission, on small made-up files."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from project_process import ProjectProcess
from projects import bake_project, flags

from extras.regularization.train_scores import choose_examples

WORDS = "amber basil cedar delta ember fjord grove heath".split()
# 8 steps an epoch.
SETTINGS = {"epochs": 2, "batch_size": 8, "seed": 3, "warm_up": 0.0, "evaluate_steps": 6}

pytestmark = pytest.mark.trains


def make_pair(number, random):
    one, other = random.choice(WORDS, 2, replace=False)
    same = number % 2 == 0
    return {"text_a": f"{one} {number}", "text_b": one if same else other, "label": int(same)}


def make_candidate(number, random):
    label = "yes" if number % 4 == 0 else "no"
    text = f"{random.choice(WORDS)} {number}"
    return {"text_a": f"q{number // 4}", "text_b": text, "label": label, "group": number // 4}


def make_several(number, random):
    labels = random.choice(WORDS, random.integers(0, 3), replace=False).tolist()
    return {"text_a": f"{' '.join(labels)} {number}", "labels": labels}


def make_two(number, random):
    """One of two labels can be learned: all records have the other."""
    labels = ["all", *(["amber"] if number % 2 else [])]
    return {
        "text_a": f"{' '.join(labels[1:])} {random.choice(WORDS[1:])} {number}",
        "labels": labels,
    }


def make_one(number, random):
    """There is one label, which a record has or has not."""
    return {**(record := make_two(number, random)), "labels": record["labels"][1:]}


KINDS = {"pairs": make_pair, "ranking": make_candidate, "several": make_several}
KINDS |= {"several_of_one": make_one, "several_of_two": make_two}
METRIC = {"pairs": "accuracy", "ranking": "map"}
METRIC |= {kind: "micro_f1" for kind in KINDS if kind.startswith("several")}


def write_files(folder, kind):
    random = np.random.default_rng(1)
    folder.mkdir()
    start = 0
    for name, size in (("train", 64), ("dev", 32), ("test", 32)):
        lines = [
            json.dumps({"id": n, **KINDS[kind](n, random)}) for n in range(start, start + size)
        ]
        start += size
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    process = ProjectProcess(bake_project("text_classification", tmp_path_factory.mktemp("kinds")))
    yield process
    process.stop()


def run(process, script, *arguments):
    done = process.run(script, *arguments)
    assert done.code == 0, done.err
    return done.out


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.shown("pairs", "ranking")
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_data_from_training_to_submission(kind, process, tmp_path):
    project, metric = process.project, METRIC[kind]
    data = write_files(tmp_path / "data", kind)
    files = {f"{name}_file": data / f"{name}.jsonl" for name in ("train", "dev", "test")}
    settings = {"run_name": kind, "floor": True, **SETTINGS, **files}
    curve = kind in ("ranking", "several")  # with groups that stay whole, and with a threshold
    settings |= {"regularization.curve_records": 20 * curve}
    told = run(process, "train.py", *flags(project, **settings))
    scores = json.loads((project / "runs" / kind / "scores.json").read_text("utf-8"))
    assert scores["monitor"] == metric and 0 <= scores["dev"][metric] <= 1
    rows = read(project / "runs" / kind / "metrics.jsonl")
    assert [row["step"] for row in rows] == [6, 8, 12, 16]
    best = max(reversed(rows), key=lambda row: row[f"dev_{metric}"])  # of equal scores the latest
    if curve:
        assert_scored_alike(process, kind, data / "train.jsonl", tmp_path / "learned.jsonl", best)
    # Told beside the floor's score, which is kept in the form of a run.
    floor = json.loads((floor_of(project, kind) / "scores.json").read_text("utf-8"))
    assert f"the floor's {floor['dev'][metric]:.4f}" in told
    assert floor["dev"]["data_hash"] == scores["dev"]["data_hash"]
    page = (project / "runs" / kind / "report.html").read_text("utf-8")
    facts = json.loads(page.partition('id="facts">')[2].partition("</script>")[0])
    sizes = [len(facts[of]["examples"]) for of in ("model", "floor")]
    assert sizes == [scores["dev"]["records"]] * 2 and ", floor " in page
    told = run(process, "evaluate.py", kind, data / "test.jsonl")
    assert f"(floor {floor['files']['test'][metric]:.4f})" in told

    run(process, "compare.py", kind, "floor")
    comparison = json.loads((project / "runs" / kind / "comparison.json").read_text("utf-8"))
    assert comparison["first"] == pytest.approx(scores["dev"][metric])
    assert comparison["second"] == pytest.approx(floor["dev"][metric])

    run(process, "predict.py", kind, data / "test.jsonl", tmp_path / "out.jsonl")
    threshold = scores["dev"]["threshold"]
    for record in read(tmp_path / "out.jsonl"):
        probabilities = record["probabilities"]
        if kind.startswith("several"):
            assert record["labels"] == [k for k, p in probabilities.items() if p > threshold]
        elif kind == "ranking":
            assert record["score"] == probabilities["yes"]
            assert (record["label"] == "yes") == (record["score"] > threshold)
        else:
            assert record["label"] == max(probabilities, key=probabilities.get)
    run(process, "predict.py", kind, data / "test.jsonl", tmp_path / "out.csv")
    header, *rows = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert header == ("id,label,score" if kind == "ranking" else "id,label") and len(rows) == 32
    refuse_other_texts(process, kind, data / "test.jsonl", tmp_path / "other.jsonl")
    if kind == "several":  # what check.py says of the model is alike for all
        assert "oracle (gold labels" in run(process, "check.py", *flags(project, **settings))


def floor_of(project, run_name):
    """Return the folder of the floor that was scored on the dev file of a run."""
    scores = json.loads((project / "runs" / run_name / "scores.json").read_text("utf-8"))
    folders = [project / "runs/floor", *(project / "runs/floor").glob("of_*")]
    known = [json.loads((one / "scores.json").read_text("utf-8"))["dev"] for one in folders]
    wanted = scores["dev"]["data_hash"]
    [found] = [f for f, dev in zip(folders, known, strict=True) if dev["data_hash"] == wanted]
    return found


def assert_scored_alike(process, kind, train_file, file, row):
    """Give evaluate.py the training records that were scored with dev."""
    records = read(train_file)
    known = [SimpleNamespace(group=None, record=record) for record in records]
    for one in known:
        one.group = str(one.record["group"]) if "group" in one.record else None
    chosen = [one.record for one in choose_examples(known, 20, SETTINGS["seed"])]
    assert len(chosen) == 20 and chosen != records[:20]
    groups = [record.get("group") for record in chosen]
    assert kind != "ranking" or all(groups.count(group) == 4 for group in groups)
    file.write_text("".join(json.dumps(record) + "\n" for record in chosen), "utf-8")
    run(process, "evaluate.py", kind, file)
    scores = json.loads((process.project / "runs" / kind / "scores.json").read_text("utf-8"))
    found = scores["files"]["learned"]
    numbers = {name: value for name, value in found.items() if f"train_{name}" in row}
    assert METRIC[kind] in numbers and numbers["records"] == 20
    assert {name: row[f"train_{name}"] for name in numbers} == pytest.approx(numbers, abs=1e-7)
    assert scores["dev"]["beside"] == {n: v for n, v in row.items() if n.startswith("train_")}


def refuse_other_texts(process, kind, file, other):
    """Give single texts to a model of pairs, or pairs to one of single texts."""
    records = read(file)
    for record in records:
        if record.pop("text_b", None) is None:
            record["text_b"] = "another"
    other.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    have = ("one text", "two texts") if kind in ("pairs", "ranking") else ("two texts", "one text")
    out = other.with_name("never.jsonl")
    for command in (("evaluate.py", kind, other), ("predict.py", kind, other, out)):
        done = process.run(*command)
        assert done.code == 1 and not out.exists()
        words = f"line 1: the record has {have[0]}, but the training file has {have[1]}: write"
        assert done.err.startswith(f"error: {other}, {words}"), done.err


@pytest.mark.further
def test_runs_predict_together(process, tmp_path):
    """The ensemble's probabilities are the mean of its members'."""
    project = process.project
    data = write_files(tmp_path / "data", "pairs")
    files = {f"{name}_file": data / f"{name}.jsonl" for name in ("train", "dev", "test")}
    outputs = []
    for names in (("one",), ("two",), ("one", "two")):
        if len(names) == 1:
            seed = len(outputs) + 1
            settings = {**SETTINGS, **files, "run_name": names[0], "seed": seed, "steps": 2}
            run(process, "train.py", *flags(project, **settings))
        out = tmp_path / f"{len(outputs)}.jsonl"
        run(process, "predict.py", *names, data / "test.jsonl", out)
        outputs.append([record["probabilities"]["1"] for record in read(out)])
    np.testing.assert_allclose(outputs[2], np.mean(outputs[:2], axis=0), atol=1e-6)
    assert np.ptp(np.array(outputs[:2]), axis=0).max() > 1e-4


@pytest.mark.further
def test_a_cross_validation_has_a_floor_on_the_same_records(process):
    project = process.project
    train_file = write_files(project / "ranking", "ranking") / "train.jsonl"
    settings = {**SETTINGS, "run_name": "crossed", "folds.count": 2, "floor": True, "steps": 2}
    settings |= {"train_file": train_file}
    run(process, "extras/folds/cross_validate.py", *flags(project, **settings))
    told = run(process, "compare.py", "crossed", "floor")
    assert "verdict: crossed against floor" in told
    assert len(read(floor_of(project, "crossed") / "predictions/dev.jsonl")) == 64


def test_a_refused_command_leaves_no_floor(process, tmp_path):
    project = process.project
    shutil.rmtree(project / "runs/floor", ignore_errors=True)
    data = write_files(tmp_path / "data", "pairs")
    files = {f"{name}_file": data / f"{name}.jsonl" for name in ("train", "dev", "test")}
    settings = {**files, "run_name": "refused", "encoder": "./no/folder", "floor": True}
    command = flags(project, **settings)
    done = process.run("train.py", *command)
    assert done.code == 1 and "is not a folder" in done.err
    assert not (project / "runs/floor").exists()
    assert not (project / "runs/refused").exists()

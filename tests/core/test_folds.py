"""Cross-validation: leak-free folds, out-of-fold predictions, and runs that predict together."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from project_process import ProjectProcess
from projects import CASES, TASKS, bake_project, flags, shorten, template_of

from core.base.errors import InputError
from core.data.data_generator import DataGenerator, pad
from core.report.folds import assign_folds
from core.train.prediction import Predictor

FOLDS, RECORDS = 2, 40
SETTINGS = {"epochs": 1, "batch_size": 8}


def test_no_text_is_in_two_folds():
    random = np.random.default_rng(1)
    texts = [tuple(f"text {n}" for n in random.integers(0, 900, 2)) for _ in range(400)]
    texts += [("Same  Text",), ("same text",)]
    fold_of = assign_folds(texts, 5, seed=1)
    assert fold_of.shape == (402,) and set(fold_of) == set(range(5))
    folds = {}
    for group, fold in zip(texts, fold_of, strict=True):
        for text in group:
            assert folds.setdefault(" ".join(text.lower().split()), fold) == fold


def test_folds_are_even_and_depend_on_the_seed_alone():
    texts = [(f"text {number}",) for number in range(103)]
    fold_of = assign_folds(texts, 5, seed=1)
    assert sorted(np.bincount(fold_of)) == [20, 20, 21, 21, 21]
    assert np.array_equal(fold_of, assign_folds(texts, 5, seed=1))
    assert not np.array_equal(fold_of, assign_folds(texts, 5, seed=2))


def test_records_that_are_linked_by_others_stay_together():
    chain = [("a", "b"), ("b", "c"), ("c", "d"), ("x",), ("y",)]
    assert len(set(assign_folds(chain, 3, seed=1)[:3])) == 1
    with pytest.raises(InputError, match="3 groups .* set folds to 3 at the most"):
        assign_folds(chain, 4, seed=1)


class Numbers(DataGenerator):
    """Each example is its own length."""

    def make_batch(self, examples, length):
        return {"numbers": pad([np.full(n, n, np.float32) for n in self.lengths[examples]], length)}


def test_the_outputs_of_several_models_are_averaged():
    inputs = keras.Input((None,), name="numbers")
    models = [keras.Model({"numbers": inputs}, {"out": inputs * by}) for by in (1.0, 5.0)]
    generator = Numbers([3, 1, 2], batch_size=2, buckets=2)
    strategy = tf.distribute.get_strategy()
    [one, both] = [
        list(Predictor(members, strategy).batches(generator)) for members in (models[:1], models)
    ]
    for (positions, single), (same_positions, mean) in zip(one, both, strict=True):
        assert np.array_equal(positions, same_positions)
        assert np.array_equal(mean["out"], 3 * single["out"])


@pytest.fixture(scope="module", params=TASKS)
def project(request, tmp_path_factory) -> Path:
    """A project with a finished cross-validation and a single run."""
    project = bake_project(request.param, tmp_path_factory.mktemp("project"), "none")
    shorten(project, {"train": RECORDS, "dev": 12, "test": 30})
    return project


@pytest.fixture(scope="module")
def process(project):
    """Runs the project's scripts, a cross-validation and a single training first."""
    process = ProjectProcess(project)
    run(process, "train.py", *flags(project, folds=FOLDS, run_name="crossed", **SETTINGS))
    run(process, "train.py", *flags(project, run_name="single", **SETTINGS))
    yield process
    process.stop()


def run(process: ProjectProcess, *command: str) -> None:
    done = process.run(*command)
    assert done.code == 0, done.out + done.err


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def predict(process: ProjectProcess, *runs: str) -> bytes:
    project, case = process.project, CASES[template_of(process.project)]
    out = project / f"out{case.SUBMISSION_SUFFIX}"
    run(process, "predict.py", *runs, "sample/test.jsonl", out)
    case.check_submission(out, project / "sample/test.jsonl")
    return out.read_bytes()


@pytest.mark.trains
def test_each_record_is_predicted_by_the_fold_that_held_it_out(project, process):
    folder = project / "runs/crossed"
    wanted = [str(record["id"]) for record in read(project / "sample/train.jsonl")]
    assert [record["id"] for record in read(folder / "predictions/dev.jsonl")] == wanted
    parts = [
        [record["id"] for record in read(folder / f"fold_{fold}/predictions/dev.jsonl")]
        for fold in range(1, FOLDS + 1)
    ]
    assert sorted(sum(parts, [])) == sorted(wanted) and all(parts)
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    score = CASES[template_of(project)].DEV_SCORE
    assert scores["monitor"] == score and score in scores["dev"]
    assert scores["dev"]["file"] == "sample/train.jsonl" and scores["dev"]["records"] == RECORDS
    assert len(scores["folds"]) == FOLDS and "finished" in scores
    assert (folder / "report.html").is_file()


@pytest.mark.trains
def test_folds_predict_together(process):
    folds = [f"crossed/fold_{fold}" for fold in range(1, FOLDS + 1)]
    assert predict(process, "crossed") == predict(process, *folds)
    # Their probabilities are averaged, which is not what one of them says.
    assert predict(process, "crossed") != predict(process, folds[0])


@pytest.mark.trains
def test_a_run_with_itself_predicts_what_it_predicts_alone(process):
    assert predict(process, "single", "single") == predict(process, "single")


@pytest.mark.trains
def test_a_cross_validation_is_scored_as_a_whole(project, process):
    run(process, "evaluate.py", "crossed", "sample/test.jsonl")
    scores = json.loads((project / "runs/crossed/scores.json").read_text(encoding="utf-8"))
    assert scores["test"]["records"] == 30
    assert (project / "runs/crossed/predictions/test.jsonl").is_file()


@pytest.mark.trains
def test_an_interrupted_cross_validation_goes_on(project, process):
    if template_of(project) != TASKS[-1]:
        pytest.skip("all tasks share the code of folds: one of them shows it")
    folder = project / "runs/crossed"
    before = {fold: (folder / f"fold_{fold}/best.weights.h5").stat() for fold in (1, 2)}
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    predictions = (folder / "predictions/dev.jsonl").read_bytes()
    (folder / "scores.json").unlink()
    second = json.loads((folder / "fold_2/scores.json").read_text(encoding="utf-8"))
    second.pop("finished")
    (folder / "fold_2/scores.json").write_text(json.dumps(second), encoding="utf-8")
    run(process, "train.py", *flags(project, folds=FOLDS, run_name="crossed", **SETTINGS))
    again = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert again["dev"] == scores["dev"]
    assert (folder / "predictions/dev.jsonl").read_bytes() == predictions
    after = {fold: (folder / f"fold_{fold}/best.weights.h5").stat() for fold in (1, 2)}
    assert after[1].st_mtime_ns == before[1].st_mtime_ns
    assert after[2].st_mtime_ns > before[2].st_mtime_ns

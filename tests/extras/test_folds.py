"""Cross-validation: folds without leaks, their scores, and runs that predict together."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from project_process import ProjectProcess
from projects import CASES, TASKS, bake_project, flags, further, shorten, template_of

from core.base.errors import InputError
from core.batches import DataGenerator, pad
from core.prediction.predictor import Predictor
from extras.folds.folds import assign_folds, describe_folds, link_texts

FOLDS, RECORDS = 2, 40
SCRIPT = "extras/folds/cross_validate.py"
SETTINGS = {"epochs": 1, "batch_size": 8}
CROSSED = {"folds.count": FOLDS}


def plain(texts):
    """Return the keys of examples that are all of one kind."""
    return [(group, 0) for group in texts]


def test_no_text_is_in_two_folds():
    random = np.random.default_rng(1)
    texts = [tuple(f"text {n}" for n in random.integers(0, 900, 2)) for _ in range(400)]
    texts += [("Same  Text",), ("same text",)]
    fold_of = assign_folds(plain(texts), 5, seed=1)
    assert fold_of.shape == (402,) and set(fold_of) == set(range(5))
    folds = {}
    for group, fold in zip(texts, fold_of, strict=True):
        for text in group:
            assert folds.setdefault(" ".join(text.lower().split()), fold) == fold


def test_folds_are_even_and_depend_on_the_seed_alone():
    texts = [(f"text {number}",) for number in range(103)]
    # With many kinds, one of them as rare as can be, and with one.
    for keys in ([(text, n % 3 if n else "rare") for n, text in enumerate(texts)], plain(texts)):
        fold_of = assign_folds(keys, 5, seed=1)
        assert sorted(np.bincount(fold_of)) == [20, 20, 21, 21, 21]
        assert np.array_equal(fold_of, assign_folds(keys, 5, seed=1))
        assert not np.array_equal(fold_of, assign_folds(keys, 5, seed=2))


def test_each_fold_has_its_share_of_each_kind():
    random = np.random.default_rng(1)
    kinds = random.permutation(["rare"] * 10 + ["frequent"] * 90)
    keys = [((f"text {number}",), kind) for number, kind in enumerate(kinds)]
    for seed in range(5):  # of one seed luck could do it
        fold_of = assign_folds(keys, 5, seed)
        assert [sum(kinds[fold_of == fold] == "rare") for fold in range(5)] == [2] * 5


def test_a_fold_that_links_make_large_is_warned_of(capsys):
    pairs = [(f"a{number}", f"a{number + 1}") for number in range(250)]
    pairs += [(f"b{number}",) for number in range(50)]
    fold_of = assign_folds(plain(pairs), 5, seed=1)
    describe_folds(fold_of, link_texts(plain(pairs)))
    said = capsys.readouterr().out
    assert f"5 folds of {', '.join(map(str, np.bincount(fold_of)))} records" in said
    assert "warning: the largest fold holds out 250 of 300 records" in said
    assert "set folds.count to 2, or set folds.count to 0 and name a dev_file" in said
    describe_folds(assign_folds(plain(pairs), 2, seed=1), link_texts(plain(pairs)))
    assert "warning" not in capsys.readouterr().out


def test_records_that_are_linked_by_others_stay_together():
    chain = [("a", "b"), ("b", "c"), ("c", "d"), ("x",), ("y",)]
    assert len(set(assign_folds(plain(chain), 3, seed=1)[:3])) == 1
    with pytest.raises(InputError, match="3 groups of records .* set it to 3 at the most"):
        assign_folds(plain(chain), 4, seed=1)
    # What is advised is allowed: one fold is not.
    with pytest.raises(InputError, match="1 group of records .* set it to 0, and name a dev_file"):
        assign_folds(plain(chain[:3]), 2, seed=1)


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


@pytest.fixture(scope="module", params=further(TASKS, "text_classification"))
def project(request, tmp_path_factory) -> Path:
    """A project with a finished cross-validation and a single run."""
    project = bake_project(request.param, tmp_path_factory.mktemp("project"), "folds")
    shorten(project, {"train": RECORDS, "dev": 12, "test": 30})
    return project


@pytest.fixture(scope="module")
def process(project):
    """Runs the project's scripts, a cross-validation and a single training first."""
    process = ProjectProcess(project)
    run(process, SCRIPT, *flags(project, run_name="crossed", **SETTINGS, **CROSSED))
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


@pytest.mark.further
@pytest.mark.trains
def test_folds_predict_together(process):
    folds = [f"crossed/fold_{fold}" for fold in range(1, FOLDS + 1)]
    together = predict(process, "crossed")
    assert together == predict(process, *folds)
    # Their probabilities are averaged, which is not what one of them says.
    assert together != predict(process, folds[0])


@pytest.mark.trains
@pytest.mark.parametrize("twice", [("single", "runs/single"), ("crossed", "crossed/fold_1")])
def test_a_run_has_one_vote(process, twice):
    done = process.run("predict.py", *twice, "sample/test.jsonl", "out.jsonl")
    assert done.code == 1 and "Traceback" not in done.err
    assert f"{Path(twice[1]).name} is named twice: name each run once" in done.err


@pytest.mark.trains
def test_a_cross_validation_predicts_without_its_extra(process, tmp_path):
    if template_of(process.project) != TASKS[-1]:
        pytest.skip("all tasks find runs by the same code: one of them shows it")
    project = tmp_path / process.project.name
    shutil.copytree(process.project, project)
    shutil.rmtree(project / "extras")
    without = ProjectProcess(project)
    assert predict(without, "crossed") == predict(process, "crossed")
    done = without.run("train.py", "--folds.count", "3")
    assert "--folds.count belongs to extras/folds, which is absent: add it with" in done.err
    without.stop()


@pytest.mark.trains
def test_a_single_training_names_the_script_that_cross_validates(process):
    if template_of(process.project) != TASKS[-1]:
        pytest.skip("all tasks share the code of folds: one of them shows it")
    words = flags(process.project, run_name="once", **SETTINGS, **CROSSED)
    done = process.run("train.py", *words)
    assert done.code == 1 and "Traceback" not in done.err
    assert f"error: folds.count = {FOLDS} asks for {FOLDS} trainings" in done.err
    assert SCRIPT in done.err and not (process.project / "runs/once").exists()


@pytest.mark.trains
def test_a_cross_validation_is_scored_as_a_whole(project, process):
    run(process, "evaluate.py", "crossed", "sample/test.jsonl")
    scores = json.loads((project / "runs/crossed/scores.json").read_text(encoding="utf-8"))
    assert scores["files"]["test"]["records"] == 30
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
    run(process, SCRIPT, *flags(project, run_name="crossed", **SETTINGS, **CROSSED))
    again = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert again["dev"] == scores["dev"]
    assert (folder / "predictions/dev.jsonl").read_bytes() == predictions
    after = {fold: (folder / f"fold_{fold}/best.weights.h5").stat() for fold in (1, 2)}
    assert after[1].st_mtime_ns == before[1].st_mtime_ns
    assert after[2].st_mtime_ns > before[2].st_mtime_ns

"""What is read of a run: its files as they were written, its thresholds, a predictor made once."""

import ast
import dataclasses
import math
from types import SimpleNamespace
from unittest.mock import MagicMock

import keras
import pytest
import tensorflow as tf
from conftest import ROOT
from projects import TEMPLATES

from core.base.errors import InputError
from core.base.files import write_json
from core.prediction.loading import TrainedRuns
from core.runs import members, opening
from core.runs import run as run_module
from core.runs.checkpoints import Position
from core.runs.code_hash import code_hashes
from core.runs.manifest import check_files, load_best, note_files
from core.runs.run import Run
from core.runs.scores import read_scores
from core.training import Training


def test_files_that_were_changed_are_found(tmp_path):
    write_json(tmp_path / "labels.json", {"predicates": ["a"]})
    check_files(tmp_path)  # a run of an earlier version notes nothing
    note_files(tmp_path, "labels.json", "absent.json")
    check_files(tmp_path)
    write_json(tmp_path / "labels.json", {"predicates": ["b"]})
    with pytest.raises(InputError, match="labels.json is missing, damaged or swapped: restore it"):
        check_files(tmp_path)
    (tmp_path / "labels.json").unlink()
    with pytest.raises(InputError, match="labels.json is missing"):
        check_files(tmp_path)


def test_a_name_is_that_of_a_run(tmp_path, monkeypatch):
    """Also where a folder here has it, and a config.json, as that of an encoder."""
    for place in ("runs/base", "base", "runs/base_2", "runs/two", "runs/both"):
        write_json(tmp_path / place / "config.json", {"epochs": 1})
        (tmp_path / place / "best.weights.h5").touch()
    monkeypatch.setattr(members, "PROJECT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert members.find_run("base") == tmp_path / "runs/base"
    assert members.find_run("./base").resolve() == tmp_path / "base"
    # A blend of blends that share a run is one run; who names a run twice is told.
    for name, runs in (("two", ["base", "base_2"]), ("both", ["two", "base"])):
        blend = {"blend": {"runs": [f"runs/{run}" for run in runs]}}
        write_json(tmp_path / "runs" / name / "config.json", blend)
    assert [folder.name for folder in members.find_runs(["both"])] == ["base", "base_2"]
    with pytest.raises(InputError, match="base is named twice: name each run once"):
        members.find_runs(["both", "base"])


def test_weights_that_were_deleted_are_not_missed_for_an_epoch(tmp_path):
    write_json(tmp_path / "config.json", {"epochs": 1})
    with pytest.raises(InputError, match="has no weights yet: let train.py finish one epoch"):
        members.members(tmp_path)
    write_json(tmp_path / "scores.json", {"finished": "today"})
    with pytest.raises(InputError, match="has no weights any more: they were deleted, so train"):
        members.members(tmp_path)


@pytest.mark.parametrize("threshold", ["0.5", math.nan, math.inf, None])
def test_a_threshold_that_is_no_number_is_refused(tmp_path, threshold):
    write_json(tmp_path / "config.json", {"seed": 1})
    write_json(tmp_path / "scores.json", {"dev": {"threshold": threshold}})
    with pytest.raises(InputError, match="has no threshold in scores.json: restore it, or train"):
        members.tuned_threshold([tmp_path])


@pytest.mark.parametrize("error", [RuntimeError, OSError, KeyError, ValueError])
def test_however_hdf5_fails_the_weights_are_named(tmp_path, error):
    class Model:
        def load_weights(self, path):
            raise error("of a byte that was flipped")

    with pytest.raises(InputError, match="best.weights.h5 does not fit the model, or is damaged"):
        load_best(Model(), tmp_path)


def test_a_predictor_is_made_once():
    strategy = tf.distribute.get_strategy()
    runs = TrainedRuns([], [], None, None, [], [], strategy, [], select=lambda outputs: outputs[0])
    assert runs.predictor is runs.predictor and runs.predictor.select is runs.select
    # Other models have another one.
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    model = keras.Model([tokens], {"number": keras.ops.max(tokens, axis=1)})
    other = dataclasses.replace(runs, models=[model])
    assert other.predictor.models == [model] and not runs.predictor.models


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_task_predicts_with_it(template):
    """Only a training makes a predictor of its own."""
    project = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    made = set()
    paths = [path for top in ("", "task", "inspection") for path in (project / top).glob("*.py")]
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        calls = ((f.name, node) for f in functions for node in ast.walk(f))
        made |= {
            name
            for name, node in calls
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Predictor"
        }
    # Blends of texts score given texts by models of their own, which they make once for each run.
    assert made - {"make_scorer"} == {"train"}


@pytest.mark.parametrize("content", [{"dev": 5}, {"files": []}, {"monitor": None}, {"dev": None}])
def test_scores_of_another_shape_are_a_sentence(content, tmp_path):
    write_json(tmp_path / "scores.json", content)
    [name] = content
    with pytest.raises(InputError, match=f'scores.json: "{name}" is not what a training writes'):
        read_scores(tmp_path)


def test_a_run_whose_last_row_was_cut_off_goes_on(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 1}\n{"epo')
    Run(tmp_path).begin()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"epoch": 1}\n'
    assert "metrics.jsonl was cut off, and is left out" in capsys.readouterr().out


def test_overwriting_leaves_no_results_of_the_old_run(tmp_path):
    for name in ("metrics.jsonl", "scores.json", "best.weights.h5", "report.html", "kept.txt"):
        (tmp_path / name).write_text("{}")
    for name in ("predictions", "tensorboard", "fold_1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("")
    Run(tmp_path, new_config={"devices": {}}).begin()
    assert {path.name for path in tmp_path.iterdir()} == {
        *(".training.lock", "config.json", "kept.txt")
    }


def test_a_run_that_was_overwritten_goes_on_without_the_flag(tmp_path, monkeypatch):
    begun = {
        "task": "t",
        "overwrite": True,
        "devices": {"precision": "float32"},
        "seed": 1,
        "a_hash": "1",
    }
    write_json(tmp_path / "runs/x/config.json", begun)
    monkeypatch.setattr(opening, "PROJECT", tmp_path)
    monkeypatch.setattr(opening, "code_hashes", lambda _: {})
    devices = SimpleNamespace(precision="auto")
    asked = SimpleNamespace(run_name="x", overwrite=False, task="t", seed=1, devices=devices)
    asked.free_settings = ()
    asked.model_dump = lambda: {"seed": 1, "devices": vars(devices), "overwrite": False}
    assert opening.open_run(asked, {"a_hash": "1"}).new_config is None
    asked.model_dump = lambda: {"seed": 2, "devices": vars(devices), "overwrite": False}
    with pytest.raises(InputError, match="runs/x was begun with seed = 1, now it is 2"):
        opening.open_run(asked, {"a_hash": "1"})


def test_rows_of_a_training_that_begins_anew_are_dropped(tmp_path):
    """It was interrupted before its first checkpoint, and after a scoring."""
    (tmp_path / "metrics.jsonl").write_text('{"step": 50}\n{"step": 100}\n')
    training = MagicMock(run=Run(tmp_path), loop=None, last_step=0)
    training.batches.__len__.return_value = 1
    Training.fit(training, [])
    assert (tmp_path / "metrics.jsonl").read_text() == ""
    (tmp_path / "metrics.jsonl").write_text('{"step": 50}\n')
    training.loop = lambda *_: None  # Orbit's has a checkpoint of its own, and drops rows by it
    Training.fit(training, [])
    assert (tmp_path / "metrics.jsonl").read_text() != ""


def test_a_run_that_another_process_finished_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "PROJECT", tmp_path)
    write_json(tmp_path / "scores.json", {"finished": "now"})
    with pytest.raises(InputError, match="was finished by another process in the meantime"):
        Run(tmp_path).begin()


@pytest.mark.parametrize(
    ("setting", "before", "now", "refused"),
    [
        ("batch_size_counts", 1, 2, True),
        ("scale_learning_rate", 1, 2, True),
        ("scale_learning_rate", 2, 2, False),
        ("scale_learning_rate", 0, 2, False),  # of an earlier version
        ("xla", 1, 2, False),
    ],
)
def test_a_training_goes_on_with_the_same_steps(setting, before, now, refused):
    devices = {"batch_size_counts": "all_replicas", "scale_learning_rate": False}
    devices |= {setting: "one_replica" if setting == "batch_size_counts" else True}
    training = SimpleNamespace(
        settings=SimpleNamespace(devices=SimpleNamespace(**devices)),
        run=SimpleNamespace(name="runs/x", position=Position(updates=9, replicas=before)),
        strategy=SimpleNamespace(num_replicas_in_sync=now),
    )
    if refused:
        with pytest.raises(InputError, match=f"begun on {before} replicas, and here are {now}"):
            Training.refuse_other_replicas(training)
        return
    Training.refuse_other_replicas(training)
    assert training.run.position.replicas == now


def test_files_that_are_no_code_stop_no_training(tmp_path):
    (tmp_path / "task").mkdir()
    for name, code in (("__init__.py", b""), ("good.py", b"A = 1\n")):
        (tmp_path / "task" / name).write_bytes(code)
    before = code_hashes(tmp_path)
    for name in ("._good.py", ".ipynb_checkpoints/good.py"):  # of macOS, and of Jupyter
        (tmp_path / "task" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "task" / name).write_bytes(b"\0\5")
    assert code_hashes(tmp_path) == before
    (tmp_path / "task/old.py").write_bytes(b"def broken(:\n")
    assert code_hashes(tmp_path).keys() - before.keys() == {"task/old.py"}

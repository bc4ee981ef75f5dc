"""What a scoring leaves in the run's folder."""

import contextlib
import json
import math
import os
import threading
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from projects import bake_project, check_records, flags, further, run, shorten
from small_models import Examples, build_models, make_settings, make_training

from core.base.errors import InputError
from core.base.files import read_json, write_json
from core.base.settings import CoreSettings
from core.prediction.predictor import Predictor
from core.runs.checkpoints import Position, restore_checkpoint, save_checkpoint
from core.runs.finishing import explain_still_score
from core.runs.manifest import check_files, note_files, weights_hash
from core.runs.run import Run
from core.runs.scores import change_scores, read_scores
from core.scores import keep
from core.scores.evaluation import DevScorer, Evaluation
from core.scores.evaluator import Evaluator
from core.scores.keep import keep_scores
from core.step import Models
from extras.averaging.hooks import RunAverages


class Batches:
    batch_size = 8

    def __len__(self) -> int:
        return 5


def make_evaluator(folder, score_dev=None, steps: int = 0) -> Evaluator:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    settings = CoreSettings.model_construct(
        evaluate_steps=0, patience=0, seed=1, epochs=9, steps=steps
    )
    models, scorer = Models(model, model, model), types.SimpleNamespace(score_dev=score_dev)
    return Evaluator(make_training(settings, models, Batches(), Run(folder), scorer))


def test_an_input_that_dev_batches_lack_is_named_before_a_training():
    """An array that needs gold, as an input of both models: batches of dev have no gold."""
    models, unlabelled = build_models(), Examples()
    predictor = Predictor([models.inference], tf.distribute.get_strategy())
    DevScorer(predictor, unlabelled, make_settings())
    unlabelled.make_batch = lambda positions, length: {"labels": unlabelled.labels[positions]}
    with pytest.raises(InputError, match=r"the inference model: missing keys \['token_ids'\]"):
        DevScorer(predictor, unlabelled, make_settings())


def test_a_better_scoring_forgets_the_scores_of_other_files(tmp_path):
    evaluator = make_evaluator(tmp_path)
    for f1, best, kept in ((0.5, 0.5, False), (0.4, 0.5, True), (0.6, 0.6, False)):
        path = tmp_path / "scores.json"
        scores = {"dev": {"f1": 0.5}, "monitor": "f1", "seed": 1, "files": {"test": {}}}
        write_json(path, scores)
        other = tmp_path / "predictions/test.jsonl"
        other.parent.mkdir(exist_ok=True)
        other.touch()
        evaluator.keep_if_best(Evaluation({"f1": f1}, [{"id": "a"}], []))
        assert other.exists() == kept and (tmp_path / "predictions/dev.jsonl").exists()
        assert read_json(path)["dev"]["f1"] == best
        assert ("files" in read_json(path)) == kept
    assert (tmp_path / "best.weights.h5").is_file()


def test_of_equal_scores_the_latest_weights_are_kept_and_patience_counts(tmp_path, monkeypatch):
    evaluator = make_evaluator(tmp_path)
    monkeypatch.setattr(evaluator, "dev_loss", lambda: math.inf)  # of packed rows, say
    evaluator.patience = 3
    kernel, position = evaluator.inference_model.layers[0].kernel, evaluator.run.position
    for value, f1, waited in ((1.0, 0.0, 0), (2.0, 0.0, 1), (3.0, 0.5, 0), (4.0, 0.5, 1)):
        kernel.assign(np.full((2, 1), value))
        evaluator.keep_if_best(Evaluation({"f1": f1}, [], []))
        assert position.waited == waited
        kernel.assign(np.zeros((2, 1)))
        evaluator.inference_model.load_weights(tmp_path / "best.weights.h5")
        assert float(kernel[0, 0]) == value
    for f1 in (0.4, 0.5):
        evaluator.keep_if_best(Evaluation({"f1": f1}, [], []))
    assert position.stopped


@pytest.mark.parametrize(
    ("rows", "kept", "losses", "waited"),
    [
        # score, loss -> the scoring whose weights are kept, how many losses were computed, and how
        # many of the last scorings gained nothing
        ([(0, 5), (0, 3), (0, 4)], 1, 3, 1),
        ([(0, 5), (0, 4), (0, 3)], 2, 3, 0),
        ([(0, 5), (0, 5), (0, 6)], 1, 3, 2),
        ([(0.5, 1), (0.5, 4), (0.5, 3), (0.5, 6)], 2, 3, 1),
        ([(0, 5), (0, 6), (0.1, 9), (0.1, 8)], 3, 2, 1),
        ([(0.4, 1), (0.5, 2), (0.5, 3), (0.3, 1)], 2, 0, 2),
        ([(0.4, 1), (0.3, 2), (0.4, 3), (0.4, 4)], 3, 0, 3),
    ],
)
def test_the_loss_on_dev_chooses_while_the_score_stands_still(
    rows, kept, losses, waited, tmp_path, monkeypatch
):
    """It survives a resumption: all it needs is in the position. `patience` counts what gains."""
    position, computed = Position(), []
    for number, (score, loss) in enumerate(rows):
        evaluator = make_evaluator(tmp_path)
        evaluator.run.position = position
        monkeypatch.setattr(evaluator, "dev_loss", lambda loss=loss: computed.append(loss) or loss)
        evaluator.keep_if_best(Evaluation({"f1": score}, [{"id": number}], []))
    [record] = (tmp_path / "predictions/dev.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(record)["id"] == kept
    assert len(computed) == losses and position.waited == waited


@pytest.mark.parametrize("averaged, losses", [(False, 0), (True, 1)])
def test_a_scoring_that_no_other_follows_asks_for_no_loss(tmp_path, monkeypatch, averaged, losses):
    """It takes a graph of its own. An average that is scored at the end has to be compared."""
    evaluator, computed = make_evaluator(tmp_path, steps=7), []
    monkeypatch.setattr(evaluator, "dev_loss", lambda: computed.append(1) or 5.0)
    evaluator.run.position.updates = 7
    if averaged:
        evaluator.training.kept_weights = RunAverages(evaluator.run, 1)
    evaluator.keep_if_best(Evaluation({"f1": 0}, [{"id": 1}], []))
    assert len(computed) == losses and (tmp_path / "best.weights.h5").is_file()


def test_a_checkpoint_of_an_older_version_is_restored(tmp_path):
    """It knows less of the position: what it lacks begins as in a new run."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    older = Position(updates=7, best=0.5)
    del older.still_loss
    save_checkpoint(tmp_path, older, model)
    found = Position(still_loss=3.0)
    assert restore_checkpoint(tmp_path, found, model)
    assert vars(found) == vars(Position(updates=7, best=0.5, still_loss=3.0))


def test_a_score_that_dev_does_not_allow_is_a_sentence(tmp_path):
    evaluator = make_evaluator(tmp_path)
    with pytest.raises(InputError, match="dev_file has no gold that f1 can be computed on"):
        evaluator.keep_if_best(Evaluation({"records": 3}, [], []))
    assert not (tmp_path / "best.weights.h5").exists()


def test_a_score_by_another_name_is_a_sentence_with_the_names_that_exist(tmp_path):
    scores = {"records": 3, "file": "dev.jsonl", "macro_f1": 0.5, "recall": 0.1}
    with pytest.raises(
        InputError, match=r"dev has no score f1 \(it has macro_f1, recall\): correct"
    ):
        make_evaluator(tmp_path).keep_if_best(Evaluation(scores, [], []))


def test_a_score_that_is_no_number_is_told_at_once(tmp_path):
    """Nothing is better than NaN: a whole training would keep no weights."""
    evaluator = make_evaluator(tmp_path)
    with pytest.raises(InputError, match="dev f1 is NaN"):
        evaluator.keep_if_best(Evaluation({"f1": float("nan")}, [], []))
    evaluator.keep_if_best(Evaluation({"f1": float("-inf")}, [], []))  # of a perplexity


def test_a_run_goes_on_with_the_score_that_chose_its_weights(tmp_path):
    """Its best value so far is of that score."""
    write_json(tmp_path / "scores.json", {"dev": {}, "monitor": "accuracy", "files": {}})
    with pytest.raises(InputError, match="was begun with accuracy, not f1, as the score that"):
        make_evaluator(tmp_path)


@pytest.mark.parametrize(
    ("scores", "still"),
    [([0.0], True), ([0.0, 0.0], True), ([1.0, 1.0], True), ([0.5], False), ([0.0, 0.1], False)],
)
def test_a_score_that_never_moved_chose_nothing(scores, still):
    rows = [{"epoch": 1, "loss": 2.0}, *({"dev_f1": score} for score in scores)]
    sentence = explain_still_score(rows, "f1")
    assert bool(sentence) == still
    if still:
        assert sentence.startswith(f"dev f1 was {scores[0]:.4f} at every scoring")
        # Training longer does not help where all is right.
        assert ("train longer" in sentence) == (scores[0] == 0) != ("too easy" in sentence)
    assert explain_still_score([], "f1") == ""


# Where the gold of a task is, and the score that can't move. Without any answer none is given.
GOLD_OF = {
    "event_extraction": ("events", "argument_classification_f1 was 0.0000"),
    "named_entity_recognition": ("entities", "f1 was 0.0000"),
    "reading_comprehension": ("answers", "f1 was 1.0000"),
    "relation_extraction": ("triples", "f1 was 0.0000"),
}


@pytest.mark.trains
@pytest.mark.parametrize("template", further(sorted(GOLD_OF), "relation_extraction"))
def test_a_dev_file_without_gold_is_named_before_at_the_end_and_by_predictions(template, tmp_path):
    project = bake_project(template, tmp_path, "doctor")
    shorten(project, {"train": 16, "dev": 6, "test": 6})
    label, score = GOLD_OF[template]
    dev = project / "sample/dev.jsonl"
    records = [json.loads(line) for line in dev.read_text(encoding="utf-8").splitlines()]
    rows = [json.dumps({**record, label: []}) for record in records]
    dev.write_text("\n".join(rows) + "\n", encoding="utf-8")

    def call(script: str, *arguments: str) -> str:
        return run(project / script, *arguments, cwd=project).stdout

    asked = flags(project, epochs=2, run_name="blind", batch_size=8)
    assert "no record has gold, so the score is the same" in call(check_records(project), *asked)
    assert f"{score} at every scoring, so it could not choose an epoch" in call("train.py", *asked)
    told = call("predict.py", "blind", "sample/test.jsonl", "out.jsonl")
    assert f"warning: blind: dev {score} at every scoring" in told


@pytest.mark.parametrize("writes", range(6))
def test_a_kill_between_two_writes_leaves_nothing_that_looks_damaged(tmp_path, monkeypatch, writes):
    """Whichever file is the last that came into its place."""
    evaluator, moved, replace = make_evaluator(tmp_path), [], os.replace
    write_json(tmp_path / "labels.json", {"predicates": ["a"]})
    note_files(tmp_path, "labels.json")
    evaluator.keep_if_best(Evaluation({"f1": 0.5}, [{"id": "a"}], []))
    before = (tmp_path / "best.weights.h5").read_bytes()
    evaluator.inference_model.layers[0].kernel.assign(np.full((2, 1), 0.25))

    def move_or_die(*paths):
        if len(moved) == writes:
            raise KeyboardInterrupt
        moved.append(replace(*paths))

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(os, "replace", move_or_die)
        evaluator.keep_if_best(Evaluation({"f1": 0.6}, [{"id": "a"}], []))
    assert ((tmp_path / "best.weights.h5").read_bytes() != before) == (writes >= 2)
    check_files(tmp_path)
    (tmp_path / "labels.json").unlink()
    with pytest.raises(InputError, match="labels.json is missing"):
        check_files(tmp_path)


@pytest.mark.parametrize("broken", ["loss", "weights"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_ends_the_training_and_is_not_kept(tmp_path, broken, value):
    evaluator = make_evaluator(tmp_path, lambda: pytest.fail("nothing is scored any more"))
    model = evaluator.inference_model
    model.compile("sgd", "mse")
    evaluator.set_model(model)
    evaluator.on_epoch_begin(0)
    if broken == "weights":
        model.layers[0].kernel.assign(np.full((2, 1), value))
    with pytest.raises(InputError, match="the loss or the weights are not finite after 0 steps"):
        evaluator.score({"loss": np.array([value if broken == "loss" else 1.0])})
    assert not (tmp_path / "best.weights.h5").exists() and not (tmp_path / "scores.json").exists()


def test_rows_are_valid_json_whatever_a_score_is(tmp_path):
    scores = {"f1": 0.5, "perplexity": math.inf}
    evaluator = make_evaluator(tmp_path, lambda: Evaluation(scores, [{"id": "a"}], []))
    evaluator.inference_model.compile("sgd", "mse")
    evaluator.set_model(evaluator.inference_model)
    evaluator.on_epoch_begin(0)
    evaluator.score({"loss": 1.0})
    line = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")
    row = json.loads(line, parse_constant=pytest.fail)
    assert row["dev_f1"] == 0.5 and "dev_perplexity" not in row


def evaluation(file: str, f1: float) -> Evaluation:
    return Evaluation({"file": file, "data_hash": f"sha256:{file}", "f1": f1}, [{"f1": f1}], [])


def test_two_processes_that_change_scores_take_turns(tmp_path):
    """Two evaluations at once, or one while its run is trained: neither undoes the other."""
    write_json(tmp_path / "scores.json", {"monitor": "f1", "dev": {"f1": 0.5}})
    begun = threading.Event()

    def change_slowly(scores: dict) -> dict:
        begun.set()
        time.sleep(0.3)
        return {**scores, "files": {"one": {}}}

    thread = threading.Thread(target=change_scores, args=(tmp_path, change_slowly))
    thread.start()
    begun.wait()
    change_scores(tmp_path, lambda scores: {**scores, "finished": "now"})
    thread.join()
    found = read_scores(tmp_path)
    assert found == {"monitor": "f1", "dev": {"f1": 0.5}, "files": {"one": {}}, "finished": "now"}


def test_other_files_have_a_place_of_their_own(tmp_path, monkeypatch):
    """None takes the place of dev, of a fact about the run, or of another file."""
    monkeypatch.setattr(keep, "find_run", lambda run: tmp_path)
    monkeypatch.setattr(keep, "provenance", lambda settings: {"measured": "today"})
    runs = types.SimpleNamespace(folders=[tmp_path], weights=[""], settings=None)
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions/dev.jsonl").write_text("tuned\n", encoding="utf-8")
    before = {"dev": {"f1": 0.5}, "monitor": "f1", "seed": 1, "finished": "now", "command": "c"}
    write_json(tmp_path / "scores.json", before)
    facts = ("monitor", "seed", "finished", "command")
    names = ("other/dev", *(f"a/{fact}" for fact in facts), "a/test", "a/test", "b/test")
    names += ("x/b/test", "y/b/test", "x/b/test")
    for number, name in enumerate(names):
        path = tmp_path / f"{name}.jsonl"
        keep_scores(["run"], path, evaluation(f"{name}.jsonl", number), runs)
    scores = read_scores(tmp_path)
    files = scores.pop("files")
    assert scores == before
    assert list(files) == ["other_dev", *facts, "test", "b_test", "x_b_test", "y_b_test"]
    assert files["x_b_test"]["f1"] == 10 and files["y_b_test"]["f1"] == 9
    assert files["test"]["f1"] == 6 and files["b_test"]["file"] == "b/test.jsonl"
    assert files["other_dev"]["data_hash"] == "sha256:other/dev.jsonl"
    # Files outside the project have no folder in `file`.
    other = Evaluation({**files["test"], "data_hash": "sha256:0", "f1": 9}, [{"f1": 9}], [])
    keep_scores(["run"], tmp_path / "c/test.jsonl", other, runs)
    found = read_scores(tmp_path)["files"]
    assert found["c_test"]["f1"] == 9 and {**found, **files} == found
    (tmp_path / "predictions/c_test.jsonl").unlink()
    predictions = {path.stem for path in (tmp_path / "predictions").iterdir()}
    assert predictions == {"dev", *files}
    assert (tmp_path / "predictions/dev.jsonl").read_text(encoding="utf-8") == "tuned\n"


def test_scores_of_older_weights_are_not_kept(tmp_path, monkeypatch):
    """An evaluation takes minutes; a training that goes on may replace the weights meanwhile."""
    monkeypatch.setattr(keep, "find_run", lambda run: tmp_path)
    monkeypatch.setattr(keep, "provenance", lambda settings: {})
    write_json(tmp_path / "scores.json", {"dev": {"f1": 0.5}})
    for weights in ("first", "second"):
        (tmp_path / "best.weights.h5").write_text(weights, encoding="utf-8")
        note_files(tmp_path, "best.weights.h5")
        hashes = [weights_hash(tmp_path)]
        runs = types.SimpleNamespace(folders=[tmp_path], weights=hashes, settings=None)
        keep_scores(["run"], tmp_path / f"{weights}.jsonl", evaluation("a", 1), runs)
        note_files(tmp_path, "best.weights.h5", stay=False)
        with pytest.raises(InputError, match="run got better weights .*evaluate it again"):
            keep_scores(["run"], tmp_path / "late.jsonl", evaluation("a", 1), runs)
    assert [*read_scores(tmp_path)["files"]] == ["first", "second"]

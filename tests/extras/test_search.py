"""A search over settings: its trials, several processes, interruptions, the lead, the page."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from browser import dump, needs_chromium, open_page
from forked_scripts import run_together
from project_process import ProjectProcess
from projects import ENVIRONMENT, bake_project, flags, further, run, shorten
from pydantic_settings import BaseSettings, CliApp

from core.base.files import read_json
from core.scores.evaluation import OwnWeights
from extras.search import hooks
from extras.search.page import find_importances
from extras.search.settings import Table
from extras.search.space import Searched, as_flags, find_name_fault, make_distribution
from extras.search.study import SharedStudy, open_study
from extras.search.trainings import wait_for_survivor

HAS_ORBIT = importlib.util.find_spec("orbit") is not None
SCRIPT = "extras/search/search.py"
SPACE = {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "dropout": [0.0, 0.1, 0.3]}

# In place of train.py: quality follows from the settings, and from it dev predictions and F1.
TRAINING = """
import json, random, sys, time
from pathlib import Path
values = dict(word[2:].split("=", 1) for word in sys.argv[1:])
project = Path(__file__).resolve().parent
folder = project / "runs" / values["run_name"]
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.json").write_text(json.dumps({"task": "Relation extraction"}))
with open(project / "trained.txt", "a") as file:
    file.write(folder.name + "\\n")
if values["dropout"] == "0.5":
    print("error: dropout of a half.")
    sys.exit(1)
while (project / f"hold_{folder.name}").exists():
    time.sleep(0.05)
rate, seed = float(values["learning_rate"]), int(values["seed"])
quality = 0.9 - 100 * abs(rate - 0.002) - float(values["dropout"])
lines = (project / "sample/dev.jsonl").read_text("utf-8").splitlines()
gold = [json.loads(line) for line in lines]
draw = random.Random(seed)
found = [{"id": r["id"], "triples": [{**t, "score": 0.9} for t in r["triples"]
          if draw.random() < quality]} for r in gold]
correct, wanted = (sum(len(r["triples"]) for r in rows) for rows in (found, gold))
score = 2 * correct / (correct + wanted)
(folder / "predictions").mkdir(exist_ok=True)
(folder / "predictions/dev.jsonl").write_text("".join(json.dumps(r) + "\\n" for r in found))
(folder / "best.weights.h5").write_text("weights")
import hashlib
digest = "sha256:" + hashlib.sha256((project / "sample/dev.jsonl").read_bytes()).hexdigest()
dev = {"file": "sample/dev.jsonl", "data_hash": digest, "f1": score}
# At once, as train.py does it: another process of the search may read it.
(folder / "scores.tmp").write_text(json.dumps(
    {"monitor": "f1", "dev": dev, "minutes": 0.1, "finished": "now"}))
(folder / "scores.tmp").replace(folder / "scores.json")
"""


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    return bake_project("relation_extraction", folder, "comparison, folds, search")


@pytest.fixture
def project(baked, tmp_path):
    """A project whose trainings take no time."""
    project = tmp_path / "my_project"
    shutil.copytree(baked, project)
    (project / "train.py").write_text(TRAINING, encoding="utf-8")
    return project


def asked(space=SPACE, **table):
    """Return the flags of a search."""
    words = [f"--search.space={json.dumps(space)}"]
    return words + [f"--search.{name}={value}" for name, value in table.items()]


def search(project, *arguments, check=True):
    return run(project / SCRIPT, *arguments, cwd=project, check=check)


def trials_of(project, name="search"):
    """Return the trials as Optuna's own tools read them."""
    backend = optuna.storages.journal.JournalFileBackend(
        str(project / "runs" / name / "study.journal")
    )
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name=None, storage=storage).trials


def trained(project):
    return (project / "trained.txt").read_text().split()


def test_the_default_settings_are_tried_once(tmp_path):
    """Also if a second process begins before the first one has drawn a trial."""
    space = [Searched("dropout", make_distribution([0.1, 0.3], 0.1), 0.1)]
    studies = [SharedStudy(tmp_path, space, Table()) for _ in range(2)]
    assert len(studies[0].study.get_trials()) == 1


def test_a_line_that_a_crash_cut_off_ends_no_search(tmp_path):
    journal = tmp_path / "study.journal"
    for cut in ('{"op_code":6,"wor', '{"op'):
        study = open_study(tmp_path, Table())
        study.tell(study.ask(), 1.0)
        with open(journal, "a", encoding="utf-8") as file:
            file.write(cut)
    study = open_study(tmp_path, Table())
    study.tell(study.ask(), 1.0)
    assert len(open_study(tmp_path, Table()).trials) == 3


# ----------------------------------------------------------------------------- settings

BAD = {
    "unknown": ({"dropuot": [0, 0.1]}, "dropuot: dropuot is not a setting: did you mean dropout?"),
    "unknown in a table": ({"devices.xl": [0, 1]}, "devices.xl: devices.xl is not a setting"),
    "below its bound": ({"dropout": [0.1, 1.5]}, "dropout: 1.5 is impossible: input should be"),
    "end out of bounds": (
        {"batch_size": {"low": 0, "high": 8}},
        "batch_size: 0 is impossible: input should be greater than or equal to 1.",
    ),
    "turned": ({"dropout": {"low": 0.3, "high": 0.1}}, "low = 0.3 must be less than high = 0.1."),
    "log of zero": (
        {"dropout": {"low": 0.0, "high": 0.5, "log": True}},
        "dropout: low = 0.0 must be more than 0 where log = true.",
    ),
    "no end": ({"dropout": {"low": 0.1}}, "dropout: high is missing: write { low ="),
    "other key": ({"dropout": {"min": 0, "low": 0, "high": 0.1}}, "min is unknown: a range has"),
    "one value": ({"dropout": [0.1]}, "dropout: [0.1] has nothing to choose from"),
    "twice": ({"dropout": [0.1, 0.2, 0.1]}, "[0.1, 0.2, 0.1] has a value twice"),
    "no range": ({"dropout": 0.1}, "dropout: 0.1 is no range and no list: write { low ="),
    "half a record": (
        {"batch_size": {"low": 8.5, "high": 16}},
        "batch_size: low = 8.5 must be a whole number, as the setting is.",
    ),
    "steps": (
        {"batch_size": {"low": 8, "high": 30, "step": 8}},
        "batch_size: high = 30 is not low = 8 and whole steps of 8: 24 would be.",
    ),
    "range of words": ({"encoder": {"low": 1, "high": 2}}, "encoder: its values are no numbers"),
    "list of lists": ({"dropout": [[0.1], 0.2]}, "[0.1] is not a number, a word, true or false."),
    "seed": ({"seed": {"low": 1, "high": 9}}, "seed can't be searched, for the luckiest seed"),
    "itself": ({"search.trials": [1, 2]}, "search.trials is a setting of the search itself"),
    "together": ({"strategy": ["auto", "single"]}, "strategy can't be searched"),
    "folds": ({"folds.count": [0, 3]}, "folds.count can't be searched, for a trial is one"),
}


def test_what_is_right_is_not_searched():
    """Its settings are those of several tasks."""
    for name in ("output", "competition.label_column", "lowercase_scores", "mask_rate"):
        assert "scores for different answers" in find_name_fault(name, {name: 1}, None)


def test_a_trial_has_names_that_are_not_ascii():
    class Named(BaseSettings):
        names: list[str] = []

    flags = as_flags(Named(), {"names": ["标题", "ü, x"]})
    assert CliApp.run(Named, cli_args=flags).names == ["标题", "ü, x"]


@pytest.fixture(scope="module")
def process(baked):
    """Runs the commands that end before a training."""
    process = ProjectProcess(baked)
    yield process
    process.stop()


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_a_bad_range_is_one_sentence(process, case):
    space, words = BAD[case]
    done = process.run(SCRIPT, *asked(space))
    assert done.code == 1 and done.out == ""
    assert done.err.startswith(f"error: --search.space.{next(iter(space))}: "), done.err
    assert words in done.err and done.err.count("\n") == 1
    assert not (process.project / "runs").exists()


@pytest.mark.slow
def test_a_bad_range_in_the_file_has_its_line(process):
    config = process.project / "config.toml"
    before = config.read_text(encoding="utf-8")
    try:
        config.write_text(f"{before}\n[search.space]\ndropout = [0.0, 2]\n", encoding="utf-8")
        done = process.run(SCRIPT)
        line = before.count("\n") + 3
        assert f"error: config.toml, line {line}: search.space.dropout: 2 is imp" in done.err
        # A training reads one value of each setting: it needs no space.
        done = process.run(SCRIPT, "--search.trials", "0")
        assert "--search.trials = '0' (trainings of a search)" in done.err
    finally:
        config.write_text(before, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "error: search.space is empty: write what to search into the table [search.space]"),
        ([*asked(), "--overwrite=true"], "error: a search is not overwritten: delete its folder"),
        ([*asked(), "--run_name=a/b"], "error: --run_name a/b: the folder of a search lies in"),
        ([*asked(), "--strategy=multi_worker"], "--strategy"),
    ],
)
def test_what_a_search_refuses(process, words, sentence):
    done = process.run(SCRIPT, *words)
    assert done.code == 1 and sentence in done.err and done.err.count("\n") == 1


# -------------------------------------------------------------------------- the search


@pytest.mark.slow
def test_a_search_from_its_first_trial_to_the_lead(project):
    words = asked(trials=8, seeds=2, keep_best=2)
    said = search(project, *words).stdout
    trials, folder = trials_of(project), project / "runs/search"
    assert [trial.number for trial in trials] == [*range(8)]
    # The first trial has the default settings; each has the score of its run.
    assert trials[0].params == {"learning_rate": 0.001, "dropout": 0.1}
    for trial in trials:
        run_folder = folder / f"trial_{trial.number + 1}"
        assert trial.value == read_json(run_folder / "scores.json")["dev"]["f1"]
        assert 1e-4 <= trial.params["learning_rate"] <= 1e-2
        assert trial.params["dropout"] in SPACE["dropout"]
    # The two best have their weights.
    order = sorted(trials, key=lambda trial: (-trial.value, trial.number))
    kept = {path.parent.name for path in folder.glob("trial_*/best.weights.h5")}
    kept = {name for name in kept if "seed" not in name}
    assert kept == {f"trial_{trial.number + 1}" for trial in order[:2]}
    best = f"trial_{order[0].number + 1}"
    names = [f"trial_{number}" for number in range(1, 9)]
    names += [f"{kind}_seed_{seed}" for seed in (2, 3) for kind in (best, "default")]
    assert trained(project) == names
    check_lead(project, best, said)
    # The same command has nothing left to train, and more trials go on where it ended.
    assert search(project, *words).stdout.splitlines()[-3:] == said.splitlines()[-3:]
    assert trained(project) == names
    search(project, *asked(trials=9, seeds=0))
    assert trained(project) == [*names, "trial_9"]
    done = search(project, *asked({"dropout": [0.0, 0.1]}), check=False)
    assert done.returncode == 1 and "was begun with [search.space] = " in done.stderr
    done = search(project, *asked(seed=2), check=False)
    assert "runs/search was begun with [search] seed = 1, now it is 2: go on with" in done.stderr


def check_lead(project, best, said):
    """Compare the interval of the mean lead with a loop over drawn records."""
    lead = read_json(project / "runs/search/result.json")["lead"]
    lines = (project / "sample/dev.jsonl").read_text("utf-8").splitlines()
    gold = np.array([len(json.loads(line)["triples"]) for line in lines])

    def counts(name):
        path = project / f"runs/search/{name}/predictions/dev.jsonl"
        return np.array([len(json.loads(line)["triples"]) for line in path.open("r")])

    found = {kind: [counts(f"{kind}_seed_{seed}") for seed in (2, 3)] for kind in (best, "default")}

    def mean_f1(runs, drawn):
        return np.mean([2 * r[drawn].sum() / (r[drawn] + gold[drawn]).sum() for r in runs])

    random, differences = np.random.default_rng(5), []
    for _ in range(4000):
        drawn = random.integers(0, len(gold), len(gold))
        differences.append(mean_f1(found[best], drawn) - mean_f1(found["default"], drawn))
    everything = np.arange(len(gold))
    wanted = mean_f1(found[best], everything) - mean_f1(found["default"], everything)
    assert lead["difference"] == pytest.approx(wanted)
    assert [lead["low"], lead["high"]] == pytest.approx(
        np.percentile(differences, [2.5, 97.5]), abs=0.005
    )
    assert [row["seed"] for row in lead["by_seed"]] == [2, 3]
    assert lead["low"] > 0 and "ahead with 2 of 2: the lead survives." in said
    value = {trial.number: trial.value for trial in trials_of(project)}
    ahead_by = value[int(best.removeprefix("trial_")) - 1] - value[0]
    assert f"{best} against the default settings: {ahead_by:+.4f} in the search; with 2" in said


@pytest.mark.slow
def test_default_settings_that_are_best_need_no_seeds(project):
    space = {"dropout": [0.1, 0.3]}
    said = search(project, *asked(space, trials=3)).stdout
    assert "no trial is better than the default settings." in said
    assert trained(project) == ["trial_1", "trial_2", "trial_3"]


@pytest.mark.slow
def test_a_failed_trial_is_noted_and_counted(project):
    space = {"dropout": [0.1, 0.3, 0.5]}
    said = search(project, *asked(space, trials=8, seeds=0)).stdout
    failed = [trial for trial in trials_of(project) if trial.params["dropout"] == 0.5]
    assert failed and all(trial.state.name == "FAIL" for trial in failed)
    assert all(trial.user_attrs == {"error": "dropout of a half."} for trial in failed)
    assert said.count(": failed: dropout of a half.") == len(failed)
    assert len(trials_of(project)) == 8
    for trial in failed:
        note = project / f"runs/search/trial_{trial.number + 1}/note.txt"
        assert note.read_text() == "failed: dropout of a half.\n"


@pytest.mark.slow
def test_default_settings_that_fail_leave_the_result(project):
    """They may need more memory than there is, and nothing better is to be compared with them."""
    words = [*asked({"dropout": [0.1, 0.5]}, trials=2, seeds=1), "--dropout=0.5"]
    said = search(project, *words).stdout
    assert "best: trial_2" in said and "--dropout 0.1" in said
    reason = "the lead over the default settings is not known: default_seed_2 failed: dropout"
    assert reason in said
    found = read_json(project / "runs/search/result.json")
    assert found["best"] == {"dropout": 0.1} and found["lead"] is None
    assert reason in found["said"] and (project / "runs/search/search.html").is_file()


@pytest.mark.slow
def test_a_search_of_failures_ends(project):
    words = [*asked({"learning_rate": [0.1, 0.2]}, trials=9), "--dropout=0.5"]
    done = search(project, *words, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == (
        "error: 3 trials failed and none was trained, the last one thus: dropout of a half."
    )
    assert trained(project) == ["trial_1", "trial_2", "trial_3"]


@pytest.mark.slow
def test_two_processes_share_one_study(project):
    words = [str(project / SCRIPT), *asked(trials=7, seeds=1)]
    done = run_together([(words, project, ENVIRONMENT)] * 2)
    assert [one.returncode for one in done] == [0, 0], done
    trials = trials_of(project)
    assert [trial.number for trial in trials] == [*range(7)]
    assert all(trial.state.name == "COMPLETE" for trial in trials)
    # Each drew settings of its own, and each run was trained once.
    assert len({json.dumps(trial.params) for trial in trials}) == 7
    assert len(trained(project)) == len({*trained(project)}) == 9
    own = [one.stdout.count("learning_rate = ") for one in done]
    assert sum(own) >= 7 and min(own) > 0
    assert sum("mean difference" in one.stdout for one in done) >= 1


@pytest.mark.further
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_an_interrupted_search_goes_on(project):
    """Told to end in its second trial, killed in the second again, it counts that trial once."""
    words = asked(trials=3, seeds=0)
    command = [sys.executable, str(project / SCRIPT), *words]
    environment = {**os.environ, **ENVIRONMENT}
    hold = project / "hold_trial_2"
    hold.touch()
    drawn = []
    for number, kill in ((signal.SIGTERM, os.kill), (signal.SIGKILL, os.killpg)):
        before = len(trained(project)) if (project / "trained.txt").exists() else 0
        process = subprocess.Popen(
            command, cwd=project, env=environment, start_new_session=True, stdout=subprocess.PIPE
        )
        deadline = time.monotonic() + 240
        while not (project / "trained.txt").exists() or not (
            len(trained(project)) > before and trained(project)[-1] == "trial_2"
        ):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        kill(process.pid, number)
        said = process.communicate(timeout=300)[0].decode()
        assert process.returncode == (143 if number == signal.SIGTERM else -number)
        assert ("told to end: all is saved" in said) == (number == signal.SIGTERM)
        drawn.append(trials_of(project)[1].params)
        assert [trial.state.name for trial in trials_of(project)] == ["COMPLETE", "RUNNING"]
    hold.unlink()
    search(project, *words)
    trials = trials_of(project)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 3
    assert drawn == [trials[1].params] * 2
    assert trained(project) == ["trial_1", "trial_2", "trial_2", "trial_2", "trial_3"]
    # Uninterrupted, it would have drawn the same.
    search(project, *words, "--run_name=whole")
    assert [t.params for t in trials_of(project, "whole")] == [t.params for t in trials]


@pytest.mark.slow
def test_a_finished_training_whose_trial_was_not_ended(project):
    """Killed between the two: it is not trained again."""
    search(project, *asked(trials=1, seeds=0))
    table = Table(trials=2)
    space = [
        Searched(name, make_distribution(SPACE[name], default), default)
        for name, default in (("learning_rate", 0.001), ("dropout", 0.1))
    ]
    study = SharedStudy(project / "runs/search", space, table)
    claimed = study.next_trial()
    shutil.copytree(project / "runs/search/trial_1", project / "runs/search/trial_2")
    assert study.next_trial() is None  # another process is at it
    claimed.lock.release()
    search(project, *asked(trials=2, seeds=0))
    assert trained(project) == ["trial_1"]
    assert [trial.state.name for trial in trials_of(project)] == ["COMPLETE"] * 2


HOLDER = """
import sys, time, filelock
with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(1)
"""


def test_a_training_that_outlived_its_search_is_waited_for(tmp_path, capsys):
    """A second one must not begin meanwhile."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / ".training.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        wait_for_survivor(tmp_path)
        assert process.wait(timeout=5) == 0
    assert "is still trained by a process of a search that was killed" in capsys.readouterr().out
    wait_for_survivor(tmp_path)
    assert capsys.readouterr().out == ""


# ----------------------------------------------------------------------------- pruning


def test_a_trial_that_falls_behind_is_stopped(tmp_path):
    table = Table(startup_trials=1, trials=9)
    space = [Searched("dropout", make_distribution([0.1, 0.2, 0.3], 0.1), 0.1)]
    study = SharedStudy(tmp_path / "search", space, table)
    assert report(study, table, [0.2, 0.5, 0.6, 0.7]) == (4, False)
    study_end(study, 0.7)
    # Better at the first scoring, which is not judged; behind at the third.
    assert report(study, table, [0.3, 0.5, 0.5, 0.9]) == (3, True)
    trial = study.trials()[1]
    assert trial.user_attrs == {"pruned_after": 3}
    assert trial.intermediate_values == {1: 0.3, 2: 0.5, 3: 0.5}
    ended = study.end(trial, 0.5)
    assert ended.state.name == "PRUNED" and study.end(trial, 0.6).state.name == "PRUNED"
    none = Table(pruner="none")
    study.next_trial()
    assert report(study, none, [0.1, 0.1, 0.1, 0.1], 2) == (4, False)


def test_hyperband_stops_what_falls_behind(tmp_path):
    """Trials of any process: its brackets follow from the journal, with 9 scorings in all."""
    table = Table(pruner="hyperband", trials=40)
    space = [Searched("dropout", make_distribution([0.1, 0.2, 0.3], 0.1), 0.1)]
    study = SharedStudy(tmp_path / "search", space, table)
    # Before a trial is complete, the number of scorings is unknown.
    assert report(study, table, [0.1] * 9) == (9, False)
    study_end(study, 0.1)
    ended = {"good": [], "bad": []}
    for number in range(1, 19):
        kind = "bad" if number % 3 else "good"
        score = {"good": 0.7, "bad": 0.2}[kind] + number / 100
        ended[kind].append(report(study, table, [score] * 9)[0])
        study_end(study, score)
    # The first good one of each bracket leads it; the others rise above all that are bad.
    assert ended["good"] == [9] * 6
    stopped = [count for count in ended["bad"] if count < 9]
    assert len(stopped) >= 6 and {1, 3} & {*stopped}
    states = [trial.state.name for trial in study.trials()]
    assert states.count("PRUNED") == len(stopped) and len(states) == 19


def study_end(study, score):
    [trial] = [trial for trial in study.trials() if trial.state.name == "RUNNING"]
    return study.end(trial, score)


def report(study, table, scores, number=None):
    """Report scores as a training does; return how many it had, and whether it was stopped."""
    if number is None:
        number = study.next_trial().trial.number
    folder = study.folder / f"trial_{number + 1}"
    folder.mkdir(exist_ok=True)
    position = SimpleNamespace(updates=0, stopped=False)
    training = SimpleNamespace(
        run=SimpleNamespace(folder=folder, position=position),
        models=SimpleNamespace(training=SimpleNamespace(stop_training=False)),
        settings=SimpleNamespace(search=table),
        kept_weights=OwnWeights(),
        last_step=10 * len(scores),
    )
    hooks.prepare(training)
    for count, score in enumerate(scores, start=1):
        position.updates = 10 * count
        for _ in range(2):  # the second time as after an interruption
            training.kept_weights.add(None, position.updates, score)
        with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write("{}\n")
        if training.models.training.stop_training:
            break
    assert position.stopped == training.models.training.stop_training
    return count, position.stopped


def test_other_trainings_report_nothing(tmp_path):
    for name in ("default", "trial_1"):
        (tmp_path / name).mkdir()
        training = SimpleNamespace(run=SimpleNamespace(folder=tmp_path / name), kept_weights=1)
        hooks.prepare(training)
        assert training.kept_weights == 1


# ------------------------------------------------------------------------ importances


def test_importances_are_shares_of_the_variance(tmp_path):
    """Of 3 x + y, uniform and independent, x explains 9 / 10 of the variance."""
    study = open_study(tmp_path, Table())
    study.sampler = optuna.samplers.RandomSampler(seed=1)
    assert find_importances(study, 1) == {}
    study.optimize(lambda t: 3 * t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), 150)
    found = find_importances(study, 1)
    points = np.random.default_rng(1).random((100_000, 2)) * (3, 1)
    shares = points.var(axis=0) / points.sum(axis=1).var()
    assert list(found) == ["x", "y"]
    assert [found["x"], found["y"]] == pytest.approx(shares, abs=0.05)
    assert found == find_importances(study, 1)


def test_equal_scores_have_no_importances(tmp_path):
    study = open_study(tmp_path, Table())
    study.optimize(lambda trial: 0 * trial.suggest_float("x", 0, 1), 5)
    assert find_importances(study, 1) == {}


# ---------------------------------------------------------------------------- the page


@pytest.mark.slow
@needs_chromium
def test_the_page(project, tmp_path):
    space = {**SPACE, "batch_size": {"low": 8, "high": 32, "step": 8}}
    space["dropout"] = [0.0, 0.1, 0.3, 0.5]
    search(project, *asked(space, trials=12, seeds=2))
    page = project / "runs/search/search.html"
    found = open_page(page, tmp_path, width=1000)
    assert found["faults"] == [] and found["drawings"] == 5  # parallel, history, three settings
    text = found["text"]
    for words in ("Does the lead survive?", "Parallel coordinates", "Importances", "All trials"):
        assert words in text
    best = max((t for t in trials_of(project) if t.value), key=lambda trial: trial.value)
    assert f"best F1, trial {best.number + 1}" in text and "the lead survives." in text
    assert "dropout of a half." in text
    assert open_page(page, tmp_path, dark=True)["background"] == "rgb(13, 17, 23)"
    assert open_page(page, tmp_path)["width"] <= 390
    whole = dump(page)
    lines = [t for t in trials_of(project) if t.state.name != "FAIL"]
    assert whole.count('<polyline class="trial') == len(lines)


# ------------------------------------------------------------------------ real trainings

LOOPS = {"keras": {}, "orbit": {"orbit.enabled": True, "orbit.steps_per_loop": 4}}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_a_real_training_is_stopped_by_any_loop(pruner, tmp_path):
    """It ends as one that does not improve: with its best weights, predictions and a report."""
    project = bake_project("relation_extraction", tmp_path, "comparison, search, orbit")
    shorten(project, {"train": 24, "dev": 12})
    table = Table(pruner=pruner, startup_trials=1, trials=9 + len(LOOPS))
    space = [Searched("dropout", make_distribution([0.1, 0.2, 0.3], 0.1), 0.1)]
    study = SharedStudy(project / "runs/rates", space, table)
    for _ in range(9):  # scores that no model of six epochs has
        report(study, table, [0.99] * 6)
        study_end(study, 0.99)
    own = {"epochs": 6, "batch_size": 8, "search.pruner": pruner, "search.startup_trials": 1}
    for loop, asked_loop in LOOPS.items():
        if loop == "orbit" and not HAS_ORBIT:
            continue
        number = study.next_trial().trial.number
        name = f"trial_{number + 1}"
        words = flags(project, run_name=f"rates/{name}", **own, **asked_loop)
        run("train.py", *words, cwd=project)
        folder = project / "runs/rates" / name
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").open("r")]
        after = study.trials()[number].user_attrs["pruned_after"]
        assert len(rows) == after < 6 and read_json(folder / "scores.json")["finished"]
        assert (folder / "best.weights.h5").is_file() and (folder / "report.html").is_file()
        study.end(study.trials()[number], 0.0)
        assert study.trials()[number].state.name == "PRUNED"


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(
    "template", further(["pretraining", "text_classification"], "text_classification")
)
def test_real_trainings(template, tmp_path):
    """One trial that reports its scorings, and one further seed of it and of the default."""
    project = bake_project(template, tmp_path, "comparison, search")
    shorten(project, {"train": 24, "dev": 12})
    words = flags(project, epochs=2, batch_size=8)
    table = asked({"learning_rate": [0.01, 0.02]}, trials=1, seeds=1)
    done = search(project, *words, *table, "--run_name=real")
    [trial] = trials_of(project, "real")
    folder = project / "runs/real"
    scores = read_json(folder / "trial_1/scores.json")
    assert trial.value == scores["dev"][scores["monitor"]]
    rows = [json.loads(line) for line in (folder / "trial_1/metrics.jsonl").open("r")]
    reported = {n: row[f"dev_{scores['monitor']}"] for n, row in enumerate(rows, start=1)}
    assert trial.intermediate_values == reported and len(rows) == 2
    config = read_json(folder / "trial_1/config.json")
    assert config["learning_rate"] == trial.params["learning_rate"] and config["epochs"] == 2
    for name, rate in (("trial_1_seed_2", trial.params["learning_rate"]), ("default_seed_2", None)):
        config = read_json(folder / name / "config.json")
        assert config["seed"] == 2
        assert rate is None or config["learning_rate"] == rate
    assert "trial_1 against the default settings: with 1 further seed" in done.stdout

"""Bad input: one sentence that says what, where and how to fix it; nothing on disk is touched."""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from filelock import FileLock
from project_process import ProjectProcess
from projects import (
    CASES,
    ENVIRONMENT,
    TASKS,
    bake_project,
    flags,
    further,
    run,
    shorten,
    template_of,
)

from core.base.quiet_tensorflow import QuietTensorFlow

# What stands in the training file after a good line, and the words of the sentence.
BROKEN_FILES = {
    "id of a wrong type": ("BAD ID", 'line 2: "id" must be a string or a whole number, not [1]'),
    "not JSON": (
        "{'id': 1}\n",
        "line 2: not a JSON object (column 2: Expecting property name",
        "write one {...} on each line",
    ),
    "cut short in a list": ('{"id": [{"a": 5', "(column 16: Expecting ',' delimiter)"),
    "cut short": ('{"id": "1", "te', "line 2: not a JSON object (column 13: Unterminated string"),
    "not an object": ("[1, 2]\n", "line 2: not a JSON object: write one"),
    "nested brackets": ("[" * 100_000, "line 2: not a JSON object (maximum recursion depth"),
    "endless number": ('{"id": ' + "1" * 5000 + "}\n", "line 2: not a JSON object (Exceeds the"),
    "half a character": (
        '{"id": "\\ud83d"}\n',
        "line 2: \\ud83d is half of a character: write both halves",
    ),
    "not UTF-8": (b'{"id": "\xff"}\n', "line 2: not UTF-8 (invalid start byte): save the file"),
    "UTF-16": ('{"id": "1"}\n'.encode("utf-16"), "line 2: not UTF-8"),
    "a megabyte": ("MEGABYTE", 'line 2: "id" must be a string or a whole number, not [...]'),
    "repeated id": ("\nGOOD", "line 3: id '0' is on line 1 already"),
}
EMPTY_FILES = {
    "empty file": ("", "holds no record: write one JSON object on each line"),
    "blank lines only": ("\n \n", "holds no record"),
}

# What stands above config.toml, and the words of the sentence.
BROKEN_SETTINGS = {
    "unknown key": ("epoch = 3", "line 1: epoch is not a setting: did you mean epochs?"),
    "key of a table": ("xla = true", "line 1: xla is not a setting: did you mean devices.xla?"),
    "broken TOML": ("epochs = = 3", "config.toml is not valid TOML", "line"),
}

# A command, and the words of the sentence.
BAD_COMMANDS = {
    "unknown flag": ("train.py --epocs 3", "unknown flag --epocs: did you mean --epochs?"),
    "wrong type": ("train.py --epochs three", "--epochs = 'three'", "valid integer"),
    "not finite": ("train.py --learning_rate inf", "--learning_rate = 'inf'", "finite number"),
    "not finite in a table": (
        "train.py --optimizers.schedule_power inf",
        "--optimizers.schedule_power = 'inf'",
        "finite number",
    ),
    "endless seed": ("train.py --seed 4294967296", "--seed = '4294967296'", "less than 4294967296"),
    "value out of range": ("train.py --batch_size 0", "--batch_size = '0'", "greater than"),
    "not a choice": (
        "train.py --optimizers.schedule steps",
        "--optimizers.schedule = 'steps'",
        "'linear', 'cosine'",
    ),
    "run name with a folder": (
        "train.py --run_name a/b/c",
        "goes on with it): write letters, digits, _, - and ., and at most one / between them",
    ),
    "one fold": (
        "train.py --folds.count 1",
        "--folds.count = '1'",
        "one fold leaves nothing to train on: set it to 2 or more, or to 0",
    ),
    "more folds than texts": (
        "extras/folds/cross_validate.py --folds.count 900 --run_name new",
        "folds.count = 900, but the training file has ",
        "of records that share no text: set it to ",
    ),
    "folds for parameter servers": (
        "train.py --folds.count 2 --strategy parameter_server",
        "strategy = parameter_server trains one model on several machines",
    ),
    "run of another task": (
        "predict.py foreign sample/test.jsonl out.jsonl",
        "foreign is a run of another task, Juggling: use the project that trained it",
    ),
    "the same run twice": (
        "predict.py done runs/done sample/test.jsonl out.jsonl",
        "done is named twice: name each run once",
    ),
    "batch that cannot be split": (
        "train.py --batch_size 10 --accumulation 4 --run_name new",
        "a batch of 10 examples can't be split evenly",
        "make batch_size a multiple of 4",
    ),
    "absent training file": ("train.py --train_file no.jsonl", "no.jsonl is not a file: check"),
    "absent dev file": ("train.py --dev_file sample", "sample is not a file: check the path"),
    "absent encoder": (
        "train.py --encoder ./no/folder --run_name new",
        "encoder = './no/folder' is not a folder",
    ),
    "unknown encoder": ("train.py --encoder brt_tiny --run_name new", "encoder = 'brt_tiny'"),
    "encoder without tokenizer": (
        "train.py --encoder encoders/no_tokenizer --run_name new",
        "lacks config.json, or a tokenizer in tokenizer.json or vocab.txt: save model and",
    ),
    "encoder without weights": (
        "train.py --encoder encoders/no_weights --run_name new",
        "encoder = 'encoders/no_weights' can't be loaded",
    ),
    "no TPU": ("train.py --strategy tpu --buckets 1 --run_name new", "no TPU of this machine was"),
    "no cluster": (
        "train.py --strategy multi_worker --run_name new",
        "neither TF_CONFIG nor SLURM nor Kubernetes names several workers: start with "
        "extras/cluster/launch.py",
    ),
    "finished run": (
        "train.py --run_name done",
        "runs/done is a finished run: choose another name with --run_name",
    ),
    "unfinished run, other settings": (
        "train.py --run_name begun --seed 2",
        "runs/begun was begun with seed = 1, now it is 2: go on with the old value",
    ),
    "unfinished run, other data": (
        "train.py --run_name begun --train_file sample/dev.jsonl",
        "runs/begun was begun with another content of sample/dev.jsonl: restore that",
    ),
    "damaged checkpoint": (
        "train.py --run_name begun",
        "checkpoint.npz is damaged",
        "delete it to begin the run anew",
    ),
    "checkpoint of another shape": (
        "train.py --run_name changed",
        "checkpoint.npz is of a model of another shape",
    ),
    "run that does not exist": (
        "evaluate.py absent sample/test.jsonl",
        "absent",
        "runs/ has begun, changed, crossed, damaged, done, foreign",
    ),
    "run without weights": (
        "predict.py begun sample/test.jsonl out.jsonl",
        "begun has no weights yet: let train.py finish one epoch first",
    ),
    "damaged weights": (
        "predict.py damaged sample/test.jsonl out.jsonl",
        "best.weights.h5 is missing, damaged or swapped: restore it, or train again",
    ),
    "damaged weights of an earlier version": (
        "predict.py unnoted sample/test.jsonl out.jsonl",
        "best.weights.h5 does not fit the model, or is damaged",
    ),
    "swapped tokenizer": (
        "predict.py swapped sample/test.jsonl out.jsonl",
        "swapped/tokenizer.json is missing, damaged or swapped",
    ),
    "run without its tokenizer": (
        "predict.py tokenless sample/test.jsonl out.jsonl",
        "tokenless/tokenizer.json is missing, damaged or swapped",
    ),
    "run of an earlier version without its tokenizer": (
        "predict.py unnoted_tokenless sample/test.jsonl out.jsonl",
        "unnoted_tokenless/tokenizer.json can't be read",
    ),
    "swapped tokenizer, compared": (
        "compare.py done swapped",
        "swapped/tokenizer.json is missing, damaged or swapped",
    ),
    "torn tokenizer of an earlier version": (
        "predict.py torn sample/test.jsonl out.jsonl",
        "torn/tokenizer.json can't be read",
    ),
    "empty labels": (
        "predict.py unlabelled sample/test.jsonl out.jsonl",
        "unlabelled/labels.json holds no JSON object, or an empty one",
    ),
    "scores that are a list": (
        "train.py --run_name listed",
        "listed/scores.json holds no JSON object, or an empty one",
    ),
    "settings that are a list": (
        "predict.py unset sample/test.jsonl out.jsonl",
        "unset/config.json holds no JSON object, or an empty one",
    ),
    "finished run without settings": (
        "train.py --run_name lost",
        "runs/lost is a finished run without its config.json: choose another name",
    ),
    "weights of another shape": (
        "evaluate.py reshaped sample/test.jsonl",
        "best.weights.h5 does not fit the model, or is damaged",
    ),
    "unfinished cross-validation": (
        "predict.py crossed sample/test.jsonl out.jsonl",
        "crossed has 1 of 2 folds: let the cross-validation finish first",
    ),
    "runs of other tokens": (
        "predict.py done retokenised sample/test.jsonl out.jsonl",
        "done and retokenised have different tokens: only scores of the same ones can be averaged",
    ),
    "out is a folder": ("predict.py done sample/test.jsonl sample", "sample is a folder: name"),
    "out lies in a file": (
        "predict.py done sample/test.jsonl config.toml/out.jsonl",
        "config.toml must be a folder, and open to you",
    ),
    "out lies nowhere": (
        "predict.py done sample/test.jsonl no/out.jsonl",
        "no/out.jsonl can't be written",
        "no must be a folder, and open to you",
    ),
    "out is what is read": (
        "predict.py done sample/test.jsonl ./sample/../sample/test.jsonl",
        "test.jsonl is the file that is read: name another one to write",
    ),
    "compared with another file": (
        "compare.py done other_data",
        "done was scored on sample/dev.jsonl and other_data on sample/dev.jsonl, which differ",
    ),
    "compared with nothing": ("compare.py done nothing", "nothing is not a run: runs/ has "),
    "checked without data": ("check.py --train_file no.jsonl", "no.jsonl is not a file"),
}
HIDDEN = ("__pycache__", ".pytest_cache", ".training.lock")

pytestmark = pytest.mark.trains


def contents(folder) -> dict[str, str]:
    """Return the hash of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(HIDDEN) & set(path.parts)
    }


# One task shows what all do by the same code.
SHOWN = "relation_extraction"


@pytest.fixture(scope="module", params=further(TASKS, SHOWN))
def project(request, tmp_path_factory):
    """A project with a short sample and runs in every state of disrepair."""
    project = bake_project(request.param, tmp_path_factory.mktemp("bad"))
    shorten(project, {"train": 24, "dev": 24, "test": 24})
    settings = project / "config.toml"
    small = {"tiny_width": 16, "tiny_layers": 1, "steps": 1, "epochs": 1}
    for name, value in small.items():
        text = re.sub(
            rf"^{name} = \d+", f"{name} = {value}", settings.read_text("utf-8"), flags=re.M
        )
        settings.write_text(text, encoding="utf-8")
    write_encoders(project / "encoders")
    (project / "plain.jsonl").write_text(CASES[request.param].PLAIN, encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def case(project):
    """What the task brings."""
    return CASES[template_of(project)]


@pytest.fixture(scope="module")
def process(project):
    process = ProjectProcess(project)
    for name, width in (("done", 16), ("wide", 32)):
        done = process.run("train.py", "--run_name", name, "--tiny_width", str(width))
        assert done.code == 0, done.err
    break_runs(project / "runs")
    yield process
    process.stop()


def write_encoders(folder):
    """Write folders that look like encoders and lack something."""
    config = {"model_type": "bert", "hidden_act": "gelu"}
    for name in ("no_tokenizer", "no_weights"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    (folder / "no_weights/vocab.txt").write_text(words, encoding="utf-8")


def break_runs(runs):
    """Copy the finished run, and break each copy in another way."""
    for name in (
        "begun",
        "changed",
        "damaged",
        "reshaped",
        "retokenised",
        "unscored",
        "other_data",
        "foreign",
        "swapped",
        "torn",
        "unlabelled",
        "listed",
        "unset",
        "lost",
        "textual",
        "unnoted",
        "tokenless",
        "unnoted_tokenless",
    ):
        shutil.copytree(runs / "done", runs / name)
    shutil.copytree(runs / "done", runs / "crossed" / "fold_1")
    config = json.loads((runs / "done/config.json").read_text(encoding="utf-8"))
    crossed = {**config, "folds": {"count": 2}}
    (runs / "crossed/config.json").write_text(json.dumps(crossed), encoding="utf-8")
    foreign = {**config, "task": "Juggling"}
    (runs / "foreign/config.json").write_text(json.dumps(foreign), encoding="utf-8")
    # As runs of earlier versions: without a manifest.
    for name in ("reshaped", "retokenised", "foreign", "torn", "unlabelled", "unset", "unnoted"):
        (runs / name / "manifest.json").unlink()
    (runs / "unnoted_tokenless/manifest.json").unlink()
    for name in ("tokenless", "unnoted_tokenless"):
        (runs / name / "tokenizer.json").unlink()
    tokens = (runs / "swapped/tokenizer.json").read_bytes()
    (runs / "swapped/tokenizer.json").write_bytes(tokens + b" ")
    torn = (runs / "torn/tokenizer.json").read_bytes()
    (runs / "torn/tokenizer.json").write_bytes(torn[: len(torn) // 2])
    (runs / "unlabelled/labels.json").write_text("{}", encoding="utf-8")
    (runs / "listed/scores.json").write_text("[]", encoding="utf-8")
    (runs / "unset/config.json").write_text("[]", encoding="utf-8")
    (runs / "lost/config.json").unlink()
    (runs / "unnoted/best.weights.h5").write_bytes(b"\x89HDF cut short")
    scores = json.loads((runs / "textual/scores.json").read_text(encoding="utf-8"))
    scores["dev"]["threshold"] = "0.5"
    (runs / "textual/scores.json").write_text(json.dumps(scores), encoding="utf-8")
    tokenizer = runs / "retokenised/tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    for name in ("begun", "changed"):
        (runs / name / "scores.json").unlink()
    (runs / "begun/best.weights.h5").unlink()
    (runs / "begun/checkpoint.npz").write_bytes(b"PK\x03\x04 cut short")
    position = dict.fromkeys(("epoch", "step", "updates", "waited"), 0)
    position |= {"seconds": 0.0, "best": -1.0, "stopped": False}
    arrays = {f"position/{name}": np.asarray(value) for name, value in position.items()}
    np.savez(runs / "changed/checkpoint.npz", **arrays, **{"00000": np.zeros(3)})
    weights = bytearray((runs / "damaged/best.weights.h5").read_bytes())
    weights[len(weights) // 2] ^= 1  # HDF5 would load them
    (runs / "damaged/best.weights.h5").write_bytes(weights)
    shutil.move(runs / "wide/best.weights.h5", runs / "reshaped/best.weights.h5")
    shutil.rmtree(runs / "wide")
    (runs / "unscored/scores.json").unlink()
    scores = json.loads((runs / "other_data/scores.json").read_text(encoding="utf-8"))
    scores["dev"]["data_hash"] = "sha256:0"
    (runs / "other_data/scores.json").write_text(json.dumps(scores), encoding="utf-8")


def assert_refused(process, command, words, **options):
    """Run a command: one sentence with these words, exit code 1 or 2, every file as it was."""
    before = contents(process.project.parent)
    done = process.run(*command, **options)
    print(done.err)
    assert len(done.err) < 10_000
    sentences = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert done.code in (1, 2) and "Traceback" not in done.err
    assert len(sentences) == 1 and sentences[0].endswith((".", "?"))
    for word in words:
        assert word in sentences[0]
    assert contents(process.project.parent) == before


def assert_file_refused(process, tmp_path, content, words, names_file=True):
    """Train on a file: refused, and the file is as it was."""
    content = content if isinstance(content, bytes) else content.encode()
    file = tmp_path / "train.jsonl"
    file.write_bytes(content)
    place = [str(file)] if names_file else []
    command = ("train.py", "--run_name", "new", "--train_file", file)
    assert_refused(process, command, [*place, *words])
    assert file.read_bytes() == content


@pytest.mark.parametrize("name", [*BROKEN_FILES, *EMPTY_FILES])
def test_broken_files(name, process, case, tmp_path):
    content, *words = {**BROKEN_FILES, **EMPTY_FILES}[name]
    good = case.GOOD if name in BROKEN_FILES else ""
    if isinstance(content, bytes):
        content = good.encode() + content
    else:
        bad_id = case.GOOD.replace('"id": "0"', '"id": [1]')
        content = good + content.replace("GOOD", case.GOOD).replace("BAD ID", bad_id)
        large = bad_id.replace("[1]", f'["{"x" * 1_000_000}"]')
        content = content.replace("MEGABYTE", large)
    assert_file_refused(process, tmp_path, content, words)


def test_broken_files_of_the_task(process, case, tmp_path, subtests):
    for name, (content, *words) in case.BROKEN_FILES.items():
        with subtests.test(name):
            assert_file_refused(process, tmp_path, content, words)


BAD_WEIGHTS = {"below 0": -1, "text": "1", "true": True, "list": [1]}
BAD_WEIGHTS |= {"infinite": math.inf, "no number": math.nan, "null": None, "huge": 10**400}
BAD_WEIGHTS |= {"too large for float32": 1e39}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_bad_weights(name, process, case, tmp_path):
    record = {**json.loads(case.GOOD.splitlines()[0]), "id": "w", "weight": BAD_WEIGHTS[name]}
    content = case.GOOD + json.dumps(record) + "\n"
    shown = "[...]" if name == "huge" else repr(BAD_WEIGHTS[name])
    words = [f'line 2: "weight" must be a number from 0 to 1e+30, not {shown}']
    assert_file_refused(process, tmp_path, content, words)


def test_nothing_to_learn(process, case, tmp_path, subtests):
    for name, (content, *words) in case.NOTHING_TO_LEARN.items():
        with subtests.test(name):
            assert_file_refused(process, tmp_path, content, words, names_file=False)


def test_labels_are_needed_to_evaluate(process, case):
    assert_refused(process, ("evaluate.py", "done", "plain.jsonl"), [case.PLAIN_REFUSED])


def test_null_is_unknown(process, case, tmp_path):
    """Hosts, and tables with empty cells, write null for what a file to predict does not hold."""
    [name] = case.PLAIN_REFUSED.split('"')[1:2]
    plain, null = tmp_path / "plain.jsonl", tmp_path / "null.jsonl"
    plain.write_text(case.PLAIN, encoding="utf-8")
    names = {"answer_texts", "text_b", "context", "group", "fold_group"}
    record = {**dict.fromkeys({name} | names & {*case.FIELDS}), **json.loads(case.PLAIN)}
    null.write_text(json.dumps(record) + "\n", encoding="utf-8")
    for file in (plain, null):
        done = process.run("predict.py", "done", file, file.with_suffix(".out"))
        assert done.code == 0, done.err
    assert plain.with_suffix(".out").read_bytes() == null.with_suffix(".out").read_bytes()
    assert_refused(process, ("evaluate.py", "done", null), ["line 1: ", f'"{name}"'])


def test_keys_that_nothing_reads_are_warned_of(process, case, tmp_path):
    """By line, each key once, and no more than a few; the records are read all the same."""
    strange = '{"id": 1, "idd": 0, "three": 0,'
    twice = '{"id": 2, "id": 3, "idd": 0, "four": 0, "five": 0,'
    rest = case.PLAIN.partition(",")[2]
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text(f"{case.PLAIN}{strange}{rest}{twice}{rest}", encoding="utf-8")
    done = process.run("predict.py", "done", file, out)
    assert done.code == 0, done.err
    # Those of the file alone: the run may have one of its own (its score chose nothing).
    warnings = [line for line in done.out.splitlines() if line.startswith(f"warning: {file}")]
    fields = ", ".join(case.FIELDS)
    assert warnings == [
        f'warning: {file}, line 2: "idd" is not read: the fields are {fields}',
        f'warning: {file}, line 2: "three" is not read: the fields are {fields}',
        f'warning: {file}, line 3: "id" occurs twice in one object: the fields are {fields}',
        f"warning: {file}: the same holds for 2 more keys",
    ]


def test_keys_within_an_object_are_warned_of(process, case, tmp_path):
    record = json.loads(case.GOOD)
    objects = [v[0] for v in record.values() if isinstance(v, list) and isinstance(v[0], dict)]
    if not objects:
        pytest.skip("its records hold no objects")
    objects[0]["triger"] = 0
    file = tmp_path / "in.jsonl"
    file.write_text(f"{case.GOOD}{json.dumps({**record, 'id': 1})}\n", encoding="utf-8")
    done = process.run("predict.py", "done", file, tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    assert f'warning: {file}, line 2: "triger" is not read: the fields are ' in done.out


def test_ids_keep_their_type(process, case, tmp_path):
    """A number comes back as a number, a string of digits as a string."""
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [case.PLAIN.replace('"id": "a"', f'"id": {name}') for name in ("7", '"8"', "-9")]
    file.write_text("".join(lines), encoding="utf-8")
    done = process.run("predict.py", "done", file, out)
    assert done.code == 0, done.err
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["id"] for record in records] == [7, "8", -9]
    repeated = "".join(lines) + case.PLAIN.replace('"id": "a"', '"id": "7"')
    file.write_text(repeated, encoding="utf-8")
    words = ["line 4: id '7' is on line 1 already"]
    assert_refused(process, ("predict.py", "done", file, out), words)


@pytest.mark.parametrize("name", BROKEN_SETTINGS)
def test_broken_settings_file(name, process):
    line, *words = BROKEN_SETTINGS[name]
    config = process.project / "config.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(f"{line}\n{text}", encoding="utf-8")
    try:
        assert_refused(process, ("train.py", "--run_name", "new"), ["config.toml", *words])
    finally:
        config.write_text(text, encoding="utf-8")


def test_value_of_the_settings_file_has_its_line(process):
    config = process.project / "config.toml"
    text = config.read_text(encoding="utf-8")
    changed = re.sub(r"^dropout = [\d.]+", "dropout = 1.1", text, count=1, flags=re.M)
    config.write_text(changed, encoding="utf-8")
    line = changed[: changed.index("\ndropout = 1.1")].count("\n") + 2
    try:
        assert_refused(process, ("train.py",), [f"config.toml, line {line}: dropout = 1.1"])
    finally:
        config.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_bad_commands(name, process):
    command, *words = BAD_COMMANDS[name]
    assert_refused(process, command.split(), words)


def test_bad_commands_of_the_task(process, case, subtests):
    for name, (command, *words) in case.BAD_COMMANDS.items():
        with subtests.test(name):
            assert_refused(process, command.split(), words)


@pytest.mark.parametrize(
    "command",
    [
        "train.py --run_name full",
        "evaluate.py done sample/test.jsonl",
        "predict.py done sample/test.jsonl out.jsonl",
        "compare.py done done",
    ],
)
def test_full_disk(command, process):
    words = ["the disk is full while writing ", "free some space and run the command again"]
    assert_refused(process, command.split(), words, full_disk=True)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_out_where_nobody_may_write(process, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    place = "/proc" if os.geteuid() == 0 else folder
    command = ("predict.py", "done", "sample/test.jsonl", f"{place}/out.jsonl")
    assert_refused(process, command, [f"{place}/out.jsonl can't be "])


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("predict.py", 2),
        ("compare.py absent", 1),
        ("train.py --epochs 0", 1),
    ],
)
def test_exit_codes_of_a_process(command, code, project):
    done = run(*command.split(), cwd=project, check=False)
    assert done.returncode == code
    assert "error: " in done.stderr and "Traceback" not in done.stderr


def test_a_run_that_another_process_trains(process):
    folder = process.project / "runs/taken"
    folder.mkdir()
    with FileLock(folder / ".training.lock"):
        words = ["runs/taken is being trained by another process: wait until it has ended"]
        assert_refused(process, ("train.py", "--run_name", "taken"), words)
    folder.joinpath(".training.lock").unlink()
    folder.rmdir()


def test_a_training_that_diverges(process):
    """It fails, and leaves neither weights that are no numbers nor a run that looks finished."""
    command = ("train.py", "--run_name", "diverged", "--learning_rate", "1e30", "--clip_norm", "0")
    command += ("--head_learning_rate", "1e30", "--epochs", "3", "--steps", "6", "--warm_up", "0")
    done = process.run(*command)
    folder = process.project / "runs/diverged"
    assert done.code == 1 and "Traceback" not in done.err
    assert "error: the loss or the weights are not finite after " in done.err
    assert not (folder / "best.weights.h5").exists() and not (folder / "scores.json").exists()
    shutil.rmtree(folder)


def run_alone(project, *command, **environment):
    """Run a script in an interpreter of its own; return what it leaves, as bytes."""
    kept = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    arguments = [sys.executable, *command]
    return subprocess.run(
        arguments, cwd=project, env={**kept, **environment}, capture_output=True, check=False
    )


def test_a_sentence_stands_alone(project):
    """What TensorFlow's libraries write as they are loaded does not precede it."""
    if template_of(project) != SHOWN:
        pytest.skip("all tasks load it by the same code: one of them shows it")
    done = run_alone(project, "train.py", "--epochs", "0", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 1
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("error: --epochs = '0'")


def test_what_else_a_library_writes_is_shown(project, tmp_path):
    """Errors above all: of a TensorFlow that can't be loaded."""
    if template_of(project) != SHOWN:
        pytest.skip("all tasks load it by the same code: one of them shows it")
    broken = tmp_path / "tensorflow"
    broken.mkdir()
    code = "import os\nos.write(2, b'I0000 note\\nF0000 no AVX\\n')\nraise ImportError('libc')\n"
    (broken / "__init__.py").write_text(code, encoding="utf-8")
    done = run_alone(project, "train.py", PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    told = done.stderr.decode()
    assert "F0000 no AVX" in told and "ImportError: libc" in told and "I0000" not in told


def test_loading_tensorflow_leaves_no_file_open():
    def next_descriptor() -> int:
        found = os.dup(2)
        os.close(found)
        return found

    finder, before = QuietTensorFlow(), next_descriptor()
    finder.load = lambda module: None
    finder.load_quietly(None)
    assert next_descriptor() == before


@pytest.mark.further
def test_a_terminal_of_ascii_ends_no_training(project, case):
    """Whatever the records hold: what it can't show is written as numbers."""
    if template_of(project) != SHOWN:
        pytest.skip("all tasks begin by the same code: one of them shows it")
    record = json.loads(case.GOOD)
    wide = json.dumps({**record, "text": record["text"] + " 北河大学"})
    (project / "wide.jsonl").write_text(wide, encoding="utf-8")
    command = ("train.py", *flags(project, dev_file="wide.jsonl", steps=1, shown_examples=1))
    try:
        done = run_alone(
            project, *command, "--run_name", "ascii", PYTHONIOENCODING="ascii", **ENVIRONMENT
        )
        assert done.returncode == 0, done.stderr
        assert rb"\u5317\u6cb3" in done.stdout
    finally:
        shutil.rmtree(project / "runs/ascii", ignore_errors=True)
        (project / "wide.jsonl").unlink()


def test_a_corrected_command_starts_anew(process):
    """A refused training leaves no run behind that the next command would have to agree with."""
    if template_of(process.project) != SHOWN:
        pytest.skip("all tasks open runs by the same code: one of them shows it")
    wrong = ("train.py", "--run_name", "corrected", "--batch_size", "10", "--accumulation", "4")
    assert process.run(*wrong).code == 1
    done = process.run("train.py", "--run_name", "corrected", "--batch_size", "8")
    assert done.code == 0, done.err
    shutil.rmtree(process.project / "runs/corrected")


@pytest.mark.further
def test_a_disk_that_is_really_full(process, tmp_path):
    """HDF5 has its own way to fail, and to crash as the interpreter ends: a process of its own."""
    if template_of(process.project) != SHOWN:
        pytest.skip("all tasks write by the same code: one of them shows it")
    project = tmp_path / "project"
    shutil.copytree(process.project, project, ignore=shutil.ignore_patterns(*HIDDEN))
    shutil.rmtree(project / "runs")
    (project / "runs").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(project / "runs")]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only an administrator may mount a small disk")
    try:
        command = [sys.executable, "train.py"]
        done = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8")
        left = [path.name for path in (project / "runs").rglob(".writing-*")]
    finally:
        subprocess.run(["umount", str(project / "runs")], check=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error: the disk is full" in done.stderr and left == []

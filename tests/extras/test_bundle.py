"""A bundle predicts what the project predicts, with packages that come from its own wheels."""

import json
import os
import re
import shutil
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import pytest
from packaging.requirements import Requirement
from projects import bake_project, flags, run, shorten

from core.base.errors import InputError
from extras.bundle import parts
from extras.bundle.float16_weights import write_float16
from extras.bundle.packages import Asked, Package
from extras.bundle.target import Target, make_target
from extras.bundle.trial import compare_answers, read_answers
from extras.bundle.wheels import Wheels

LINUX = Target("3.11", "manylinux_2_28_x86_64")
BUNDLE = "extras/bundle/bundle.py"


def make_wheel(folder: Path, name: str, number: str, tag: str, needs: tuple[str, ...] = ()) -> Path:
    """Write a wheel that holds nothing but its metadata."""
    folder.mkdir(exist_ok=True)
    path, about = folder / f"{name}-{number}-{tag}.whl", f"{name}-{number}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}"]
    lines += [f"Requires-Dist: {one}" for one in needs]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """The folder where pip finds its packages, and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "source"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "source"


def test_wheels_fit_the_target_and_are_fetched_once(source, tmp_path):
    tag = "cp311-cp311-manylinux_2_27_x86_64"
    needs = (
        "small; python_version < '3.12'",
        "no_such; sys_platform == 'win32'",
        "more; extra=='x'",
    )
    make_wheel(source, "odd_one", "1.2", tag, needs)
    make_wheel(source, "odd_one", "1.2", "cp312-cp312-manylinux_2_27_x86_64")
    small = make_wheel(source, "small", "3", "py3-none-any")
    asked = Asked([Requirement("odd-one>=1")], LINUX, {"odd-one": "1.2"})
    wheels = Wheels(tmp_path / "wheels", LINUX, [])
    assert asked.lock(wheels.find).text() == "odd-one==1.2\nsmall==3\n"
    # A kill has lost one of them, and the source is gone: the other is not asked for again.
    assert sorted(path.name for path in wheels.folder.iterdir()) == [
        f"odd_one-1.2-{tag}.whl",
        "small-3-py3-none-any.whl",
    ]
    (wheels.folder / small.name).unlink()
    for path in source.glob("odd*"):
        path.unlink()
    assert "small" in asked.lock(wheels.find).packages
    old = Target("3.11", "manylinux2014_x86_64")
    with pytest.raises(
        InputError, match="pip finds no wheel of odd-one==1.2 for Python 3.11 on man"
    ):
        asked.lock(Wheels(tmp_path / "wheels", old, []).find)


def test_the_versions_are_those_of_the_training():
    packages = {"a": Package("a", "1", ["b<2", "c"]), "b": Package("b", "1", []), "c": None}

    def find(requirement: Requirement, wanted: str | None) -> Package | None:
        one = packages[requirement.name]
        return one and Package(one.name, wanted or one.version, one.needs)

    asked = Asked([Requirement("a")], LINUX, {"b": "2.5"})
    lock = asked.lock(find)
    assert lock.text() == "a==1\nb==2.5\n" and lock.conflicts == ["a needs b<2, locked is 2.5"]
    without = Asked([Requirement("a")], LINUX, {}, frozenset({"a"}))
    assert without.lock(find).text() == "" and "b" in without.lock(find, everything=True).packages


@pytest.mark.parametrize(("python", "platform"), [("3", "win_amd64"), ("3.11", "linux_x86_64")])
def test_an_unknown_target_is_refused(python, platform):
    with pytest.raises(InputError, match="is not a version of Python|is unknown: write it as pip"):
        make_target(python, platform)


def test_float16_weights_keep_what_float16_cannot_hold(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("layers/one/vars/0", data=np.array([0.1, 2], "float32"))
        file.create_dataset("layers/one/vars/1", data=np.array([1e6], "float32"))
        file.create_dataset("layers/one/vars/2", data=np.array([3], "int32"))
        file["layers/one"].attrs["name"] = "dense"
    assert write_float16(tmp_path / "a.h5", tmp_path / "b.h5") == 1
    with h5py.File(tmp_path / "b.h5") as file:
        group = file["layers/one/vars"]
        assert [str(group[name].dtype) for name in "012"] == ["float16", "float32", "int32"]
        assert group["0"][0] == np.float16(0.1) and file["layers/one"].attrs["name"] == "dense"


def test_answers_are_compared_by_their_places():
    one = {"id": "1", "scores": {"a": 0.5, "b": 0.5}, "spans": [[1, 2]]}
    other = {"id": "1", "scores": {"b": 0.25, "a": 0.5}, "spans": [[1, 2]]}
    assert compare_answers([one], [other]) == (0.25, 0)
    assert compare_answers([one, one], [one, {**one, "spans": [[1, 3]]}]) == (0.0, 1)
    assert compare_answers([one], [{**one, "spans": []}])[1] == 1


def test_a_line_of_predictions_ends_only_at_a_line_end(tmp_path):
    rows = [{"id": 1, "prediction": "a\u2028b"}, {"id": 2, "prediction": "c\x85"}]
    path = tmp_path / "found.jsonl"
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    assert read_answers(path) == rows


CELLS = """
import json, re, sys
cells = [c for c in json.load(open(sys.argv[1]))["cells"] if c["cell_type"] == "code"]
first, *others = ["".join(cell["source"]) for cell in cells]
for name, value in json.loads(sys.argv[2]).items():
    first, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", first, flags=re.M)
    assert count == 1
exec("\\n".join([first, *others]))
"""


@pytest.mark.further
@pytest.mark.trains
def test_the_notebook_of_a_bundle_predicts_what_the_project_predicts(source, tmp_path, monkeypatch):
    """Stand-ins for the wheels: pip installs them elsewhere, and this environment predicts."""
    project = bake_project("text_classification", tmp_path, "bundle")
    shorten(project, {"train": 24, "dev": 4, "test": 6})
    names = ["jsonlines", "tqdm"]
    (project / "requirements.txt").write_text("".join(f"{name}\n" for name in names))
    for name in names:
        make_wheel(source, name, version(name), "py3-none-any")
    run("train.py", *flags(project, steps=2, batch_size=8), cwd=project)
    scores = project / "runs/default/scores.json"
    whole = scores.read_text(encoding="utf-8")
    scores.write_text(whole.replace('"finished"', '"other"'), encoding="utf-8")
    words = (BUNDLE, "default", "--to", tmp_path / "made")
    refused = run(*words, cwd=project, check=False)
    assert refused.returncode == 1 and "default is not finished: let train.py" in refused.stderr
    scores.write_text(whole, encoding="utf-8")
    assert not [*tmp_path.glob("made*")]
    said = run(*words, cwd=project).stdout
    assert "tried: the same bytes as the project's predict.py for the first 4 records" in said
    assert re.search(r"10,000 records take [\d.]+ minutes on this machine", said)
    again = run(*words, cwd=project, check=False)
    assert again.returncode == 1 and "made exists already" in again.stderr
    assert not [*tmp_path.glob("made.unfinished")]
    # Nothing of the project is read.
    run("predict.py", "default", "sample/test.jsonl", tmp_path / "ours.jsonl", cwd=project)
    test = (project / "sample/test.jsonl").rename(tmp_path / "test.jsonl")
    project.rename(tmp_path / "away")
    (tmp_path / "cells.py").write_text(CELLS, encoding="utf-8")
    given = {"BUNDLE": str(tmp_path / "made"), "TEST_FILE": str(test), "OUT": "theirs.jsonl"}
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "installed"))
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    notebook = tmp_path / "made/predict.ipynb"
    run("cells.py", notebook, json.dumps(given), cwd=tmp_path, anew=True)
    assert (tmp_path / "theirs.jsonl").read_bytes() == (tmp_path / "ours.jsonl").read_bytes()
    assert {path.name.partition("-")[0] for path in (tmp_path / "installed").iterdir()} == {*names}
    assert sys.version_info[:2] == tuple(
        map(
            int,
            re.search(r"python:([\d.]+)-slim", (tmp_path / "made/Dockerfile").read_text())[1].split(
                "."
            ),
        )
    )


@pytest.mark.further
@pytest.mark.trains
def test_a_bundle_of_a_blend_has_its_runs(source, tmp_path):
    """Of float16, whose weights have another hash; one run reads other lengths, one is a stack."""
    project = bake_project("text_classification", tmp_path, "bundle, blends")
    shorten(project, {"train": 24, "dev": 6, "test": 6})
    (project / "requirements.txt").write_text("tqdm\n")
    make_wheel(source, "tqdm", version("tqdm"), "py3-none-any")
    for name, changes in (("one", {}), ("two", {"max_length": 64, "seed": 2})):
        run(
            "train.py",
            *flags(project, run_name=name, steps=2, batch_size=8, **changes),
            cwd=project,
        )
    fit = "extras/blends/fit.py"
    run(fit, "one", "two", "--name", "inner", "--equal", cwd=project)
    shutil.copytree(project / "runs/one", project / "runs/three")
    run(fit, "inner", "three", "--name", "outer", "--stack", cwd=project)
    made = tmp_path / "made"
    refused = run(BUNDLE, "inner", "three", "--to", made, cwd=project, check=False)
    assert (
        refused.returncode == 1 and "inner is a blend, which predicts by itself" in refused.stderr
    )
    said = run(BUNDLE, "outer", "--to", made, "--weights", "float16", cwd=project).stdout
    assert "tried: " in said
    assert {p.name for p in (made / "project/runs").iterdir()} == {
        *("one", "two", "three", "inner", "outer")
    }
    run("predict.py", "outer", "sample/test.jsonl", tmp_path / "ours.jsonl", cwd=project)
    test = (project / "sample/test.jsonl").rename(tmp_path / "test.jsonl")
    project.rename(tmp_path / "away")
    run("predict.py", "outer", test, tmp_path / "theirs.jsonl", cwd=made / "project")
    ours, theirs = (
        [json.loads(line)["probabilities"] for line in (tmp_path / name).read_text().splitlines()]
        for name in ("ours.jsonl", "theirs.jsonl")
    )
    assert len(ours) == 6 and ours == [pytest.approx(own, abs=5e-3) for own in theirs]


def test_the_sample_of_a_submission_joins(tmp_path, monkeypatch):
    """Tables are read by it; those of two runs may have the same name."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sample.csv").write_text(f"id,{folder}\n")
    project = tmp_path / "bundle"
    for folder in ("one", "two"):
        asked = {
            "competition": {"sample_submission": str(tmp_path / folder / "sample.csv"), "k": 3}
        }
        table = parts.with_sample(asked, project)["competition"]
        assert (project / table["sample_submission"]).read_text() == f"id,{folder}\n"
        assert table["k"] == 3 and table["sample_submission"].endswith("/sample.csv")
    for asked in ({}, {"competition": {"sample_submission": "gone.csv"}}):
        assert parts.with_sample(asked, project) == asked


def test_encoders_of_one_name_join(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder / "encoder").mkdir(parents=True)
        config = json.dumps({"model_type": folder})
        (tmp_path / folder / "encoder/config.json").write_text(config)
        asked = {"encoder": str(tmp_path / folder / "encoder"), "lora": {"rank": 4}}
        for _ in range(2):
            own = parts.with_encoder(asked, tmp_path / "bundle")["encoder"]
            assert (tmp_path / "bundle" / own / "config.json").read_text() == config
        assert own.endswith("/encoder")

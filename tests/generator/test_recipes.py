"""Recipes become projects: `bake`, `add`, `release`, `smoke`; what baselines.toml promises."""

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT
from projects import TEMPLATES, run
from test_bake import EXTRAS, TEMPLATE, contents

from generator import InputError, __version__, smoke
from generator.add import add_extra
from generator.bake import SAMPLE, bake, load_baking, read_origin
from generator.baselines import (
    ENCODER,
    describe_encoder,
    find_baselines,
    flatten,
    own_encoder_folder,
)
from generator.recipes import CodeHashes, bake_recipe, bake_whole
from generator.release import CHECKSUMS, release
from generator.run_scripts import project_code_hash, read_scores

pytestmark = pytest.mark.slow

RECIPES = {baseline.name: baseline for baseline in find_baselines(ROOT)}


def run_baselines(*arguments: str | Path) -> subprocess.CompletedProcess:
    """Call the command line."""
    words = [sys.executable, "-m", "generator", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


# --------------------------------------------------------------------- the list of baselines


@pytest.mark.parametrize("name", RECIPES)
def test_the_seeds_of_a_recipe_are_those_of_its_scores(name: str) -> None:
    scores = read_scores(RECIPES[name].results(ROOT))
    if not scores:
        pytest.skip("not scored yet")
    assert sorted(row["seed"] for row in scores["seeds"]) == sorted(RECIPES[name].seeds)
    assert scores["seed"] in RECIPES[name].seeds
    assert scores["command"] == f"baselines reproduce {name}"


def test_each_task_has_a_sample_and_a_headline() -> None:
    headlines = Counter(recipe.template for recipe in RECIPES.values() if recipe.headline)
    assert headlines == Counter(TEMPLATES)
    assert Counter(r.template for r in RECIPES.values() if r.is_sample) == Counter(TEMPLATES)


def test_a_folder_of_results_holds_no_project() -> None:
    for recipe in RECIPES.values():
        if not recipe.baked:
            found = {path.name for path in recipe.folder(ROOT).iterdir()} - {"data"}
            results = {*SAMPLE} if recipe.is_sample else {"scores.json", "predictions", ENCODER}
            assert found <= {"README.md", *results}, recipe.name


def test_shipped_encoders_are_small_and_those_that_were_scored():
    """Thirty megabytes live well in git; scores hold for the weights next to them."""
    files = [path for path in ROOT.glob(f"baselines/*/{ENCODER}/*") if path.is_file()]
    assert files
    assert sum(path.stat().st_size for path in files) < 30e6
    compared = 0
    for baseline in find_baselines(ROOT):
        encoder, scores = own_encoder_folder(baseline, ROOT), read_scores(baseline.results(ROOT))
        if encoder and scores:
            assert describe_encoder(baseline, encoder).items() <= scores.items()
            compared += 1
    assert compared


# -------------------------------------------------------------------------------------- bake


def test_baking_by_the_command_line(tmp_path: Path) -> None:
    name = "relation_extraction_finre_pretrained"
    result = run_baselines("bake", name, "--to", tmp_path, "extras=cluster, optimizers")
    assert result.returncode == 0, result.stderr
    project = tmp_path / name
    assert result.stdout.splitlines() == [
        f"cd {project}",
        "baselines data get finre --to data/finre",
        "pip install -r requirements.txt",
        "python train.py",
    ]
    # The encoder that another baseline made goes with it.
    made = contents(ROOT / "baselines/pretraining_zh" / ENCODER)
    assert contents(project / ENCODER) == made
    config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    assert (config["encoder"], config["epochs"]) == (ENCODER, 15)
    assert config["train_file"] == "data/finre/train.jsonl"
    answers = json.loads((project / ".cookiecutter.json").read_text())["cookiecutter"]
    assert (answers["encoder"], answers["extras"]) == (ENCODER, "cluster, optimizers")
    other = run_baselines("bake", name, "--to", tmp_path, "project_slug=mine", "encoder=tiny")
    assert other.returncode == 0 and not (tmp_path / "mine" / ENCODER).exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope"], "error: there is no baseline 'nope': the names are "),
        (["seq2seq_sample", "extra=all"], "error: there is no question 'extra': write NAME=ANSWER"),
        (["seq2seq_sample", "all"], "error: there is no question 'all': write NAME=ANSWER"),
        (["seq2seq_sample", "extras=al"], 'error: extras "al" holds the unknown name al: choose'),
    ],
)
def test_a_bad_request_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = run_baselines("bake", *arguments, "--to", tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(sentence) and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("baselines/*/predictions/dev.jsonl")), ids=lambda path: path.parts[-3]
)
def test_what_was_predicted_is_shipped(path: Path) -> None:
    """Not only the ids: others compare their run with it."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert any(value for record in records for key, value in record.items() if key != "id")


@pytest.mark.parametrize("name", ["relation_extraction_finre", "relation_extraction_knowledgenet"])
def test_scores_are_compared_with_the_code_that_is_baked(name: str, tmp_path: Path) -> None:
    """A named encoder brings an extra that trains."""
    [baseline] = find_baselines(ROOT, [name])
    expected = project_code_hash(bake_recipe(ROOT, baseline, tmp_path))
    assert CodeHashes(ROOT).find(baseline) == expected


# --------------------------------------------------------------------------------------- add


def test_adding_gives_what_baking_would_have_given(tmp_path: Path) -> None:
    answers = {"project_slug": "mine", "extras": "doctor"}
    project = bake(ROOT / TEMPLATE, tmp_path, answers)
    expected = bake(ROOT / TEMPLATE, tmp_path / "whole", {**answers, "extras": "all"})
    before = contents(project)
    for name in EXTRAS:
        if not (project / "extras" / name).exists():  # an extra joins with those that it needs
            said = add_extra(ROOT, name, project)
            table = ROOT / "templates/extras" / name / "config.toml"
            assert said.startswith(f"extras/{name} joined the project.")
            assert not table.is_file() or table.read_text(encoding="utf-8").strip() in said
    after, whole = contents(project), contents(expected)
    assert after.keys() == whole.keys()
    differ = {name for name in whole if after[name] != whole[name]}
    assert differ <= {"config.toml", ".cookiecutter.json"}
    renewed = (".cookiecutter.json", "extras/README.md")
    assert {n: after[n] for n in before if n not in renewed} == {
        name: text for name, text in before.items() if name not in renewed
    }
    kept = json.loads(after[".cookiecutter.json"])["cookiecutter"]
    assert kept["extras"] == ", ".join(EXTRAS) and kept["project_slug"] == "mine"


def test_adding_brings_what_an_extra_needs(tmp_path: Path) -> None:
    expected = contents(bake(ROOT / TEMPLATE, tmp_path / "tpu", {"extras": "tpu"}))
    project = bake(ROOT / TEMPLATE, tmp_path, {"extras": "none"})
    said = add_extra(ROOT, "tpu", project)
    assert said == "extras/tpu joined the project.\nextras/doctor joined the project."
    assert contents(project) == expected


def test_adding_to_a_project_whose_extras_were_deleted(tmp_path: Path) -> None:
    project = bake(ROOT / TEMPLATE, tmp_path, {"extras": "doctor"})
    whole = contents(project)
    shutil.rmtree(project / "extras")
    result = run_baselines("add", "doctor", "--to", project)
    assert result.returncode == 0, result.stderr
    assert contents(project) == whole
    assert not list(project.rglob(".writing-*"))
    path = project / ".cookiecutter.json"
    path.write_text(path.read_text().replace(__version__, "0.0.9"))
    said = add_extra(ROOT, "orbit", project)
    assert f"\nIt is of version {__version__}" in said and "the project of 0.0.9" in said
    assert json.loads(path.read_text())["version"] == "0.0.9"
    # Another commit of the same version is another one, too.
    commit = load_baking(ROOT / "templates").find_commit({})["commit"]
    origin = {**json.loads(path.read_text()), "version": __version__, "commit": commit}
    path.write_text(json.dumps(origin))
    assert "`baselines update`" not in add_extra(ROOT, "lora", project)
    path.write_text(json.dumps({**json.loads(path.read_text()), "commit": "a" * 40}))
    said = add_extra(ROOT, "averaging", project)
    assert not commit or f"the project of {__version__} (aaaaaaaaaaaa): `baselines" in said


def test_adding_keeps_what_its_owner_has_changed(tmp_path: Path) -> None:
    """Their page of the extras, and a file of the task that an extra left behind."""
    project = bake(ROOT / TEMPLATE, tmp_path, {"extras": "blends"})
    page = project / "extras/README.md"
    page.write_text(page.read_text() + "MY NOTES\n")
    shutil.rmtree(project / "extras/blends")
    current = (project / "inspection/blends.py").read_bytes()
    (project / "inspection/blends.py").write_text("# of an older version\n")
    said = add_extra(ROOT, "blends", project)
    assert f"{page} has changes of yours: it stays as it is" in said
    assert page.read_text().endswith("MY NOTES\n")
    page.write_bytes("笔记".encode("gbk"))  # as an editor in Chinese Windows may save it
    assert "has changes of yours" in add_extra(ROOT, "search", project)
    assert "search" in read_origin(project)["cookiecutter"]["extras"]
    assert "inspection/blends.py was another one: that is .before-update/inspection/" in said
    assert (project / "inspection/blends.py").read_bytes() == current
    copy = project / ".before-update/inspection/blends.py"
    assert copy.read_text() == "# of an older version\n"


def test_adding_names_the_sample_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/sample_submission.csv").write_text("id,label\n")
    asked = {"extras": "none", "data_folder": "../data"}
    project = bake(ROOT / "templates/text_classification", tmp_path, asked)
    said = add_extra(ROOT, "competition", project)
    assert 'sample_submission = "../data/sample_submission.csv"' in said


def test_adding_leaves_answers_with_which_a_project_can_be_baked(tmp_path: Path) -> None:
    asked = {"extras": "cluster", "strategy": "multi_worker"}
    project = bake(ROOT / TEMPLATE, tmp_path, asked)
    shutil.rmtree(project / "extras/cluster")
    add_extra(ROOT, "orbit", project)
    answers = json.loads((project / ".cookiecutter.json").read_text())["cookiecutter"]
    assert answers["strategy"] == "auto" and "cluster" not in answers["extras"]
    before = contents(project)
    (project / "extras/mine").mkdir()
    (project / "extras/mine/extra.toml").write_text("order = \n")
    result = run_baselines("add", "lora", "--to", project)
    assert result.returncode == 1 and "mine/extra.toml is broken" in result.stderr
    shutil.rmtree(project / "extras/mine")
    assert contents(project) == before


def test_a_recipe_that_lacks_an_extra_leaves_no_project(tmp_path: Path) -> None:
    name = "named_entity_recognition_wnut17"
    for there in (False, True):
        if there:
            (tmp_path / name).mkdir()
        result = run_baselines("bake", name, "extras=doctor", "--to", tmp_path)
        assert result.returncode == 1 and "name the extra averaging too" in result.stderr
        assert [path.name for path in tmp_path.rglob("*")] == [name] * there
    result = run_baselines("bake", name, "data_folder=mydata", "--to", tmp_path)
    assert "baselines data get wnut17 --to mydata\n" in result.stdout
    (tmp_path / "empty").mkdir()
    result = run_baselines("bake", name, "project_slug=../empty", "--to", tmp_path / "place")
    assert result.returncode == 1 and (tmp_path / "empty").is_dir()


def test_what_can_not_be_added_is_refused(tmp_path: Path) -> None:
    project = bake(ROOT / TEMPLATE, tmp_path)
    before = contents(project)
    for arguments, sentence in (
        (["obit", project], "there is no extra 'obit': the names are averaging, blends"),
        (["doctor", project], "extras/doctor exists: delete that folder to get a fresh copy"),
        (["retrieval", project], "only serves projects of text_classification, and this is rel"),
        (["orbit", tmp_path], "has no .cookiecutter.json: name a project's folder"),
    ):
        with pytest.raises(InputError, match=sentence):
            add_extra(ROOT, *arguments)
    assert contents(project) == before
    (project / ".cookiecutter.json").write_text("{")
    with pytest.raises(InputError, match=".cookiecutter.json is broken"):
        add_extra(ROOT, "orbit", project)
    (project / ".cookiecutter.json").write_bytes(before[".cookiecutter.json"])
    shutil.rmtree(project / "core")
    with pytest.raises(InputError, match="has no core/base: it was made by another version"):
        add_extra(ROOT, "orbit", project)
    assert not (project / "extras/orbit").exists()


# ----------------------------------------------------------------------------------- release


def test_a_release_is_the_same_each_time(tmp_path: Path) -> None:
    names = ["relation_extraction_finre_pretrained", "pretraining_zh", "text_classification_sample"]
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        release(ROOT, folder, names)
    first, second = (contents(folder) for folder in folders)
    assert first == second and first.keys() == {*(f"{name}.zip" for name in names), CHECKSUMS}
    lines = [line.split("  ") for line in first[CHECKSUMS].decode().splitlines()]
    assert {name: digest for digest, name in lines} == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in first.items()
        if name != CHECKSUMS
    }
    release(ROOT, folders[0], names[2:])  # one alone, into the folder of all
    assert contents(folders[0]) == first


def test_a_zip_holds_project_results_and_encoder(tmp_path: Path) -> None:
    name = "relation_extraction_finre_pretrained"
    release(ROOT, tmp_path, [name])
    with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
        entries = archive.infolist()
        archive.extractall(tmp_path / "unpacked")
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    found = contents(tmp_path / "unpacked" / name)
    project = contents(bake_whole(ROOT, RECIPES[name], tmp_path / "baked"))
    assert {part: found[part] for part in project} == project
    results = contents(ROOT / "baselines" / name)
    results.pop("README.md")
    assert {part: found[part] for part in results} == results
    assert f"{ENCODER}/model.safetensors" in found
    assert found.keys() == project.keys() | results.keys()


# ------------------------------------------------------------------------------------- smoke


@pytest.mark.shown("_sample")
@pytest.mark.trains
@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_runs(name, tmp_path, monkeypatch):
    [baseline] = find_baselines(ROOT, [name])
    ran = []

    def run_scripts(project, commands):
        config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
        asked = baseline.settings
        assert {name: flatten(config)[name] for name in asked} == asked
        made = own_encoder_folder(baseline, ROOT)
        train = next(command for command in commands if command[0] == "train.py")
        assert ("tiny" in train) != bool(made and made.is_dir())
        if baseline.data_set:  # the sample of the template shows what comes behind a training
            commands = commands[: commands.index(train) + 1]
        ran.extend(run(*command, cwd=project) for command in commands)

    monkeypatch.setattr(smoke, "run_scripts", run_scripts)
    smoke.smoke_baseline(ROOT, baseline, tmp_path)
    assert ran

"""Building, checking, smoking and reproducing, in a small repository with a toy template."""

import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tomlkit
from conftest import ROOT
from projects import TASKS

from generator import InputError
from generator.baselines import read_baselines
from generator.benchmark_tables import (
    FIGURES,
    GROWTH,
    encoded_in_ten_minutes,
    growth_table,
    prediction_table,
)
from generator.build import build_repository, differences
from generator.confirm import confirm_baseline
from generator.data_sets.registry import DATA_SETS
from generator.document_tables import TABLES, update_documents
from generator.files import PROJECT_FOLDER, json_lines, sha256
from generator.reading_path import ALWAYS
from generator.recipes import working_project
from generator.reproduce import parse_seeds, reproduce_baseline
from generator.run_scripts import project_code_hash
from generator.smoke import smoke_baselines

BASELINES = """
[toy_sample]
template = "toy"
baked = true

[toy_other]
template = "toy"
seeds = [3, 4]
published = [{ score = "f1", split = "test", value = 60.3, source = "https://example.org/toy" }]

[toy_other.answers]
encoder = "hf://owner/model"

[toy_other.settings]
epochs = 5
devices.xla = true
"""

# Scripts that keep the contract of a project without training anything.
TRAIN = """
import json, os, sys, tomllib
from pathlib import Path
from core.runs.code_hash import code_hash
from task.value import VALUE

def flag(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default

run = Path("runs") / flag("--run_name")
(run / "predictions").mkdir(parents=True, exist_ok=True)
with open("runs/trained.log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
assert Path(flag("--train_file", "sample/train.jsonl")).is_file()
if Path("runs/fail").exists() or flag("--encoder") == "fail":
    print("what went wrong")
    sys.exit(3)
record = {"id": "a", "text": "secret", "triples": [{"subject": [0, 1], "predicate": "p",
          "object": [2, 3], "subject_text": "s", "object_text": "c", "score": 0.5}]}
(run / "predictions/dev.jsonl").write_text(json.dumps(record) + "\\n")
seed = int(flag("--seed", "1"))
scores = {"task": "toy", "name": run.name, "dev": {"f1": VALUE + seed / 100}, "seed": seed,
          "monitor": "f1",
          "encoder": flag("--encoder", "tiny"), "minutes": 0.5, "command": "python train.py",
          "code_hash": code_hash("."), "finished": "now"}
(run / "scores.json").write_text(json.dumps(scores))
(run / "config.json").write_text(json.dumps(tomllib.loads(Path("config.toml").read_text())))
row = {"step": 20, "loss": 3.0 - seed / 7 + int(VALUE > 0.505), "dev_f1": VALUE}
row["loss"] += 0.01 * (os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2")
rows = [{**row, "step": 10}, {**row, "seconds": 1.0}]
(run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""
EVALUATE = """
import json, sys
from pathlib import Path

run, file = Path(sys.argv[1]), Path(sys.argv[2])
with open("runs/evaluated.log", "a") as log:
    log.write(str(file) + "\\n")
scores = json.loads((run / "scores.json").read_text())
scores[file.stem] = {"f1": scores["dev"]["f1"] - 0.1, "encoder": scores["encoder"]}
(run / "scores.json").write_text(json.dumps(scores))
(run / "predictions" / file.name).write_text((run / "predictions/dev.jsonl").read_text())
"""
PREDICT = """
import sys
from pathlib import Path

Path(sys.argv[3]).write_text(Path(sys.argv[2]).read_text())
"""


GLOSSARY = """
[chinese]
"" = ""
"A part" = "一部分"
"A number" = "一个数"

[[entry]]
modules = ["core"]
text = "a"
text_zh = "b"
"""
EXTENSION = (ROOT / "templates/text_classification/text_classification_extension.py").read_text()


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write text files, by path."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_toy_sample(folder: Path) -> None:
    """Write a sample of one record a split."""
    for split in ("train", "dev", "test"):
        record = {"id": split, "text": "t", "triples": []}
        (folder / f"{split}.jsonl").write_bytes(json_lines([record]))


def declaration(order: int, **changes: object) -> str:
    """Return an extra.toml, with some values that differ."""
    values = {
        "order": order,
        "title": f"number {order}",
        "sentence": f"Does [thing](docs/thing.md) {order}",
        "sentence_zh": f"做第 {order} 件[事](docs/thing.md)",
        "group": "more score",
        "templates": ["all"],
        "default": "no",
        "needs": [],
        "requirements": [],
        "hooks": [],
    }
    return tomlkit.dumps(values | changes)


def document(tables: dict) -> str:
    """Return a document with the marks of its tables."""
    marks = "\n".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->" for name in tables)
    return f"# Title\n\n{marks}\n\nThe end.\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    """A repository with one toy template and two baselines, built."""
    toy_sample = types.ModuleType("generator.samples.toy")
    toy_sample.write_sample = write_toy_sample
    monkeypatch.setitem(sys.modules, "generator.samples.toy", toy_sample)
    root = tmp_path / "repository"
    project = f"templates/toy/{PROJECT_FOLDER}"
    write_files(
        root,
        {
            **{name: document(tables) for name, tables in TABLES.items()},
            "cookiecutter.json": '{"templates": {"toy": {"path": "./templates/toy"}}}',
            "generator/baselines.toml": BASELINES,
            "templates/core/__init__.py": "",
            **{f"templates/{name}": '"""A part."""\n' for name in ALWAYS},
            "generator/glossary.toml": GLOSSARY,
            "templates/core/base/errors.py": 'class InputError(Exception):\n    """Bad input."""\n',
            "templates/extras/__init__.py": "",
            "templates/extras/doctor/README.md": "# doctor\n",
            "templates/extras/doctor/extra.toml": declaration(1, default="always"),
            "templates/extras/wings/extra.toml": declaration(2, requirements=["feathers>=2"]),
            "templates/extras/wings/config.toml": "[wings]\nspan = 3  # in metres\n",
            "templates/extras/wings/README.md": "Wings of {{ cookiecutter.project_slug }}.\n",
            "templates/shared/pyproject.toml": "",
            "templates/toy/toy_extension.py": EXTENSION,
            "templates/toy/cookiecutter.json": json.dumps(
                {
                    "project_slug": "toy",
                    "encoder": "tiny",
                    "data_folder": "sample",
                    "extras": "doctor",
                    "__answers": "{{ cookiecutter | check_answers }}",
                    "_extensions": ["toy_extension.BakingExtension"],
                }
            ),
            f"{project}/.cookiecutter.json": (
                '{"cookiecutter": {"project_slug": "{{ cookiecutter.project_slug }}",'
                ' "encoder": "{{ cookiecutter.encoder }}",'
                ' "extras": "{{ cookiecutter.extras | normal_extras }}"}}'
            ),
            **{f"{project}/{name}": document(["extras"]) for name in ("README.md", "README_zh.md")},
            f"{project}/train.py": TRAIN,
            f"{project}/evaluate.py": EVALUATE,
            f"{project}/predict.py": PREDICT,
            f"{project}/task/__init__.py": "",
            f"{project}/task/value.py": '"""A number."""\n\nVALUE = 0.5\n',
            f"{project}/config.toml": (
                'encoder = "{{ cookiecutter.encoder }}"  # which one\n'
                "epochs = 20  # enough\n\n[devices]\nxla = false  # slower\n\n"
                "{{- cookiecutter | extras_tables }}\n"
            ),
        },
    )
    (root / "templates/core/runs").mkdir()
    shutil.copy(ROOT / "templates/core/runs/code_hash.py", root / "templates/core/runs")
    for name in ("baking.py", "declared.py"):
        shutil.copy(ROOT / "templates" / name, root / "templates")
    shutil.copytree(ROOT / "templates/hooks", root / "templates/hooks")
    build_repository(root, progress=False)
    return root


def project_of(repository: Path, name: str) -> Path:
    """Return the project of a baseline in build/, made if it is not there."""
    [baseline] = [found for found in read_baselines(repository).values() if found.name == name]
    return working_project(repository, baseline)


# ------------------------------------------------------------------ build and check


def test_build_bakes_the_sample_and_describes_the_recipe(repository: Path) -> None:
    template = repository / "templates" / "toy" / PROJECT_FOLDER
    sample, other = (repository / "baselines" / name for name in ("toy_sample", "toy_other"))
    shared = (repository / "templates/core/runs/code_hash.py").read_bytes()
    assert (sample / "core/runs/code_hash.py").read_bytes() == shared
    assert (sample / "extras/doctor").is_dir() and not (sample / "extras/wings").exists()
    assert (sample / "sample/dev.jsonl").is_file()
    assert not (template / "core").exists() and not (template / "sample").exists()
    assert [path.name for path in other.iterdir()] == ["README.md"]
    text = (other / "README.md").read_text()
    for part in (
        "# toy_other\n\nToy. Data: the sample of the template. Encoder: `hf://owner/model`.\n",
        "Not scored yet.",
        "```toml\nepochs = 5\n\n[devices]\nxla = true\n```",
        "baselines bake toy_other --to DIR\n",
        "baselines reproduce toy_other\n",
    ):
        assert part in text
    assert "compare.py" not in text  # there are no predictions to compare with
    assert differences(repository) == []


def test_a_sample_that_is_not_baked_keeps_data_reference_and_page(repository: Path) -> None:
    reproduce_baseline(repository, "toy_sample")
    path = repository / "generator/baselines.toml"
    path.write_text(BASELINES.replace("baked = true\n", ""))
    assert "baselines/toy_sample/train.py (not built)" in "".join(differences(repository))
    build_repository(repository, progress=False)
    folder = repository / "baselines/toy_sample"
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {
        "README.md",
        *(f"sample/{split}.jsonl" for split in ("train", "dev", "test")),
        "reference/scores.json",
        "reference/predictions/dev.jsonl",
    }
    text = (folder / "README.md").read_text()
    assert "python compare.py default\n" in text and "predictions in `reference/`" in text
    assert differences(repository) == []
    # Its project has what it had.
    assert (project_of(repository, "toy_sample") / "reference/scores.json").is_file()


def test_a_recipe_becomes_a_project(repository: Path) -> None:
    project = project_of(repository, "toy_other")
    assert project == repository / "build/toy_other"
    assert (project / "config.toml").read_text() == (
        'encoder = "hf://owner/model"  # which one\nepochs = 5  # enough\n\n'
        "[devices]\nxla = true  # slower\n"
    )
    # Runs and data stay when it is baked again, everything else is as the templates have it.
    write_files(project, {"runs/one/config.json": "{}", "data/x": "", "task/value.py": "", "y": ""})
    assert project_of(repository, "toy_other") == project
    assert (project / "runs/one/config.json").is_file() and (project / "data/x").is_file()
    assert (project / "task/value.py").read_text() and not (project / "y").exists()


def test_check_shows_what_differs(repository: Path) -> None:
    (repository / "templates/core/__init__.py").write_text("VALUE = 1\n")
    write_files(
        repository / "baselines",
        {
            "toy_sample/extra.py": "x = 1\n",
            "toy_sample/scores.json": "{}\n",
            "toy_other/train.py": "x = 1\n",
            "gone/train.py": "pass\n",
        },
    )
    (repository / "baselines/toy_sample/sample/dev.jsonl").write_text("edited\n")
    found = "".join(differences(repository))
    for part in (
        "+VALUE = 1\n",
        "baselines/toy_sample/extra.py (not built)",
        "baselines/toy_sample/scores.json (not built)",
        "baselines/toy_other/train.py (not built)",
        "baselines/gone/train.py (not built)",
        "-edited\n",
    ):
        assert part in found
    build_repository(repository, progress=False)
    assert not (repository / "baselines/toy_sample/extra.py").exists()
    assert not (repository / "baselines/toy_other/train.py").exists()
    assert "gone" in "".join(differences(repository))  # a person decides about that


def test_check_shows_where_a_declaration_has_not_arrived(repository: Path) -> None:
    folder = repository / "templates/extras/wings"
    (folder / "extra.toml").write_text(declaration(2, title="of wax", sentence="Flies"))
    project = f"templates/toy/{PROJECT_FOLDER}"
    changed = {
        "templates/core/base/extra_names.toml": '+wings = "of wax"\n',
        "templates/extras/wings/requirements.txt": "-feathers>=2\n",
        "README.md": "+| | `wings` | Flies |\n",
        "docs/architecture.md": "of wax |  |  |\n",
        f"{project}/README.md": "+| | `wings` | Flies |\n",
    }
    found = "".join(differences(repository))
    for name, line in changed.items():
        assert f"--- {name} (in the repository)" in found and line in found
    build_repository(repository, progress=False)
    assert differences(repository) == [] and not (folder / "requirements.txt").exists()
    questions = repository / "templates/toy/cookiecutter.json"
    questions.write_text(questions.read_text().replace("(doctor, wings)", "(doctor)"))
    assert "--- templates/toy/cookiecutter.json" in "".join(differences(repository))


def test_check_leaves_runs_and_data_out(repository: Path) -> None:
    folder = repository / "baselines/toy_sample"
    made = {
        "runs/one/config.json": "{}",
        "data/toy/train.jsonl": "",
        "__pycache__/x.pyc": "",
        "task/__pycache__/x.pyc": "",
    }
    write_files(folder, made)
    write_files(
        repository / "templates/toy" / PROJECT_FOLDER, {"runs/a": "", "__pycache__/b.pyc": ""}
    )
    assert differences(repository) == []
    build_repository(repository, progress=False)
    assert all((folder / name).is_file() for name in made)
    assert not (folder / "runs/a").exists()


@pytest.mark.parametrize("name", ["epoch", "devices.epochs", "wings.span", "encoder.x"])
def test_a_setting_that_does_not_exist_is_named(repository: Path, name: str) -> None:
    path = repository / "generator/baselines.toml"
    path.write_text(BASELINES.replace("epochs = 5", f"{name} = 5"))
    with pytest.raises(InputError, match=f"toy_other sets '{name}'"):
        project_of(repository, "toy_other")


def test_settings_of_an_extra_need_it_in_the_answers(repository: Path) -> None:
    path = repository / "generator/baselines.toml"
    text = BASELINES.replace("epochs = 5", "wings.span = 5")
    path.write_text(text.replace("[toy_other.answers]", '[toy_other.answers]\nextras = "wings"'))
    config = (project_of(repository, "toy_other") / "config.toml").read_text()
    assert config.endswith("\n[wings]\nspan = 5  # in metres\n")


@pytest.mark.parametrize("text", ["[a\n", '[a]\nseeds = [1]\nunknown = "x"\n'])
def test_a_broken_list_of_baselines_is_named(repository: Path, text: str) -> None:
    (repository / "generator/baselines.toml").write_text(text)
    with pytest.raises(InputError, match="baselines.toml is broken"):
        read_baselines(repository)


# --------------------------------------------------------------------------- smoke


def test_smoke_runs_every_baseline_and_leaves_nothing(repository: Path, monkeypatch, capfd) -> None:
    smoke_baselines(repository)
    assert not (repository / "baselines/toy_sample/runs").exists()
    assert not (repository / "build").exists()
    train = repository / "templates/toy" / PROJECT_FOLDER / "train.py"
    train.write_text(TRAIN.replace('== "fail"', '== "tiny"'))
    with pytest.raises(InputError, match="train.py, .* in toy_sample ended with exit code 3"):
        smoke_baselines(repository)
    assert "what went wrong" in capfd.readouterr().err


# ----------------------------------------------------------------------- reproduce


def test_reproduce_records_every_seed_once(repository: Path, tmp_path: Path) -> None:
    folder, runs = repository / "baselines/toy_other", repository / "build/toy_other/runs"
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    (encoder / "model.safetensors").write_bytes(b"weights")
    for _ in range(2):
        reproduce_baseline(repository, "toy_other", encoder=encoder)
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["encoder"] == "hf://owner/model"
    assert scores["encoder_weights"] == sha256(b"weights")
    assert [entry["seed"] for entry in scores["seeds"]] == [3, 4]
    first = scores["seeds"][0]
    assert (first["dev"]["f1"], first["test"]["f1"]) == pytest.approx((0.53, 0.43))
    assert first["minutes"] == 0.5
    assert scores["test"].keys() == {"f1"}
    assert str(tmp_path) not in (folder / "scores.json").read_text()
    # Two seeds and the first steps, each once.
    assert (runs / "trained.log").read_text().count("\n") == 3
    assert (runs / "evaluated.log").read_text().count("\n") == 2
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "predictions", "scores.json")
    ]
    for split in ("dev", "test"):
        assert json.loads((folder / f"predictions/{split}.jsonl").read_text()) == {
            "id": "a",
            "triples": [{"subject": [0, 1], "predicate": "p", "object": [2, 3], "score": 0.5}],
        }


@pytest.mark.slow
def test_a_baseline_learns_on_the_encoder_of_another(repository: Path) -> None:
    """It is exported when the other one has been reproduced, and known by its weights."""
    export = """
import sys
from pathlib import Path

run, folder = Path(sys.argv[1]), Path(sys.argv[2])
assert (run / "scores.json").is_file()
folder.mkdir()
(folder / "model.safetensors").write_text(run.name)
"""
    write_files(repository, {f"templates/toy/{PROJECT_FOLDER}/export.py": export})
    entry = '\n[toy_on_it]\ntemplate = "toy"\nanswers.encoder = "../toy_sample/encoder"\n'
    with open(repository / "generator/baselines.toml", "a", encoding="utf-8") as file:
        file.write(entry)
    build_repository(repository, progress=False)
    with pytest.raises(InputError, match="toy_on_it learns on .*`baselines reproduce toy_sample`"):
        reproduce_baseline(repository, "toy_on_it")
    for _ in range(2):
        reproduce_baseline(repository, "toy_sample")
    reproduce_baseline(repository, "toy_on_it")
    scores = json.loads((repository / "baselines/toy_on_it/scores.json").read_text())
    assert scores["encoder"] == "../toy_sample/encoder"
    assert scores["encoder_weights"] == sha256(b"seed_1")
    assert not [line for line in differences(repository) if "model.safetensors" in line]


def test_an_interrupted_reproduction_goes_on(repository: Path) -> None:
    runs = repository / "build/toy_other/runs"
    reproduce_baseline(repository, "toy_other", seeds=[3])
    (runs / "fail").write_text("")
    with pytest.raises(InputError, match="train.py --seed 4 --run_name seed_4"):
        reproduce_baseline(repository, "toy_other")
    (runs / "fail").unlink()
    reproduce_baseline(repository, "toy_other")
    trained = (runs / "trained.log").read_text().splitlines()
    # After the first reproduction come the first 20 steps, which the second has no need to repeat.
    assert [line.split()[1] for line in trained] == ["3", "20", "4", "4"]


@pytest.mark.slow
def test_further_seeds_join_those_of_the_same_code(repository: Path) -> None:
    folder, runs = repository / "baselines/toy_other", repository / "build/toy_other/runs"

    def seeds_of_file() -> list[int]:
        scores = json.loads((folder / "scores.json").read_text())
        return [scores["seed"], *(row["seed"] for row in scores["seeds"])]

    reproduce_baseline(repository, "toy_other", seeds=[4])
    shutil.rmtree(runs)
    reproduce_baseline(repository, "toy_other", seeds=[3, 5])
    assert seeds_of_file() == [4, 3, 4, 5]
    reproduce_baseline(repository, "toy_other", seeds=[4, 6])
    assert seeds_of_file() == [4, 3, 4, 5, 6]
    # Other code that trains the same: what was confirmed stays confirmed.
    change_value(repository, "0.5 + 1e-9")
    shutil.rmtree(runs)
    confirm_baseline(repository, "toy_other")
    reproduce_baseline(repository, "toy_other", seeds=[7])
    assert seeds_of_file() == [4, 3, 4, 5, 6, 7]
    assert "| 5 | 0.5 | same first 20 steps |" in read(repository)
    rows = json.loads((folder / "scores.json").read_text())["seeds"]
    assert rows[-1]["code_hash"] != rows[0]["code_hash"]
    # Other code that was never compared: only a whole reproduction begins anew.
    change_value(repository, "0.6")
    shutil.rmtree(runs)
    with pytest.raises(InputError, match="seed 3, 4, 5, 6, 7 by other code .* would be lost"):
        reproduce_baseline(repository, "toy_other", seeds=[8])
    assert seeds_of_file() == [4, 3, 4, 5, 6, 7]
    reproduce_baseline(repository, "toy_other")
    assert seeds_of_file() == [3, 3, 4]


def test_a_training_that_was_told_to_end_is_not_scored(repository: Path) -> None:
    train = repository / "templates/toy" / PROJECT_FOLDER / "train.py"
    train.write_text(train.read_text().replace(', "finished": "now"', ""))
    with pytest.raises(InputError, match="seed_3 was told to end: run the same command to go on"):
        reproduce_baseline(repository, "toy_other")
    assert not (repository / "build/toy_other/runs/evaluated.log").exists()


def test_scores_reach_the_reference_and_the_readme(repository: Path) -> None:
    reproduce_baseline(repository, "toy_sample")
    assert "| toy_sample | tiny | F1 | 51.0 | 41.0 | 1 | 0.5 | current |" in read(repository)
    assert "| toy_other | | | | | | | not scored yet |" in read(repository)
    folder = repository / "baselines/toy_sample"
    assert not (folder / "scores.json").exists() and not (folder / "predictions").exists()
    assert json.loads((folder / "reference/scores.json").read_text())["name"] == "toy_sample"
    results = sorted((folder / "reference").rglob("*"))
    assert [path.name for path in results] == ["predictions", "dev.jsonl", "scores.json"]
    # Nobody has to build: it is the source of what every other project gets.
    assert differences(repository) == []
    other = project_of(repository, "toy_other")
    for path in results:
        copy = other / path.relative_to(folder)
        assert copy.is_dir() or copy.read_bytes() == path.read_bytes()
    build_repository(repository, progress=False)
    assert results == sorted((folder / "reference").rglob("*"))
    change_value(repository, "0.6")
    assert "| 51.0 | 41.0 | 1 | 0.5 | scores are for older code |" in read(repository)
    with pytest.raises(InputError, match="build/toy_sample/runs/seed_1 was .* older code: delete"):
        reproduce_baseline(repository, "toy_sample")


def test_published_scores_stand_beside_ours(repository: Path) -> None:
    row = "| toy_other | F1 | test | {} | 60.3 | https://example.org/toy |"
    assert "60.3" not in read(repository)  # not scored yet
    reproduce_baseline(repository, "toy_other")
    assert row.format("43.5 ± 0.7") in read(repository)


def test_tables_show_the_score_that_the_recipe_names(repository: Path) -> None:
    """Not the one that chose the epoch: in the results, in the headline, and on its page."""
    reproduce_baseline(repository, "toy_other")
    path = repository / "baselines/toy_other/scores.json"
    scores = json.loads(path.read_text())
    for number, row in enumerate(scores["seeds"]):
        row["dev"]["bleu"], row["test"]["bleu"] = 60 + number, 70.5 + number
    path.write_text(json.dumps(scores))
    named = BASELINES.replace("seeds = [3, 4]", 'seeds = [3, 4]\nheadline = true\nscore = "bleu"')
    (repository / "generator/baselines.toml").write_text(named)
    build_repository(repository, progress=False)
    row = "BLEU | 60.5 ± 0.7 | 71.0 ± 0.7 |"
    for name in ("docs/results.md", "README.md", "baselines/toy_other/README.md"):
        assert row in (repository / name).read_text(encoding="utf-8"), name


def test_a_classical_model_stands_beside_ours(repository: Path) -> None:
    reproduce_baseline(repository, "toy_other")
    assert "classical model" not in read(repository)
    floor = {"dev": {"f1": 0.31, "data_hash": "d"}, "test": {"f1": 0.21}, "monitor": "f1"}
    folder = repository / "build/toy_other/runs/floor"
    folder.mkdir()
    (folder / "scores.json").write_text(json.dumps(floor))
    reproduce_baseline(repository, "toy_other")
    kept = json.loads((repository / "baselines/toy_other/scores.json").read_text())["floor"]
    assert kept == {"dev": {"f1": 0.31}, "test": {"f1": 0.21}}
    assert "| toy_other | F1 | test | 21.0 | 43.5 ± 0.7 |" in read(repository)


def test_the_gain_of_an_encoder_has_the_interval_of_welch(repository: Path) -> None:
    """By the published formula, in double precision: means 40 and 44, variances 1 and 4."""
    entry = '\n[toy_on_it]\ntemplate = "toy"\nfrom_scratch = "toy_other"\n'
    with open(repository / "generator/baselines.toml", "a", encoding="utf-8") as file:
        file.write(entry)
    build_repository(repository, progress=False)
    assert "Not measured yet." in read(repository)
    for name, scores in (("toy_other", (0.39, 0.40, 0.41)), ("toy_on_it", (0.42, 0.44, 0.46))):
        rows = [
            {"seed": n, "dev": {"f1": f1}, "test": {"f1": 0.5}, "minutes": 90 * f1 + n}
            for n, f1 in enumerate(scores)
        ]
        found = {"monitor": "f1", "encoder": "tiny", "code_hash": "", "seeds": rows, "dev": {}}
        (repository / f"baselines/{name}/scores.json").write_text(json.dumps(found))
    update_documents(repository)
    variance = 1 / 3 + 4 / 3
    freedom = variance**2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
    assert freedom == pytest.approx(2.94, abs=0.01)
    half = 3.22 * variance**0.5  # Student's t of 2.94 degrees, between 3.18 (3) and 4.30 (2)
    low, high = f"{4 - half:+.1f}", f"{4 + half:+.1f}"
    row = (
        f"| toy_on_it | F1 | dev | 40.0 ± 1.0 | 44.0 ± 2.0 | +4.0 ({low} to {high}) | 37.0 → 40.6 |"
    )
    assert row in read(repository)
    assert "| toy_on_it | F1 | test |" not in read(repository)


def change_value(repository: Path, value: str) -> None:
    """Let the toy project's code be another."""
    path = repository / "templates/toy" / PROJECT_FOLDER / "task/value.py"
    path.write_text(f"VALUE = {value}\n")
    build_repository(repository, progress=False)


@pytest.mark.slow
def test_scores_hold_for_other_code_whose_first_steps_are_equal(repository: Path) -> None:
    reproduce_baseline(repository, "toy_other")
    folder = repository / "baselines/toy_other"
    scores = json.loads((folder / "scores.json").read_text())
    steps = scores["first_steps"]
    other = {**scores, "first_steps": {**steps, "loss": 9.0}}
    (folder / "scores.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="toy_other: loss is"):  # as by another TensorFlow
        confirm_baseline(repository, "toy_other")
    # As by a processor that rounds otherwise.
    other = {**scores, "first_steps": {**steps, "loss": steps["loss"] + 0.01}}
    (folder / "scores.json").write_text(json.dumps(other))
    confirm_baseline(repository, "toy_other")
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") != "AVX2"
    (folder / "scores.json").write_text(json.dumps(scores))
    assert steps == {"step": 20, "loss": pytest.approx(3.0 - 3 / 7), "dev_f1": 0.5}
    assert not (repository / "build/toy_other/runs/first_steps").exists()
    change_value(repository, "0.5 + 1e-9")
    assert "| 0.5 | scores are for older code |" in read(repository)
    confirm_baseline(repository, "toy_other")
    assert "| 0.5 | same first 20 steps |" in read(repository)
    for value, what in (("0.508", "loss is"), ("0.48", "dev_f1 is 0.48 after")):
        change_value(repository, value)
        with pytest.raises(InputError, match=f"toy_other: {what}.*baselines reproduce toy_other"):
            confirm_baseline(repository, "toy_other")
        assert "| 0.5 | scores are for older code |" in read(repository)


def test_scores_are_those_of_the_recipe(repository: Path) -> None:
    """Other settings: neither runs nor first steps of before count, nor do seeds join them."""
    recipes, folder = repository / "generator/baselines.toml", repository / "baselines/toy_other"
    reproduce_baseline(repository, "toy_other")
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["recipe"] == {"epochs": 5, "devices.xla": True} | scores["recipe"]
    # As if its first steps had been others.
    (folder / "scores.json").write_text(json.dumps(scores | {"first_steps": {"loss": 9.0}}))
    recipes.write_text(recipes.read_text().replace("epochs = 5\n", "epochs = 6\n"))
    build_repository(repository, progress=False)
    with pytest.raises(InputError, match="scored with other settings than .*baselines reproduce"):
        confirm_baseline(repository, "toy_other")
    with pytest.raises(InputError, match="seed_3 was trained with epochs = 5, which is 6 now"):
        reproduce_baseline(repository, "toy_other")
    shutil.rmtree(repository / "build/toy_other/runs")
    with pytest.raises(InputError, match="has scores of seed 4 by other .* would be lost"):
        reproduce_baseline(repository, "toy_other", seeds=[3])
    (folder / "scores.json").write_text(json.dumps({**scores, "seeds": scores["seeds"][:1]}))
    reproduce_baseline(repository, "toy_other", seeds=[3])
    note = repository / "build/toy_other/runs/seed_3/made_with.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "precision": "float16"}))
    with pytest.raises(InputError, match="seed_3 was trained with another encoder or precision"):
        reproduce_baseline(repository, "toy_other", seeds=[3])
    found = json.loads((folder / "scores.json").read_text())
    assert found["recipe"]["epochs"] == 6 and found["first_steps"] == scores["first_steps"]
    assert [row["seed"] for row in found["seeds"]] == [3]


def test_confirm_needs_scores_and_the_same_encoder(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no scores yet: run `baselines reproduce toy_other`"):
        confirm_baseline(repository, "toy_other")
    reproduce_baseline(repository, "toy_other")
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(InputError, match="scored with other weights"):
        confirm_baseline(repository, "toy_other", encoder=tmp_path)
    change_value(repository, "0.6")
    path = repository / "baselines/toy_other/scores.json"
    scores = json.loads(path.read_text())
    scores.pop("first_steps")
    path.write_text(json.dumps(scores))
    with pytest.raises(InputError, match="are for older code and hold no first steps"):
        confirm_baseline(repository, "toy_other")


def test_reproduce_from_files_that_only_its_users_have(repository: Path, tmp_path: Path) -> None:
    """They are copied, prepared, and scored only on dev if there is no test file."""
    path, folder = repository / "generator/baselines.toml", repository / "build/toy_own"
    entry = '\n[toy_own]\ntemplate = "toy"\nlocal_files = ["train.txt", "dev.txt"]\n'
    path.write_text(path.read_text() + entry)
    prepare = 'open("data/prepared.log", "a").write(open("data/train.txt").read())\n'
    write_files(repository, {f"templates/toy/{PROJECT_FOLDER}/prepare.py": prepare})
    build_repository(repository, progress=False)
    with pytest.raises(InputError, match="name a folder that holds train.txt and dev.txt"):
        reproduce_baseline(repository, "toy_own")
    write_files(tmp_path / "own", {"train.txt": "mine\n"})
    with pytest.raises(InputError, match="holds no dev.txt: check --from"):
        reproduce_baseline(repository, "toy_own", local=tmp_path / "own")
    write_files(tmp_path / "own", {"dev.txt": "d\n", "SOURCE.json": "{}"})
    reproduce_baseline(repository, "toy_own", local=tmp_path / "own")
    files = sorted(file.name for file in (folder / "data").iterdir())
    assert files == ["dev.txt", "prepared.log", "train.txt"]
    assert (folder / "data/prepared.log").read_text() == "mine\n"
    scores = json.loads((repository / "baselines/toy_own/scores.json").read_text())
    assert "dev" in scores["seeds"][0] and "test" not in scores["seeds"][0]
    assert "| toy_own | tiny | F1 | 51.0 |  | 1 |" in read(repository)
    page = (repository / "baselines/toy_own/README.md").read_text()
    assert "cp TEXTS/train.txt TEXTS/dev.txt data/  # TEXTS: a folder of yours that has" in page
    assert "python prepare.py\npython train.py\n" in page
    assert "| F1 | 51.0 | 1 | 0.5 | unknown |" in page


def test_figures_of_the_benchmarks_reach_their_document(repository: Path) -> None:
    figures = {
        "generator_to_training": 2016.9,
        "padded_per_real_token_with_buckets": 1.07,
        "padded_per_real_token_with_one_length": 3.6,
    }
    write_files(repository, {"benchmarks/results/pipeline_speed.json": json.dumps(figures)})
    assert any("padded / real tokens, with buckets | 1.07 |" in x for x in differences(repository))
    build_repository(repository, progress=False)
    text = (repository / "docs/benchmarks.md").read_text()
    assert "| batches per second: generator only / training | 2,017 |" in text
    assert differences(repository) == []


def test_evaluation_is_measured_for_each_task_with_records(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    measured = importlib.import_module("evaluation_speed").TASKS
    shown = [keys[0] for file, keys, _ in FIGURES if file == "evaluation_speed.json"]
    assert sorted(measured) == sorted(shown) == sorted(TASKS)


def test_what_growth_measures_is_drawn_and_in_the_table(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    growth, drawn = map(importlib.import_module, ("growth", "growth_plot"))
    assert drawn.KINDS.keys() == growth.RECORDS.keys()
    sizes = map(str, growth.SIZES)
    figures = {"seconds": 1.5, "peak_mebibytes": 90.1, "batches_a_second": 800.0}
    ways = [*growth.WAYS, "peer_first_start", "peer_second_start"]
    assert drawn.WAYS.keys() == {*ways} - {"cache_one_process"}
    found = {"sizes": {size: dict.fromkeys(ways, figures) for size in sizes}}
    svg = drawn.plot(dict.fromkeys(drawn.KINDS, found)).decode()
    for words in ("relations: MiB beyond imports", "in lists", "datasets.map, later starts"):
        assert words in svg
    assert [*GROWTH] == [*drawn.KINDS.values()]
    results = tmp_path / "benchmarks/results"
    results.mkdir(parents=True)
    (results / "growth_texts.json").write_text(json.dumps(found), encoding="utf-8")
    *_, row = growth_table(tmp_path).splitlines()
    pairs = " | ".join(["1.5, 1.5", "1.5, 1.5", "90.1, 90.1", "800, 800", "1.5, 90.1"])
    assert row == f"| 1,000,000 texts | {pairs} | - | - |"
    assert encoded_in_ten_minutes(tmp_path) == "400 million texts"


def test_prediction_beside_the_peers_is_in_a_table(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    speed = importlib.import_module("prediction_speed")
    assert prediction_table(tmp_path) == "Not measured yet."
    rows = [
        {side: {"records": 60, "first_seconds": 9.0, "seconds": [own, own]} for side, own in row}
        for row in (zip(speed.SIDES, seconds, strict=True) for seconds in ((3, 2, 1), (4, 2, 2)))
    ]
    found = {task: {"found": {}, **speed.describe(rows)} for task in speed.TASKS}
    results = tmp_path / "benchmarks/results"
    results.mkdir(parents=True)
    path = results / "prediction_speed.json"
    path.write_text(json.dumps({"question": "?", "passes": 2, **found}), encoding="utf-8")
    _, _, *shown = prediction_table(tmp_path).splitlines()
    figures = " | ".join(["30", "17.5", "45", "1.75", "0.75", "9, 9"])
    titles = (f"{task.replace('_', ' ')}, on an Intel Xeon" for task in speed.TASKS)
    assert shown == [f"| {title} | {figures} |" for title in titles]


def test_training_with_the_cache_is_in_the_table_for_each_task(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    measured = importlib.import_module("cache_training").TASKS
    shown = [keys[0] for file, keys, _ in FIGURES if file == "cache_training.json"]
    assert shown == [*measured]


def test_the_headline_stands_in_the_readme(repository: Path) -> None:
    path = repository / "generator/baselines.toml"
    path.write_text(BASELINES.replace("seeds = [3, 4]", "seeds = [3, 4]\nheadline = true"))
    reproduce_baseline(repository, "toy_other")
    reproduce_baseline(repository, "toy_sample")
    row = "| toy | [toy_other](baselines/toy_other) | F1 | 53.5 ± 0.7 | 43.5 ± 0.7 | 0.5 |"
    text = (repository / "README.md").read_text(encoding="utf-8")
    assert row in text and "toy_sample" not in text


def read(repository: Path) -> str:
    """Return the document of the results."""
    text = (repository / "docs/results.md").read_text(encoding="utf-8")
    assert text.startswith("# Title\n") and text.endswith("The end.\n")
    return text


def test_bad_requests_are_one_sentence(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no baseline 'nope': the names are toy_sample, toy_other"):
        reproduce_baseline(repository, "nope")
    with pytest.raises(InputError, match="holds no model.safetensors"):
        reproduce_baseline(repository, "toy_other", encoder=tmp_path)
    with pytest.raises(InputError, match="--seeds 1;2 is not a list of numbers"):
        parse_seeds("1;2")


# ------------------------------------------------------------------------ code hash


@pytest.mark.parametrize(
    ("path", "text", "changes"),
    [
        ("task/value.py", '"""Another docstring."""\n# why\nVALUE = (\n    0.5\n)\n', False),
        ("task/value.py", "VALUE = 0.25\n", True),
        ("task/value.py", 'VALUE = "0.5"\n', True),
        ("task/more.py", "VALUE = 1\n", True),
        ("core/base/more.py", "VALUE = 1\n", True),
        ("words/__init__.py", "VALUE = 1\n", True),
        ("evaluate.py", "pass\n", True),
        ("predict.py", "pass\n", False),
        ("tests/test_more.py", "pass\n", False),
        ("tests/__init__.py", "pass\n", False),
        ("extras/doctor/more.py", "VALUE = 1\n", False),
        ("extras/wings/more.py", "VALUE = 1\n", True),
    ],
)
def test_code_hash_sees_what_matters(repository: Path, path: str, text: str, changes: bool) -> None:
    project = repository / "baselines/toy_sample"
    before = project_code_hash(project)
    write_files(project, {path: text})
    assert (project_code_hash(project) != before) == changes


# --------------------------------------------------------------------- command line


def run_baselines(*arguments: str) -> subprocess.CompletedProcess:
    """Call the command line."""
    return subprocess.run(
        [sys.executable, "-m", "generator", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def test_help_answers_at_once() -> None:
    # Seconds of the processor: those on the wall depend on what else runs.
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run_baselines("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert result.returncode == 0
    for name in ("bake", "add", "release", "build", "check", "smoke", "reproduce", "data"):
        assert name in result.stdout
    assert min(seconds) < 0.3


def test_help_imports_nothing_heavy() -> None:
    heavy = ["tensorflow", "keras", "cookiecutter", "pooch", "requests", "sklearn", "numpy"]
    code = f"import sys, generator.cli; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stdout + result.stderr


def test_errors_are_one_sentence_and_exit_code_one(tmp_path: Path) -> None:
    result = run_baselines("data", "get", "nope", "--to", str(tmp_path))
    assert (result.returncode, result.stdout) == (1, "")
    names = ", ".join(DATA_SETS)
    expected = f"error: there is no data set 'nope': the names are {names}.\n"
    assert result.stderr == expected
    assert run_baselines("data", "get").returncode == 2


# ------------------------------------------------------------------- this repository


def test_this_repository_is_as_built() -> None:
    if not (ROOT / "baselines").is_dir():
        pytest.skip("there are no baselines here: run `baselines build`")
    found = differences(ROOT)
    assert not found, "".join(found)[:3000]

"""Building, checking, smoking and reproducing, on a small repository with a toy template."""

import json
import resource
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from generator.baselines import read_baselines
from generator.build import build_repository, differences
from generator.confirm import confirm_baseline
from generator.data_sets.registry import DATA_SETS
from generator.errors import InputError
from generator.files import json_lines, sha256
from generator.paths import PROJECT_FOLDER
from generator.reproduce import parse_seeds, reproduce_baseline
from generator.run_project import project_code_hash
from generator.scores import update_readmes
from generator.smoke import smoke_baselines

ROOT = Path(__file__).resolve().parent.parent
MARKS = """<!-- scores: begin -->
<!-- scores: end -->
<!-- published: begin -->
<!-- published: end -->
<!-- benchmarks: begin -->
<!-- benchmarks: end -->
<!-- gains: begin -->
<!-- gains: end -->"""

BASELINES = """
[toy_sample]
template = "toy"

[toy_other]
template = "toy"
seeds = [3, 4]
published = [{ score = "f1", split = "test", value = 60.3, source = "https://example.org/toy" }]

[toy_other.answers]
encoder = "hf://owner/model"

[toy_other.settings]
epochs = 5
"""

# Scripts that keep the contract of a project without training anything.
TRAIN = """
import json, sys
from pathlib import Path
from common.code_hash import code_hash
from task.value import VALUE

def flag(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default

run = Path("runs") / flag("--run_name")
(run / "predictions").mkdir(parents=True, exist_ok=True)
with open("trained.log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
assert Path(flag("--train_file", "sample/train.jsonl")).is_file()
if Path("fail").exists():
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
row = {"step": 20, "loss": 3.0 - seed / 7 + int(VALUE > 0.505), "dev_f1": VALUE}
rows = [{**row, "step": 10}, {**row, "seconds": 1.0}]
(run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""
EVALUATE = """
import json, sys
from pathlib import Path

run, file = Path(sys.argv[1]), Path(sys.argv[2])
with open("evaluated.log", "a") as log:
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
            "README.md": f"# Title\n\n{MARKS}\n\nThe end.\n",
            "cookiecutter.json": '{"templates": {"toy": {"path": "./templates/toy"}}}',
            "generator/baselines.toml": BASELINES,
            "templates/common/__init__.py": "",
            "templates/launch.py": "",
            "templates/launch/slurm.sbatch": "",
            "templates/project_answers.py": "",
            "templates/toy/cookiecutter.json": json.dumps(
                {
                    "project_slug": "toy",
                    "encoder": "tiny",
                    "_copy_without_render": ["*.py", "*.jsonl", "reference/*"],
                }
            ),
            f"{project}/train.py": TRAIN,
            f"{project}/evaluate.py": EVALUATE,
            f"{project}/predict.py": PREDICT,
            f"{project}/task/value.py": '"""A number."""\n\nVALUE = 0.5\n',
            f"{project}/config.toml": (
                'encoder = "{{ cookiecutter.encoder }}"  # which one\nepochs = 20  # enough\n'
            ),
        },
    )
    shutil.copy(ROOT / "templates/common/code_hash.py", root / "templates/common")
    build_repository(root, progress=False)
    return root


# ------------------------------------------------------------------ build and check


def test_build_copies_and_bakes(repository: Path) -> None:
    template = repository / "templates" / "toy" / PROJECT_FOLDER
    other = repository / "baselines" / "toy_other"
    shared = (repository / "templates/common/code_hash.py").read_bytes()
    assert (template / "common/code_hash.py").read_bytes() == shared
    assert (other / "common/code_hash.py").read_bytes() == shared
    assert (template / "sample/dev.jsonl").is_file()
    assert (other / "config.toml").read_text() == (
        'encoder = "hf://owner/model"  # which one\nepochs = 5  # enough\n'
    )
    assert differences(repository) == []


def test_check_shows_what_differs(repository: Path) -> None:
    shared = repository / "templates/common/__init__.py"
    shared.write_text("VALUE = 1\n")
    (repository / "baselines/toy_sample/extra.py").write_text("x = 1\n")
    (repository / "baselines/gone").mkdir()
    (repository / "baselines/gone/train.py").write_text("pass\n")
    found = "".join(differences(repository))
    assert "+VALUE = 1\n" in found
    assert "baselines/toy_sample/extra.py (not built)" in found
    assert "baselines/gone/train.py (not built)" in found
    build_repository(repository, progress=False)
    assert not (repository / "baselines/toy_sample/extra.py").exists()


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


def test_build_names_a_setting_that_does_not_exist(repository: Path) -> None:
    path = repository / "generator/baselines.toml"
    path.write_text(BASELINES.replace("epochs", "epoch"))
    with pytest.raises(InputError, match="toy_other: config.toml has no setting 'epoch'"):
        build_repository(repository, progress=False)


@pytest.mark.parametrize("text", ["[a\n", '[a]\nseeds = [1]\nunknown = "x"\n'])
def test_a_broken_list_of_baselines_is_named(repository: Path, text: str) -> None:
    (repository / "generator/baselines.toml").write_text(text)
    with pytest.raises(InputError, match="baselines.toml is broken"):
        read_baselines(repository)


# --------------------------------------------------------------------------- smoke


def test_smoke_runs_every_baseline_and_leaves_nothing(repository: Path, capfd) -> None:
    smoke_baselines(repository)
    assert not (repository / "baselines/toy_sample/runs").exists()
    (repository / "baselines/toy_other/fail").write_text("")
    with pytest.raises(InputError, match="train.py, .* in toy_other ended with exit code 3"):
        smoke_baselines(repository)
    assert "what went wrong" in capfd.readouterr().err


# ----------------------------------------------------------------------- reproduce


def test_reproduce_records_every_seed_once(repository: Path, tmp_path: Path) -> None:
    folder = repository / "baselines/toy_other"
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
    assert (folder / "trained.log").read_text().count("\n") == 3
    assert (folder / "evaluated.log").read_text().count("\n") == 2
    for split in ("dev", "test"):
        assert json.loads((folder / f"predictions/{split}.jsonl").read_text()) == {
            "id": "a",
            "triples": [{"subject": [0, 1], "predicate": "p", "object": [2, 3], "score": 0.5}],
        }


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
    folder = repository / "baselines/toy_other"
    reproduce_baseline(repository, "toy_other", seeds=[3])
    (folder / "fail").write_text("")
    with pytest.raises(InputError, match="train.py --seed 4 --run_name seed_4"):
        reproduce_baseline(repository, "toy_other")
    (folder / "fail").unlink()
    reproduce_baseline(repository, "toy_other")
    trained = (folder / "trained.log").read_text().splitlines()
    # After the first reproduction come the first 20 steps, which the second has no need to repeat.
    assert [line.split()[1] for line in trained] == ["3", "20", "4", "4"]


def test_further_seeds_join_those_of_the_same_code(repository: Path) -> None:
    folder = repository / "baselines/toy_other"

    def seeds_of_file() -> list[int]:
        scores = json.loads((folder / "scores.json").read_text())
        return [scores["seed"], *(row["seed"] for row in scores["seeds"])]

    reproduce_baseline(repository, "toy_other", seeds=[4])
    shutil.rmtree(folder / "runs")
    reproduce_baseline(repository, "toy_other", seeds=[3, 5])
    assert seeds_of_file() == [4, 3, 4, 5]
    reproduce_baseline(repository, "toy_other", seeds=[4, 6])
    assert seeds_of_file() == [4, 3, 4, 5, 6]
    # Other code that trains the same: what was confirmed stays confirmed.
    change_value(repository, "0.5 + 1e-9")
    shutil.rmtree(folder / "runs")
    confirm_baseline(repository, "toy_other")
    reproduce_baseline(repository, "toy_other", seeds=[7])
    assert seeds_of_file() == [4, 3, 4, 5, 6, 7]
    assert "| 5 | 0.5 | first 20 steps equal |" in read(repository)
    rows = json.loads((folder / "scores.json").read_text())["seeds"]
    assert rows[-1]["code_hash"] != rows[0]["code_hash"]
    # Other code that was never compared, and a whole reproduction, begin anew.
    change_value(repository, "0.6")
    shutil.rmtree(folder / "runs")
    reproduce_baseline(repository, "toy_other", seeds=[8])
    assert seeds_of_file() == [8, 8]
    reproduce_baseline(repository, "toy_other")
    assert seeds_of_file() == [3, 3, 4]


def test_a_training_that_was_told_to_end_is_not_scored(repository: Path) -> None:
    train = repository / "baselines/toy_other/train.py"
    train.write_text(train.read_text().replace(', "finished": "now"', ""))
    with pytest.raises(InputError, match="seed_3 was told to end: run the same command to go on"):
        reproduce_baseline(repository, "toy_other")
    assert not (train.parent / "evaluated.log").exists()


def test_scores_reach_the_reference_and_the_readme(repository: Path) -> None:
    reproduce_baseline(repository, "toy_sample")
    assert "| toy_sample | tiny | F1 | 51.0 | 41.0 | 1 | 0.5 | current |" in read(repository)
    assert "| toy_other | | | | | | | not scored yet |" in read(repository)
    build_repository(repository, progress=False)
    for project in ("baselines/toy_other", f"templates/toy/{PROJECT_FOLDER}"):
        reference = repository / project / "reference"
        assert json.loads((reference / "scores.json").read_text())["name"] == "toy_sample"
        assert (reference / "predictions/dev.jsonl").is_file()
    assert differences(repository) == []
    change_value(repository, "0.6")
    assert "| 51.0 | 41.0 | 1 | 0.5 | scores are for older code |" in read(repository)
    with pytest.raises(InputError, match="seed_1 was trained by older code: delete"):
        reproduce_baseline(repository, "toy_sample")


def test_published_scores_stand_beside_ours(repository: Path) -> None:
    row = "| toy_other | F1 | test | {} | 60.3 | https://example.org/toy |"
    assert row.format("") in read(repository)
    reproduce_baseline(repository, "toy_other")
    assert row.format("43.5 ± 0.7") in read(repository)


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
    update_readmes(repository)
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


def test_scores_hold_for_other_code_whose_first_steps_are_equal(repository: Path) -> None:
    reproduce_baseline(repository, "toy_other")
    folder = repository / "baselines/toy_other"
    steps = json.loads((folder / "scores.json").read_text())["first_steps"]
    assert steps == {"step": 20, "loss": pytest.approx(3.0 - 3 / 7), "dev_f1": 0.5}
    assert not (folder / "runs/first_steps").exists()
    change_value(repository, "0.5 + 1e-9")
    assert "| 0.5 | scores are for older code |" in read(repository)
    confirm_baseline(repository, "toy_other")
    assert "| 0.5 | first 20 steps equal |" in read(repository)
    for value, what in (("0.508", "loss is"), ("0.48", "dev_f1 is 0.48 after")):
        change_value(repository, value)
        with pytest.raises(InputError, match=f"toy_other: {what}.*baselines reproduce toy_other"):
            confirm_baseline(repository, "toy_other")
        assert "| 0.5 | scores are for older code |" in read(repository)


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
    with pytest.raises(InputError, match="is for older code and holds no first steps"):
        confirm_baseline(repository, "toy_other")


def test_reproduce_from_files_that_only_its_users_have(repository: Path, tmp_path: Path) -> None:
    """They are copied, prepared, and scored on dev alone where there is no test file."""
    path, folder = repository / "generator/baselines.toml", repository / "baselines/toy_own"
    entry = '\n[toy_own]\ntemplate = "toy"\nlocal_files = ["train.txt", "dev.txt"]\n'
    path.write_text(path.read_text() + entry)
    prepare = 'open("prepared.log", "a").write(open("data/train.txt").read())\n'
    write_files(repository, {f"templates/toy/{PROJECT_FOLDER}/prepare.py": prepare})
    build_repository(repository, progress=False)
    with pytest.raises(InputError, match="name a folder that holds train.txt and dev.txt"):
        reproduce_baseline(repository, "toy_own")
    write_files(tmp_path / "own", {"train.txt": "mine\n"})
    with pytest.raises(InputError, match="holds no dev.txt: check --from"):
        reproduce_baseline(repository, "toy_own", local=tmp_path / "own")
    write_files(tmp_path / "own", {"dev.txt": "d\n", "SOURCE.json": "{}"})
    reproduce_baseline(repository, "toy_own", local=tmp_path / "own")
    assert sorted(file.name for file in (folder / "data").iterdir()) == ["dev.txt", "train.txt"]
    assert (folder / "prepared.log").read_text() == "mine\n"
    scores = json.loads((folder / "scores.json").read_text())
    assert "dev" in scores["seeds"][0] and "test" not in scores["seeds"][0]
    assert "| toy_own | tiny | F1 | 51.0 |  | 1 |" in (repository / "README.md").read_text()


def test_figures_of_the_benchmarks_reach_the_readme(repository: Path) -> None:
    figures = {
        "generator_to_training": 2016.9,
        "padded_per_real_token_with_buckets": 1.07,
        "padded_per_real_token_with_one_length": 3.6,
    }
    write_files(repository, {"benchmarks/results/pipeline_speed.json": json.dumps(figures)})
    assert any("padded / real tokens, with buckets | 1.07 |" in x for x in differences(repository))
    build_repository(repository, progress=False)
    assert "| batches a second, generator alone / training | 2,017 |" in read(repository)
    assert differences(repository) == []


def read(repository: Path) -> str:
    """Return the repository's README."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# Title\n") and text.endswith("The end.\n")
    return text


def test_bad_requests_are_one_sentence(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no baseline 'nope': the names are toy_sample, toy_other"):
        reproduce_baseline(repository, "nope")
    with pytest.raises(InputError, match="holds no model.safetensors"):
        reproduce_baseline(repository, "toy_other", encoder=tmp_path)
    with pytest.raises(InputError, match="--seeds 1;2 is no list of numbers"):
        parse_seeds("1;2")
    shutil.rmtree(repository / "baselines/toy_other")
    with pytest.raises(InputError, match="run `baselines build`"):
        reproduce_baseline(repository, "toy_other")
    with pytest.raises(InputError, match="run `baselines build`"):
        smoke_baselines(repository, ["toy_other"])


# ------------------------------------------------------------------------ code hash


@pytest.mark.parametrize(
    ("path", "text", "changes"),
    [
        ("task/value.py", '"""Another docstring."""\n# why\nVALUE = (\n    0.5\n)\n', False),
        ("task/value.py", "VALUE = 0.25\n", True),
        ("task/value.py", 'VALUE = "0.5"\n', True),
        ("task/unused.py", "VALUE = 1\n", False),
        ("predict.py", "pass\n", False),
        ("common/__init__.py", "import task.unused\n", True),
    ],
)
def test_code_hash_sees_what_matters(repository: Path, path: str, text: str, changes: bool) -> None:
    project = repository / "baselines/toy_sample"
    before = project_code_hash(project)
    write_files(project, {path: text})
    assert (project_code_hash(project) != before) == changes


def test_code_hash_follows_imports(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "templates/common", tmp_path / "common")
    files = {
        "train.py": "from task import one\n",
        "task/__init__.py": "",
        "task/one.py": "from . import two\nfrom .three import x\n",
        "task/two.py": "def f():\n    import task.four\n",
        "task/three.py": "x = 1\n",
        "task/four.py": "y = 1\n",
    }
    write_files(tmp_path, files)
    hashes = {project_code_hash(tmp_path)}
    for name, text in files.items():
        write_files(tmp_path, {name: text + "more = 2\n"})
        hashes.add(project_code_hash(tmp_path))
    assert len(hashes) == 1 + len(files)


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
    for name in ("build", "check", "smoke", "reproduce", "scores", "data"):
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

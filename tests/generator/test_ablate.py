"""The ablation: what it trains, resumes, refuses and logs, and what its tables say of that."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import ROOT
from scipy import stats
from test_build import EXTENSION, write_files

from generator import InputError
from generator.ablation import run as ablation
from generator.ablation.log import append_row, locked_log, read_rows
from generator.ablation.report import plot_studies, write_report
from generator.ablation.run import ablate
from generator.ablation.studies import Study, find_studies, read_studies
from generator.ablation.table import (
    Summary,
    ablation_summary,
    ablation_text,
    interval,
    judge,
    more_than_labels,
    summarize,
)
from generator.ablation.timed_training import make_step_clock
from generator.baselines import find_baselines
from generator.files import PROJECT_FOLDER
from generator.recipes import bake_recipe

pytestmark = pytest.mark.slow

STUDIES = """
[one]
baseline = "toy"
seeds = [1, 2]
[one.settings]
epochs = 2
[one.variants]
plain = {}
better = { gain = 0.1 }
broken = { mode = "exit" }
diverging = { mode = "nan" }
"""
# Parts of a project that keep its contract without TensorFlow.
KERAS = """
class callbacks:
    class Callback:
        pass

class Model:
    def fit(self, epochs, steps, step, callbacks=()):
        for epoch in range(epochs):
            for callback in callbacks:
                callback.on_epoch_begin(epoch)
            for batch in range(steps):
                for callback in callbacks:
                    callback.on_train_batch_begin(batch)
                step()
                for callback in callbacks:
                    callback.on_train_batch_end(batch)
            for callback in callbacks:
                callback.on_epoch_end(epoch)
"""
SETTINGS = """
import dataclasses, sys
from core.base.errors import InputError

def read_settings(settings_class, flags=None):
    flags = sys.argv[1:] if flags is None else flags
    kinds = {field.name: field.type for field in dataclasses.fields(settings_class)}
    values = {}
    for name, value in zip(flags[::2], flags[1::2], strict=True):
        if name[2:] not in kinds:
            raise InputError(f"unknown flag {name}")
        values[name[2:]] = kinds[name[2:]](value)
    return settings_class(**values)
"""
TASK_SETTINGS = """
import dataclasses

@dataclasses.dataclass
class Settings:
    epochs: int = 1
    gain: float = 0.0
    mode: str = "fine"
    seed: int = 1
    run_name: str = "default"
    shown_examples: int = 2
    encoder: str = "tiny"
"""
TRAIN = """
import json, signal, sys, time
from pathlib import Path
import keras
from core.base.settings import read_settings
from task.settings import Settings

settings = read_settings(Settings)
run = Path("runs") / settings.run_name
run.mkdir(parents=True, exist_ok=True)
with open("runs/trained.log", "a") as log:
    log.write(f"{settings.mode} {settings.gain} {settings.seed}\\n")
if settings.mode == "exit":
    sys.exit("error: the disk is full")
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
(run / "begun").write_text("")

def step():
    time.sleep(0.002)
    while Path("runs/wait").exists() and not told:
        time.sleep(0.01)

keras.Model().fit(epochs=settings.epochs, steps=3, step=step, callbacks=[])
if told:
    (run / "saved").write_text("")
    sys.exit()
loss = float("nan") if settings.mode == "nan" else 1.0
(run / "metrics.jsonl").write_text(json.dumps({"step": 6, "loss": loss}) + "\\n")
noise = {1: 0.01, 2: 0.02}[settings.seed]
dev = {"f1": 0.5 + noise + settings.gain * (1 + noise), "threshold": 0.5, "metrics": {}}
(run / "scores.json").write_text(json.dumps(
    {"monitor": "f1", "dev": dev, "finished": "now", "minutes": 0.1, "seed": settings.seed,
     "versions": {"python": "3"}, "hardware": "one core", "encoder": settings.encoder}))
"""
EVALUATE = """
import json, sys
from pathlib import Path

run, file = Path(sys.argv[1]), Path(sys.argv[2])
assert file.is_file()
scores = json.loads((run / "scores.json").read_text())
scores["test"] = {"f1": scores["dev"]["f1"] - 0.2}
(run / "scores.json").write_text(json.dumps(scores))
"""
TEMPLATE = f"templates/toy/{PROJECT_FOLDER}"
BUILT = "build/toy_with_all"
MARKS = "# Title\n<!-- ablation: begin -->\n<!-- ablation: end -->\nThe end.\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """A repository with one toy baseline and a study of it, whose report is not drawn."""
    monkeypatch.setattr(ablation, "write_report", lambda root: None)
    record = json.dumps({"id": "a"}) + "\n"
    settings = {"project_slug": "toy", "extras": "doctor"}
    private = {
        "__answers": "{{ cookiecutter | check_answers }}",
        "_extensions": ["toy_extension.BakingExtension"],
    }
    project = {
        ".cookiecutter.json": (
            '{"cookiecutter": {"project_slug": "{{ cookiecutter.project_slug }}",'
            ' "extras": "{{ cookiecutter.extras | normal_extras }}"}}'
        ),
        "config.toml": "epochs = 1\n",
        "keras.py": KERAS,
        "task/__init__.py": "",
        "task/settings.py": TASK_SETTINGS,
        "train.py": TRAIN,
        "evaluate.py": EVALUATE,
    }
    files = {
        "generator/baselines.toml": '[toy]\ntemplate = "toy"\n',
        "generator/ablations.toml": STUDIES,
        "docs/ablation.md": MARKS,
        "templates/core/__init__.py": "",
        "templates/core/base/errors.py": "class InputError(Exception):\n    pass\n",
        "templates/core/base/settings.py": SETTINGS,
        "templates/extras/doctor/README.md": "",
        "templates/toy/toy_extension.py": EXTENSION,
        "templates/toy/cookiecutter.json": json.dumps(settings | private),
        **{f"{TEMPLATE}/{name}": text for name, text in project.items()},
        **{f"baselines/toy_sample/sample/{n}.jsonl": record for n in ("train", "dev", "test")},
    }
    write_files(tmp_path, files)
    for name in ("baking.py", "declared.py"):
        shutil.copy(ROOT / "templates" / name, tmp_path / "templates")
    (tmp_path / "templates/core/runs").mkdir()
    code_hash = ROOT / "templates/core/runs/code_hash.py"
    shutil.copy(code_hash, tmp_path / "templates/core/runs")
    return tmp_path


def trained(root: Path) -> list[str]:
    """Return mode, gain and seed of every training that began."""
    return (root / BUILT / "runs/trained.log").read_text().splitlines()


# ------------------------------------------------------------------------ trainings


def test_every_training_is_one_line_and_is_not_repeated(root: Path, capsys) -> None:
    ablate(root)
    # All variants of the first seed come before the second.
    first = ["fine 0.0 1", "fine 0.1 1", "exit 0.0 1", "nan 0.0 1"]
    assert trained(root) == [*first, *(line[:-1] + "2" for line in first)]
    rows = {(row["variant"], row["seed"]): row for row in read_rows(root)}
    assert len(rows) == len(read_rows(root)) == 8
    row = rows["better", 1]
    assert row["settings"] == {"epochs": 2, "gain": 0.1}
    assert row["dev"] == {"f1": pytest.approx(0.611), "threshold": 0.5}
    assert row["test"]["f1"] == pytest.approx(0.411)
    assert (row["monitor"], row["steps"], row["timed_steps"]) == ("f1", 6, 6)
    assert row["seconds_per_step"] >= 0.002 > row["cpu_seconds_per_step"]
    assert row["peak_mib"] > 1 and row["failure"] is None
    assert row["data"].keys() == {"train", "dev", "test"} and row["encoder"] == "tiny"
    assert row["hardware"] == "one core" and row["command"] == "baselines ablate one"
    assert str(root) not in json.dumps(row)
    assert rows["broken", 1]["failure"] == "exit code 1: the disk is full"
    assert rows["diverging", 2]["failure"] == "the loss is not finite after 6 steps"
    left = {path.name.split("_")[2] for path in (root / BUILT).glob("runs/ablation_*")}
    assert left == {"broken"}  # the others are deleted
    # What failed without diverging may have been the machine: it is tried again.
    ablate(root)
    assert trained(root)[8:] == ["exit 0.0 1", "exit 0.0 2"]


def test_what_is_asked_for_is_trained_and_reported(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(ablation, "write_report", write_report)
    ablate(root, ["one"], seeds=[2], only=["better"], keep=True)
    assert trained(root) == ["fine 0.1 2"]
    [folder] = (path for path in (root / BUILT / "runs").iterdir() if path.is_dir())
    assert (folder / "steps.jsonl").read_text().count("\n") == 2
    assert "| better | gain = 0.1 | 2 | 62.20 |" in ablation_text(root)
    assert "| better | 62.20 | 42.20 |" in (root / "docs/ablation.md").read_text()


def test_other_code_data_or_settings_are_trained_anew(root: Path) -> None:
    def train() -> None:
        ablate(root, only=["plain"], seeds=[1])

    train()
    train()
    write_files(root, {"baselines/toy_sample/sample/dev.jsonl": '{"id": "b"}\n'})
    train()
    with open(root / TEMPLATE / "train.py", "a") as script:
        script.write("x = 1\n")
    train()
    path = root / "generator/ablations.toml"
    path.write_text(path.read_text().replace("epochs = 2", "epochs = 3"))
    train()
    # What the baseline itself is set to counts, not what is said of it.
    write_files(root, {f"{TEMPLATE}/config.toml": "epochs = 1\ngain = 0.2\n"})
    train()
    write_files(root, {f"{TEMPLATE}/config.toml": "epochs = 1  # enough\ngain = 0.2\n"})
    train()
    assert len(trained(root)) == len(read_rows(root)) == 5


def test_an_interrupted_training_is_saved_and_goes_on(root: Path) -> None:
    waiting = root / BUILT / "runs/wait"
    write_files(root, {f"{BUILT}/runs/wait": ""})
    # The first import finds the formats of data sets, which are in the real repository.
    code = "import sys; from pathlib import Path; from generator import cli, data_sets, files\n"
    code += "files.ROOT = Path(sys.argv.pop(1)); cli.main()"
    (root / "cookiecutter.json").write_text("{}")
    command = [sys.executable, "-c", code, str(root), "ablate", "one", "--only", "plain"]
    for number in (signal.SIGINT, signal.SIGTERM):
        for path in (root / BUILT).glob("runs/*/*"):
            path.unlink()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            # A shell lets what it starts in the background ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        while not any((root / BUILT).glob("runs/*/begun")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(number)
        assert "interrupted: run the same command again" in process.communicate()[1]
        assert process.returncode == 130
        assert any((root / BUILT).glob("runs/*/saved"))
        assert read_rows(root) == []
    waiting.unlink()
    ablate(root, only=["plain"])
    assert [row["seed"] for row in read_rows(root)] == [1, 2]


def test_a_training_of_another_process_is_left_to_it(root: Path, capsys, monkeypatch) -> None:
    def train_and_score(experiment, begun, output):
        """Let a second process come while the first one trains."""
        monkeypatch.setattr(ablation, "train_and_score", original)
        ablate(root, seeds=[1], only=["plain", "better"])
        return original(experiment, begun, output)

    original = ablation.train_and_score
    monkeypatch.setattr(ablation, "train_and_score", train_and_score)
    ablate(root, seeds=[1], only=["plain", "better"])
    assert "1 of 2 trainings are another process's" in capsys.readouterr().out
    assert [row["variant"] for row in read_rows(root)] == ["better", "plain"]


def test_what_failed_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "ab") as output:
        code = "import os; os.kill(os.getpid(), 9)"
        assert "killed by SIGKILL" in ablation.run_logged(tmp_path, ["-c", code], output)
        code = f"import sys; print('old'); sys.exit('error: {tmp_path}/data is absent\\n\\n')"
        failure = ablation.run_logged(tmp_path, ["-c", code], output)
    assert failure == "exit code 1: data is absent"


# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gain = 0.1", "gian = 0.1", "one, better: unknown flag --gian"),
        ("gain = 0.1", "gain = 0.0", "one, better changes nothing"),
        ("plain = {}", "plain = { gain = 1.0 }", "the first variant is what the others are"),
        ("gain = 0.1", "seed = 3", "better sets seed, which each training gets"),
        ("epochs = 2", "epochs = ", "ablations.toml is broken"),
        ('baseline = "toy"', 'baseline = "nope"', "no baseline 'nope'"),
    ],
)
def test_a_bad_study_is_refused_before_training(root: Path, old, new, words) -> None:
    path = root / "generator/ablations.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=words) as error:
        ablate(root)
    assert "\n" not in str(error.value)
    assert not (root / BUILT / "runs").exists()


def test_bad_requests_are_one_sentence(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no study 'two': the names are one"):
        ablate(root, ["two"])
    with pytest.raises(InputError, match="no variant 'lamp': the names are plain, better"):
        ablate(root, only=["lamp"])
    other = STUDIES + STUDIES.replace("one", "two")
    (root / "generator/ablations.toml").write_text(other)
    with pytest.raises(InputError, match="--from and --encoder belong to one study"):
        ablate(root, local=tmp_path)
    with locked_log(root) as descriptor:
        os.write(descriptor, b"no json\n")
    with pytest.raises(InputError, match=r"ablation.jsonl, line 1 is not JSON"):
        ablate(root, ["one"])


def test_the_log_of_older_code_has_the_settings_of_today(root: Path) -> None:
    old = {"optimizer": "lamb", "ema": 0.9, "recompute": True, "r_drop": 1.0, "epochs": 2}
    append_row(root, make_row("plain", 1, 0.5, 0.5, settings=old))
    append_row(root, make_row("plain", 2, 0.5, 0.5, settings={"optimizers.kind": "lion"}))
    assert [row["settings"] for row in read_rows(root)] == [
        {
            **{"optimizers.kind": "lamb", "averaging.ema": 0.9, "recompute.enabled": True},
            **{"regularization.r_drop": 1.0, "epochs": 2},
        },
        {"optimizers.kind": "lion"},
    ]


def test_the_log_of_this_repository_is_read_with_the_studies_of_today() -> None:
    """Every variant of the table was trained by older code, with settings that were flat."""
    rows = read_rows(ROOT)
    for study in read_studies(ROOT).values():
        found = {summary.variant: summary.seeds for summary in summarize(study, rows)}
        first = list(study.variants)[:12]
        assert found == dict.fromkeys(first, [1, 2, 3]), study.name


def test_the_studies_of_this_repository_are_sound(tmp_path: Path) -> None:
    """Every project accepts its settings; what was asked for is there, with three seeds."""
    asked = "adamw lamb adafactor layer_decay ema fgm gradient_penalty r_drop lookahead recompute"
    for study in find_studies(ROOT):
        [baseline] = find_baselines(ROOT, [study.baseline])
        project = bake_recipe(ROOT, baseline, tmp_path, {"extras": "all"})
        experiment = ablation.Experiment(study, project, "data", None, {})
        ablation.check_settings(experiment)
        assert list(study.variants)[:11] == [*asked.split(), "accumulation"]
        assert len(study.seeds) >= 3
    assert len(read_studies(ROOT)) == 2


# ---------------------------------------------------------------------------- tables

STUDY = Study("one", "toy", {"plain": {}, "other": {"gain": 0.1, "on": True}}, {"epochs": 2})


def make_row(variant: str, seed: int, dev: float, test: float, **others) -> dict:
    """Return a row as the log has it."""
    return {
        **{"study": "one", "variant": variant, "seed": seed},
        "settings": STUDY.settings_of(variant),
        **{"code_hash": "sha256:a", "data": {}, "encoder": "tiny", "failure": None},
        **{"dev": {"f1": dev}, "test": {"f1": test}, "monitor": "f1", "diverged": False},
        **{"seconds_per_step": 1.0, "cpu_seconds_per_step": 1.0, "peak_mib": 100},
        **others,
    }


ROWS = [
    *(make_row("plain", seed, 0.5 + seed / 100, 0.4 + seed / 50) for seed in (1, 2, 3)),
    *(
        make_row("other", seed, 0.52 + seed**2 / 100, 0.4 + seed / 50, seconds_per_step=1.0 + seed)
        for seed in (1, 2, 3)
    ),
]


def test_an_interval_is_that_of_student() -> None:
    values = [0.3, 1.2, -0.4, 0.9]
    found = interval(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    assert found.leaves_out_zero == (low > 0 or high < 0)
    assert interval([2.0]).half is None and not interval([2.0]).leaves_out_zero
    # One degree of freedom is Cauchy's distribution, whose quantile is a tangent: 12.706.
    assert interval([0.0, 2.0]).half == pytest.approx(12.7062, abs=1e-4)


def test_differences_are_taken_seed_by_seed() -> None:
    plain, other = summarize(STUDY, ROWS)
    assert plain.differences == {} and plain.times is None
    assert other.scores["dev"].mean == pytest.approx(52 + 14 / 3)
    pairs = [52 + seed**2 - (50 + seed) for seed in (1, 2, 3)]
    test = stats.ttest_rel([52 + s**2 for s in (1, 2, 3)], [50 + s for s in (1, 2, 3)])
    low, high = test.confidence_interval(0.95)
    found = other.differences["dev"]
    assert found.mean == pytest.approx(statistics.fmean(pairs))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    assert other.differences["test"].mean == pytest.approx(0)
    assert (other.seconds, other.times, other.peak_mib) == (3.0, 3.0, 100)


def test_more_than_labels_is_compared_seed_by_seed(tmp_path: Path) -> None:
    assert more_than_labels(tmp_path) == "Not run yet."
    scores = {"gold": [(1, 0.5), (2, 0.6)], "soft": [(2, 0.64), (1, 0.52)], "all_gold": [(2, 0.9)]}
    rows = [
        {"seed": seed, "variant": name, "minutes": 2.4, "dev": dev, "test": dev / 2}
        for name, found in scores.items()
        for seed, dev in found
    ]
    found = {"baseline": "toy", "part": 0.2, "monitor": "f1", "encoder": "tiny", "hardware": "CPU"}
    found["precision"] = "float32"
    path = tmp_path / "benchmarks/results/more_than_labels.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**found, "rows": rows}))
    about, _, _, _, gold, soft, all_gold = more_than_labels(tmp_path).splitlines()
    assert about == "toy, 20% of the training records with labels; F1; encoder tiny; float32; CPU."
    assert gold == "| gold | 55.00 ± 63.53 | 27.50 ± 31.77 | 2 | 2 |"
    assert soft == "| soft | +3.00 ± 12.71 | +1.50 ± 6.35 | 2 | 2 |"  # 2 and 4, not 1 and 5
    assert all_gold == "| all_gold | +30.00 | +15.00 | 1 | 2 |"


def test_rows_of_one_code_are_compared() -> None:
    new = [{**row, "code_hash": "sha256:b"} for row in ROWS[:4]]
    found = summarize(STUDY, [*ROWS, *new])
    assert [summary.seeds for summary in found] == [[1, 2, 3], [1, 2, 3]]
    new += [make_row("other", 2, 0.9, 0.9, code_hash="sha256:b") for _ in range(2)]
    new += [make_row("other", 3, 0.9, 0.9, code_hash="sha256:b")]
    found = summarize(STUDY, [*ROWS, *new])
    assert found[1].scores["test"].mean == pytest.approx((42 + 90 + 90) / 3)
    # Those of settings of yesterday, or of another study, count for nothing.
    old = [make_row("other", 4, 0.9, 0.9, settings={"epochs": 9}), {**ROWS[0], "study": "two"}]
    assert summarize(STUDY, [*ROWS, *old]) == summarize(STUDY, ROWS)


def test_a_failure_is_told_and_left_out() -> None:
    failed = make_row("other", 2, 0, 0, failure="killed", seconds_per_step=None)
    other = summarize(STUDY, [*ROWS[:4], failed])[1]
    assert (other.seeds, other.failures) == ([1], {2: "killed"})
    assert other.differences["dev"].mean == pytest.approx(2)
    [_, other] = summarize(STUDY, [*ROWS[:3], failed])
    assert (other.seeds, other.scores, other.differences) == ([], {}, {})
    # Tried again with success: the newer row counts.
    assert summarize(STUDY, [*ROWS[:4], failed, ROWS[4]])[1].seeds == [1, 2]


def test_tables_and_plot_are_the_same_each_time(root: Path) -> None:
    toml = STUDIES.replace('broken = { mode = "exit" }\ndiverging = { mode = "nan" }\n', "")
    toml = toml.replace("better = { gain = 0.1 }", "other = { gain = 0.1, on = true }")
    (root / "generator/ablations.toml").write_text(toml)
    assert ablation_summary(root) == "Not run yet."
    for row in ROWS:
        append_row(root, row)
    results = root / "benchmarks/results"
    contents = []
    for _ in range(2):
        write_report(root)
        contents.append({path.name: path.read_bytes() for path in results.iterdir()})
    assert contents[0] == contents[1]
    assert contents[0].keys() == {"ablation.jsonl", "ablation.md", "ablation.svg"}
    text = ablation_text(root)
    assert contents[0]["ablation.md"].decode() == text
    assert "| plain |  | 1, 2, 3 | 52.00 ± 2.48 |  | 44.00 ± 4.97 |  | 1.000 |  | 100 |" in text
    half = interval([2.0, 4.0, 8.0]).half
    assert (
        f"| other | gain = 0.1, on = true | 1, 2, 3 | 56.67 ± 10.04 | +4.67 ± {half:.2f} |" in text
    )
    page = (root / "docs/ablation.md").read_text(encoding="utf-8")
    assert page.startswith("# Title\n") and page.endswith("The end.\n")
    assert "| variant | one: dev | one: test | one: step | one: MiB | in all |" in page
    assert f"| other | +4.67 ± {half:.2f} | +0.00 ± 0.00 | 3.00 | 100 | even |" in page
    assert "](../benchmarks/results/ablation.svg)" in page


def test_a_plot_with_one_seed_or_failures_alone() -> None:
    failed = make_row("other", 2, 0, 0, failure="killed", seconds_per_step=None, peak_mib=None)
    for rows in (ROWS[:1], [failed], [*ROWS[:4], failed]):
        assert plot_studies({"one": summarize(STUDY, rows)}).startswith(b"<?xml")


def test_gain_loss_or_even() -> None:
    def study(*differences: float) -> Summary:
        rows = [make_row("plain", seed, 0.5, 0.5) for seed in (1, 2, 3)]
        values = enumerate(differences, 1)
        rows += [make_row("other", seed, 0.5 + value / 100, 0.5) for seed, value in values]
        return summarize(STUDY, rows)[1]

    up, down, unsure = study(1, 1.1, 1.2), study(-1, -1.1, -1.2), study(9, 1, -3)
    small = study(0.3, 0.31, 0.32)  # surely above 0, but nobody minds
    assert [judge([found]) for found in (up, down, unsure, small)] == [
        *("gain", "loss"),
        *2 * ("even",),
    ]
    assert (judge([up, unsure]), judge([small, down]), judge([up, down])) == (
        "gain",
        "loss",
        "even",
    )
    assert judge([study(5)]) == "" and judge([study(5), down]) == "loss"


def cited(config: str) -> dict[str, str]:
    """Return what a config.toml says of the ablation, by variant: `(gain)`, `(fgm: even)`."""
    found = {}
    for line in config.splitlines():
        setting, _, comment = line.partition(" = ")
        for before, inside in re.findall(r"([^()]*)\(([^()]*)\)", comment):
            if verdict := re.search(r"\b(?:(\w+): )?(gain|loss|even)\b", inside):
                quoted = re.findall(r'"(\w+)"', before)
                name = verdict[1] or (quoted[-1] if setting == "kind" else setting)
                found[name] = verdict[2]
    return found


def test_extras_say_what_the_ablation_has_shown() -> None:
    rows = read_rows(ROOT)
    shown = defaultdict(list)
    for study in read_studies(ROOT).values():
        for summary in summarize(study, rows):
            shown[summary.variant].append(summary)
    judged = {variant: judge(summaries) for variant, summaries in shown.items()}
    assert judged["adamw_faster"] == "gain"  # which comments compare LAMB with
    tables = ROOT.glob("templates/extras/*/config.toml")
    said = cited("\n".join(path.read_text(encoding="utf-8") for path in tables))
    required = "lamb adafactor layer_decay ema fgm gradient_penalty r_drop lookahead"
    assert said == {name: judged[name] for name in required.split()}


# ------------------------------------------------------------------------------ time


@pytest.mark.trains
def test_keras_tells_the_clock_of_every_step(tmp_path: Path) -> None:
    import keras

    import core  # noqa: F401  before TensorFlow

    class Slow(keras.callbacks.Callback):
        """Works between two steps, which must not count."""

        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.2)

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    clock = make_step_clock(keras, tmp_path / "steps.jsonl")
    x = keras.ops.ones([6, 1])
    model.fit(x, x, batch_size=2, epochs=2, verbose=0, callbacks=[clock, Slow()])
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [len(row["seconds"]) for row in rows] == [3, 3]
    assert 0 < statistics.median(rows[1]["seconds"]) < 0.2
    assert rows[0]["peak_bytes"] > 1 << 20 and "peak_bytes" not in rows[1]

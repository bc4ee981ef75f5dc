"""config.toml, the Settings class and --help name the same settings, with the same defaults."""

import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT, use_template

PROJECT = use_template("relation_extraction")

from task.settings import Settings  # noqa: E402

from common import settings as common_settings  # noqa: E402
from common.errors import InputError  # noqa: E402
from generator.bake import bake  # noqa: E402

DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The project as baked with the default answers."""
    return bake(ROOT / "templates/relation_extraction", tmp_path_factory.mktemp("settings"))


def test_the_file_holds_every_setting_with_its_default(project):
    values = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    assert values == DEFAULTS


def test_every_setting_has_its_reason(project):
    lines = (project / "config.toml").read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if re.match(r"\w+\s*=", line)]
    assert len(settings) == len(DEFAULTS)
    assert [line for line in settings if not re.search(r"\S\s+# \S", line)] == []


def test_every_setting_is_described():
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_help_lists_every_flag(project):
    done = subprocess.run(
        [sys.executable, "train.py", "--help"], cwd=project, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    for name in DEFAULTS:
        assert f"--{name} " in done.stdout, name
    assert not (project / "runs").exists()


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A settings file that the tests may write."""
    path = tmp_path / "config.toml"
    path.write_text("epochs = 7\n", encoding="utf-8")
    monkeypatch.setitem(Settings.model_config, "toml_file", path)
    monkeypatch.setattr(common_settings, "PROJECT", tmp_path)
    return path


def test_flags_override_the_file_and_the_file_the_defaults(config):
    read = common_settings.read_settings
    assert read(Settings, []).epochs == 7
    settings = read(Settings, ["--epochs", "3", "--pointer=plain"])
    assert (settings.epochs, settings.pointer) == (3, "plain")
    assert settings.batch_size == DEFAULTS["batch_size"]


def test_the_environment_is_no_source(config, monkeypatch):
    monkeypatch.setenv("EPOCHS", "99")
    monkeypatch.setenv("SEED", "99")
    settings = common_settings.read_settings(Settings, [])
    assert (settings.epochs, settings.seed) == (7, DEFAULTS["seed"])


def test_what_differs_from_the_defaults_is_marked(config):
    described = common_settings.read_settings(Settings, []).describe().splitlines()
    assert "* epochs = 7" in described and "  batch_size = 16" in described
    assert len(described) == len(DEFAULTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = 1\nepochs = 0\n", "config.toml, line 2: epochs = 0"),
        ("warm_upp = 0.1\n", "config.toml, line 1: warm_upp is no setting: did you mean warm_up?"),
        ("zzz = 1\n", "config.toml, line 1: zzz is no setting: config.toml lists all settings"),
        ("epochs = \n", "config.toml is not valid TOML"),
        ('strategy = "tpu"\n', "set buckets = 1 with strategy = tpu"),
    ],
)
def test_a_wrong_file_is_explained(config, text, words):
    config.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        common_settings.read_settings(Settings, [])
    assert words in str(error.value) and "\n" not in str(error.value)


def test_settings_of_a_run_come_back_whatever_the_file_says(config):
    settings = common_settings.read_settings(Settings, ["--epochs", "3"])
    stored = {**settings.model_dump(), "train_hash": "sha256:0"}
    config.write_text("epochs = 11\n", encoding="utf-8")
    assert common_settings.saved_settings(Settings, stored) == settings


def test_without_orbit_its_loop_explains_itself(config, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps -r requirements-orbit.txt"):
        common_settings.read_settings(Settings, ["--loop", "orbit"])


@pytest.mark.parametrize("others", [[], ["--loop", "orbit", "--folds", "3"]])
def test_a_job_of_orbit_wants_orbit_and_one_training(config, monkeypatch, others):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    with pytest.raises(InputError, match="orbit_job = train is one of two processes"):
        common_settings.read_settings(Settings, ["--orbit_job", "train", *others])


def test_with_tpu_the_project_can_start(tmp_path):
    """What the prompt for the devices offers must be a valid file."""
    answers = {"strategy": "tpu", "project_slug": "on_tpu"}
    project = bake(ROOT / "templates/relation_extraction", tmp_path, answers)
    values = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    assert (values["strategy"], values["buckets"]) == ("tpu", 1)

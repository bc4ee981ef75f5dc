"""config.toml, the Settings class and --help name the same settings, with the same defaults."""

import json
import os
import pickle
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT, use_template
from projects import bake_project, run

PROJECT = use_template("relation_extraction")

import task.settings as settings_module  # noqa: E402
from core.base import settings as base_settings  # noqa: E402
from core.base.errors import InputError  # noqa: E402
from generator.bake import bake, load_baking  # noqa: E402
from task.settings import Settings  # noqa: E402

BAKING = load_baking(ROOT / "templates")
WITH_TABLES = base_settings.with_tables(Settings)
# Of these extras another template's projects have the tables.
OTHERS = {*BAKING.known_extras()} - {*BAKING.known_extras("relation_extraction")}
DEFAULTS = {
    name: value
    for name, value in WITH_TABLES.model_construct().model_dump().items()
    if name not in OTHERS
}
FLAT = base_settings.flatten(DEFAULTS)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with all extras."""
    return bake_project("relation_extraction", tmp_path_factory.mktemp("settings"))


def test_the_file_holds_every_setting_with_its_default(project):
    values = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    assert values == DEFAULTS


def test_every_setting_has_its_reason(project):
    lines = (project / "config.toml").read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if re.match(r"\w+\s*=", line)]
    assert len(settings) == len(FLAT)
    assert [line for line in settings if not re.search(r"\S\s+# \S", line)] == []


def test_every_setting_is_described():
    described = dict(base_settings.all_fields(WITH_TABLES))
    assert described.keys() >= FLAT.keys() and all(described.values())
    # What a search tries is written by its user, and no run keeps it.
    others = described.keys() - FLAT.keys() - {"search.space"}
    assert {name.partition(".")[0] for name in others} <= OTHERS


def test_help_lists_every_flag(project):
    done = run("train.py", "--help", cwd=project)
    for name in FLAT:
        assert f"--{name} " in done.stdout, name
    assert not (project / "runs").exists()


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A settings file that the tests may write."""
    path = tmp_path / "config.toml"
    path.write_text("epochs = 7\n", encoding="utf-8")
    monkeypatch.setattr(base_settings, "CONFIG", path)
    return path


def test_flags_override_the_file_and_the_file_the_defaults(config):
    read = base_settings.read_settings
    assert read(Settings, []).epochs == 7
    flags = ["--epochs", "3", "--pointer=plain", "--devices.xla", "true", "--optimizers.kind=lamb"]
    settings = read(Settings, flags)
    assert (settings.epochs, settings.pointer) == (3, "plain")
    assert settings.devices.xla and settings.optimizers.kind == "lamb"
    assert settings.batch_size == DEFAULTS["batch_size"]
    assert settings.devices.precision == "auto"


def test_a_flag_overrides_one_key_of_a_table(config):
    table = '[optimizers]\nkind = "lion"\nlookahead = 5\n'
    config.write_text(table, encoding="utf-8")
    settings = base_settings.read_settings(Settings, ["--optimizers.lookahead", "0"])
    assert (settings.optimizers.kind, settings.optimizers.lookahead) == ("lion", 0)


def test_the_environment_is_no_source(config, monkeypatch):
    monkeypatch.setenv("EPOCHS", "99")
    monkeypatch.setenv("SEED", "99")
    settings = base_settings.read_settings(Settings, [])
    assert (settings.epochs, settings.seed) == (7, DEFAULTS["seed"])


def test_what_differs_from_the_defaults_is_marked(config):
    flags = ["--averaging.ema", "0.5"]
    described = base_settings.read_settings(Settings, flags).describe().splitlines()
    assert "* changed: epochs = 7" in described and "  batch_size = 16" in described
    assert "* changed: averaging.ema = 0.5" in described
    assert "  averaging.soup = 0" in described
    assert len(described) == len(base_settings.flatten(WITH_TABLES.model_construct().model_dump()))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = 1\nepochs = 0\n", "config.toml, line 2: epochs = 0"),
        ("warm_upp = 0.1\n", "line 1: warm_upp is not a setting: did you mean warm_up?"),
        ("folds = 5\n", "line 1: folds is not a setting: did you mean folds.count?"),
        (
            'optimizer = "lamb"\n',
            "line 1: optimizer is not a setting: did you mean optimizers.kind?",
        ),
        ("zzz = 1\n", "line 1: zzz is not a setting: config.toml lists all settings"),
        ("xla = true\n", "line 1: xla is not a setting: did you mean devices.xla?"),
        ("seed = 1\n[devices]\nxlb = 1\n", "line 3: devices.xlb is not a setting: did you mean"),
        ("seed = 1\n[averaging]\nema = 1.5\n", "config.toml, line 3: averaging.ema = 1.5 (mom"),
        ("[zzz]\nseed = 1\n", "line 1: zzz is not a setting: config.toml lists all settings"),
        ("seed = 1\n[[zzz]]\nseed = 1\n", "line 2: zzz is not a setting"),
        ("seed = 1\n [ zzz ] # mine\nseed = 1\n", "line 2: zzz is not a setting"),
        ("seed = 1\nzzz.seed = 1\n", "line 2: zzz is not a setting"),
        ("seed = 1\nbatch-size = 1\n", "line 2: batch-size is not a setting: did you mean batch"),
        ("epochs = \n", "config.toml is not valid TOML"),
        ('strategy = "tpu"\n', "set buckets = 1 with strategy = tpu"),
        ('seed = 1\nstrategy = "tpo"\n', "line 2: strategy = 'tpo' (which devices train): choose"),
    ],
)
def test_a_wrong_file_is_explained(config, text, words):
    config.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        base_settings.read_settings(Settings, [])
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        # Settings of a table that don't fit together: flags are to blame if there are any.
        ('[optimizers]\nschedule = "piecewise"\n', [], "config.toml, line 1: optimizers: "),
        ("", ["--optimizers.schedule", "piecewise"], "--optimizers.schedule: schedule = "),
        (
            "[optimizers]\nlazy_embeddings = false\n",
            ["--optimizers.lazy_embeddings", "true", "--seed", "2", "--optimizers.kind=lamb"],
            "--optimizers.lazy_embeddings and --optimizers.kind: lazy_embeddings with kind = lamb",
        ),
    ],
)
def test_what_does_not_fit_together_is_blamed_on_its_place(config, monkeypatch, text, flags, words):
    config.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        base_settings.read_settings(Settings, flags)
    assert str(error.value).startswith(words)


def test_a_file_with_a_byte_order_mark_is_read(config):
    config.write_bytes(b"\xef\xbb\xbfepochs = 9\r\n")
    assert base_settings.read_settings(Settings, []).epochs == 9
    config.write_bytes(b"\xef\xbb\xbfepochs = 0\r\n")
    with pytest.raises(InputError, match="config.toml, line 1: epochs = 0"):
        base_settings.read_settings(Settings, [])


def test_a_file_in_another_encoding_has_its_line(config):
    config.write_bytes("seed = 1\nepochs = 3  # 训练\n".encode("gbk"))
    with pytest.raises(InputError, match="config.toml, line 2: not UTF-8: save it as UTF-8"):
        base_settings.read_settings(Settings, [])


def test_a_missing_file_is_said(config):
    config.unlink()
    with pytest.raises(InputError, match="config.toml is missing: restore it"):
        base_settings.read_settings(Settings, [])
    # A trained run has its own settings.
    assert base_settings.saved_settings(Settings, {"epochs": 3}).epochs == 3


@pytest.mark.parametrize("table", ["epochs", "devices.precision"])
def test_an_error_in_the_settings_of_a_run_names_their_file(config, table):
    name, _, inner = table.partition(".")
    values = {name: {inner: "x"} if inner else "x"}
    file = config.with_name("config.json")
    with pytest.raises(InputError) as error:
        base_settings.saved_settings(Settings, values, file)
    assert str(error.value).startswith(f"{file}: {table} = 'x' (")


def test_an_error_in_the_settings_of_a_run_needs_no_config_toml(config):
    file = config.with_name("config.json")
    config.unlink()
    with pytest.raises(InputError) as error:
        base_settings.saved_settings(Settings, {"epochs": "x"}, file)
    assert str(error.value).startswith(f"{file}: epochs = 'x' (")


def test_settings_of_a_run_come_back_whatever_the_file_says(config):
    flags = ["--epochs", "3", "--averaging.soup", "2", "--devices.precision", "mixed_bfloat16"]
    settings = base_settings.read_settings(Settings, flags)
    stored = {**settings.model_dump(), "train_hash": "sha256:0"}
    config.write_text("epochs = 11\n", encoding="utf-8")
    assert base_settings.saved_settings(Settings, stored) == settings


def test_settings_of_an_older_run_come_back(config):
    """Before there were tables all keys were flat; what no setting has any more is passed over."""
    older = {"epochs": 3, "precision": "mixed_bfloat16", "soup": 2, "loop": "fit", "port": 99}
    found = base_settings.saved_settings(Settings, older)
    assert (found.epochs, found.devices.precision, found.averaging.soup) == (3, "mixed_bfloat16", 2)
    assert found.cluster.port == 99 and found.batch_size == DEFAULTS["batch_size"]


def test_settings_of_a_run_fit_the_devices_of_this_machine(config):
    stored = {"strategy": "tpu", "buckets": 4, "devices": {"xla": True}}
    found = base_settings.saved_settings(Settings, stored)
    assert (found.strategy, found.devices.xla) == ("auto", True)


def test_settings_go_to_another_process(config, monkeypatch):
    # The tests of another template may have put its `task` in the place of this one.
    monkeypatch.setitem(sys.modules, "task.settings", settings_module)
    settings = base_settings.read_settings(Settings, ["--optimizers.kind", "muon"])
    config.write_text("epochs = 11\n", encoding="utf-8")
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_without_orbit_its_loop_explains_itself(config, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="install --no-deps -r extras/orbit/requirements.txt"):
        base_settings.read_settings(Settings, ["--orbit.enabled", "true"])


@pytest.mark.parametrize("others", [[], ["--orbit.enabled", "true", "--folds.count", "3"]])
def test_a_job_of_orbit_wants_orbit_and_one_training(config, monkeypatch, others):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    with pytest.raises(InputError, match="orbit.job = train is one of two processes of a"):
        base_settings.read_settings(Settings, ["--orbit.job", "train", *others])


def test_with_tpu_the_project_can_start(tmp_path):
    """What the prompt for the devices offers must be a valid file."""
    answers = {"strategy": "tpu", "project_slug": "on_tpu"}
    project = bake(ROOT / "templates/relation_extraction", tmp_path, answers)
    values = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    assert (values["strategy"], values["buckets"]) == ("tpu", 1)


@pytest.mark.parametrize("text", ["{text}\nAnswer:", "a\r\nb", "\n", "=\n="])
def test_a_value_with_line_breaks_arrives_whole(text, project, monkeypatch):
    """`--name=value` is cut at a line break by the parser."""
    monkeypatch.setattr(base_settings, "CONFIG", project / "config.toml")
    settings = base_settings.read_settings(Settings, [f"--train_file={text}", "--dev_file=plain=x"])
    assert (settings.train_file, settings.dev_file) == (text, "plain=x")
    with pytest.raises(InputError, match="run_name"):
        base_settings.read_settings(Settings, ["--run_name=a\nb"])


def test_keras_is_the_same_on_every_machine(tmp_path):
    """Whatever keras.json and the environment say."""
    (tmp_path / ".keras").mkdir()
    values = {"floatx": "float16", "epsilon": 0.1, "backend": "jax"}
    (tmp_path / ".keras/keras.json").write_text(json.dumps(values), encoding="utf-8")
    script = (
        "import core, keras; print(keras.config.floatx(), keras.config.epsilon(), "
        "keras.config.backend(), keras.config.dtype_policy().name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "templates",
        env={**os.environ, "KERAS_HOME": str(tmp_path / ".keras"), "KERAS_BACKEND": "torch"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.stdout.split() == ["float32", "1e-07", "tensorflow", "float32"], done.stderr


def test_every_former_name_of_a_setting_leads_to_one_of_now():
    """Old runs keep their values; `baselines update` moves those of config.toml."""
    known = base_settings.flatten(WITH_TABLES.model_construct().model_dump())
    for former, name in base_settings.RENAMED.items():
        if name.partition(".")[0] in (*WITH_TABLES.model_fields,):
            assert name in known, name
        value = {int: 7, float: 0.25, bool: True, str: "lamb"}.get(type(known.get(name)), "x")
        renewed = base_settings.with_new_names({former: value, "seed": 3})
        assert base_settings.flatten(renewed) == {name: value, "seed": 3}
    found = base_settings.saved_settings(Settings, {"folds": 5, "recompute": True, "ema": 0.5})
    assert (found.folds.count, found.recompute.enabled, found.averaging.ema) == (5, True, 0.5)


def test_a_setting_of_several_types_is_named_as_it_is_written(project, monkeypatch):
    monkeypatch.setattr(base_settings, "CONFIG", project / "config.toml")
    with pytest.raises(InputError) as error:
        base_settings.read_settings(Settings, ["--devices.xla", "maybe"])
    assert "--devices.xla = 'maybe' (" in str(error.value)
    assert "valid boolean" in str(error.value) and "'auto'" in str(error.value)


def test_a_run_is_predicted_with_what_this_machine_can_do(tmp_path, monkeypatch):
    """A smaller batch of config.toml counts; what only a training needs is not asked for."""
    monkeypatch.setattr(base_settings, "CONFIG", tmp_path / "config.toml")
    saved = {"prediction_batch_size": 64}
    nested = "a = " + 9999 * "["  # the parser of TOML calls itself for each
    lower = "prediction_batch_size = 8\n"
    for text, size in (("", 64), (lower, 8), ("= broken", 64), (nested, 64)):
        (tmp_path / "config.toml").write_text(text)
        assert base_settings.saved_settings(Settings, saved).prediction_batch_size == size
    refuse = [lambda _: "a package is absent"]
    asked = base_settings.declared
    monkeypatch.setattr(
        base_settings, "declared", lambda n: refuse if n == "complain" else asked(n)
    )
    base_settings.saved_settings(Settings, saved)
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(InputError, match="a package is absent"):
        base_settings.read_settings(Settings, [])

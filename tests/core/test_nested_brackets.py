"""Brackets nested more deeply than a parser goes are one sentence, whatever holds them."""

from pathlib import Path

import pytest
from conftest import use_template

use_template("relation_extraction")

from core.base import files, settings  # noqa: E402
from core.base.errors import InputError  # noqa: E402
from core.devices.strategy import refuse_unknown_cluster  # noqa: E402
from extras.cache import settings as cache_settings  # noqa: E402
from extras.cache.sources import forget_other_content  # noqa: E402
from extras.cluster import cluster  # noqa: E402
from extras.parameter_server.servers import join_servers  # noqa: E402
from task.settings import Settings  # noqa: E402

NESTED = "[" * 100_000
TOML = f"seed = {NESTED}"


def test_the_settings_file_and_its_other_readers(tmp_path: Path, monkeypatch):
    config = tmp_path / "config.toml"
    config.write_text(TOML)
    monkeypatch.setattr(settings, "CONFIG", config)
    with pytest.raises(InputError, match="nests too many brackets"):
        settings.read_settings(Settings, [])
    monkeypatch.setattr(files, "PROJECT", tmp_path)
    assert files.is_own(config) and not files.is_own(tmp_path / "other.jsonl")
    monkeypatch.setattr(cache_settings, "CONFIG", config)
    monkeypatch.setattr(cache_settings, "_used", [])
    assert cache_settings.table_in_use() == cache_settings.Table()


def test_the_cluster_of_the_environment(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", NESTED)
    refuse_unknown_cluster()
    with pytest.raises(InputError, match="TF_CONFIG is broken"):
        cluster.find_cluster(0)
    with pytest.raises(InputError, match="TF_CONFIG names no chief"):
        join_servers()


def test_a_note_of_the_cache_is_written_anew(tmp_path: Path):
    (tmp_path / "source.json").write_text(NESTED)
    forget_other_content(tmp_path, Path("train.jsonl"), "hash")
    assert "train.jsonl" in (tmp_path / "source.json").read_text()

"""The command `baselines` with impossible requests: one sentence, and nothing is replaced."""

import os
import stat
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from generator import InputError, files
from generator.ablation.log import log_path, read_rows
from generator.ablation.studies import find_studies, read_studies
from generator.bake import read_origin
from generator.baselines import find_baselines, read_baselines
from generator.cli import main
from generator.files import read_json, read_json_lines, read_toml, write_bytes
from generator.recipes import prepare_data, read_arguments
from generator.reproduce import parse_seeds
from generator.run_scripts import read_scores

BAKE = ["bake", "relation_extraction_sample"]
SQUAD = '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "?"}]}]}]}'
LONG = "a" * 300
NESTED = "[" * 100_000


def refuse(monkeypatch: pytest.MonkeyPatch, arguments: list[str | Path]) -> str:
    """Return the sentence with which a command ends."""
    monkeypatch.setattr(sys, "argv", ["baselines", *map(str, arguments)])
    with pytest.raises(SystemExit) as ending:
        main()
    sentence = str(ending.value.code)
    assert sentence.startswith("error: ") and "\n" not in sentence
    return sentence


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a file, in which commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text(SQUAD)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([*BAKE, "--to", "file"], "file is a file: name a folder"),
        ([*BAKE, "--to", "file/inside/it"], "file is a file: name a folder"),
        ([*BAKE, "--to", "/proc/none"], "/proc/none cannot hold the project's folder"),
        ([*BAKE, "--to", "/dev/null"], "/dev/null is a file: name a folder"),
        ([*BAKE, "--to", LONG], f"{LONG}: File name too long"),
        ([*BAKE, "--to", ".", f"project_slug={LONG}"], "is too long for the name of a folder: use"),
        ([*BAKE, "--to", ".", f"project_slug={'a' * 101}"], "use at most 100 characters"),
        ([*BAKE, "--to", ".", "project_slug=file"], "file is a file: name a folder"),
        ([*BAKE, "--to", ".", "encoder=\udcff"], "encoder"),
        ([*BAKE, "--to", ".", "extras"], "'extras' is no answer: write NAME=ANSWER"),
        ([*BAKE, "--to", ".", "extras=all", "extras=none"], "extras is answered twice"),
        (["release", BAKE[1], "--to", "file"], "file is a file: name a folder"),
        (["release", BAKE[1], "--to", "file/inside"], "file is a file: name a folder"),
        (["add", "lora", "--to", "file"], "file/.cookiecutter.json: Not a directory"),
        (["add", "lora", "--to", LONG], "File name too long"),
        (["data", "get", "squad", "--to", "file", "--from", "."], "file is a file: name a folder"),
        (
            ["data", "get", "squad", "--to", "file/x", "--from", "."],
            "file is a file: name a folder",
        ),
        (["data", "get", "squad", "--to", "x", "--from", "file"], "file does not hold squad"),
        (["data", "convert", "squad", "file", "file/x"], "file can't be made a folder"),
        (["data", "convert", "squad", "file", LONG], "File name too long"),
        (["data", "convert", "squad", "file", "."], ". is a folder, or the file to convert"),
        (["data", "convert", "squad", "none", "x"], "none cannot be read"),
    ],
)
def test_an_impossible_request_is_one_sentence(
    folder: Path, arguments: list[str], expected: str, monkeypatch
) -> None:
    assert expected in refuse(monkeypatch, arguments)
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_what_is_no_file_is_never_replaced(folder: Path, monkeypatch) -> None:
    os.mkfifo("pipe")
    assert "pipe is no file" in refuse(monkeypatch, ["data", "convert", "squad", "file", "pipe"])
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    with pytest.raises(InputError, match="is no file: name one to write"):
        write_bytes(folder, b"")


def test_a_full_disk_is_one_sentence(folder: Path, monkeypatch) -> None:
    """The error of a write names no file."""

    def fill(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fill)
    sentence = refuse(monkeypatch, ["data", "convert", "squad", "file", "out"])
    assert sentence == "error: No space left on device: check the path and the disk."
    assert not Path("out").exists()


def test_data_that_would_not_be_read_is_refused(folder: Path) -> None:
    """Whoever names it would believe that it was trained on."""
    baselines = read_baselines(ROOT).values()
    sample = next(one for one in baselines if one.name == BAKE[1])
    fetched = next(one for one in baselines if one.data_set)
    with pytest.raises(InputError, match="is trained on its own sample: leave --from out"):
        prepare_data(sample, folder, folder)
    for baseline in (sample, fetched):
        for name in ("none", "file", "/proc/none"):
            with pytest.raises(InputError, match="is no folder: check --from"):
                prepare_data(baseline, folder, Path(name))


def test_who_is_named_twice_comes_once(tmp_path: Path) -> None:
    name = BAKE[1]
    assert [baseline.name for baseline in find_baselines(ROOT, [name, name])] == [name]
    study = next(iter(read_studies(ROOT)))
    assert [found.name for found in find_studies(ROOT, [study, study])] == [study]
    assert parse_seeds("2,1,2") == [2, 1]
    assert read_arguments(["extras=all", "encoder=a=b"]) == {"extras": "all", "encoder": "a=b"}


@pytest.mark.parametrize("content", ["{", NESTED, "[]", "7", '{"a": "\ud83d', b"\xff", b"\x00"])
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: str | bytes) -> None:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    for name, read in {
        "scores.json": lambda: read_scores(tmp_path),
        ".cookiecutter.json": lambda: read_origin(tmp_path),
        "generator/baselines.toml": lambda: read_baselines(tmp_path),
        "generator/ablations.toml": lambda: read_studies(tmp_path),
        log_path(Path()): lambda: read_rows(tmp_path),
        "any.json": lambda: read_json(tmp_path / "any.json"),
        "any.toml": lambda: read_toml(tmp_path / "any.toml"),
        "any.jsonl": lambda: read_json_lines(tmp_path / "any.jsonl"),
    }.items():
        if str(name) == "any.jsonl" and data in (b"[]", b"7"):
            continue  # a line of a run may be any JSON
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data)
        with pytest.raises(InputError, match="broken|is no row of the log|is not JSON") as error:
            read()
        assert str(path) in str(error.value) and len(str(error.value)) < 400 + len(str(path))


def test_a_row_that_a_full_disk_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    with pytest.raises(InputError, match="metrics.jsonl, line 2 is broken .*: remove it, or the"):
        read_json_lines(path)

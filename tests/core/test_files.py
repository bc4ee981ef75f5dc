"""Files are written whole or not at all, and only in the place of what they may replace."""

import contextlib
import gzip
import io
import os
import subprocess
import sys
import threading

import pytest
from conftest import ROOT
from filelock import FileLock

from core.base import files
from core.base.errors import InputError, command
from core.base.files import (
    check_destination,
    read_json,
    read_json_lines,
    take_lock,
    write_text,
)
from core.data.records import read_field

POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes and devices have names on POSIX alone")
PRINTER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from core.base.files import check_destination, write_text
check_destination(Path("/dev/stdout"), Path(sys.argv[1]))
write_text("/dev/stdout", "written\\n")
print("printed")
"""
HOLDER = """
import sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
time.sleep(600)
"""


@POSIX
def test_a_pipe_and_a_device_are_written_through(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_text(pipe, "through\n")
    reader.join(timeout=300)
    assert got == ["through\n"] and pipe.is_fifo()
    device = tmp_path / "null"  # a link, lest a mistake of the code replaces the real one
    device.symlink_to("/dev/null")
    write_text(device, "nothing\n")
    assert device.is_symlink() and not os.path.isfile("/dev/null")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_device_stays_one_and_says_so(tmp_path):
    with pytest.raises(OSError) as caught:
        write_text("/dev/full", "too much\n")
    assert caught.value.filename == "/dev/full" and not os.path.isfile("/dev/full")


@POSIX
@pytest.mark.parametrize("into_a_file", [True, False])
def test_the_standard_output_gets_what_is_written_and_no_message(tmp_path, into_a_file):
    out = tmp_path / "out.txt"
    with open(out, "wb") as file:
        command = [sys.executable, "-c", PRINTER, str(ROOT / "templates")]
        target = file if into_a_file else subprocess.PIPE
        done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, check=True)
    text = out.read_bytes() if into_a_file else done.stdout
    assert text == b"written\n" and done.stderr == b"printed\n"


@POSIX
def test_a_file_is_replaced_where_the_standard_output_is_closed(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from core.base.files import write_text\n"
        "os.close(1)\nwrite_text(sys.argv[2], 'new')\n"
    )
    command = [sys.executable, "-c", code, str(ROOT / "templates"), str(tmp_path / "out.txt")]
    subprocess.run(command, check=True)
    assert (tmp_path / "out.txt").read_text() == "new"


@POSIX
def test_a_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for text in ("first\n", "second\n"):
        write_text(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == text


def test_what_is_read_is_not_written_over(tmp_path):
    source, other = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("{}\n", encoding="utf-8")
    check_destination(other, source)
    links = [tmp_path / "hard"]
    os.link(source, links[0])
    if os.name == "posix":
        links.append(tmp_path / "soft")
        links[1].symlink_to(source)
    for path in (source, *links):
        with pytest.raises(InputError, match="is the file that is read: name another one"):
            check_destination(path, source)
    with pytest.raises(InputError, match="absent must be a folder, and open"):
        check_destination(tmp_path / "absent/out.jsonl", source)
    assert not (tmp_path / "absent").exists()


def test_files_of_a_run_are_not_written_over(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    (folder / "predictions").mkdir(parents=True)
    for name in ("manifest.json", "scores.json", "predictions/dev.jsonl"):
        (folder / name).write_text("{}\n", encoding="utf-8")
        with pytest.raises(InputError, match="belongs to a run and is there already: name another"):
            check_destination(folder / name, tmp_path / "in.jsonl")
    check_destination(folder / "submission.jsonl", tmp_path / "in.jsonl")
    # Cross-validations, blends and searches have no manifest.
    monkeypatch.setattr(files, "PROJECT", tmp_path)
    for name, is_of_run in (
        ("scores.json", False),
        ("runs/a.json", False),
        ("runs/a/b.json", True),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        check_destination(file, tmp_path / "in.jsonl")
        file.write_text("{}", encoding="utf-8")
        with pytest.raises(InputError) if is_of_run else contextlib.nullcontext():
            check_destination(file, tmp_path / "in.jsonl")


def test_a_packed_file_is_to_be_unpacked(tmp_path):
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(b"id,text\n1,a\n"))
    with pytest.raises(InputError, match="line 1: not UTF-8 .*: save the file as UTF-8, unpacked"):
        next(read_json_lines(tmp_path / "train.csv.gz"))


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "null", "{}"])
def test_only_an_object_is_read(tmp_path, content):
    (tmp_path / "scores.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="scores.json holds no JSON object, or an empty one"):
        read_json(tmp_path / "scores.json")


def test_a_lock_is_held_once_and_again_by_its_owner(tmp_path):
    path = tmp_path / "run/.training.lock"
    take_lock(path)
    take_lock(path)
    with FileLock(tmp_path / "run/.other.lock"):  # as if of another process: it is no singleton
        with pytest.raises(InputError, match="run is being trained by another process: wait until"):
            take_lock(tmp_path / "run/.other.lock")
    take_lock(tmp_path / "run/.other.lock")


def test_the_lock_of_a_dead_process_is_free(tmp_path):
    held = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE
    )
    assert held.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="is being trained by another process"):
        take_lock(tmp_path / "lock")
    held.kill()
    held.wait()
    take_lock(tmp_path / "lock")


def test_what_cannot_be_locked_is_said(tmp_path, monkeypatch, capsys):
    def refuse(self, *arguments, **options):
        raise NotImplementedError("no flock here")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    take_lock(tmp_path / "run/.training.lock")
    assert "can't be locked (no flock here): start no second training" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp936"])
def test_what_a_console_cannot_show_is_written_as_numbers(monkeypatch, encoding):
    """As that of Windows, which has a code page."""
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding=encoding))
    command(lambda: print("北 é █ 😀"))()
    sys.stdout.flush()
    assert shown.getvalue().strip().endswith(rb"\U0001f600")


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b'{"a": 1}\n{"a": 2', b'{"a": 1}\n'),
        (b'{"a": 1', b""),
        (b'{"a": 1}\n', b'{"a": 1}\n'),
        (b"", b""),
        ('{"a": "é"}\n{"a": "'.encode() + "é".encode()[:1], '{"a": "é"}\n'.encode()),
    ],
)
def test_a_row_that_a_full_disk_cut_off_is_left_out(content, kept, tmp_path, capsys):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    files.mend_last_line(path)
    assert path.read_bytes() == kept
    assert ("was cut off" in capsys.readouterr().out) == (content != kept)
    files.mend_last_line(tmp_path / "absent.jsonl")


def test_a_command_does_not_write_over_the_project(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PROJECT", tmp_path)
    for name in ("config.toml", "predict.py", "README.md", "task/model.py", "sample/dev.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        with pytest.raises(InputError, match="is a file of this project: name another one"):
            files.check_destination(path, tmp_path / "source.jsonl")
    (tmp_path / "config.toml").write_text('test_file = "mine/test.jsonl"\n', encoding="utf-8")
    for name in ("mine/test.jsonl", "mine/other.jsonl", "out.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="is a file of this project"):
        files.check_destination(tmp_path / "mine/test.jsonl", tmp_path / "source.jsonl")
    for name in ("mine/other.jsonl", "out.csv", "new.jsonl"):
        files.check_destination(tmp_path / name, tmp_path / "source.jsonl")
    (tmp_path / "config.toml").write_text("= broken", encoding="utf-8")
    files.check_destination(tmp_path / "out.csv", tmp_path / "source.jsonl")


def test_nested_brackets_in_a_json_file_are_a_sentence(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(InputError, match="is not valid JSON .*: restore or delete it"):
        files.read_json(path)


def test_data_that_any_table_of_the_settings_names_is_not_written_over(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text(
        'train_file = "a.jsonl"\nseed = 1\n[distillation]\nfiles = ["b.jsonl"]\n'
        '[competition]\nsample_submission = "c.csv"\nentities_file = "d.csv"\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(files, "PROJECT", tmp_path)
    names = ("a.jsonl", "b.jsonl", "c.csv", "d.csv")
    for name in (*names, "e.csv"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert all(files.is_own(tmp_path / name) for name in names)
    assert not files.is_own(tmp_path / "e.csv")


PRINTS = """
import sys
from core.base.errors import command

@command
def main():
    for number in range(100_000):
        print(number)
    if sys.argv[1:]:
        raise BrokenPipeError(32, "Broken pipe")

main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell that a pipe is closed")
def test_an_output_may_be_cut(tmp_path):
    script = tmp_path / "prints.py"
    script.write_text(PRINTS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "templates")}
    command = [sys.executable, str(script)]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipe) as process:
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1 and "Traceback" not in said and "Exception" not in said
    assert said == "error: the output is closed: did the next program, such as `head`, end early?\n"
    # Another pipe that breaks is an error that must be seen.
    done = subprocess.run([*command, "other"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr
    # Without any output a command ends well.
    closed = f"{sys.executable} {script} >&-"
    assert subprocess.run(closed, env=environment, shell=True).returncode == 0


@pytest.mark.parametrize("value", ["four", True, float("nan"), float("-inf"), None])
def test_a_number_of_a_record_is_a_finite_number(value):
    with pytest.raises(InputError, match=f'"stars" must be a number, not {value!r}'):
        read_field({"stars": value}, "stars", int | float)
    assert [read_field({"stars": n}, "stars", int | float) for n in (4, 4.5)] == [4, 4.5]

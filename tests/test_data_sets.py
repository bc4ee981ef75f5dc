"""Data sets: the registry with its pinned splits, and downloads that survive the network."""

import dataclasses
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from generator.data_sets import registry
from generator.data_sets.convert import local_files, source_note
from generator.data_sets.download import BASE_URL_VARIABLE, download
from generator.data_sets.registry import DATA_SETS, FINRE, SPLITS, Source, find_data_set
from generator.errors import InputError
from generator.files import git_blob

# Records of train, dev and test.
SIZES = {
    "knowledgenet": (4288, 421, 600),
    "finre": (6128, 676, 1427),
    "squad": (7572, 1285, 1008),
    "cmrc2018": (2819, 300, 702),
    "drcd": (5066, 508, 941),
    "fewfc": (7091, 894, 548),
    "phee": (2898, 961, 618),
    "e2e": (1367, 547, 480),
    "csl_title": (900, 100, 700),
    "selqa": (8970, 1865, 3134),
}
every_data_set = pytest.mark.parametrize(
    "data_set", DATA_SETS.values(), ids=lambda data_set: data_set.name
)


# ------------------------------------------------------------------ pinned splits


@every_data_set
def test_pinned_ids_are_unique_and_say_nothing_of_the_texts(data_set) -> None:
    ids = [name for split in SPLITS for name in data_set.split_ids(split)]
    assert len(ids) == len(set(ids))
    assert [len(data_set.split_ids(split)) for split in SPLITS] == list(SIZES[data_set.name])
    # Hashes, numbers, and the names that CMRC2018 gives to its questions.
    number = re.compile(r"[0-9a-f]{12,32}(-[0-9]+)?|((DEV|TRIAL)_|QUERY_|[0-9]+|[_:-])+")
    assert all(number.fullmatch(name) for name in ids)


@every_data_set
def test_an_entry_is_complete(data_set) -> None:
    folder = Path(registry.__file__).parent
    assert (folder / f"{data_set.converter}.py").is_file()
    assert all(re.fullmatch("[0-9a-f]{40}", source.blob) for source in data_set.sources)
    assert re.fullmatch("[0-9a-f]{40}", data_set.commit)
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", data_set.hashes[split]) for split in SPLITS)
    assert len({Path(source.path).name for source in data_set.sources}) == len(data_set.sources)
    note = source_note(data_set)
    for text in (data_set.licence, data_set.citation, data_set.division, data_set.commit):
        assert text in note


def test_an_unknown_data_set_is_refused_with_the_names() -> None:
    with pytest.raises(InputError, match="no data set 'squat': the names are knowledgenet, finre"):
        find_data_set("squat")


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("")
    with pytest.raises(InputError, match=r"does not hold finre: it needs data/FinRE/train.txt"):
        local_files(FINRE, tmp_path)


# ---------------------------------------------------------------------- downloads

CONTENT = b"0123456789" * 20_000


class Handler(BaseHTTPRequestHandler):
    """Serve CONTENT in the way that the server's `mode` says, and note what was asked for."""

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range")))
        mode = self.server.modes.pop(0) if self.server.modes else "whole"
        if mode == "missing":
            self.send_error(404)
            return
        start = 0
        if self.headers.get("Range") and mode != "no ranges":
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
        else:
            self.send_response(200)
        body = {"wrong": b"something else", "short": CONTENT[:500]}.get(mode, CONTENT)[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if mode == "cut off" else body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server(monkeypatch):
    """A server on localhost that stands in for the official host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.modes, server.requests = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(BASE_URL_VARIABLE, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()


@pytest.fixture
def served_set():
    """A data set whose only file is what the server holds."""
    source = Source("data/file.txt", git_blob(CONTENT))
    return dataclasses.replace(FINRE, repository="owner/name", commit="c0ffee", sources=(source,))


def cached(cache: Path) -> list[str]:
    """Return the names of the files in the cache."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def test_download_is_verified_and_not_repeated(server, served_set, tmp_path: Path) -> None:
    for _ in range(2):
        [path] = download(served_set, tmp_path)
        assert path.read_bytes() == CONTENT
    assert server.requests == [("/owner/name/c0ffee/data/file.txt", None)]
    assert cached(tmp_path) == ["file.txt"]


def test_a_download_that_was_cut_off_goes_on(server, served_set, tmp_path: Path) -> None:
    server.modes = ["cut off"]
    with pytest.raises(InputError, match="stopped after 65536 bytes.*run the command again"):
        download(served_set, tmp_path)
    assert cached(tmp_path) == ["file.txt.part"]
    [path] = download(served_set, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requests[1][1] == "bytes=65536-"
    assert cached(tmp_path) == ["file.txt"]


def test_a_server_without_ranges_sends_the_whole_file(server, served_set, tmp_path: Path) -> None:
    server.modes = ["cut off", "no ranges"]
    with pytest.raises(InputError):
        download(served_set, tmp_path)
    assert download(served_set, tmp_path)[0].read_bytes() == CONTENT


def test_a_partial_file_of_something_else_is_replaced(server, served_set, tmp_path: Path) -> None:
    partial = tmp_path / FINRE.name / "c0ffee" / "file.txt.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1000)
    assert download(served_set, tmp_path)[0].read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


def test_a_spoiled_file_in_the_cache_is_fetched_again(server, served_set, tmp_path: Path) -> None:
    [path] = download(served_set, tmp_path)
    path.write_bytes(CONTENT[:-1])
    assert download(served_set, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("wrong", "is not the pinned file: its git blob id is"),
        ("short", "is not the pinned file: its git blob id is"),
        ("missing", r"cannot be fetched \(status 404\)"),
    ],
)
def test_wrong_content_never_stays(
    server, served_set, tmp_path: Path, mode: str, expected: str
) -> None:
    server.modes = [mode]
    with pytest.raises(InputError, match=expected) as error:
        download(served_set, tmp_path)
    assert "\n" not in str(error.value)
    assert cached(tmp_path) == []


def test_no_server_at_all_is_one_sentence(served_set, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(BASE_URL_VARIABLE, "http://127.0.0.1:9")
    with pytest.raises(InputError, match="stopped after 0 bytes"):
        download(served_set, tmp_path)
    assert cached(tmp_path) == []

"""Data sets: official formats in, pinned records out, and downloads that survive the network."""

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from generator.data_sets import finre, knowledgenet
from generator.data_sets.convert import convert_data_set, local_files
from generator.data_sets.download import BASE_URL_VARIABLE, download
from generator.data_sets.get import get_data_set
from generator.data_sets.registry import DATA_SETS, FINRE, KNOWLEDGENET, SPLITS, Source
from generator.errors import InputError
from generator.files import git_blob

LOCAL = Path(__file__).parent.parent.parent / "shared" / "data"
LOCAL_FOLDERS = {"knowledgenet": "re_knowledgenet_en", "finre": "re_finre_zh"}


# ---------------------------------------------------------------- KnowledgeNet


def passage(name: str = "7:10:40", **changes: object) -> dict:
    """Return a passage in the official format; its text has a character beyond 16 bits."""
    text = "\U0001f600 Ann founded Bolt in Oslo."
    return {
        "passageId": name,
        "passageStart": 10,
        "passageEnd": 10 + len(text),
        "passageText": text,
        "exhaustivelyAnnotatedProperties": [
            {"propertyId": "2", "propertyName": "FOUNDED_BY", "propertyDescription": ""},
            {"propertyId": "6", "propertyName": "HEADQUARTERS", "propertyDescription": ""},
        ],
        "facts": [fact("6", "Bolt", "Oslo"), fact("2", "Bolt", "Ann"), fact("9", "Ann", "Oslo")],
        **changes,
    }


def fact(property_id: str, subject: str, object_: str) -> dict:
    """Return a fact in the official format: document offsets."""
    starts = {"Ann": 12, "Bolt": 24, "Oslo": 32}
    return {
        "propertyId": property_id,
        "subjectStart": starts[subject],
        "subjectEnd": starts[subject] + len(subject),
        "subjectText": subject,
        "objectStart": starts[object_],
        "objectEnd": starts[object_] + len(object_),
        "objectText": object_,
    }


def write_documents(path: Path, *passages: dict) -> Path:
    """Write one document for each passage."""
    lines = [json.dumps({"documentId": "7", "passages": [passage]}) for passage in passages]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_knowledgenet_offsets_count_characters_of_the_passage(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "train.json", passage())
    records = knowledgenet.convert([path], {"train": ["7:10:40"]})
    assert records["train"] == [
        {
            "id": "7:10:40",
            "text": "\U0001f600 Ann founded Bolt in Oslo.",
            "triples": [
                {"subject": [14, 18], "predicate": "FOUNDED_BY", "object": [2, 5]},
                {"subject": [14, 18], "predicate": "HEADQUARTERS", "object": [22, 26]},
            ],
            "annotated_predicates": ["FOUNDED_BY", "HEADQUARTERS"],
        }
    ]


def test_knowledgenet_takes_the_pinned_order_and_leaves_out_the_rest(tmp_path: Path) -> None:
    broken = passage("c", facts=[{**fact("2", "Bolt", "Ann"), "subjectText": "other"}])
    path = write_documents(tmp_path / "train.json", passage("a"), broken, passage("b"))
    records = knowledgenet.convert([path], {"train": ["b"], "dev": ["a"]})
    assert [record["id"] for record in records["train"] + records["dev"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{", "line 2: not a KnowledgeNet document"),
        ('{"documentId": "8"}', "line 2: not a KnowledgeNet document"),
        (passage("b", facts=[{"propertyId": "2"}]), "line 2, passage b: a field is missing"),
        (
            passage("b", facts=[{**fact("2", "Bolt", "Ann"), "objectEnd": 14}]),
            "line 2, passage b: the object of a fact is not the text at",
        ),
        (passage("a", facts=[]), "line 2: passage a comes twice"),
        (passage("c"), "record b of the train split is missing"),
    ],
)
def test_knowledgenet_refuses_a_broken_file(
    tmp_path: Path, second: str | dict, expected: str
) -> None:
    path = write_documents(tmp_path / "train.json", passage("a"))
    if isinstance(second, dict):
        second = json.dumps({"passages": [second]})
    path.write_text(path.read_text() + second + "\n")
    with pytest.raises(InputError, match=expected) as error:
        knowledgenet.convert([path], {"train": ["a", "b"]})
    assert str(path) in str(error.value)


# ----------------------------------------------------------------------- FinRE

SENTENCES = ("甲乙公司收购丙厂", "甲乙集团与甲乙合作", "丁行")


def write_pairs(path: Path, *lines: str) -> Path:
    """Write lines as the official files have them: an empty line after each."""
    path.write_text("".join(f"{line}\n\n" for line in lines), encoding="utf-8")
    return path


def convert_finre(path: Path, *sentences: str) -> list[dict]:
    """Convert one FinRE file for the given sentences."""
    return finre.convert([path], {"train": [finre.sentence_id(text) for text in sentences]})[
        "train"
    ]


def test_finre_groups_lines_by_sentence(tmp_path: Path) -> None:
    one, two, three = SENTENCES
    path = write_pairs(
        tmp_path / "train.txt",
        f"丙厂\t甲乙公司\t被收购\t{one}",
        f"丁行\t丁行\tunknown\t{three}",
        f"甲乙公司\t丙厂\t收购\t{one}",
        f"甲乙公司\t丙厂\t收购\t{one}",
        f"甲乙集团\t甲乙\t拥有\t{two}",
    )
    records = convert_finre(path, one, two, three)
    assert [record["text"] for record in records] == [one, two, three]
    assert records[0]["triples"] == [
        {"subject": [0, 4], "predicate": "收购", "object": [6, 8]},
        {"subject": [6, 8], "predicate": "被收购", "object": [0, 4]},
    ]
    # The second "甲乙" is meant: the first one lies inside of the head.
    assert records[1]["triples"] == [{"subject": [0, 4], "predicate": "拥有", "object": [5, 7]}]
    assert records[2]["triples"] == []


def test_finre_keeps_nested_names_where_nothing_else_fits() -> None:
    assert finre.locate("甲乙集团", "甲乙集团", "甲乙", "here") == ((0, 4), (0, 2))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("甲\t乙\t收购", "line 3: 3 fields instead of"),
        ("甲\t\t收购\t甲乙", "line 3: 4 fields instead of"),
        ("戊\t丁行\t收购\t丁行", "line 3: the sentence does not hold its head '戊'"),
        ("丁行\t戊\t收购\t丁行", "line 3: the sentence does not hold its tail '戊'"),
        ("甲\t乙\t收购\t甲乙", "the train split is missing"),
    ],
)
def test_finre_refuses_a_broken_file(tmp_path: Path, line: str, expected: str) -> None:
    path = write_pairs(tmp_path / "train.txt", f"甲乙公司\t丙厂\t收购\t{SENTENCES[0]}", line)
    with pytest.raises(InputError, match=expected):
        convert_finre(path, SENTENCES[0], SENTENCES[2])


def test_a_file_that_is_no_utf8_is_refused_by_line(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "train.txt", f"甲乙公司\t丙厂\t收购\t{SENTENCES[0]}")
    path.write_bytes(path.read_bytes() + "丁行".encode("gbk"))
    with pytest.raises(InputError, match="not UTF-8"):
        convert_finre(path, SENTENCES[0])


# ------------------------------------------------------------------ pinned splits


@pytest.mark.parametrize("data_set", DATA_SETS.values(), ids=lambda data_set: data_set.name)
def test_pinned_ids_are_unique(data_set) -> None:
    ids = [name for split in SPLITS for name in data_set.split_ids(split)]
    assert len(ids) == len(set(ids)) > 1000


def find_local(name: str) -> Path:
    """Return the local copy of a data set, or skip the test."""
    folder = LOCAL / LOCAL_FOLDERS[name]
    if not folder.is_dir():
        pytest.skip(f"no local copy of {name}: this test wants {LOCAL_FOLDERS[name]} beside it")
    return folder


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_the_local_copy_gives_the_pinned_hashes(name: str, tmp_path: Path, capsys) -> None:
    hashes = get_data_set(name, tmp_path, find_local(name))
    assert hashes == DATA_SETS[name].hashes
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "SOURCE.md",
        "dev.jsonl",
        "test.jsonl",
        "train.jsonl",
    ]
    printed = capsys.readouterr().out
    assert DATA_SETS[name].licence in printed and DATA_SETS[name].citation in printed


def test_the_official_single_file_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = find_local("knowledgenet")
    documents = [
        line
        for split in ("test", "train", "dev")
        for line in (folder / f"{split}.json").read_text(encoding="utf-8").splitlines(True)
    ]
    extra = json.dumps({"fold": 4, "documentText": "left out", "passages": [passage("held:out")]})
    official = tmp_path / "clone" / "dataset" / "train.json"
    official.parent.mkdir(parents=True)
    official.write_text("".join([documents.pop(), extra + "\n", *documents]), encoding="utf-8")
    hashes = get_data_set("knowledgenet", tmp_path / "converted", tmp_path / "clone")
    assert hashes == KNOWLEDGENET.hashes


def test_a_changed_source_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    folder = find_local("finre")
    for path in folder.glob("*.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    changed = tmp_path / "valid.txt"
    text = changed.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line and "\tunknown\t" not in line)
    changed.write_text(text.replace(line, line.replace(line.split("\t")[2], "合作", 1), 1), "utf-8")
    with pytest.raises(InputError, match=r"dev split of finre has the data hash|does not hold"):
        convert_data_set(FINRE, local_files(FINRE, tmp_path), tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


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

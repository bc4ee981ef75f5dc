"""Data sets: pinned splits, downloads that survive the network, the same bytes from any source."""

import csv
import dataclasses
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import ROOT

from extras.host_formats.records import text_id
from generator import InputError
from generator.baselines import Baseline, find_baselines
from generator.data_sets.convert import (
    FORMATS,
    convert_data_set,
    convert_file,
    get_data_set,
    local_files,
    source_note,
)
from generator.data_sets.download import BASE_URL_VARIABLE, download
from generator.data_sets.registry import DATA_SETS, FINRE, SPLITS, Source, find_data_set
from generator.files import git_blob

# Records of train, dev and test.

pytestmark = pytest.mark.slow

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
    "wnut17": (3291, 1006, 854),
    "weibo": (1186, 258, 176),
    "emobank": (7984, 991, 1000),
    "redocred": (450, 50, 500),
    "semeval2010": (7200, 800, 2717),
    "ukpconvarg": (6990, 1660, 3000),
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
    # Hashes, numbers, and the names that CMRC2018 and UKPConvArg1 give to questions and arguments.
    number = re.compile(r"[0-9a-f]{12,32}(-[0-9]+)?|((DEV|TRIAL)_|QUERY_|arg|[0-9]+|[_:-])+")
    assert all(number.fullmatch(name) for name in ids)


@every_data_set
def test_an_entry_is_complete(data_set) -> None:
    assert callable(FORMATS[data_set.name])
    assert all(re.fullmatch("[0-9a-f]{40}", source.blob) for source in data_set.sources)
    assert re.fullmatch("[0-9a-f]{40}", data_set.commit)
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", data_set.hashes[split]) for split in SPLITS)
    assert len({Path(source.path).name for source in data_set.sources}) == len(data_set.sources)
    note = source_note(data_set)
    for text in (data_set.licence, data_set.citation, data_set.division, data_set.commit):
        assert text in note


def test_no_argument_of_ukpconvarg_is_in_two_splits() -> None:
    """The id of a pair has those of its two arguments."""
    pinned = DATA_SETS["ukpconvarg"].split_ids
    train, dev, test = ({one for pair in pinned(s) for one in pair.split("_")} for s in SPLITS)
    assert not train & dev and not train & test and not dev & test
    assert len(train | dev | test) == 1052


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
    """A server on localhost that replaces the official host."""
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


# ----------------------------------------- a local copy and the official files give the same bytes

# The official files are rebuilt here from the local copy, with records between that are not pinned.
LOCAL = ROOT.parent / "shared" / "data"
EVENT_RECIPES = [
    baseline
    for baseline in find_baselines(ROOT)
    if baseline.template == "event_extraction" and baseline.data_set
    if (baseline.results(ROOT) / "scores.json").is_file()
]
LOCAL_FOLDERS = {
    "knowledgenet": "re_knowledgenet_en",
    "finre": "re_finre_zh",
    "squad": "rc_squad11dev_en",
    "cmrc2018": "rc_cmrc2018_zh",
    "drcd": "rc_drcd_zh",
    "fewfc": "ee_fewfc_zh",
    "phee": "ee_phee_en",
    "e2e": "s2s_e2e_en",
    "csl_title": "s2s_csl_title_zh",
    "selqa": "pair_selqa_en",
    "wnut17": "ner_wnut17_en",
    "weibo": "ner_weibo_zh",
    "emobank": "number_emobank_en",
    "redocred": "re_redocred_en",
    "semeval2010": "pair_semeval2010_en",
    "ukpconvarg": "preference_ukpconvarg_en",
}


def find_local(name: str) -> Path:
    """Return the local copy of a data set, or skip the test."""
    folder = LOCAL / LOCAL_FOLDERS[name]
    if not folder.is_dir():
        pytest.skip(f"no local copy of {name}: this test wants {LOCAL_FOLDERS[name]} beside it")
    return folder


def converted(folder: Path) -> dict[str, dict]:
    """Return the converted records of all splits by id."""
    lines = [
        line
        for split in SPLITS
        for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    records = [json.loads(line) for line in lines]
    return {record["id"]: record for record in records}


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


def test_files_of_others_are_not_replaced(tmp_path: Path, capsys) -> None:
    source = find_local("e2e")
    (tmp_path / "train.jsonl").write_text("mine\n")
    for name, text in (("train.jsonl", "mine\n"), ("SOURCE.md", "# notes\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"has {name} already, not of e2e: name another"):
            get_data_set("e2e", tmp_path, source)
        assert [path.read_text() for path in tmp_path.iterdir()] == [text]
        (tmp_path / name).unlink()
    get_data_set("e2e", tmp_path, source)
    (tmp_path / "dev.jsonl").write_text("cut off")  # its own folder is made whole again
    (tmp_path / "test.jsonl").unlink()
    get_data_set("e2e", tmp_path, source)
    (tmp_path / "SOURCE.md").unlink()  # as after an interruption
    get_data_set("e2e", tmp_path, source)


@pytest.mark.shown("squad", "phee")
@pytest.mark.parametrize("name", list(DATA_SETS))
def test_a_file_converted_alone_has_the_pinned_records(name: str, tmp_path: Path, capsys) -> None:
    """What `baselines data convert` makes of one of the files, without any pinned id."""
    data_set, folder = DATA_SETS[name], find_local(name)
    out = tmp_path / "own.jsonl"
    convert_file(name, local_files(data_set, folder)[-1], out)
    get_data_set(name, tmp_path, folder)
    own = {record["id"]: record for record in map(json.loads, out.read_text("utf-8").splitlines())}
    pinned = converted(tmp_path)
    # Of a pair that stands there twice the first one has the bare id, whatever its label.
    known = own.keys() | pinned.keys()
    both = {record for record in own.keys() & pinned.keys() if not record.endswith("-2")}
    once = {record for record in both if f"{record}-2" not in known}
    other = [record for record in once if own[record] != pinned[record]]
    # A pinned data set keeps offsets that are off by one or two, and blanks around answers.
    assert len(once) > 99 and len(other) == (6 if name == "cmrc2018" else 0)
    for record in other:
        assert answer_words(own[record]) == answer_words(pinned[record])
        assert own[record]["answers"]


def answer_words(record: dict) -> set[str]:
    """Return the answers of a question, without blanks around them."""
    spans = [record["context"][start:end] for start, end in record["answers"]]
    return {text.strip() for text in record.get("answer_texts", spans)}


@pytest.mark.parametrize("recipe", EVENT_RECIPES, ids=lambda recipe: recipe.name)
def test_shipped_events_are_about_as_many_as_the_true_ones(recipe: Baseline, tmp_path: Path):
    """And their F1 is the published one: whoever submits them sends what was scored."""
    get_data_set(str(recipe.data_set), tmp_path, find_local(str(recipe.data_set)))
    scores = json.loads((recipe.results(ROOT) / "scores.json").read_text(encoding="utf-8"))
    for split in ("dev", "test"):
        path = recipe.results(ROOT) / f"predictions/{split}.jsonl"
        true, found = whole_events(tmp_path / f"{split}.jsonl"), whole_events(path)
        assert 0.75 < len(found) / len(true) < 1.25
        f1 = 2 * len(true & found) / (len(true) + len(found))
        assert scores[split]["event_f1"] == pytest.approx(f1, abs=1e-12)


def whole_events(path: Path) -> set[tuple]:
    """Return the events of a file, each with its record."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {
        (record["id"], event["type"], tuple(event["trigger"]), arguments_of(event))
        for record in records
        for event in record["events"]
    }


def arguments_of(event: dict) -> frozenset[tuple]:
    """Return the arguments of an event, in no order."""
    return frozenset((argument["role"], *argument["span"]) for argument in event["arguments"])


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


# --------------------------------------------------------------- official files

shuffle = random.Random(0).shuffle


def read_lines(folder: Path, pattern: str) -> list[str]:
    """Return the lines of the local train, dev and test files, mixed."""
    lines = [
        line
        for split in SPLITS
        for line in (folder / pattern.format(split)).read_text(encoding="utf-8").split("\n")
        if line
    ]
    shuffle(lines)
    return lines


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines, each ended."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def official_knowledgenet(folder: Path, files: list[Path]) -> None:
    """All documents in one file, with one more."""
    lines = read_lines(folder, "{}.json")
    write_lines(files[0], [lines.pop(), '{"passages": [{"passageId": "1:0:9"}]}', *lines])


def official_finre(folder: Path, files: list[Path]) -> None:
    """The same files with one more sentence."""
    for path in files:
        text = (folder / path.name).read_text(encoding="utf-8")
        path.write_text("甲\t乙\t收购\t甲收购乙\n\n" + text, encoding="utf-8")


def read_articles(folder: Path) -> list[dict]:
    """Return the articles of the local files in the format of SQuAD, mixed, with one more."""
    articles = [
        article
        for split in SPLITS
        for article in json.loads((folder / f"{split}.json").read_text(encoding="utf-8"))["data"]
    ]
    left_out = {"id": "1:1", "question": "?", "answers": [{"text": "no", "answer_start": 7}]}
    articles.append({"title": "", "paragraphs": [{"context": "yes", "qas": [left_out]}]})
    shuffle(articles)
    return articles


def write_articles(path: Path, articles: list[dict]) -> None:
    """Write a file in the format of SQuAD."""
    path.write_text(json.dumps({"version": "1", "data": articles}), encoding="utf-8")


def official_squad(folder: Path, files: list[Path]) -> None:
    """All articles in one file."""
    write_articles(files[0], read_articles(folder))


def official_cmrc2018(folder: Path, files: list[Path]) -> None:
    """The articles by the file that their ids name."""
    articles = read_articles(folder)
    trial = [article for article in articles if "TRIAL" in json.dumps(article)]
    write_articles(files[0], [article for article in articles if article not in trial])
    write_articles(files[1], trial)


def official_drcd(folder: Path, files: list[Path]) -> None:
    """Every article in both files, half of its paragraphs in each."""
    articles = read_articles(folder)
    for number, path in enumerate(files):
        parts = [
            {**article, "paragraphs": article["paragraphs"][number::2]} for article in articles
        ]
        write_articles(path, [article for article in parts if article["paragraphs"]])


def official_fewfc(folder: Path, files: list[Path]) -> None:
    """The sentences in four files, with one more in each."""
    lines = read_lines(folder, "{}.json")
    for number, path in enumerate(files):
        left_out = {"id": f"{number}", "content": "甲", "events": [{"type": "投资"}]}
        write_lines(path, [json.dumps(left_out), *lines[number::4]])


def official_phee(folder: Path, files: list[Path]) -> None:
    """The same three files, mixed, with one more sentence in each."""
    for path in files:
        lines = (folder / path.name).read_text(encoding="utf-8").strip("\n").split("\n")
        shuffle(lines)
        write_lines(path, ['{"id": "1_x", "context": "-"}', *lines])


def official_e2e(folder: Path, files: list[Path]) -> None:
    """The same three files, the meanings in another order and with one more."""
    for path in files:
        meanings: dict[str, list[list[str]]] = {"name[left out]": [["name[left out]", "Left out."]]}
        with open(folder / path.name, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        for row in rows:
            meanings.setdefault(row[0], []).append(row)
        groups = list(meanings.values())
        shuffle(groups)
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *(row for group in groups for row in group)])


def official_csl_title(folder: Path, files: list[Path]) -> None:
    """The local train and dev files are one official file, the test file has more lines."""
    parts = {split: (folder / f"{split}.tsv").read_text(encoding="utf-8") for split in SPLITS}
    files[0].write_text(parts["train"] + parts["dev"], encoding="utf-8")
    files[1].write_text(f"to title\t甲\t乙\n{parts['test']}", encoding="utf-8")


def official_selqa(folder: Path, files: list[Path]) -> None:
    """The lines of both official files in another order, with one more question."""
    lines = read_lines(folder, "{}.tsv")
    write_lines(files[0], ["Who ?\tNobody .\t0", *lines[::2]])
    write_lines(files[1], lines[1::2])


def official_columns(folder: Path, files: list[Path]) -> None:
    """The sentences of each file in another order, with one more; bare tabs stand between them."""
    for path, split in zip(files, SPLITS, strict=True):
        text = (folder / f"{split}.conll").read_text(encoding="utf-8")
        sentences = ["甲0\tB-PER.NAM", *text.strip("\n").split("\n\n")]
        shuffle(sentences)
        path.write_text("\n\t\n".join(sentences), encoding="utf-8")


def official_emobank(folder: Path, files: list[Path]) -> None:
    """The sentences of the official file in another order, with one more."""
    with open(folder / "emobank.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    shuffle(rows)
    with open(files[0], "w", encoding="utf-8", newline="") as file:
        more = ["new_0_1", "train", "3.0", "3.0", "3.0", "One more."]
        csv.writer(file).writerows([header, more, *rows])


def official_redocred(folder: Path, files: list[Path]) -> None:
    """The documents of both files in another order, with one more."""
    documents = [
        document
        for name in ("dev", "test")
        for document in json.loads((folder / f"{name}_revised.json").read_text(encoding="utf-8"))
    ]
    documents.append({"title": "One more", "sents": [], "vertexSet": [], "labels": []})
    shuffle(documents)
    for number, path in enumerate(files):
        path.write_text(json.dumps(documents[number::2]), encoding="utf-8")


def official_semeval2010(folder: Path, files: list[Path]) -> None:
    """The sentences of each file in another order, with one more."""
    for path in files:
        blocks = (folder / path.name).read_bytes().decode().strip("\r\n").split("\r\n\r\n")
        blocks.append('99999\t"Left out"\r\nOther\r\nComment:')
        shuffle(blocks)
        path.write_bytes("\r\n\r\n".join(blocks).encode())


def official_ukpconvarg(folder: Path, files: list[Path]) -> None:
    """The pairs of each file in another order, with one more."""
    for path in files:
        header, *lines = (folder / path.name).read_text(encoding="utf-8").split("\n")[:-1]
        lines.append("1_2\ta1\tMore.\tLess.")
        shuffle(lines)
        write_lines(path, [header, *lines])


OFFICIAL: dict[str, Callable[[Path, list[Path]], None]] = {
    "knowledgenet": official_knowledgenet,
    "finre": official_finre,
    "squad": official_squad,
    "cmrc2018": official_cmrc2018,
    "drcd": official_drcd,
    "fewfc": official_fewfc,
    "phee": official_phee,
    "e2e": official_e2e,
    "csl_title": official_csl_title,
    "selqa": official_selqa,
    "wnut17": official_columns,
    "weibo": official_columns,
    "emobank": official_emobank,
    "redocred": official_redocred,
    "semeval2010": official_semeval2010,
    "ukpconvarg": official_ukpconvarg,
}


@pytest.mark.shown("squad", "finre", "selqa")
@pytest.mark.parametrize("name", list(DATA_SETS))
def test_official_files_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    files = [clone / source.path for source in DATA_SETS[name].sources]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    OFFICIAL[name](find_local(name), files)
    assert get_data_set(name, tmp_path / "converted", clone) == DATA_SETS[name].hashes


# ------------------------------------------- nothing is lost, by another reading


@pytest.mark.parametrize(
    ("name", "no_spans", "without_any"), [("squad", 0, 0), ("cmrc2018", 157, 7), ("drcd", 0, 0)]
)
def test_every_answer_of_a_question_is_there(
    name: str, no_spans: int, without_any: int, tmp_path: Path
) -> None:
    folder = find_local(name)
    get_data_set(name, tmp_path, folder)
    records = converted(tmp_path)
    for article in read_articles(folder):
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                if question["id"] == "1:1":
                    continue
                record = records[question["id"]]
                texts = {record["context"][start:end] for start, end in record["answers"]}
                gold = [answer["text"] for answer in question["answers"]]
                assert texts | set(record.get("answer_texts", gold)) == set(gold)
                assert ("answer_texts" in record) == (texts != set(gold))
                assert record["question"] == question["question"]
                assert record["context"] == paragraph["context"]
    assert sum("answer_texts" in record for record in records.values()) == no_spans
    assert sum(not record["answers"] for record in records.values()) == without_any


def test_every_part_that_phee_scores_is_an_argument(tmp_path: Path) -> None:
    folder = find_local("phee")
    get_data_set("phee", tmp_path, folder)
    records = converted(tmp_path)
    discontinuous = 0
    for line in read_lines(folder, "{}.json"):
        sentence = json.loads(line)
        gold, discontinuous_here = set(), 0
        for event in sentence["annotations"][0]["events"]:
            kind = event["event_type"]
            gold.add((kind, "Trigger", event["Trigger"]["text"][0][0]))
            for role in ("Subject", "Treatment", "Effect"):
                for parts in event.get(role, {"text": []})["text"]:
                    discontinuous_here += len(parts) > 1
                    gold |= {(kind, role, words) for words in parts}
        discontinuous += discontinuous_here
        record = records[sentence["id"]]
        found = set()
        for event in record["events"]:
            spans = [("Trigger", event["trigger"])]
            spans += [(argument["role"], argument["span"]) for argument in event["arguments"]]
            found |= {(event["type"], role, record["text"][a:b]) for role, (a, b) in spans}
        assert found == gold
    assert discontinuous == 534


def test_every_mention_of_fewfc_is_there(tmp_path: Path) -> None:
    folder = find_local("fewfc")
    get_data_set("fewfc", tmp_path, folder)
    records = converted(tmp_path)
    for line in read_lines(folder, "{}.json"):
        sentence = json.loads(line)
        gold = {
            (event["type"], mention["role"], *mention["span"])
            for event in sentence["events"]
            for mention in event["mentions"]
        }
        found = set()
        for event in records[sentence["id"]]["events"]:
            found.add((event["type"], "trigger", *event["trigger"]))
            found |= {(event["type"], a["role"], *a["span"]) for a in event["arguments"]}
        assert found == gold


def test_every_relation_of_redocred_is_there(tmp_path: Path) -> None:
    """As words of mentions, each in the sentence and at the tokens that the official file names."""
    folder = find_local("redocred")
    get_data_set("redocred", tmp_path, folder)
    records = converted(tmp_path)
    count = 0
    for path in sorted(folder.glob("*_revised.json")):
        for document in json.loads(path.read_text(encoding="utf-8")):
            mentions = [
                {" ".join(document["sents"][one["sent_id"]][slice(*one["pos"])]) for one in entity}
                for entity in document["vertexSet"]
            ]
            gold = {
                (subject, label["r"], object_)
                for label in document["labels"]
                for subject in mentions[label["h"]]
                for object_ in mentions[label["t"]]
            }
            record = records[text_id(document["title"])]
            found = {
                (words(record, t["subject"]), t["predicate"], words(record, t["object"]))
                for t in record["triples"]
            }
            assert record["text"] == " ".join(token for s in document["sents"] for token in s)
            assert found == gold
            count += len(document["labels"])
    assert count == 17284 + 17448


def test_every_pair_of_ukpconvarg_is_there_and_no_text_is_in_two_splits(tmp_path: Path) -> None:
    """As the csv module reads the rows."""
    folder = find_local("ukpconvarg")
    get_data_set("ukpconvarg", tmp_path, folder)
    records = converted(tmp_path)
    rows: dict[str, dict[str, str]] = {}
    for path in folder.glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                rows[row.pop("#id")] = row
    assert rows.keys() == records.keys() and len(rows) == 11650
    for name, row in rows.items():
        texts = {key: "\n".join(row[key].split(" <br/> ")) for key in ("a1", "a2")}
        assert records[name].items() >= {**texts, "label": row["label"]}.items()
        assert not any("<br" in text for text in texts.values())
    pinned = DATA_SETS["ukpconvarg"].split_ids
    train, dev, test = (
        {records[name][key] for name in pinned(split) for key in ("a1", "a2")} for split in SPLITS
    )
    assert not train & dev and not train & test and not dev & test
    assert len(train | dev | test) == 1038  # 13 texts were posted twice, and one three times


def words(record: dict, span: list[int]) -> str:
    """Return the words of a span."""
    return record["text"][slice(*span)]


@pytest.mark.parametrize(("name", "broken"), [("wnut17", 0), ("weibo", 11)])
def test_every_entity_is_there(name: str, broken: int, tmp_path: Path) -> None:
    """As many as there are B, and I without one, which Weibo has."""
    folder = find_local(name)
    get_data_set(name, tmp_path, folder)
    begun, alone, sentences = 0, 0, set()
    for split in SPLITS:
        text = (folder / f"{split}.conll").read_text(encoding="utf-8")
        sentences |= {sentence for sentence in text.split("\n\n") if sentence.strip()}
    records = converted(tmp_path)
    for sentence in sentences:
        tokens, tags = zip(*(row.split("\t") for row in sentence.strip().split("\n")), strict=True)
        if text_id(" ".join(tokens), " ".join(tags)) in records:
            begun += sum(tag.startswith("B-") for tag in tags)
            pairs = zip(("O", *tags), tags, strict=False)
            alone += sum(tag[0] == "I" and before[2:] != tag[2:] for before, tag in pairs)
    assert sum(len(record["entities"]) for record in records.values()) == begun + alone
    assert alone == broken


def test_every_pair_of_selqa_and_every_reference_of_e2e_is_there(tmp_path: Path) -> None:
    folder = find_local("selqa")
    get_data_set("selqa", tmp_path / "selqa", folder)
    records = converted(tmp_path / "selqa").values()
    found = Counter((r["text_a"], r["text_b"], r["label"]) for r in records)
    assert found == Counter(tuple(line.split("\t")) for line in read_lines(folder, "{}.tsv"))
    folder = find_local("e2e")
    get_data_set("e2e", tmp_path / "e2e", folder)
    records = converted(tmp_path / "e2e").values()
    found = [(record["source"], target) for record in records for target in record["targets"]]
    rows: list[tuple[str, str]] = []
    for path in folder.glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            rows += [(row["mr"], row["ref"]) for row in csv.DictReader(file)]
    assert sorted(found) == sorted(rows)
    assert len(found) == 12005 + 4672 + 3538

"""Data sets from a local copy, and from what the official files look like, give the same bytes.

The official files are rebuilt here from the local copy, with records between that are not pinned.
"""

import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from generator.data_sets.convert import convert_data_set, local_files
from generator.data_sets.get import get_data_set
from generator.data_sets.registry import DATA_SETS, FINRE, SPLITS
from generator.errors import InputError

LOCAL = Path(__file__).parent.parent.parent / "shared" / "data"
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
}


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

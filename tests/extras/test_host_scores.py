"""DocRED's documents, scores by the rules of hosts, and zips with one file."""

import json
import random
import sys
import zipfile
from pathlib import Path

import pytest

from core.base.errors import InputError
from extras.host_formats.formats import FORMATS, read_sources, read_types, write_sources
from extras.host_formats.host_scores import (
    score_docred,
    score_duee,
    score_duie,
    score_semeval,
)
from extras.host_formats.options import (
    ENTITIES,
    EVENTS,
    LABELS,
    RELATIONS,
    Options,
    Types,
    read_ends,
)
from extras.host_formats.records import Conversion
from extras.host_formats.semeval import open_semeval
from extras.host_formats.source_files import SourceError, read_json_objects, read_text, zipped

FIRST = sys.path[0]
from extras.host_formats import score  # noqa: E402

sys.path[0] = FIRST  # which a script sets to its project

DOCUMENT = {
    "title": "Zen, Inc.",
    "sents": [
        ["Ada", "Quill", "founded", "", "Zenco", "."],
        ["Quill", "left", "Oslo", "\xa0", "."],
    ],
    "vertexSet": [
        [
            {"name": "Ada Quill", "sent_id": 0, "pos": [0, 2], "type": "PER"},
            {"name": "Quill", "sent_id": 1, "pos": [0, 1], "type": "PER", "global_pos": [6, 6]},
        ],
        [{"name": "Zenco", "sent_id": 0, "pos": [4, 5], "type": "ORG"}],
        [{"name": "Oslo", "sent_id": 1, "pos": [2, 3], "type": "LOC"}],
    ],
    "labels": [
        {"h": 1, "t": 0, "r": "P112", "evidence": [0]},
        {"h": 0, "t": 2, "r": "P20", "evidence": [1]},
    ],
}


def save(path: Path, documents: list[dict]) -> Path:
    """Write a file as DocRED publishes it: one list."""
    path.write_text(json.dumps(documents), encoding="utf-8")
    return path


def read(path: Path) -> tuple[list[dict], list[str]]:
    """Return the records of documents, and what the conversion says."""
    conversion = Conversion()
    return read_sources("docred", path, Options(RELATIONS), conversion)[1], conversion.sentences()


def submit(path: Path, records: list[dict], texts: Path) -> list[str]:
    """Write a submission; return what the conversion says."""
    conversion = Conversion()
    placed = [("predictions", record) for record in records]
    sources = write_sources("docred", placed, texts, Options(RELATIONS), conversion)
    path.write_text(FORMATS["docred"].encode(sources), encoding="utf-8")
    return conversion.sentences()


def test_a_document_has_a_triple_of_each_two_mentions(tmp_path: Path) -> None:
    [record], said = read(save(tmp_path / "a.json", [DOCUMENT]))
    text = record["text"]
    assert record["id"] == "Zen, Inc." and text.startswith("Ada Quill founded  Zenco . Quill left")
    assert {
        (text[slice(*t["subject"])], t["predicate"], text[slice(*t["object"])])
        for t in record["triples"]
    } == {
        ("Zenco", "P112", "Ada Quill"),
        ("Zenco", "P112", "Quill"),
        ("Ada Quill", "P20", "Oslo"),
        ("Quill", "P20", "Oslo"),
    }
    assert [one for one in said if "with several mentions" in one][0].count(": 2, the first in")


def test_a_document_without_labels_is_predicted(tmp_path: Path) -> None:
    blind = save(tmp_path / "a.json", [{k: v for k, v in DOCUMENT.items() if k != "labels"}])
    [record], said = read(blind)
    assert "triples" not in record and any("unlabelled" in one for one in said)
    text = record["text"]
    zenco, ada = text.index("Zenco"), text.index("Ada")
    record["triples"] = [
        {"subject": [zenco, zenco + 5], "predicate": "P112", "object": [ada, ada + 9]},
        # The same relation, of another mention; then one of words that only overlap a mention.
        {
            "subject": [zenco, zenco + 5],
            "predicate": "P112",
            "object": [text.index("Quill left"), text.index(" left")],
        },
        {"subject": [ada, ada + 3], "predicate": "P1", "object": [zenco, zenco + 7]},
        {"subject": [text.index("left"), text.index(" Oslo")], "predicate": "P1", "object": [0, 3]},
        {"subject": [ada, ada + 9], "predicate": "P1", "object": [ada + 4, ada + 9]},
    ]
    said = submit(tmp_path / "result.json", [record], blind)
    assert json.loads((tmp_path / "result.json").read_text("utf-8")) == [
        {"title": "Zen, Inc.", "h_idx": 1, "t_idx": 0, "r": "P112"},
        {"title": "Zen, Inc.", "h_idx": 0, "t_idx": 1, "r": "P1"},
    ]
    counts = {
        one.split(":")[0].split(",")[0]: int(one.split(": ")[1].split(",")[0]) for one in said
    }
    assert counts == {
        "subjects and objects that are no mention": 4,
        "triples of words that are no mention of an entity": 1,
        "relations of an entity with itself": 1,
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"sents": ["a b"]}, "an item of 'sents' is \"a b\" instead of a list"),
        ({"vertexSet": [[{"sent_id": 7, "pos": [0, 1]}]]}, "entity 0: there is no sentence 7"),
        (
            {"vertexSet": [[{"sent_id": 0, "pos": [5, 9]}]]},
            r"\[5, 9\] is no place .* with 6 tokens",
        ),
        ({"labels": [{"h": 3, "t": 0, "r": "P1"}]}, "a label names entity 3 of 3, from 0"),
    ],
)
def test_a_broken_document_is_named(tmp_path: Path, change: dict, expected: str) -> None:
    with pytest.raises(SourceError, match=f"item 1.*{expected}"):
        read(save(tmp_path / "a.json", [{**DOCUMENT, **change}]))


def test_a_submission_of_docred_needs_the_entities_of_the_host(tmp_path: Path) -> None:
    records, _ = read(save(tmp_path / "a.json", [DOCUMENT]))
    with pytest.raises(SourceError, match="counts the entities of the host's file"):
        write_sources("docred", [("line 1", *records)], None, Options(RELATIONS), Conversion())


def draw_document(draw: random.Random, number: int) -> dict:
    """Return a document with entities that share names, and random relations."""
    sents = [[draw.choice("abcde") for _ in range(6)] for _ in range(3)]
    free = [(sentence, place) for sentence in range(3) for place in range(6)]
    draw.shuffle(free)
    entities = []
    for _ in range(5):
        spots = [free.pop() for _ in range(draw.randint(1, 2))]
        entities.append(
            [{"name": sents[s][p], "sent_id": s, "pos": [p, p + 1], "type": "X"} for s, p in spots]
        )
    pairs = draw.sample([(h, t) for h in range(5) for t in range(5) if h != t], 4)
    labels = [{"h": h, "t": t, "r": draw.choice(["P1", "P2"]), "evidence": []} for h, t in pairs]
    return {"title": f"T{number}", "sents": sents, "vertexSet": entities, "labels": labels}


def official_scores(submission: list[dict], truth: list[dict], train: list[dict]) -> dict:
    """Compute what DocRED's evaluation.py prints, in the same way."""
    facts = {
        (one["name"], other["name"], label["r"])
        for document in train
        for label in document["labels"]
        for one in document["vertexSet"][label["h"]]
        for other in document["vertexSet"][label["t"]]
    }
    entities = {document["title"]: document["vertexSet"] for document in truth}
    gold = {(d["title"], x["r"], x["h"], x["t"]) for d in truth for x in d["labels"]}
    found = sorted({(x["title"], x["h_idx"], x["t_idx"], x["r"]) for x in submission})
    right = known = 0
    for title, head, tail, predicate in found:
        if (title, predicate, head, tail) not in gold:
            continue
        right += 1
        known += any(
            (one["name"], other["name"], predicate) in facts
            for one in entities[title][head]
            for other in entities[title][tail]
        )
    precision, recall = right / len(found), right / len(gold)
    ignoring = (right - known) / (len(found) - known)
    return {
        "f1": 2 * precision * recall / (precision + recall),
        "ign_f1": 2 * ignoring * recall / (ignoring + recall),
    }


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_docred_are_those_of_the_host(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    truth = [draw_document(draw, number) for number in range(6)]
    train = [draw_document(draw, number) for number in range(2)]
    records, _ = read(save(tmp_path / "dev.json", truth))
    for record in records:
        kept = draw.sample(record["triples"], max(1, len(record["triples"]) // 2))
        wrong = [{**triple, "predicate": "P3"} for triple in kept[:1]]
        record["triples"] = kept + wrong
    assert submit(tmp_path / "result.json", records, tmp_path / "dev.json") == []
    submission = json.loads((tmp_path / "result.json").read_text("utf-8"))
    paths = (save(tmp_path / "train.json", train), tmp_path / "result.json", tmp_path / "dev.json")
    known, own, gold = ([*read_json_objects(path)] for path in paths)
    scores = score_docred(own, gold, known)
    expected = official_scores(submission, truth, train)
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert "ign_f1" not in score_docred(own, gold)


def test_a_submission_of_other_documents_is_not_scored() -> None:
    good = {"title": "Zen, Inc.", "h_idx": 1, "t_idx": 0, "r": "P112"}
    gold = [("gold", DOCUMENT)]
    assert score_docred([("a", good)], gold)["precision"] == 1
    with pytest.raises(SourceError, match="a: no document has the title Other"):
        score_docred([("a", {**good, "title": "Other"})], gold)
    with pytest.raises(SourceError, match=r"a: Zen, Inc\. has 3 entities"):
        score_docred([("a", {**good, "t_idx": 3})], gold)
    with pytest.raises(SourceError, match="again: another document has the title Zen, Inc"):
        score_docred([("a", good)], [*gold, ("again", DOCUMENT)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("duie", "some", "some", "--train", "none"), "--train is for docred, and not for duie"),
        (("docred", "some", "empty"), "empty.json holds no record: name the labelled file"),
        (("docred", "some", "some", "--train", "empty"), "empty.json holds no record"),
    ],
)
def test_what_is_not_scored(words, message, tmp_path, monkeypatch, capsys) -> None:
    save(tmp_path / "some.json", [DOCUMENT])
    save(tmp_path / "empty.json", [])
    first, *files = (one if "--" in one else f"{tmp_path / one}.json" for one in words[1:])
    monkeypatch.setattr(sys, "argv", ["score.py", words[0], first, *files])
    with pytest.raises((InputError, SystemExit)) as error:
        score.main()
    assert message in f"{error.value}{capsys.readouterr().err}"


def test_a_triple_of_duie_is_right_with_its_slots() -> None:
    def line(*items: tuple[str, str, dict]) -> dict:
        spelled = [{"subject": s, "predicate": p, "object": o} for s, p, o in items]
        return {"text": "《Zen》由王执导", "spo_list": spelled}

    full = ("王", "获奖", {"@value": "金奖", "onDate": "4月"})
    gold = [("gold", line(("《Zen》", "导演", {"@value": "王"}), full))]
    same = score_duie([("a", line(("zen", "导演", {"@value": "王", "inArea": ""}), full))], gold)
    assert (same["precision"], same["recall"]) == (1, 1)
    less = line(("王", "获奖", {"@value": "金奖"}), ("Zen", "导演", {"@value": "王"}))
    assert score_duie([("a", less)], gold)["f1"] == 0.5
    with pytest.raises(SourceError, match="the submission has 2 lines, and the labelled file 1"):
        score_duie([("a", less), ("b", less)], gold)
    with pytest.raises(SourceError, match="a: the text is not that of gold"):
        score_duie([("a", {**less, "text": "x"})], gold)


def test_an_argument_of_duee_earns_what_it_shares() -> None:
    def line(*arguments: tuple, name: str = "7f", kind: str = "收购") -> dict:
        parts = [{"role": r, "argument": a, "alias": [*more]} for r, a, *more in arguments]
        return {"id": name, "event_list": [{"event_type": kind, "arguments": parts}]}

    gold = [("gold", line(("买方", "ABC公司", "甲乙丙"), ("时间", "4月")))]
    # Of abcd, three characters are shared; an alias counts as a whole, and equal arguments once.
    for words, f1 in (("abcd", 2 * 3 / 9), ("甲乙丙", 1.0), ("甲甲", 2 * 1 / 5), ("丁", 0.0)):
        scores = score_duee([("a", line(("买方", words), ("买方", words.upper())))], gold)
        assert (scores["predicted"], scores["gold"]) == (1, 2)
        assert scores["precision"] == pytest.approx(f1, abs=1e-12)
    assert score_duee([("a", line(("时间", "ABC公司")))], gold)["f1"] == 0
    assert score_duee([("a", line(("时间", "4月"), kind="出售"))], gold)["f1"] == 0
    # Both arguments may be like one of the gold ones.
    assert score_duee([("a", line(("买方", "abc"), ("买方", "公司")))], gold)["correct"] > 1
    with pytest.raises(SourceError, match="a: id 8 is in one of the two files only"):
        score_duee([("a", line(name="8"))], gold)
    with pytest.raises(SourceError, match="gold: id 7f is in one of the two files only"):
        score_duee([], gold)
    with pytest.raises(SourceError, match="b: id 7f comes twice"):
        score_duee([("a", line()), ("b", line())], gold)


RELATIONS_OF_PAIRS = [
    f"{name}({direction})"
    for name in (
        *("Cause-Effect", "Component-Whole", "Content-Container", "Entity-Destination"),
        *("Entity-Origin", "Instrument-Agency", "Member-Collection", "Message-Topic"),
        "Product-Producer",
    )
    for direction in ("e1,e2", "e2,e1")
]
# What semeval2010_task8_scorer-v1.2.pl prints for the files of a seed: official score, accuracy.
OFFICIAL_SCORES = {
    0: (39.37, 42.31),
    1: (41.02, 45.83),
    2: (38.1, 40.0),
    3: (32.78, 37.5),
    4: (56.74, 47.27),
    5: (57.78, 48.84),
    6: (66.72, 55.17),
    7: (72.43, 63.64),
}


def draw_pairs(draw: random.Random, folder: Path) -> tuple[Path, Path]:
    """Write a submission, which skips sentences, and the labelled file."""
    every = [*RELATIONS_OF_PAIRS, "Other"]
    few = draw.sample(every, draw.randint(2, 19))
    gold = [draw.choice(few) for _ in range(draw.randint(20, 60))]
    found = [label if draw.random() < 0.5 else draw.choice(every) for label in gold]
    answers = [f"{n}\t{label}\n" for n, label in enumerate(found, 1) if draw.random() < 0.9]
    blocks = [
        f'{n}\t"<e1>a</e1> {n} <e2>b</e2>"\r\n{label}\r\nComment:\r\n\r\n'
        for n, label in enumerate(gold, 1)
    ]
    for name, lines in (("answers.txt", answers), ("full.txt", blocks)):
        (folder / name).write_bytes("".join(lines).encode())
    return folder / "answers.txt", folder / "full.txt"


@pytest.mark.parametrize("seed", OFFICIAL_SCORES)
def test_scores_of_semeval_are_those_of_the_official_scorer(tmp_path: Path, seed: int) -> None:
    answers, gold = draw_pairs(random.Random(seed), tmp_path)
    scores = score_semeval(open_semeval(answers), open_semeval(gold))
    percent = [100 * scores[name] for name in ("macro_f1", "accuracy")]
    # It prints two decimals.
    assert percent == pytest.approx(OFFICIAL_SCORES[seed], abs=0.0051)


def test_a_relation_has_a_direction(tmp_path: Path) -> None:
    gold = [("gold", {"id": "1", "label": "Cause-Effect(e1,e2)"})]
    for label, f1 in (("Cause-Effect(e1,e2)", 1), ("Cause-Effect(e2,e1)", 0), ("Other", 0)):
        assert score_semeval([("a", {"id": "1", "label": label})], gold)["macro_f1"] == f1
    keys = tmp_path / "keys.txt"
    keys.write_text("1\tCause-Effect\r\n")
    with pytest.raises(SourceError, match="keys.txt, line 1: the relation Cause-Effect has no dir"):
        score_semeval(gold, open_semeval(keys))
    with pytest.raises(SourceError, match="a: id 2 is in one of the two files only"):
        score_semeval([("a", {"id": 2, "label": "Other"})], gold)


def test_relations_of_semeval_become_a_submission(tmp_path: Path) -> None:
    _, full = draw_pairs(random.Random(1), tmp_path)
    options, conversion = Options(LABELS), Conversion()
    _, records = read_sources("semeval", full, options, conversion)
    assert conversion.sentences() == [] and "<e1>a</e1>" in records[0]["text_a"]
    blind = tmp_path / "test.txt"
    blind.write_text("".join(f'{one["id"]}\t"{one["text_a"]}"\r\n' for one in records))
    placed = [("predictions", record) for record in records[::-1]]
    out = tmp_path / "answers.txt"
    sources = write_sources("semeval", placed, blind, options, Conversion())
    out.write_text(FORMATS["semeval"].encode(sources))
    lines = out.read_text().splitlines()
    assert lines == [f"{one['id']}\t{one['label']}" for one in records]
    assert score_semeval(open_semeval(out), open_semeval(full))["macro_f1"] == 1


def test_a_zip_has_one_file_and_no_time(tmp_path: Path) -> None:
    path = tmp_path / "result.zip"
    path.write_bytes(zipped("result.json", "é\n"))
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["result.json"]
        assert archive.read("result.json").decode() == "é\n"
    assert read_text(path) == "é\n" and path.read_bytes() == zipped("result.json", "é\n")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second.json", "")
    with pytest.raises(SourceError, match="has 2 files instead of one"):
        read_text(path)
    path.write_bytes(b"no zip")
    with pytest.raises(SourceError, match="not a zip that can be read"):
        read_text(path)


def test_labels_of_clue_are_written_as_the_host_wants(tmp_path: Path) -> None:
    lines = [
        {"id": 0, "sentence": "a ball", "keywords": ""},
        {"id": 1, "sentence1": "who", "sentence2": "what"},
    ]
    texts = tmp_path / "test.json"
    texts.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    options, conversion = Options(LABELS), Conversion()
    _, records = read_sources("clue", texts, options, conversion)
    assert [r.get("text_b") for r in records] == [None, "what"]
    assert any("'keywords', not read: 1" in one for one in conversion.sentences())
    predictions = [("p", {"id": one["id"], "label": "103", "score": 1.0}) for one in records[::-1]]
    written = write_sources("clue", predictions, texts, options, Conversion())
    assert written == [{"id": 0, "label": "103"}, {"id": 1, "label": "103"}]
    # A model that learned the descriptions is told the labels by the host's file of both.
    described = tmp_path / "labels.json"
    described.write_text(
        '{"label": "103", "label_desc": "sports"}\n{"label": "9", "label_des": "x"}'
    )
    options.types = read_types("clue", described, options, Conversion())
    for label, code in (("sports", "103"), ("x", "9"), ("9", "9")):
        predictions = [("p", {"id": one["id"], "label": label}) for one in records]
        written = write_sources("clue", predictions, texts, options, Conversion())
        assert [one["label"] for one in written] == [code, code]
    predictions = [("p", {"id": one["id"], "label": "news"}) for one in records]
    with pytest.raises(SourceError, match='record 0: the host\'s file of labels lacks "news"'):
        write_sources("clue", predictions, texts, options, Conversion())
    with pytest.raises(SourceError, match="line 1: the line has no label_desc or label_des"):
        read_types("clue", texts, options, Conversion())
    options.types = Types()
    several = [("p", {"id": one["id"], "labels": ["103"]}) for one in records]
    both = tmp_path / "both.json"
    both.write_text(json.dumps({**lines[1], "sentence": "a"}), encoding="utf-8")
    with pytest.raises(SourceError, match="line 1: both 'sentence' and 'sentence1'"):
        read_sources("clue", both, options, Conversion())
    with pytest.raises(SourceError, match="one label for each text"):
        write_sources("clue", several, texts, options, Conversion())


def test_which_ends_cmeee_has_is_said_when_it_is_read_and_written(tmp_path: Path) -> None:
    entity = {"start_idx": 0, "end_idx": 2, "type": "bod", "entity": "肾脏"}
    path = save(tmp_path / "a.json", [{"text": "肾脏痛", "entities": [entity]}])
    options, conversion = Options(ENTITIES), Conversion()
    _, records = read_sources("cmeee", path, options, conversion)
    assert any("--ends exclusive" in one for one in conversion.sentences())
    for exclusive, end in ((True, 2), (False, 1)):
        options.exclusive_ends, conversion = exclusive, Conversion()
        [item] = write_sources("cmeee", [("p", records[0])], None, options, conversion)
        assert item["entities"][0]["end_idx"] == end
        assert ["behind the entity" in one for one in conversion.sentences()] == [exclusive]


def test_the_ends_of_cmeee_must_be_told() -> None:
    assert [read_ends("cmeee", ends) for ends in ("exclusive", "inclusive")] == [True, False]
    assert not read_ends("duie", None)
    with pytest.raises(SourceError, match="of CMeEE is that of the last character, or one more"):
        read_ends("cmeee", None)
    with pytest.raises(SourceError, match="--ends is for cmeee, and not for cluener"):
        read_ends("cluener", "inclusive")


@pytest.mark.parametrize(
    ("name", "task", "line", "field"),
    [
        ("duee", EVENTS, {"id": "a", "text": "Ada left"}, "id"),
        ("clue", LABELS, {"id": 3, "sentence": "Ada left"}, "id"),
        ("docred", RELATIONS, {"title": "a", "sents": [["Ada"]], "vertexSet": []}, "title"),
    ],
)
def test_the_host_must_find_each_record_of_a_submission(tmp_path, name, task, line, field):
    answer = {EVENTS: "events", RELATIONS: "triples", LABELS: "labels"}[task]
    predicted = {answer: ["x"] if task == LABELS else []} | (
        {"label": "x"} if task == LABELS else {}
    )
    path = save(tmp_path / "test.json", [line, line])
    _, records = read_sources(name, path, Options(task), Conversion())
    placed = [("p", {**record, **predicted}) for record in records]
    with pytest.raises(SourceError, match=f"test.json, item 2: the {field} .* comes twice"):
        write_sources(name, placed, path, Options(task), Conversion())
    if field == "title":  # without which it is no record at all
        return
    path = save(tmp_path / "test.json", [{key: own for key, own in line.items() if key != field}])
    _, records = read_sources(name, path, Options(task), Conversion())
    placed = [("p", {**record, **predicted}) for record in records]
    with pytest.raises(SourceError, match="test.json, item 1: no id, by which the host finds"):
        write_sources(name, placed, path, Options(task), Conversion())


def test_what_was_guessed_or_says_nothing_is_counted(tmp_path: Path) -> None:
    def said(name: str, task: str, *lines: dict) -> str:
        conversion = Conversion()
        read_sources(name, save(tmp_path / "a.json", [*lines]), Options(task), conversion)
        return "\n".join(conversion.sentences())

    part = {"role": "who", "argument": "Ada", "argument_start_index": -3}
    event = {"event_type": "go", "trigger": "left", "arguments": [part]}
    found = said("duee", EVENTS, {"id": "a", "text": "Ada left", "event_list": [event]})
    assert "offsets of arguments below 0: their words were searched: 1" in found
    assert "triggers without an offset: their words were searched: 1" in found
    blank = said("duie", RELATIONS, {"text": "Ada"}, {"text": " "}, {"text": ""})
    assert "records with a blank text: 2" in blank
    mention = {"name": "Ada Quill", "sent_id": 0, "pos": [1, 3], "type": "PER"}
    document = {"title": "a", "sents": [["Ada", "Quill", "left"]], "vertexSet": [[mention]]}
    assert "mentions whose 'name' is not what is at their 'pos'" in said(
        "docred", RELATIONS, document
    )
    mention["pos"], mention["name"] = [0, 2], "AdaQuill"  # spaces are those of the tokens
    assert "'name'" not in said("docred", RELATIONS, document)

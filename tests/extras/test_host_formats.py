"""Files of hosts and annotation tools: read, written, read again; and what hosts accept."""

import gzip
import json
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from project_process import ProjectProcess
from projects import bake_project, flags

from extras.host_formats.formats import FORMATS, read_sources, read_types, write_sources
from extras.host_formats.host_scores import score_cluener, score_docred, score_duee, score_duie
from extras.host_formats.options import (
    ENTITIES,
    EVENTS,
    LABELS,
    RELATIONS,
    Options,
    choose_objects,
)
from extras.host_formats.records import Conversion
from extras.host_formats.source_files import SourceError
from generator import InputError
from generator.data_sets.convert import convert_file

ANSWER = {RELATIONS: "triples", EVENTS: "events", ENTITIES: "entities", LABELS: "label"}
PIECES = [
    "张三",
    "北京",
    "大学",
    "a",
    "Zen",
    "co",
    " ",
    "\t",
    '"',
    "'",
    "，",
    "\r\n",
    "\n",
    "😀",
    "𠮷",
]
SEEDS = range(25)


def read(name: str, path: Path, task: str, **options) -> tuple[list[dict], list[str]]:
    """Return the records of a file, and what the conversion says."""
    conversion = Conversion()
    _, records = read_sources(name, path, Options(task, **options), conversion)
    return records, conversion.sentences()


def write(
    name: str, path: Path, records: list[dict], task: str, texts: Path | None = None, **options
) -> list[str]:
    """Write predictions as a submission; return what the conversion says."""
    conversion = Conversion()
    placed = [(f"line {n}", record) for n, record in enumerate(records, start=1)]
    sources = write_sources(name, placed, texts, Options(task, **options), conversion)
    content = FORMATS[name].encode(sources)
    if isinstance(content, str):
        path.write_bytes(content.encode())
    else:
        for part, text in content.items():
            (path / part).parent.mkdir(parents=True, exist_ok=True)
            (path / part).write_bytes(text.encode())
    return conversion.sentences()


def save(path: Path, *lines: dict, end: str = "\n") -> Path:
    """Write one JSON object a line."""
    text = "".join(json.dumps(line, ensure_ascii=False) + end for line in lines)
    path.write_bytes(text.encode())
    return path


# ------------------------------------------------------------------------------------------- DuIE

DUIE = {
    "text": "😀《红楼 梦》由王扶林执导，欧阳奋强饰演贾宝玉。",
    "spo_list": [
        {
            "predicate": "导演",
            "subject": "红楼 梦",
            "subject_type": "影视作品",
            "object": {"@value": "王扶林"},
            "object_type": {"@value": "人物"},
        },
        {
            "predicate": "饰演",
            "subject": "欧阳奋强",
            "subject_type": "娱乐人物",
            "object": {"@value": "贾宝玉", "inWork": "红楼 梦"},
            "object_type": {"@value": "人物", "inWork": "影视作品"},
        },
    ],
}


def words_of(record: dict) -> set[tuple[str, str, str]]:
    """Return the triples of a record as words."""
    text = record["text"]
    return {
        (text[slice(*t["subject"])], t["predicate"], text[slice(*t["object"])])
        for t in record["triples"]
    }


def test_duie_locates_words_and_reads_each_slot(tmp_path: Path) -> None:
    records, said = read("duie", save(tmp_path / "a.json", DUIE, end="\r\n"), RELATIONS)
    assert words_of(records[0]) == {
        ("红楼 梦", "导演", "王扶林"),
        ("欧阳奋强", "饰演", "贾宝玉"),
        ("欧阳奋强", "饰演@inWork", "红楼 梦"),
    }
    assert any(one.startswith("slots of objects, each read as a triple") for one in said)


def test_duie_counts_what_is_not_in_the_text(tmp_path: Path) -> None:
    item = {"predicate": "p", "subject": "zenco", "object": "Ada"}
    lines = [
        {"text": "Zenco paid Ada.", "spo_list": [item, {**item, "object": "Bob"}]},
        {"text": "Ada and Ada of Zenco", "spo_list": [item]},
    ]
    records, said = read("duie", save(tmp_path / "a.json", *lines), RELATIONS)
    assert records[0]["triples"] == [{"subject": [0, 5], "predicate": "p", "object": [11, 14]}]
    assert records[1]["triples"] == [{"subject": [15, 20], "predicate": "p", "object": [0, 3]}]
    counted = " ".join(said)
    assert "triples whose subject or object is not in the text, left out: 1" in counted
    assert "words found in the text in another case: 3" in counted
    assert "occurs more than once: the first ones that do not overlap were taken: 1" in counted


def accepts_duie(path: Path, texts: list[str], plain: bool = False) -> list[set]:
    """Return the triples of a submission, by the host's rules: every text, in its order."""
    found = []
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["text"] for line in lines] == texts
    for line in lines:
        assert line.keys() <= {"id", "text", "spo_list"}
        rows = set()
        for item in line["spo_list"]:
            wanted = {"subject", "predicate", "object", "subject_type", "object_type"}
            assert item.keys() == wanted
            value, kind = item["object"], item["object_type"]
            assert isinstance(value, str if plain else dict) and type(kind) is type(value)
            values = {"@value": value} if plain else value
            assert plain or (kind.keys() == values.keys() and "@value" in values)
            assert all(words and words in line["text"] for words in values.values())
            rows.add((item["subject"], item["predicate"], tuple(sorted(values.items()))))
        assert len(rows) == len(line["spo_list"])
        found.append(rows)
    return found


def test_a_submission_of_duie_is_what_the_host_wants(tmp_path: Path) -> None:
    train = save(tmp_path / "train.json", DUIE)
    test = save(tmp_path / "test.json", {"text": DUIE["text"]}, {"text": "无"}, {"text": "无"})
    blind, said = read("duie", test, RELATIONS)
    assert len({record["id"] for record in blind}) == 3 and "triples" not in blind[0]
    assert any(one.startswith("unlabelled records") for one in said)
    [gold] = read("duie", train, RELATIONS)[0]
    predictions = [{**record, "triples": []} for record in blind]
    predictions[0]["triples"] = gold["triples"]
    types = read_types("duie", train, Options(RELATIONS), Conversion())
    out = tmp_path / "submission.json"
    assert write("duie", out, predictions[::-1], RELATIONS, test, types=types) == []
    found = accepts_duie(out, [DUIE["text"], "无", "无"])
    assert found == [
        {
            ("红楼 梦", "导演", (("@value", "王扶林"),)),
            ("欧阳奋强", "饰演", (("@value", "贾宝玉"), ("inWork", "红楼 梦"))),
        },
        set(),
        set(),
    ]
    first = json.loads(out.read_text("utf-8").splitlines()[0])
    both = sorted(first["spo_list"], key=str), sorted(DUIE["spo_list"], key=str)
    assert both[0] == both[1]


def test_duie_1_has_plain_objects(tmp_path: Path) -> None:
    line = {"predicate": "导演", "subject_type": "影视作品", "object_type": "人物"}
    schema = save(tmp_path / "schema.json", line)
    types = read_types("duie", schema, Options(RELATIONS), Conversion())
    with pytest.raises(SourceError, match="the schema does not say whether an object is a string"):
        choose_objects("duie", types, None)
    choose_objects("duie", types, "words")
    record = {"id": "1", "text": "红楼梦由王扶林执导"}
    record["triples"] = [{"subject": [0, 3], "predicate": "导演", "object": [4, 7]}]
    out = tmp_path / "out.json"
    write("duie", out, [record], RELATIONS, types=types)
    found = accepts_duie(out, [record["text"]], plain=True)
    assert found == [{("红楼梦", "导演", (("@value", "王扶林"),))}]
    # CMeIE has such a schema too, and objects with values; its labelled lines say so.
    choose_objects("duie", types, "values")
    write("duie", out, [record], RELATIONS, types=types)
    [item] = json.loads(out.read_text("utf-8"))["spo_list"]
    assert item["object"] == {"@value": "王扶林"} and item["object_type"] == {"@value": "人物"}
    given = {**line, "subject": "红", "object": {"@value": "王"}, "object_type": {"@value": "人物"}}
    train = save(tmp_path / "train.json", {"text": "红王", "spo_list": [given]})
    choose_objects("duie", read_types("duie", train, Options(RELATIONS), Conversion()), None)
    with pytest.raises(SourceError, match="--objects is for duie"):
        choose_objects("duee", types, "words")


# ------------------------------------------------------------------------------------------- DuEE

DUEE = {
    "id": "7f",
    "text": '3月 "星河" 收购，4月再收购云海😀',
    "event_list": [
        {
            "event_type": "财经/交易-出售/收购",
            "trigger": "收购",
            "trigger_start_index": 14,
            "arguments": [
                {"role": "时间", "argument": "4月", "argument_start_index": 11, "alias": ["四月"]},
                {"role": "收购标的", "argument": "云海", "argument_start_index": 16, "alias": []},
            ],
            "class": "财经/交易",
        }
    ],
}


def test_duee_offsets_and_aliases(tmp_path: Path) -> None:
    records, said = read("duee", save(tmp_path / "a.json", DUEE), EVENTS)
    assert records[0]["events"] == [
        {
            "type": "财经/交易-出售/收购",
            "trigger": [14, 16],
            "arguments": [
                {"role": "时间", "span": [11, 13]},
                {"role": "收购标的", "span": [16, 18]},
            ],
        }
    ]
    assert any(one.startswith("aliases of arguments, left out: 1") for one in said)


def test_duee_fin_has_no_offsets(tmp_path: Path) -> None:
    """A trigger is its first occurrence, an argument the one nearest to its trigger."""
    event = {
        "event_type": "收购",
        "trigger": "再收购",
        "arguments": [
            {"role": "动作", "argument": "收购"},
            {"role": "环节", "argument": "正式上市"},
        ],
    }
    alone = {"event_type": "上市", "arguments": [{"role": "环节", "argument": "筹备"}]}
    line = {"id": "1", "text": DUEE["text"], "event_list": [event, alone]}
    records, said = read("duee", save(tmp_path / "a.json", line), EVENTS)
    assert records[0]["events"] == [
        {"type": "收购", "trigger": [13, 16], "arguments": [{"role": "动作", "span": [14, 16]}]}
    ]
    counted = " ".join(said)
    assert "arguments whose words are not in the text there, left out: 2" in counted
    assert (
        "arguments that occur more than once: the one nearest to the trigger was taken: 1"
        in counted
    )
    assert "events without a trigger and arguments, left out: 1" in counted


def accepts_duee(path: Path, ids: list) -> list[list]:
    """Return the events of a submission, by the host's rules."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ids
    for line in lines:
        assert line.keys() == {"id", "event_list"}
        for event in line["event_list"]:
            assert event.keys() <= {"event_type", "trigger", "arguments"}
            assert all(part.keys() == {"role", "argument"} for part in event["arguments"])
    return [line["event_list"] for line in lines]


def test_a_submission_of_duee_is_what_the_host_wants(tmp_path: Path) -> None:
    test = save(
        tmp_path / "test.json", {"text": "空", "id": "e"}, {"text": DUEE["text"], "id": "7f"}
    )
    [gold], _ = read("duee", save(tmp_path / "a.json", DUEE), EVENTS)
    empty = {"id": "e", "text": "空", "events": []}
    assert write("duee", tmp_path / "out.json", [gold, empty], EVENTS, test) == []
    event = DUEE["event_list"][0]
    spelled = [{"role": p["role"], "argument": p["argument"]} for p in event["arguments"]]
    wanted = {"event_type": event["event_type"], "trigger": "收购", "arguments": spelled}
    assert accepts_duee(tmp_path / "out.json", ["e", "7f"]) == [[], [wanted]]


# -------------------------------------------------------------------------------- CLUENER and CMeEE


def test_cluener_has_the_last_character(tmp_path: Path) -> None:
    label = {"name": {"叶老桂": [[9, 11]]}, "company": {"浙商银行": [[0, 3]]}}
    line = {"text": "浙商银行企业信贷部叶老桂博士", "label": label}
    records, said = read("cluener", save(tmp_path / "a.json", line), ENTITIES)
    assert records[0]["entities"] == [
        {"type": "company", "span": [0, 4]},
        {"type": "name", "span": [9, 12]},
    ]
    assert said == []
    test = save(tmp_path / "test.json", {"id": 0, "text": line["text"]})
    [blind], _ = read("cluener", test, ENTITIES)
    assert blind == {"id": 0, "text": line["text"]}
    prediction = {**blind, "entities": records[0]["entities"]}
    write("cluener", tmp_path / "out.json", [prediction], ENTITIES, test)
    [written] = map(json.loads, (tmp_path / "out.json").read_text("utf-8").splitlines())
    assert written == {"id": 0, "text": line["text"], "label": label}


CMEEE_TEXT = "（5）房室结消融和起搏器植入"


@pytest.mark.parametrize(("shift", "which"), [(1, "last character"), (0, "first character behind")])
def test_the_words_of_cmeee_tell_its_ends(tmp_path: Path, shift: int, which: str) -> None:
    words = ["房室结消融", "起搏器植入"]
    items = [
        {
            "start_idx": CMEEE_TEXT.index(one),
            "end_idx": CMEEE_TEXT.index(one) + len(one) - shift,
            "type": "pro",
            "entity": one,
        }
        for one in words
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": CMEEE_TEXT, "entities": items}]), "utf-8")
    records, said = read("cmeee", path, ENTITIES)
    assert [CMEEE_TEXT[slice(*one["span"])] for one in records[0]["entities"]] == words
    assert [which in one for one in said] == [True]
    out = tmp_path / "out.json"
    write("cmeee", out, records, ENTITIES, exclusive_ends=not shift)
    assert json.loads(out.read_text("utf-8")) == [{"text": CMEEE_TEXT, "entities": items}]


def test_a_submission_of_cmeee_keeps_the_order_of_equal_texts(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps([{"text": "a b"}, {"text": "c"}, {"text": "a b"}]), "utf-8")
    blind, _ = read("cmeee", path, ENTITIES)
    predictions = [{**record, "entities": []} for record in blind]
    predictions[2]["entities"] = [{"type": "dis", "span": [2, 3], "text": "b", "score": 0.9}]
    write("cmeee", tmp_path / "out.json", predictions, ENTITIES, path)
    entity = {"start_idx": 2, "end_idx": 2, "type": "dis", "entity": "b"}
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == [
        {"text": "a b", "entities": []},
        {"text": "c", "entities": []},
        {"text": "a b", "entities": [entity]},
    ]


# -------------------------------------------------------------------------------------------- brat

BRAT_TEXT = "😀 Ada Quill\r\nbought Zenco, and paid."
BRAT = """T1\tperson 2 5;6 11\tAda Quill
T2\tcompany 20 25\tZenco
T3\tpurchase 13 19\tbought
T4\tpayment 31 35\tpaid
E1\tpurchase:T3 buyer:T1 target:T2 target2:T1 means:E2
E2\tpayment:T4 payer:T1
R1\towns Arg1:T1 Arg2:T2\t
A1\tNegation E1
#1\tAnnotatorNotes T1\ta note
"""


def brat(folder: Path, text: str = BRAT_TEXT, annotations: str | None = BRAT) -> Path:
    """Write a text and its annotations."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "doc.txt").write_bytes(text.encode())
    if annotations is not None:
        (folder / "doc.ann").write_bytes(annotations.encode())
    return folder


def test_brat_has_entities_relations_and_events(tmp_path: Path) -> None:
    folder = brat(tmp_path / "in")
    [record], said = read("brat", folder, RELATIONS)
    assert record["id"] == "doc" and record["text"] == BRAT_TEXT
    assert record["triples"] == [{"subject": [2, 11], "predicate": "owns", "object": [20, 25]}]
    counted = " ".join(said)
    for what in (
        "entities of several pieces, read as one from the first piece to the last: 1",
        "attributes of brat, left out: 1",
        "notes of brat, left out: 1",
        "events, left out: 2",
        "entities of no relation, left out: 2",
        "arguments that are events: read as their triggers: 1",
        "numbered roles, such as Theme2 next to Theme, read without the number: 1",
    ):
        assert what in counted
    [record], _ = read("brat", folder, ENTITIES)
    assert [one["type"] for one in record["entities"]] == ["person", "company"]
    [record], _ = read("brat", folder, EVENTS)
    assert record["events"][0] == {
        "type": "purchase",
        "trigger": [13, 19],
        "arguments": [
            {"role": "buyer", "span": [2, 11]},
            {"role": "target", "span": [2, 11]},
            {"role": "target", "span": [20, 25]},
            {"role": "means", "span": [31, 35]},
        ],
    }


def test_brat_without_annotations_is_unlabelled_and_with_an_empty_file_is_not(
    tmp_path: Path,
) -> None:
    [record], _ = read("brat", brat(tmp_path / "in", annotations=None), ENTITIES)
    assert "entities" not in record
    [record], _ = read("brat", brat(tmp_path / "in", annotations=""), ENTITIES)
    assert record["entities"] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("T1\tperson 2 6\tBob", r"doc.ann, line 1: \"Bob\" is not the text at \[2, 6\)"),
        ("T1\tperson two\tAda", "doc.ann, line 1: .* is not TYPE START END"),
        ("R1\towns Arg1:T1 Arg2:T2", "there is no entity 'T1'"),
        ("E1\tbuy:T1", "there is no entity 'T1'"),
        ("hello", 'doc.ann, line 1: "hello" is not an annotation of brat'),
    ],
)
def test_brat_refuses_a_broken_line(tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(SourceError, match=expected):
        read("brat", brat(tmp_path / "in", BRAT_TEXT, line + "\n"), RELATIONS)


# ------------------------------------------------------------------------- annotation tools


def test_label_studio_of_both_ways_to_count(tmp_path: Path) -> None:
    text = "😀😀 Ada owns Zenco"
    regions = [
        {
            "id": "a",
            "type": "labels",
            "value": {"start": 5, "end": 8, "text": "Ada", "labels": ["p"]},
        },
        {
            "id": "b",
            "type": "labels",
            "value": {"start": 12, "end": 17, "text": "Zenco", "labels": ["c"]},
        },
        {"type": "relation", "from_id": "b", "to_id": "a", "direction": "left", "labels": ["owns"]},
        {"type": "rating", "value": {"rating": 3}},
    ]
    task = {
        "id": 4,
        "data": {"text": text},
        "annotations": [{"was_cancelled": True, "result": []}, {"result": regions}, {"result": []}],
    }
    blind = {"id": 5, "data": {"text": text}, "annotations": []}
    path = tmp_path / "export.json"
    path.write_text(json.dumps([task, blind]), "utf-8")
    records, said = read("label_studio", path, RELATIONS)
    assert records[0]["triples"] == [{"subject": [3, 6], "predicate": "owns", "object": [12, 17]}]
    assert "triples" not in records[1]
    counted = " ".join(said)
    for what in (
        "UTF-16 units",
        "cancelled annotations, left out: 1",
        "second and further",
        "rating",
    ):
        assert what in counted


def test_label_studio_choices_min_and_csv(tmp_path: Path) -> None:
    (tmp_path / "min.json").write_text(
        json.dumps(
            [
                {"id": 1, "text": "good", "sentiment": "positive", "lead_time": 2.0},
                {"id": 2, "text": "bad", "sentiment": {"choices": ["negative", "short"]}},
            ]
        ),
        "utf-8",
    )
    records, _ = read("label_studio", tmp_path / "min.json", LABELS)
    assert [record["labels"] for record in records] == [["positive"], ["negative", "short"]]
    cell = '"[{""start"": 0, ""end"": 3, ""text"": ""Ada"", ""labels"": [""p""]}]"'
    (tmp_path / "a.csv").write_text(
        f'id,text,label\r\n1,"Ada, ""x""\nfell",{cell}\r\n2,b,\r\n', "utf-8"
    )
    records, _ = read("label_studio", tmp_path / "a.csv", ENTITIES)
    assert records[0]["text"] == 'Ada, "x"\nfell'
    assert records[0]["entities"] == [{"type": "p", "span": [0, 3]}]
    assert "entities" not in records[1]


def test_label_studio_asks_which_field_is_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"data": {"title": "x", "body": "y"}}]), "utf-8")
    with pytest.raises(SourceError, match="which field is the text"):
        read("label_studio", path, ENTITIES)
    assert read("label_studio", path, ENTITIES, text_field="body")[0][0]["text"] == "y"


def test_doccano_of_three_projects(tmp_path: Path) -> None:
    spans = save(tmp_path / "a.jsonl", {"id": 3, "text": "Ada fell", "label": [[0, 3, "p"]]})
    assert read("doccano", spans, ENTITIES)[0] == [
        {"id": 3, "text": "Ada fell", "entities": [{"type": "p", "span": [0, 3]}]}
    ]
    entities = [{"id": n, "label": "p", "start_offset": n, "end_offset": n + 1} for n in (0, 4)]
    relation = {"id": 1, "from_id": 4, "to_id": 0, "type": "r"}
    line = {"id": 3, "text": "A or B", "entities": entities, "relations": [relation]}
    line["entities"][1]["end_offset"] = 6
    [record], _ = read("doccano", save(tmp_path / "b.jsonl", line), RELATIONS)
    assert record["triples"] == [{"subject": [4, 6], "predicate": "r", "object": [0, 1]}]
    labels = save(
        tmp_path / "c.jsonl", {"id": 1, "data": "x", "label": ["y"]}, {"id": 2, "text": "z"}
    )
    records, _ = read("doccano", labels, LABELS)
    assert records == [{"id": 1, "text_a": "x", "label": "y"}, {"id": 2, "text_a": "z"}]


def test_columns_of_other_places(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(
        "-DOCSTART- O x\r\n\r\nAda B-p x\r\nQuill I-p x\r\nfell O x\r\n"
        "\r\n张 S-p x\r\n三 I-p x\r\n".encode()
    )
    records, said = read("conll", path, ENTITIES, tag_column=2)
    assert [record["text"] for record in records] == ["Ada Quill fell", "张三"]
    assert [record["entities"] for record in records] == [
        [{"type": "p", "span": [0, 9]}],
        [{"type": "p", "span": [0, 1]}, {"type": "p", "span": [1, 2]}],
    ]
    assert any(one.startswith("tags that continue an entity where there is none") for one in said)
    test = tmp_path / "test.conll"
    test.write_text("Ada\tx\nfell\tx\n\nZen\ty\n", "utf-8")
    blind, _ = read("conll", test, ENTITIES)
    predictions = [{**record, "entities": []} for record in blind]
    predictions[0]["entities"] = [{"type": "p", "span": [0, 2]}]
    said = write("conll", tmp_path / "out.conll", predictions, ENTITIES, test, scheme="bioes")
    assert (tmp_path / "out.conll").read_text("utf-8") == "Ada\tx\tS-p\nfell\tx\tO\n\nZen\ty\tO\n\n"
    assert any(one.startswith("entities that were extended to whole tokens: 1") for one in said)


def test_fields_that_are_not_read_are_counted(tmp_path: Path) -> None:
    path = save(tmp_path / "a.json", {**DUIE, "postag": []}, {**DUIE, "postag": []})
    said = read("duie", path, RELATIONS)[1]
    assert f"fields 'postag', not read: 2, the first in {path}, line 1." in said
    said = read("label_studio", save(tmp_path / "a.json", DUIE), RELATIONS)[1]
    assert any(one.startswith("fields 'spo_list', left out: 1") for one in said)


def test_a_slot_joins_the_nearest_object_and_is_counted_without_one(tmp_path: Path) -> None:
    text = "A plays B in C and later plays D in E"
    spans = {word: [text.index(word), text.index(word) + 1] for word in "BCDE"}
    pairs = [("p", "B"), ("p", "D"), ("p@in", "C"), ("p@in", "E"), ("q@in", "E")]
    triples = [{"subject": [0, 1], "predicate": p, "object": spans[word]} for p, word in pairs]
    out = tmp_path / "out.json"
    said = write("duie", out, [{"id": 1, "text": text, "triples": triples}], RELATIONS)
    found = [item["object"] for item in json.loads(out.read_text("utf-8"))["spo_list"]]
    assert found == [{"@value": "B", "in": "C"}, {"@value": "D", "in": "E"}]
    assert any(one.startswith("predicted slots without an object of their own") for one in said)


@pytest.mark.parametrize("name", ["brat", "doccano", "label_studio"])
def test_a_labelled_file_names_the_types_of_subjects_and_objects(name: str, tmp_path: Path) -> None:
    """Written with the types of a labelled file, read as entities: these are the types."""
    folder = brat(tmp_path / "in")
    [record], _ = read("brat", folder, RELATIONS)
    types = read_types("brat", folder, Options(RELATIONS), Conversion())
    labelled, out = tmp_path / "labelled", tmp_path / "out"
    write(name, labelled, [record], RELATIONS, types=types)
    if name == "label_studio":
        exported(labelled)
    own = read_types(name, labelled, Options(RELATIONS), Conversion())
    assert write(name, out, [record], RELATIONS, types=own) == []
    if name == "label_studio":
        exported(out)
    [entities], _ = read(name, out, ENTITIES)
    assert [one["type"] for one in entities["entities"]] == ["person", "company"]
    assert any("the type 'entity'" in one for one in write(name, out, [record], RELATIONS))


def test_labels_of_whole_texts_are_written_with_the_texts_of_the_host(tmp_path: Path) -> None:
    test = tmp_path / "test.json"
    tasks = [{"id": 3, "data": {"text": "good"}}, {"id": 4, "data": {"text": "bad"}}]
    test.write_text(json.dumps(tasks), "utf-8")
    predictions = [{"id": 4, "label": "n", "score": 1.0}, {"id": 3, "labels": ["p", "q"]}]
    out = tmp_path / "out.json"
    write("label_studio", out, predictions, LABELS, test)
    found = json.loads(out.read_text("utf-8"))
    assert [one["data"] for one in found] == [one["data"] for one in tasks]
    chosen = [one["predictions"][0]["result"][0]["value"]["choices"] for one in found]
    assert chosen == [["p", "q"], ["n"]]
    with pytest.raises(SourceError, match="the text is missing"):
        write("label_studio", out, predictions, LABELS)


# ------------------------------------------------------------------------- any text, any answer


def draw_text(draw: random.Random) -> str:
    """Return a text of words, blanks, quotes, line breaks and characters of two UTF-16 units."""
    return "".join(draw.choices(PIECES, k=draw.randint(3, 14))) + draw.choice(["张三", "Zen"])


def draw_span(draw: random.Random, text: str) -> list[int]:
    """Return a span that neither begins nor ends with white space, which annotators don't mark."""
    places = [n for n, letter in enumerate(text) if letter.strip()]
    start, last = sorted(draw.choices(places, k=2))
    return [start, last + 1]


def draw_record(draw: random.Random, task: str, number: int) -> dict:
    """Return a record with distinct answers, sorted as a reader sorts them."""
    text = draw_text(draw)
    record = {"id": str(number), "text": text}
    if task == ENTITIES:
        drawn = {(*draw_span(draw, text), draw.choice("pq")) for _ in range(draw.randint(0, 4))}
        return {**record, "entities": [{"type": k, "span": [a, b]} for a, b, k in sorted(drawn)]}
    if task == RELATIONS:
        triples = {
            (*draw_span(draw, text), draw.choice(["owns", "作者"]), *draw_span(draw, text))
            for _ in range(draw.randint(0, 4))
        }
        listed = [
            {"subject": [a, b], "predicate": p, "object": [c, d]}
            for a, b, p, c, d in sorted(triples)
        ]
        return {**record, "triples": listed}
    events = {
        (
            tuple(draw_span(draw, text)),
            draw.choice(["buy", "收购"]),
            tuple(sorted({(*draw_span(draw, text), draw.choice("xy")) for _ in range(3)})),
        )
        for _ in range(draw.randint(0, 3))
    }
    listed = [
        {
            "type": kind,
            "trigger": [*trigger],
            "arguments": [{"role": role, "span": [a, b]} for a, b, role in parts],
        }
        for trigger, kind, parts in sorted(events)
    ]
    return {**record, "events": listed}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("cluener", ENTITIES),
        ("cmeee", ENTITIES),
        *(("brat", task) for task in (ENTITIES, RELATIONS, EVENTS)),
        *(("doccano", task) for task in (ENTITIES, RELATIONS)),
        *(("label_studio", task) for task in (ENTITIES, RELATIONS)),
    ],
)
def test_answers_with_offsets_survive(tmp_path: Path, name: str, task: str) -> None:
    """Records are written, read and written again: the same records, the same bytes."""
    draw = random.Random(f"{name} {task}")
    for seed in SEEDS:
        records = [draw_record(draw, task, number) for number in range(3)]
        first, second = tmp_path / f"{seed}_1.json", tmp_path / f"{seed}_2.json"
        write(name, first, records, task)
        if name == "label_studio":
            exported(first)
        again, _ = read(name, first, task)
        ids = [record["id"] for record in records]
        assert [record[ANSWER[task]] for record in again] == [r[ANSWER[task]] for r in records]
        assert [record["text"] for record in again] == [record["text"] for record in records]
        if name != "cmeee":  # which has no ids
            assert [record["id"] for record in again] == ids
        write(name, second, [{**r, "id": n} for r, n in zip(again, ids, strict=True)], task)
        if name == "label_studio":
            exported(second)
        one, two = (content(path) for path in (first, second))
        assert one == two


def exported(path: Path) -> None:
    """Make an export of what Label Studio imports: it has annotations instead of predictions."""
    text = path.read_bytes().decode().replace('"predictions"', '"annotations"')
    path.write_bytes(text.encode())


def content(path: Path) -> dict[str, bytes]:
    """Return the content of a file, or of each file in a folder."""
    paths = [path] if path.is_file() else sorted(path.rglob("*.*"))
    return {"" if one == path else one.name: one.read_bytes() for one in paths}


@pytest.mark.parametrize(("name", "task"), [("duie", RELATIONS), ("duee", EVENTS)])
def test_answers_of_words_survive(tmp_path: Path, name: str, task: str) -> None:
    """What is written is read and written again: the same bytes, though words have many places."""
    draw = random.Random(name)
    for seed in SEEDS:
        records = [draw_record(draw, task, number) for number in range(3)]
        texts = save(
            tmp_path / f"{seed}.json", *({"id": r["id"], "text": r["text"]} for r in records)
        )
        paths = [tmp_path / f"{seed}_{n}.json" for n in range(2)]
        write(name, paths[0], records, task, texts)
        lines = [json.loads(line) for line in paths[0].read_text("utf-8").splitlines()]
        both = [{**line, "text": r["text"]} for line, r in zip(lines, records, strict=True)]
        again, said = read(name, save(tmp_path / "again.json", *both), task)
        assert not any("left out" in one for one in said)
        write(name, paths[1], again, task, texts)
        keys = ("spo_list",) if name == "duie" else ("event_list",)
        for one, two in zip(*(path.read_text("utf-8").splitlines() for path in paths), strict=True):
            for key in keys:
                assert normal(json.loads(one)[key]) == normal(json.loads(two)[key])


def normal(items: list[dict]) -> list[str]:
    """Return answers of words without their order."""
    for item in items:
        if "arguments" in item:
            item["arguments"].sort(key=str)
    return sorted({json.dumps(item, ensure_ascii=False, sort_keys=True) for item in items})


# ------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": "9"}, "lack 1 of 1 records .* and have 1 that it lacks"),
        ({"text": "another"}, "line 1: the text differs"),
        ({"entities": [{"type": "p", "span": [0, 99]}]}, r"line 1: \[0, 99\] is no span"),
        ({"entities": [{"type": "p", "span": [0, 1], "text": "x"}]}, '"x" is not the text at'),
        ({"entities": [{"type": "p"}]}, "line 1: not a prediction"),
        ({"entities": None}, "line 1: not a prediction"),
    ],
)
def test_a_prediction_of_other_texts_is_refused(
    tmp_path: Path, change: dict, expected: str
) -> None:
    test = save(tmp_path / "test.json", {"id": "1", "text": "Ada"})
    record = {"id": "1", "text": "Ada", "entities": [], **change}
    with pytest.raises(SourceError, match=expected):
        write("cluener", tmp_path / "out.json", [record], ENTITIES, test)


def test_a_repeated_prediction_and_a_wrong_format_are_refused(tmp_path: Path) -> None:
    record = {"id": "1", "text": "Ada", "entities": []}
    with pytest.raises(SourceError, match="line 2: id 1 comes twice"):
        write("cluener", tmp_path / "out.json", [record, record], ENTITIES)
    with pytest.raises(
        SourceError, match="duie holds records of relation_extraction, and not of n"
    ):
        write("duie", tmp_path / "out.json", [record], ENTITIES)
    with pytest.raises(SourceError, match="brat allows in no name"):
        entity = {"type": "two words", "span": [0, 1]}
        write("brat", tmp_path / "out", [{**record, "entities": [entity]}], ENTITIES)


# ------------------------------------------------------------------------- odd files

SPAN = {"start": 0, "end": 3, "text": "Ada", "labels": ["p"]}


def regions(*found: dict) -> dict:
    """Return a task of Label Studio."""
    return {"id": 1, "data": {"text": "Ada met Bob"}, "annotations": [{"result": [*found]}]}


@pytest.mark.parametrize(
    ("name", "task", "line", "expected"),
    [
        ("duie", RELATIONS, {"text": "a\ud83d"}, r"line 1: \\ud83d is half of a character"),
        ("doccano", ENTITIES, {"text": "a", "label": [], "Comments": 5}, "'Comments' is 5 instead"),
        (
            "doccano",
            ENTITIES,
            {
                "text": "ab",
                "entities": [{"id": 1, "label": "p", "start_offset": 0, "end_offset": 1}] * 2,
            },
            "line 1: the id 1 of an entity comes twice",
        ),
        (
            "label_studio",
            ENTITIES,
            regions({"type": "labels", "value": {**SPAN, "labels": "person"}}),
            "line 1: the field 'labels' is \"person\" instead of a list",
        ),
        (
            "label_studio",
            LABELS,
            regions({"type": "choices", "value": {"choices": [5]}}),
            "line 1: an item of 'choices' is 5 instead of a string",
        ),
        (
            "duee",
            EVENTS,
            {
                "text": "ab",
                "event_list": [
                    {"event_type": "t", "arguments": [{"role": "r", "argument": "a", "alias": 5}]}
                ],
            },
            "the field 'alias' is 5 instead of a list",
        ),
    ],
)
def test_a_field_of_another_kind_is_refused(
    tmp_path: Path, name: str, task: str, line: dict, expected: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(line), "utf-8")
    with pytest.raises(SourceError, match=expected):
        read(name, path, task)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["T1\tp 5 5\t"], "doc.ann, line 1: .* a piece without a character"),
        (["T1\tp 9 2\t"], "doc.ann, line 1: .* a piece without a character"),
        (["T1\t 2 5\tAda"], "doc.ann, line 1: .* has no type"),
        (["T1\tp 2 5\tAda", "T1\tp 6 11\tQuill"], "doc.ann, line 2: T1 comes twice"),
        (["T1\tp 2 5\tAda", "R1\tr Arg1:T1 Arg2:T7"], "ann, line 2: there is no entity 'T7'"),
        (["T1\tp 2 5\tAda", "", "E1\tr:T1 a:T7"], "ann, line 3: there is no entity 'T7'"),
    ],
)
def test_brat_names_the_line_of_an_odd_annotation(
    tmp_path: Path, lines: list[str], expected: str
) -> None:
    with pytest.raises(SourceError, match=expected):
        read("brat", brat(tmp_path / "in", BRAT_TEXT, "\n".join(lines)), RELATIONS)


def test_brat_reads_the_arguments_of_a_relation_in_any_order(tmp_path: Path) -> None:
    swapped = BRAT.replace("Arg1:T1 Arg2:T2", "Arg2:T2 Arg1:T1")
    [record], _ = read("brat", brat(tmp_path / "in", annotations=swapped), RELATIONS)
    assert record["triples"] == [{"subject": [2, 11], "predicate": "owns", "object": [20, 25]}]


@pytest.mark.parametrize("name", ["", "a//b", "x" * 300])
def test_brat_writes_no_file_whose_name_is_not_the_id(tmp_path: Path, name: str) -> None:
    record = {"id": name, "text": "Ada", "entities": []}
    with pytest.raises(SourceError, match="the id is no name of a file"):
        write("brat", tmp_path / "out", [record], ENTITIES)


def test_doccano_writes_no_answer_of_the_host(tmp_path: Path) -> None:
    """An export has both `entities` and `relations`, which doccano reads instead of a label."""
    old = {"id": 1, "label": "old", "start_offset": 0, "end_offset": 1}
    line = {"id": 1, "text": "Ada met Bob", "entities": [old], "relations": [], "labels": ["x"]}
    test = save(tmp_path / "test.jsonl", line)
    record = {"id": 1, "text": line["text"], "entities": [{"type": "p", "span": [0, 3]}]}
    write("doccano", tmp_path / "out", [record], ENTITIES, test)
    [found], said = read("doccano", tmp_path / "out", ENTITIES)
    assert found == record and said == []
    said = read("doccano", test, ENTITIES)[1]
    assert any(one.startswith("fields 'labels' next to 'entities', not read: 1") for one in said)


def test_label_studio_keeps_each_of_the_spans_with_one_id(tmp_path: Path) -> None:
    bob = {"start": 8, "end": 12, "text": "Bob", "labels": ["q"]}
    choice = {"id": "a", "type": "choices", "value": {"start": 0, "end": 3, "choices": ["good"]}}
    for name in ("a", None):
        own = [{"id": name, "type": "labels", "value": value} for value in (SPAN, bob)]
        path = save(tmp_path / "a.json", {**regions(*own, choice), "predictions": [{}]})
        [record], said = read("label_studio", path, ENTITIES)
        assert [one["type"] for one in record["entities"]] == ["p", "q"]
        counted = " ".join(said)
        for what in ("choices for a span", "whose last offset is not", "fields 'predictions'"):
            assert what in counted


def test_label_studio_min_without_controls(tmp_path: Path) -> None:
    """Only a field about the work tells a text without spans from one that waits."""
    shared = {"text": "Ada", "source": "web"}
    path = save(tmp_path / "a.json", {"id": 1, **shared}, {"id": 2, **shared, "annotation_id": 4})
    records, said = read("label_studio", path, ENTITIES, text_field="text")
    assert ["entities" in record for record in records] == [False, True]
    assert any(one.startswith("fields 'source', read as labels of whole texts") for one in said)
    path = save(tmp_path / "a.json", {"id": 1, "text": "good", "sentiment": "good"})
    assert read("label_studio", path, LABELS)[0][0]["label"] == "good"


def test_label_studio_csv_with_odd_cells(tmp_path: Path) -> None:
    text = "Ada\u2028met\x0b" + "x" * 200_000
    path = tmp_path / "a.csv"
    path.write_bytes(f"id,text,label\r\n1,{text},good\r\n".encode())
    [record], _ = read("label_studio", path, LABELS)
    assert record == {"id": "1", "text_a": text, "label": "good"}
    path.write_bytes(b'id,text,label\n1,Ada,"[{""a"":' + b"[" * 5000 + b'"\n')
    assert "entities" not in read("label_studio", path, ENTITIES)[0][0]
    for content, expected in {
        b"id,text,text\n1,a,b\n": "line 1: two columns have the same name",
        b'id,text\n1,"a\n': "line 2: not CSV",
    }.items():
        path.write_bytes(content)
        with pytest.raises(SourceError, match=expected):
            read("label_studio", path, LABELS)


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"text": "Ada", "label": {"p": {"Ada": [[0, 2]]}, "p": {}}}', "utf-8")
    with pytest.raises(SourceError, match='line 1: not JSON .the key "p" comes twice'):
        read("cluener", path, ENTITIES)


def test_ends_that_are_not_those_of_the_words_are_counted(tmp_path: Path) -> None:
    line = {"text": "Ada met", "label": {"p": {"Ada": [[0, 3]]}}}
    [record], said = read("cluener", save(tmp_path / "a.json", line), ENTITIES)
    assert record["entities"] == [{"type": "p", "span": [0, 3]}]
    assert any(one.startswith("entities whose last offset is not") for one in said)
    item = {"start_idx": 0, "end_idx": 5, "type": "p", "entity": "Ada"}
    said = read(
        "cmeee", save(tmp_path / "a.json", {"text": "Ada met", "entities": [item]}), ENTITIES
    )[1]
    assert [one.split(":")[0] for one in said] == [
        "entities whose last offset is not that of their words"
    ]


def test_columns_with_odd_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes("a\u00a0b B-p\n".encode())
    assert read("conll", path, ENTITIES)[0][0]["text"] == "a\u00a0b"
    path.write_bytes(b"\tB-p\nb\tO\n")
    with pytest.raises(SourceError, match="line 1: the sentence has an empty token"):
        read("conll", path, ENTITIES)
    path.write_bytes(b"we\tO\n\nAda\tNN\n")  # parts of speech, where O is one
    records = [{**one, "entities": []} for one in read("conll", path, ENTITIES)[0]]
    with pytest.raises(SourceError, match="the column of the tags is number 2 for some sentences"):
        write("conll", tmp_path / "out", records, ENTITIES, path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": None}, "line 1: the id null is no string"),
        ({"text": 5}, "line 1: the text is 5 instead of a string"),
        ({"triples": {}}, "line 1: the field 'triples' is {} instead of a list"),
        ({"triples": [{"subject": [0, 1], "object": [1, 2]}]}, "line 1: null is no name"),
        (
            {"triples": [{"subject": [0, 1], "object": [1, 2], "predicate": 5}]},
            "line 1: 5 is no name",
        ),
    ],
)
def test_a_prediction_without_its_parts_is_refused(
    tmp_path: Path, change: dict, expected: str
) -> None:
    record = {"id": 1, "text": "Ada", "triples": [], **change}
    with pytest.raises(SourceError, match=expected):
        write("duie", tmp_path / "out", [record], RELATIONS)


@pytest.mark.parametrize("place", ["predictions", "schema", "texts"])
def test_a_submission_replaces_none_of_the_files_that_are_read(tmp_path: Path, place: str) -> None:
    project = bake_project("relation_extraction", tmp_path, "host_formats")
    record = {"id": 1, "text": "Ada met Bob", "triples": []}
    row = {"predicate": "met", "subject_type": "p", "object_type": {"@value": "q"}}
    given = {"predictions": record, "texts": {"id": 1, "text": record["text"]}, "schema": row}
    files = {name: save(tmp_path / f"{name}.json", line) for name, line in given.items()}
    before = files[place].read_bytes()
    script = project / "extras/host_formats/write.py"
    words = [script, "duie", files["predictions"], files[place]]
    words += ["--texts", files["texts"], "--schema", files["schema"]]
    done = subprocess.run([sys.executable, *words], capture_output=True, encoding="utf-8")
    assert done.returncode == 1 and "is the file that is read: name another one" in done.stderr
    assert files[place].read_bytes() == before


@pytest.mark.parametrize("change", [{"label": 5}, {"label": None}, {"labels": ["a", 5]}])
def test_a_predicted_label_is_a_name(tmp_path: Path, change: dict) -> None:
    with pytest.raises(SourceError, match="line 1: .* is no name of a type, a role or a label"):
        write("doccano", tmp_path / "out", [{"id": 1, "text_a": "Ada", **change}], LABELS)


def test_a_schema_without_types_names_none(tmp_path: Path) -> None:
    triple = {"subject": [0, 3], "predicate": "met", "object": [8, 11]}
    record = {"id": 1, "text": "Ada met Bob", "triples": [triple]}
    row = {"predicate": "met", "subject_type": "p", "object_type": {"@value": "q"}}
    path = save(tmp_path / "schema", row, {"predicate": "saw"}, {**row, "object_type": None})
    types = read_types("duie", path, Options(RELATIONS), Conversion())
    assert write("duie", tmp_path / "out", [record], RELATIONS, types=types) == []
    [found] = json.loads((tmp_path / "out").read_text("utf-8"))["spo_list"]
    assert found["object"] == {"@value": "Bob"} and found["object_type"] == {"@value": "q"}
    assert "saw" not in types.subjects
    for line in ({"spo_list": [1]}, {**row, "object_type": ["q"]}, {**row, "subject_type": 5}):
        with pytest.raises(SourceError, match="schema, line 1: "):
            read_types("duie", save(path, line), Options(RELATIONS), Conversion())


# ------------------------------------------------------------------------- the command baselines


def test_the_command_baselines_converts_the_formats_of_hosts(tmp_path: Path) -> None:
    folder = brat(tmp_path / "in")
    with pytest.raises(InputError, match="brat holds records of .* name one with --task"):
        convert_file("brat", folder, tmp_path / "out.jsonl")
    convert_file("brat", folder, tmp_path / "out.jsonl", Options(RELATIONS))
    [record] = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert record == read("brat", folder, RELATIONS)[0][0]
    with pytest.raises(InputError, match="out.jsonl, line 1: the field 'spo_list' is"):
        path = save(tmp_path / "out.jsonl", {"text": "x", "spo_list": 1})
        convert_file("duie", path, tmp_path / "records.jsonl")
    assert not (tmp_path / "records.jsonl").exists()
    table = tmp_path / "a.csv"
    table.write_text("title,body,id,mood,topic\nHi,good,1,pos,cars\n")
    asked = ["--task", LABELS, "--text-field", "body", "--label-field", "mood"]
    command = [sys.executable, "-m", "generator", "data", "convert"]
    files = [str(table), str(tmp_path / "records.jsonl")]
    done = subprocess.run([*command, "label_studio", *files, *asked], capture_output=True)
    assert done.returncode == 0, done.stderr
    [record] = map(json.loads, (tmp_path / "records.jsonl").read_text("utf-8").splitlines())
    assert record == {"id": "1", "text_a": "good", "label": "pos"}
    for name, flag in (("label_studio", "--labels=none"), ("selqa", "--text-field=a")):
        done = subprocess.run([*command, name, *files, flag], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("error: "), done.stderr


# ------------------------------------------------------------------- a participant's whole way

TASKS = {
    "duie": "relation_extraction",
    "docred": "relation_extraction",
    "duee": "event_extraction",
    "cmeee": "named_entity_recognition",
}
PEOPLE = ["王 扶林", "李安", "Ada Quill", "张“三”"]
WORKS = ["红楼梦", "Zen\tco", "卧虎藏龙", "星河😀"]
SPLITS = {"train": 24, "dev": 12, "test": 8}


def draw_line(draw: random.Random, name: str, number: int) -> dict:
    """Return a labelled line as the host publishes it."""
    person, work = draw.choice(PEOPLE), draw.choice(WORKS)
    if name == "docred":
        return draw_document(draw, number)
    text = f"{draw.choice(['', '昨天，', '😀 '])}{person}导演了{work}。第{number}次"
    start, end = text.index(person), text.index(work)
    if name == "duie":
        triple = {
            "predicate": "导演",
            "subject": work,
            "subject_type": "影视作品",
            "object": {"@value": person},
            "object_type": {"@value": "人物"},
        }
        return {"text": text, "spo_list": [triple]}
    if name == "duee":
        parts = [
            {"role": role, "argument": words, "argument_start_index": at, "alias": []}
            for role, words, at in (("导演者", person, start), ("作品", work, end))
        ]
        event = {"event_type": "导演", "trigger": "导演", "arguments": parts}
        event["trigger_start_index"] = text.index("导演了")
        return {"id": f"{number:032x}", "text": text, "event_list": [event]}
    entities = [
        {"start_idx": at, "end_idx": at + len(words) - 1, "type": kind, "entity": words}
        for kind, words, at in (("人物", person, start), ("作品", work, end))
    ]
    return {"text": text, "entities": entities}


def draw_document(draw: random.Random, number: int) -> dict:
    """Return a document of DocRED: its first entity has two mentions, in two sentences."""
    first, last, work = draw.choice(["Ada", "Bo"]), draw.choice(["Quill", "Tran"]), f"Work{number}"
    sents = [[first, last, "(", "\xa0", ")", "directed", work, "."], [last, "left", "."]]
    person = [
        {"name": f"{first} {last}", "sent_id": 0, "pos": [0, 2], "type": "PER"},
        {"name": last, "sent_id": 1, "pos": [0, 1], "type": "PER"},
    ]
    made = [{"name": work, "sent_id": 0, "pos": [6, 7], "type": "MISC"}]
    labels = [{"h": 1, "t": 0, "r": "P57", "evidence": [0]}]
    return {"title": f"{number}", "vertexSet": [person, made], "labels": labels, "sents": sents}


def publish(path: Path, name: str, lines: list[dict]) -> None:
    """Write a file as the host does: some are one list, DuIE here has line ends of Windows."""
    if name in ("cmeee", "docred"):
        content = json.dumps(lines, ensure_ascii=False, indent=2)
    else:
        end = "\r\n" if name == "duie" else "\n"
        content = "".join(json.dumps(line, ensure_ascii=False) + end for line in lines)
    path.write_bytes(content.encode())


def read_lines(path: Path) -> list[dict]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def accepts(name: str, path: Path, blind: list[dict]) -> int:
    """Return the answers of a submission, after checking it by the rules of its host."""
    if name == "duie":
        return sum(map(len, accepts_duie(path, [line["text"] for line in blind])))
    if name == "duee":
        return sum(map(len, accepts_duee(path, [line["id"] for line in blind])))
    items = json.loads(path.read_text("utf-8"))
    if name == "docred":
        documents = {document["title"]: document for document in blind}
        for item in items:
            assert item.keys() == {"title", "h_idx", "t_idx", "r"}
            entities = len(documents[item["title"]]["vertexSet"])
            assert {item["h_idx"], item["t_idx"]} <= {*range(entities)} and item["r"]
        return len({tuple(item.values()) for item in items})
    assert [item["text"] for item in items] == [line["text"] for line in blind]
    for item in items:
        assert item.keys() == {"text", "entities"}
        for entity in item["entities"]:
            words = item["text"][entity["start_idx"] : entity["end_idx"] + 1]
            assert entity["entity"] == words and entity["type"]
    return sum(len(item["entities"]) for item in items)


@pytest.mark.shown("cmeee")
@pytest.mark.trains
@pytest.mark.parametrize("name", TASKS)
def test_a_host_file_becomes_a_submission(name: str, tmp_path: Path) -> None:
    project = bake_project(TASKS[name], tmp_path, "comparison,host_formats")
    draw = random.Random(name)
    lines = {
        split: [draw_line(draw, name, number) for number in range(count)]
        for split, count in SPLITS.items()
    }
    answers = {"spo_list", "event_list", "entities", "labels"}
    blind = [{key: line[key] for key in line.keys() - answers} for line in lines["test"]]
    process = ProjectProcess(project)

    def start(script: str, *words: object) -> str:
        done = process.run(script, *map(str, words))
        assert done.code == 0, f"{done.out}\n{done.err}"
        return done.out

    try:
        read, write = (f"extras/host_formats/{one}.py" for one in ("read", "write"))
        for split, own in {**lines, "test": blind}.items():
            publish(tmp_path / f"{split}.json", name, own)
            start(read, name, tmp_path / f"{split}.json", project / f"{split}.jsonl")
        start("train.py", *flags(project, train_file="train.jsonl", dev_file="dev.jsonl", steps=2))
        predictions, out = tmp_path / "predictions.jsonl", tmp_path / "submission.json"
        start("predict.py", "default", project / "test.jsonl", predictions)
        told = {"duie": ["--schema", tmp_path / "train.json"], "cmeee": ["--ends", "inclusive"]}
        schema = told.get(name, [])
        start(write, name, predictions, out, "--texts", tmp_path / "test.json", *schema)
        assert accepts(name, out, blind) >= 0

        # The same numbers from the predictions as from the run.
        start("evaluate.py", "default", project / "train.jsonl")
        start("predict.py", "default", project / "train.jsonl", predictions)
        start("score.py", predictions, project / "train.jsonl", "--out", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text("utf-8"))
        known = json.loads((project / "runs/default/scores.json").read_text("utf-8"))
        assert {key: known["files"]["train"][key] for key in scores} == scores

        # What is right in the records is right in the submission, and read back from there.
        start(write, name, project / "dev.jsonl", out, "--texts", tmp_path / "dev.json", *schema)
        assert accepts(name, out, lines["dev"]) > SPLITS["dev"] - 1
        if name in ("duie", "docred"):  # whose rules are not those of spans
            packed = tmp_path / "packed.zip"
            start(write, name, project / "dev.jsonl", packed, "--texts", tmp_path / "dev.json")
            said = start("extras/host_formats/score.py", name, packed, tmp_path / "dev.json")
            assert re.search(r"^f1 +1\.0000$", said, re.MULTILINE)
        if name == "docred":  # its submission has no texts
            return
        given = read_lines(out) if name == "duee" else None
        if given is not None:  # its submission has no texts
            both = zip(given, lines["dev"], strict=True)
            publish(out, name, [{**line, "text": own["text"]} for line, own in both])
        start(read, name, out, tmp_path / "again.jsonl")
        start("score.py", tmp_path / "again.jsonl", project / "dev.jsonl", "--out", out)
        scores = json.loads(out.read_text("utf-8"))
        assert scores.get("f1", scores.get("argument_classification_f1")) == 1
    finally:
        process.stop()


# --------------------------------------------------------------- what files of hosts also have


@pytest.mark.parametrize("mark", ["# id 52\tdomain=en", "# text = a\tb"])
def test_a_tab_in_a_comment_separates_no_columns(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"{mark}\nhis _ _ O\nsonny _ _ B-PER\n\n", "utf-8")
    [record] = read("conll", path, ENTITIES)[0]
    assert record["text"] == "his sonny" and record["entities"] == [{"span": [4, 9], "type": "PER"}]


def test_a_hashtag_at_the_start_of_a_sentence_is_a_token(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# id 7\n#text\tB-product\nis\tO\n\n# text of it\nAda\tO\n", "utf-8")
    first, second = read("conll", path, ENTITIES)[0]
    assert (first["text"], second["text"]) == ("#text is", "Ada")
    assert first["entities"] == [{"span": [0, 5], "type": "product"}]


@pytest.mark.parametrize("units", [0, 1])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_label_studio_writes_line_ends_of_words_as_letters(
    end: str, units: int, tmp_path: Path
) -> None:
    """Older versions count UTF-16 units: the emoji before the words has one more."""
    text = f"😀 at 12 Main Street{end}London, and London"
    start = text.index("12")
    stop = text.index("London") + len("London")
    words = text[start:stop].replace("\r", "\\n").replace("\n", "\\n")
    place = {"start": start + units, "end": stop + units}
    value = {**place, "text": words, "labels": ["ADDR"]}
    task = {"id": 1, "data": {"text": text}}
    task["annotations"] = [{"result": [{"id": "a", "type": "labels", "value": value}]}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([task]), "utf-8")
    [record] = read("label_studio", path, ENTITIES)[0]
    assert record["entities"] == [{"span": [start, stop], "type": "ADDR"}]


def choice(name: str, label: str) -> dict:
    return {"from_name": name, "type": "choices", "value": {"choices": [label]}}


def test_labels_of_two_controls_are_never_mixed(tmp_path: Path) -> None:
    task = {"id": 1, "data": {"text": "a"}}
    task["annotations"] = [{"result": [choice("mood", "good"), choice("topic", "sport")]}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([task]), "utf-8")
    with pytest.raises(SourceError, match="labels of the text in 'mood', 'topic'"):
        read("label_studio", path, LABELS)
    [record] = read("label_studio", path, LABELS, label_field="topic")[0]
    assert record["label"] == "sport"
    rows = [{"id": 1, "text": "a", "mood": "good", "url": "x.org", "annotator": 1}]
    path.write_text(json.dumps(rows), "utf-8")
    with pytest.raises(SourceError, match="in 'mood', 'url'"):
        read("label_studio", path, LABELS)
    [record], said = read("label_studio", path, LABELS, label_field="mood")
    assert record["label"] == "good" and any("fields 'url', left out" in one for one in said)


def test_of_several_annotations_in_a_table_the_first_one_is_read(tmp_path: Path) -> None:
    span = {"start": 0, "end": 1, "text": "a", "labels": ["X"]}
    row = {"id": 1, "text": "a b", "annotation_id": 7, "annotator": 1, "label": [span]}
    other = {**row, "annotation_id": 8, "annotator": 2, "label": []}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([row, other, {**row, "id": 2, "text": "a c"}]), "utf-8")
    records, said = read("label_studio", path, ENTITIES)
    assert [len(record["entities"]) for record in records] == [1, 1]
    assert any(one.startswith("second and further annotations") for one in said)


def test_a_text_without_a_label_among_texts_with_one_is_unlabelled(tmp_path: Path) -> None:
    lines = ({"id": n, "text": "a", "label": own} for n, own in enumerate((["x"], [], ["y"])))
    path = save(tmp_path / "a.jsonl", *lines)
    records, said = read("doccano", path, LABELS)
    assert [record.get("label") for record in records] == ["x", None, "y"]
    assert any(one.startswith("texts without a label, read as unlabelled") for one in said)
    records, _ = read("doccano", path, LABELS, several=True)
    assert [record["labels"] for record in records] == [["x"], [], ["y"]]
    path = save(tmp_path / "b.jsonl", {"id": 1, "text": "a", "label": ["x", "y"]})
    assert read("doccano", path, LABELS)[0][0]["labels"] == ["x", "y"]
    with pytest.raises(SourceError, match="2 labels"):
        read("doccano", path, LABELS, several=False)


def test_a_relation_of_an_event_is_one_of_its_trigger(tmp_path: Path) -> None:
    folder = tmp_path / "brat"
    folder.mkdir()
    (folder / "a.txt").write_text("mild pain", "utf-8")
    lines = "T1\tDegree 0 4\tmild\nT3\tSymptom 5 9\tpain\nE1\tSymptom:T3\n"
    (folder / "a.ann").write_text(f"{lines}R2\tMODIFY Arg1:T1 Arg2:E1\n", "utf-8")
    [record] = read("brat", folder, RELATIONS)[0]
    assert record["triples"] == [{"subject": [0, 4], "predicate": "MODIFY", "object": [5, 9]}]
    assert read("brat", folder, EVENTS)[0][0]["events"][0]["trigger"] == [5, 9]
    assert read("brat", folder, ENTITIES)[0][0]["entities"] == [{"span": [0, 4], "type": "Degree"}]


def test_offsets_of_brat_may_count_the_line_ends_of_before(tmp_path: Path) -> None:
    """Windows' git turns each line end of a text into two characters, and leaves the offsets."""
    folder = tmp_path / "brat"
    folder.mkdir()
    plain = "a\nb\nc\nd\nno no no no"
    (folder / "a.txt").write_bytes(plain.replace("\n", "\r\n").encode())
    (folder / "a.ann").write_bytes(b"T1\tX 11 13\tno\r\n")
    [record], said = read("brat", folder, ENTITIES)
    assert record["entities"] == [{"span": [11, 13], "type": "X"}] and record["text"] == plain
    assert any("count a line end of two characters as one" in one for one in said)
    (folder / "a.ann").write_bytes(b"T1\tX 15 17\tno\r\n")
    [record], said = read("brat", folder, ENTITIES)
    assert record["text"][slice(*record["entities"][0]["span"])] == "no" and said == []


def test_files_that_macos_adds_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "brat"
    (folder / "__MACOSX").mkdir(parents=True)
    for name in ("a.txt", "._a.txt", "._a.ann", "__MACOSX/._a.txt", "__MACOSX/b.ann"):
        (folder / name).write_bytes(b"\0\0" if "_" in name else b"Ada")
    assert [record["id"] for record in read("brat", folder, ENTITIES)[0]] == ["a"]
    path = tmp_path / "a.zip"
    line = json.dumps({"text": "红王", "spo_list": []})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("duie.json", line)
        archive.writestr("__MACOSX/._duie.json", "\0")
    assert read("duie", path, RELATIONS)[0][0]["triples"] == []
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(f"{line}\n  \n".encode()))
    assert len(read("duie", path, RELATIONS)[0]) == 1


def test_a_label_without_agreement_is_none(tmp_path: Path) -> None:
    lines = [{"sentence1": "a", "sentence2": "b", "label": x, "id": x} for x in ("neutral", "-")]
    records, said = read("clue", save(tmp_path / "a.json", *lines), LABELS)
    assert [record.get("label") for record in records] == ["neutral", None]
    assert any("annotators did not agree" in one for one in said)


def test_the_score_of_cluener_is_that_of_its_rule() -> None:
    """Distinct words of each text and type; the mean of the F1 of the types: counted by hand."""
    gold = [
        {"text": "张三李四张三", "label": {"name": {"张三": [[0, 1], [4, 5]], "李四": [[2, 3]]}}},
        {"text": "在腾讯", "label": {"company": {"腾讯": [[1, 2]]}}},
    ]
    own = [
        {"id": 0, "label": {"name": {"张三": [[0, 1]], "李四": [[2, 3]], "四张": [[3, 4]]}}},
        {"id": 1, "label": {}},
    ]
    placed = [[(f"line {n}", one) for n, one in enumerate(lines)] for lines in (own, gold)]
    assert score_cluener(*placed) == {"macro_f1": pytest.approx((0.8 + 0) / 2), "types": 2}
    assert score_cluener(placed[1], placed[1])["macro_f1"] == 1
    with pytest.raises(SourceError, match="has 1 lines"):
        score_cluener(placed[0][:1], placed[1])


def test_of_repeated_texts_the_last_line_counts_in_duie() -> None:
    def line(text: str, subject: str) -> dict:
        item = {"subject": subject, "predicate": "p", "object": {"@value": "B"}}
        return {"text": text, "spo_list": [item]}

    gold = [line("A建B", "A"), line("A建B", "A"), line("C建B", "C")]
    own = [line("A建B", "A"), line("A建B", "建"), line("C建B", "C")]
    placed = [[(f"line {n}", one) for n, one in enumerate(lines)] for lines in (own, gold)]
    assert score_duie(*placed)["f1"] == 0.5


def test_odd_parts_of_gold_files_are_named() -> None:
    document = {"title": "t", "vertexSet": [None], "labels": []}
    with pytest.raises(SourceError, match="an entity is null instead of a list"):
        score_docred([], [("line 1", document)])
    event = {"id": 1, "text": "a", "event_list": [{"event_type": "x", "trigger": "a"}]}
    assert score_duee([("line 1", event)], [("line 1", event)])["f1"] == 0


def test_characters_of_columns_are_joined_without_spaces(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join(f"{one} O\n" for one in "小米11") + "\n买 O\n", "utf-8")
    assert [record["text"] for record in read("conll", path, ENTITIES)[0]] == ["小米11", "买"]
    assert read("conll", path, ENTITIES, join="space")[0][0]["text"] == "小 米 1 1"
    path.write_text("1\tAda\tB-p\n2\tfell\tO\n", encoding="utf-8")
    assert read("conll", path, ENTITIES, token_column=2)[0][0]["text"] == "Ada fell"


def test_offsets_of_a_prediction_are_those_of_the_text_that_was_read(tmp_path: Path) -> None:
    text = "Line one.\r\nAda Quill founded Zenco.\r\n"
    marks = "T1\tperson 10 19\tAda Quill\nT2\torg 28 33\tZenco\nR1\tfounded Arg1:T1 Arg2:T2\n"
    folder = brat(tmp_path / "gold", text, marks)
    records, _ = read("brat", folder, RELATIONS)
    (tmp_path / "out").mkdir()
    write("brat", tmp_path / "out", records, RELATIONS, folder)
    [marked], [written] = ([*(tmp_path / "out").glob(f"*.{kind}")] for kind in ("ann", "txt"))
    found = re.findall(r"T\d\t\S+ (\d+) (\d+)\t(.*)\n", marked.read_text())
    assert [words for *_, words in found] == ["Ada Quill", "Zenco"]
    text = written.read_bytes().decode()
    assert [text[int(start) : int(end)] for start, end, _ in found] == ["Ada Quill", "Zenco"]


def test_brat_reads_suffixes_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "B.TXT").write_text("Ada left.")
    (tmp_path / "a.txt").write_text("Zenco paid.")
    (tmp_path / "a.ANN").write_text("T1\torg 0 5\tZenco\n")
    records, _ = read("brat", tmp_path, ENTITIES)
    assert {one["id"]: "entities" in one for one in records} == {"a": True, "B": False}


@pytest.mark.parametrize(
    ("second", "relations"),
    [(["Ada"], [(0, 2)]), (["Ada", "Quill"], [(0, 2)]), (["Ada", "Quill"], [(1, 2)])],
)
def test_a_shared_mention_is_that_of_the_entity_that_is_predicted(
    second: list[str], relations: list, tmp_path: Path
) -> None:
    places = {"Ada": [0, 1], "Quill": [3, 4], "Zenco": [2, 3]}
    vertices = [["Ada"], second, ["Zenco"]]
    line = {
        "title": "a",
        "sents": [["Ada", "founded", "Zenco", "Quill"]],
        "vertexSet": [
            [{"name": name, "sent_id": 0, "pos": places[name], "type": "X"} for name in names]
            for names in vertices
        ],
        "labels": [{"h": h, "t": t, "r": "founder", "evidence": []} for h, t in relations],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps([line]))
    records, _ = read("docred", path, RELATIONS)
    said = write("docred", tmp_path / "out.json", records, RELATIONS, path)
    written = json.loads((tmp_path / "out.json").read_text())
    assert [(one["h_idx"], one["t_idx"]) for one in written] == relations
    assert ("nothing tells apart" in " ".join(said)) == (second == ["Ada"])


def test_slots_of_duie_have_the_subject_of_their_object(tmp_path: Path) -> None:
    item = {
        "predicate": "获奖",
        "subject": "小明",
        "object": {"inWork": "北京", "@value": "小明爸爸"},
    }
    again = {**item, "object": {**item["object"], "inWork": "上海"}}
    line = {"text": "小明爸爸和小明在北京和上海", "spo_list": [item, again]}
    records, _ = read("duie", save(tmp_path / "a.json", line), RELATIONS)
    assert {tuple(triple["subject"]) for triple in records[0]["triples"]} == {(5, 7)}
    said = write("duie", tmp_path / "out.json", records, RELATIONS)
    [written] = read_lines(tmp_path / "out.json")
    assert not any("slots" in one for one in said)
    found = [one["object"] for one in written["spo_list"]]
    assert found == [{"@value": "小明爸爸", "inWork": place} for place in ("北京", "上海")]


def test_annotators_of_a_table_may_disagree(tmp_path: Path) -> None:
    rows = ["text,id,sentiment,annotator,annotation_id", "fine,7,pos,1,1", "fine,7,neg,2,2"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    records, said = read("label_studio", tmp_path / "a.csv", LABELS)
    assert records == [{"id": "7", "text_a": "fine", "label": "pos"}]
    assert "second and further annotations of a text, left out: 1" in " ".join(said)


@pytest.mark.parametrize("text", ["", "[]"])
def test_an_empty_text_of_a_table_is_not_its_label(text: str, tmp_path: Path) -> None:
    rows = ["text,id,sentiment,annotator,annotation_id", "good,1,pos,1,1", f"{text},2,neg,1,2"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    records, _ = read("label_studio", tmp_path / "a.csv", LABELS)
    assert records[1] == {"id": "2", "text_a": text, "label": "neg"}
    (tmp_path / "a.csv").write_text(
        "\n".join(rows).replace("text", "body").replace("[]", "") + "\n"
    )
    with pytest.raises(SourceError, match="which field is the text"):
        read("label_studio", tmp_path / "a.csv", LABELS)

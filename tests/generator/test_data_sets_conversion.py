"""`baselines data convert`: nothing is lost in silence, and what a host hands out converts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from extras.host_formats.options import Options
from extras.host_formats.records import text_id
from generator import InputError
from generator.data_sets.convert import FORMATS, convert_file

PASSAGE = "The bridge at Elm was built in 1901 by Zenco. It is made of stone, and so is Elm."


def squad(*questions: dict) -> str:
    """Return a file in the format of SQuAD with one passage."""
    numbered = [{"id": f"q{n}", "question": "?", **q} for n, q in enumerate(questions, start=1)]
    return json.dumps({"data": [{"paragraphs": [{"context": PASSAGE, "qas": numbered}]}]})


def given(*answers: tuple[str, int | None], **fields: object) -> dict:
    """Return a question with answers in the shape of SQuAD."""
    return {"answers": [{"text": t, "answer_start": start} for t, start in answers], **fields}


def convert(
    name: str, content: str | bytes, folder: Path, capsys: pytest.CaptureFixture
) -> tuple[list[dict], list[str]]:
    """Return the records of a file and what the conversion says of them, without the places."""
    source, out = folder / "in", folder / "out.jsonl"
    source.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    capsys.readouterr()
    convert_file(name, source, out)
    first, *said = capsys.readouterr().out.splitlines()
    records = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    assert first == f"{out}: {len(records)} records"
    assert all(f", the first in {source}" in line and line.endswith(".") for line in said)
    return records, [line.partition(", the first in")[0] for line in said]


def test_a_file_of_the_converted_folder_is_not_replaced(tmp_path: Path) -> None:
    for name, text in (("a.txt", "Ada founded Zenco."), ("a.ann", "T1\tPER 0 3\tAda\n")):
        (tmp_path / name).write_text(text)
    for out in ("a.ann", "new.jsonl", "../" + tmp_path.name + "/a.ann"):
        with pytest.raises(InputError, match="is in the folder that is converted"):
            convert_file("brat", tmp_path, tmp_path / out, Options("named_entity_recognition"))
    assert (tmp_path / "a.ann").read_text().startswith("T1")
    convert_file(
        "brat", tmp_path, tmp_path.parent / "out.jsonl", Options("named_entity_recognition")
    )


# --------------------------------------------------------------------- answers of SQuAD

STONE = given(("stone", 60))
IMPOSSIBLE = "answers of questions that is_impossible marks as unanswerable, left out"
CORRECTED = "answers whose offset was corrected to where the passage reads like them"
UNKNOWN = "answers whose place in the passage is unknown: see answer_texts"
EMPTY = "answers without a text, left out"
NO_ANSWER = "questions without an answer that are not marked so: read as unanswerable"
PLAUSIBLE = "questions with plausible_answers, which are no answers: these are left out"
REPEATED_ANSWERS = "answers that repeat another of their question, kept once"
BLANKS = "answers with blanks around them, left out of the span"
UNLABELLED = "unlabelled records, which only predict.py reads"
ANSWERS = {
    "impossible, and marked with an empty answer at -1": (
        given(("", -1), is_impossible=True),
        {"answers": []},
        [],
    ),
    "impossible, and has an answer": (
        given(("Zenco", 39), ("Elm", 14), is_impossible=True),
        {"answers": []},
        [f"{IMPOSSIBLE}: 2"],
    ),
    "impossible, and has a plausible answer": (
        given(is_impossible=True, plausible_answers=[{"text": "Zenco", "answer_start": 39}]),
        {"answers": []},
        [f"{PLAUSIBLE}: 1"],
    ),
    "impossible without a list of answers": ({"is_impossible": True}, {"answers": []}, []),
    "an answer without a text": (given(("", 4), ("Elm", 14)), {"answers": [[14, 17]]}, [EMPTY]),
    "no other answer": (given((" ", 4)), {"answers": []}, [EMPTY, NO_ANSWER]),
    "no answer": (given(), {"answers": []}, [NO_ANSWER]),
    "one too far": (given(("Zenco", 40)), {"answers": [[39, 44]]}, [CORRECTED]),
    "one too early": (given(("1901", 30)), {"answers": [[31, 35]]}, [CORRECTED]),
    "the nearer of two": (given(("Elm", 12)), {"answers": [[14, 17]]}, [CORRECTED]),
    "the only place": (given(("Zenco", 3)), {"answers": [[39, 44]]}, [CORRECTED]),
    "far from both places": (
        given(("Elm", 40)),
        {"answers": [], "answer_texts": ["Elm"]},
        [UNKNOWN],
    ),
    "no place": (given(("YES", -1)), {"answers": [], "answer_texts": ["YES"]}, [UNKNOWN]),
    "blanks": (given((" 1901 ", 30)), {"answers": [[31, 35]]}, [BLANKS]),
    "twice": (given(("1901", 31), ("1901", 31)), {"answers": [[31, 35]]}, [REPEATED_ANSWERS]),
    "lists": (
        {"answers": {"text": ["1901", "Elm"], "answer_start": [31, 14]}},
        {"answers": [[31, 35], [14, 17]]},
        [],
    ),
    "a list of lists": (
        {"answers": [{"text": ["1901"], "answer_start": [31]}]},
        {"answers": [[31, 35]]},
        [],
    ),
    "empty lists": ({"answers": {"text": [], "answer_start": []}}, {"answers": []}, [NO_ANSWER]),
    "no start": (given(("1901", None)), {"answers": [[31, 35]]}, []),
    "texts alone": ({"answers": {"text": ["1901"]}}, {"answers": [[31, 35]]}, []),
    "a start as pandas writes it": (given(("1901", 31.0)), {"answers": [[31, 35]]}, []),
    "null": ({"answers": None}, {}, [UNLABELLED]),
    "none": ({}, {}, [UNLABELLED]),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_mean_what_the_format_means(case: str, tmp_path: Path, capsys) -> None:
    question, expected, remarks = ANSWERS[case]
    (first, second), said = convert("squad", squad(question, STONE), tmp_path, capsys)
    assert first == {"id": "q1", "question": "?", "context": PASSAGE, **expected}
    assert second["answers"] == [[60, 65]]
    # A remark that counts one thing stands above without its count.
    assert said == [remark if remark[-1].isdigit() else f"{remark}: 1" for remark in remarks]


@pytest.mark.parametrize("question", [{}, given(), given(("", -1)), {"answers": {"text": []}}])
def test_a_file_without_any_answer_is_a_file_to_predict(question, tmp_path: Path, capsys) -> None:
    records, said = convert("squad", squad(question, question), tmp_path, capsys)
    assert not any("answers" in record or "answer_texts" in record for record in records)
    assert f"{UNLABELLED}: 2" in said


ROW = {"id": "a", "title": "t", "context": PASSAGE, "question": "?"}
HUGGING = {**ROW, "answers": {"text": ["1901"], "answer_start": [31]}}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"version": "1", "data": [HUGGING, {**HUGGING, "id": 7.0}]}),
        json.dumps([HUGGING, {**HUGGING, "id": 7.0}], indent=1),
        f"{json.dumps(HUGGING)}\n{json.dumps({**HUGGING, 'id': 7.0})}\n",
    ],
)
def test_rows_of_hugging_face_are_read(content: str, tmp_path: Path, capsys) -> None:
    records, said = convert("squad", content, tmp_path, capsys)
    assert [record["id"] for record in records] == ["a", 7] and said == []
    assert all(record["answers"] == [[31, 35]] for record in records)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"answers": "1901"}, 'its answers are "1901" instead of'),
        ({"answers": 7}, "its answers are 7 instead of"),
        ({"answers": {}}, "its answers are {} instead of"),
        ({"answers": [None]}, r"its answers are \[null\] instead of"),
        ({"answers": [{"answer_start": 3}]}, "its answers are .* instead of"),
        ({"answers": [[{"text": "a", "answer_start": 3}]]}, "its answers are .* instead of"),
        ({"answers": {"text": ["1901"], "answer_start": []}}, "its answers are .* instead of"),
        ({"answers": {"text": ["1901"], "answer_start": 31}}, "its answers are .* instead of"),
        ({"answers": {"text": "1901", "answer_start": [31]}}, r"answer_start .* is \[31\] instead"),
        ({"answers": {"text": [["1901"]], "answer_start": [[31]]}}, r'text of an answer is \["1'),
        ({"answers": [{"text": None, "answer_start": 3}]}, "the text of an answer is null instead"),
        (given(("1901", True)), "the answer_start of an answer is true instead of a whole number"),
        (given(("1901", 31.5)), "the answer_start of an answer is 31.5 instead of a whole number"),
        (given(is_impossible="false"), "'is_impossible' is \"false\" instead of true or false"),
        (given(is_impossible=1), "the field 'is_impossible' is 1 instead of true or false"),
        ({"question": None}, "the field 'question' is null instead of a string"),
    ],
)
def test_answers_of_a_broken_shape_are_one_sentence(
    question: dict, expected: str, tmp_path: Path
) -> None:
    source = tmp_path / "in.json"
    source.write_text(squad(STONE, question))
    with pytest.raises(InputError, match=expected) as error:
        convert_file("squad", source, tmp_path / "out")
    assert str(error.value).startswith(f"{source}, question q2: ")
    assert str(error.value).endswith(": correct the file.") and "\n" not in str(error.value)


# ----------------------------------------------------------- what the other formats leave out

CONTEXT = "Fever after aspirin."


def phee(*events: dict) -> str:
    """Return a sentence of PHEE."""
    return json.dumps({"id": "a", "context": CONTEXT, "annotations": [{"events": [*events]}]})


def adverse(**fields: object) -> dict:
    """Return an event of PHEE."""
    return {"event_type": "Adverse", "Trigger": parts(("after", 6)), **fields}


def parts(*places: tuple[str, int], **inner: object) -> dict:
    """Return a role of PHEE with mentions of one part each."""
    return {"text": [[word] for word, _ in places], "start": [[n] for _, n in places], **inner}


def fewfc(*events: dict) -> str:
    """Return a sentence of FewFC."""
    return json.dumps({"id": "a", "content": "甲公司收购乙厂", "events": [*events]})


def buys(*mentions: tuple[str, int, int, str]) -> dict:
    """Return an event of FewFC."""
    listed = [{"role": r, "span": [a, b], "word": word} for r, a, b, word in mentions]
    return {"type": "收购", "mentions": listed}


def knowledgenet(predicate: str = "1", shift: int = 0, count: int = 1) -> str:
    """Return a passage of KnowledgeNet in which Ann, four characters later Bo, share a fact."""
    fact = {"propertyId": predicate}
    for role, start, words in (("subject", 5, "Ann"), ("object", 9, "Bo")):
        fact |= {f"{role}Start": start + shift, f"{role}End": start + shift + len(words)}
        fact[f"{role}Text"] = words
    passage = {
        "passageId": "a",
        "passageStart": 5,
        "passageText": "Ann Bo",
        "facts": [fact] * count,
    }
    passage["exhaustivelyAnnotatedProperties"] = [{"propertyId": "1", "propertyName": "KNOWS"}]
    return json.dumps({"passages": [passage]})


BUYER, TRIGGER = ("sub", 0, 3, "甲公司"), ("trigger", 3, 5, "收购")
OFFSETS = "offsets corrected to the nearest place where the text reads as it should"
REPEATED = 'repeated ids, of which each record but the first got "-2", "-3", ... at its end'
KEPT_ONCE = "that repeat another of their record, kept once"
ONE_RECORD = "all are one record"
REMARKS = {
    "sub-arguments": (
        "phee",
        phee(
            adverse(
                Treatment=parts(
                    ("aspirin", 12),
                    Drug=parts(("aspirin", 12), ("aspirin", 12)),
                    Combination=[{"event_type": "Combination"}],
                ),
                Severity={**parts(("Fever", 0)), "value": "high"},
            )
        ),
        [
            "sub-arguments, such as the drug of a treatment, left out: 3",
            "attributes of events, such as severity and negation, left out: 1",
        ],
    ),
    "parts twice": (
        "phee",
        phee(adverse(Effect=parts(("Fever", 0), ("Fever", 0)))),
        [f"arguments {KEPT_ONCE}: 1"],
    ),
    "events twice": ("phee", phee(adverse(), adverse()), [f"events {KEPT_ONCE}: 1"]),
    "a part off by one": ("phee", phee(adverse(Effect=parts(("Fever", 1)))), [f"{OFFSETS}: 1"]),
    "an event of nothing": (
        "fewfc",
        fewfc(buys(), buys(BUYER)),
        ["events without a trigger and arguments, left out: 1"],
    ),
    "mentions twice": (
        "fewfc",
        fewfc(buys(BUYER, BUYER, TRIGGER), buys(BUYER, TRIGGER)),
        [f"arguments {KEPT_ONCE}: 1", f"events {KEPT_ONCE}: 1"],
    ),
    "a mention off by two": ("fewfc", fewfc(buys(("sub", 2, 5, "甲公司"))), [f"{OFFSETS}: 1"]),
    "a fact of no annotated predicate": (
        "knowledgenet",
        knowledgenet("2"),
        ["facts of a predicate that their passage is not annotated for, left out: 1"],
    ),
    "a fact off by one": ("knowledgenet", knowledgenet(shift=1), [f"{OFFSETS}: 2"]),
    "a fact twice": ("knowledgenet", knowledgenet(count=3), [f"triples {KEPT_ONCE}: 2"]),
    "passages twice": ("knowledgenet", f"{knowledgenet()}\n{knowledgenet()}", [f"{REPEATED}: 1"]),
    "lines of a sentence": (
        "finre",
        "甲\t乙\t收购\t甲买乙\n乙\t甲\tunknown\t甲买乙\n甲\t乙\t收购\t甲买乙\n",
        [
            f"lines whose sentence an earlier line has: {ONE_RECORD}: 2",
            "pairs of head and tail whose relation is 'unknown': they give no triple: 1",
            f"triples {KEPT_ONCE}: 1",
        ],
    ),
    "a name that stands there twice": (
        "finre",
        "甲\t乙\t收购\t甲买乙，甲卖丙\n",
        [
            "pairs of head and tail that stand in their sentence more than once: the first ones "
            "that do not overlap were taken: 1"
        ],
    ),
    "sentences twice": (
        "wnut17",
        "Ada\tB-person\n\nAda\tB-person\n\nAda\tO\n\nAda\tB-person\n",
        [f"{REPEATED}: 2"],
    ),
    "messages twice": ("weibo", "甲0\tO\n\n甲0\tO\n", [f"{REPEATED}: 1"]),
    "I without B": (
        "wnut17",
        "a\tI-x\nb\tI-x\nc\tO\nd\tI-x\n",
        ["tags I without an entity of their type before them: read as B: 2"],
    ),
    "references": (
        "e2e",
        "mr,ref\na,b\na,\na,c\nd,e\n",
        [
            f"lines whose source an earlier line has: {ONE_RECORD}: 2",
            "lines without a target, which give none: 1",
        ],
    ),
    "cells of several lines": (
        "e2e",
        'mr,ref\na,"b\nc"\n',
        ["cells of several lines, read as one text: 1"],
    ),
    "another prompt": (
        "csl_title",
        "to title\ta\tt\nto keywords\tb\tk\n",
        ["prompts other than 'to title', left out: 1"],
    ),
    "ratings twice": (
        "emobank",
        "id,split,V,A,D,text\na,dev,1,1,1,x\na,dev,2,2,2,y\n",
        [f"{REPEATED}: 1"],
    ),
    "questions twice": (
        "squad",
        squad({**STONE, "id": "a"}, {**STONE, "id": "a"}, {**STONE, "id": "a-2"}),
        [f"{REPEATED}: 1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REMARKS)
def test_what_is_not_as_it_was_is_counted_and_said(case: str, tmp_path: Path, capsys) -> None:
    name, content, expected = REMARKS[case]
    records, said = convert(name, content, tmp_path, capsys)
    assert said == expected
    assert len({record["id"] for record in records}) == len(records)


def test_lines_of_another_prompt_are_left_out(tmp_path: Path, capsys) -> None:
    [record], _ = convert("csl_title", REMARKS["another prompt"][1], tmp_path, capsys)
    assert (record["source"], record["targets"]) == ("a", ["t"])


def test_repeated_sentences_stay_in_their_order(tmp_path: Path, capsys) -> None:
    records, _ = convert("wnut17", REMARKS["sentences twice"][1], tmp_path, capsys)
    name, other = text_id("Ada", "B-person"), text_id("Ada", "O")
    assert [record["id"] for record in records] == [name, f"{name}-2", other, f"{name}-3"]
    assert [len(record["entities"]) for record in records] == [1, 1, 0, 1]
    records, _ = convert("squad", REMARKS["questions twice"][1], tmp_path, capsys)
    assert [record["id"] for record in records] == ["a", "a-3", "a-2"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("wnut17", "a\tO\n\tB-x\n", "line 2: not a token, a tab and a tag"),
        ("wnut17", "a\tB\n", "line 1: .B. is not a tag of BIO"),
        ("wnut17", "a\tI-\n", "line 1: .I-. is not a tag of BIO"),
        ("wnut17", "a\tO\nb\n", "line 2: not a token, a tab and a tag"),
        ("fewfc", fewfc({"type": "", "mentions": []}), "line 1: an event has an empty 'type'"),
        (
            "fewfc",
            fewfc(buys(("sub", 5, 7, "丁厂"))),
            r"a mention of sub is not the text at \[5, 7",
        ),
        ("phee", phee(adverse(Effect=parts(("e", 19)))), "a part of Effect is not the text at"),
        ("knowledgenet", knowledgenet().replace("Bo", "", 1), "the object of a fact is not the te"),
        ("e2e", 'mr,ref\na,"b\nc,d\n', "line 2: not CSV"),
        ("e2e", "mr\n \n", "line 2: the text to start from is empty"),
        ("emobank", "id,split,V,A,D,text\na,dev,,1,1,t\n", "line 2: .* are no ratings"),
        ("selqa", "q\ta\t1\nq\tb\t\n", "line 2: the label is .. instead of 0 or 1"),
        ("squad", '{"id": "a"}\n{\n', r"line 2: not JSON"),
        ("squad", '{"data": 7}', "the field 'data' is 7 instead of a list"),
        ("squad", '{"data": [7]}', "item 1: it is 7 instead of an object"),
        ("squad", squad({"id": [1]}), r"the id \[1\] is no string and no whole number"),
        *((name, "\udcff", "line 1: not UTF-8") for name in FORMATS),
        *((name, "[" * 100_000, ": correct the file") for name in FORMATS if name != "wnut17"),
        *(
            (name, "[" + "甲" * 9_000 + "\\n]", ": correct the file")
            for name in FORMATS
            if name != "wnut17"
        ),
    ],
)
def test_what_is_broken_is_one_sentence(
    name: str, content: str, expected: str, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out.jsonl"
    source.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=expected) as error:
        convert_file(name, source, out)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400 + len(str(source))
    assert not out.exists()


@pytest.mark.parametrize("name", FORMATS)
def test_a_path_that_can_not_be_read_is_one_sentence(name: str, tmp_path: Path) -> None:
    for source in (tmp_path / "absent", tmp_path, tmp_path / ("a" * 300)):
        with pytest.raises(InputError, match="cannot be read .*: check the path"):
            convert_file(name, source, tmp_path / "out.jsonl")


# ------------------------------------------------------------------ files without gold

# Format -> a file without gold; its records but for their ids; the task that reads them.
BLIND: dict[str, tuple[str, list[dict], str]] = {
    "squad": (
        squad({}, {"answers": []}),
        [{"question": "?", "context": PASSAGE}] * 2,
        "reading_comprehension",
    ),
    "cmrc2018": (
        json.dumps([{"context_text": "甲", "qas": [{"query_id": "a", "query_text": "谁?"}]}]),
        [{"question": "谁?", "context": "甲"}],
        "reading_comprehension",
    ),
    "drcd": (
        json.dumps(ROW),
        [{"question": "?", "context": PASSAGE}],
        "reading_comprehension",
    ),
    "knowledgenet": (
        '{"passages": [{"passageId": "a", "passageText": "Ann", "facts": [],'
        ' "exhaustivelyAnnotatedProperties": []}, {"passageId": "b", "passageText": "Bo"}]}',
        [{"text": "Ann"}, {"text": "Bo"}],
        "relation_extraction",
    ),
    "finre": ("甲\t乙\t\t甲买乙\n乙\t甲\t\t甲买乙\n", [{"text": "甲买乙"}], "relation_extraction"),
    "phee": ('{"id": "a", "context": "Fever."}', [{"text": "Fever."}], "event_extraction"),
    "fewfc": ('{"id": "a", "content": "甲"}', [{"text": "甲"}], "event_extraction"),
    "e2e": ("MR\na\na\n", [{"source": "a"}, {"source": "a"}], "seq2seq"),
    "csl_title": ("to title\ta\nto title\tb\n", [{"source": "a"}, {"source": "b"}], "seq2seq"),
    "selqa": (
        "q\ta\nq\tb\n",
        [{"text_a": "q", "text_b": name, "group": text_id("q")} for name in "ab"],
        "text_classification",
    ),
    "wnut17": (
        "in\nOslo\n \nnow\n",
        [{"text": "in Oslo"}, {"text": "now"}],
        "named_entity_recognition",
    ),
    "weibo": ("去0\n纽1\n", [{"text": "去纽"}], "named_entity_recognition"),
    "emobank": ("id,split,text\na,test,Oh\n", [{"text_a": "Oh"}], "text_classification"),
    "redocred": (
        '[{"title": "a", "sents": [["Ann", "left"], ["."]], "vertexSet": []}]',
        [{"text": "Ann left ."}],
        "relation_extraction",
    ),
    "semeval2010": (
        '8001\t"<e1>a</e1> in <e2>b</e2>"\r\n8002\t"<e1>a</e1> on <e2>b</e2>"\r\n',
        [{"text_a": f"<e1>a</e1> {word} <e2>b</e2>"} for word in ("in", "on")],
        "text_classification",
    ),
    "ukpconvarg": (
        "#id\ta1\ta2\n1_2\tYes.\tNo.\n",
        [{"prompt": "in", "a1": "Yes.", "a2": "No."}],
        "text_classification",
    ),
}  # fmt: skip
MORE_BLIND = {
    "finre": "甲\t乙\t甲买乙\n乙\t甲\t甲买乙\n",
    "e2e": "mr,ref\na,\na,\n",
    "csl_title": "to title\ta\t\nto title\tb\t\n",
    "selqa": "q\ta\t\nq\tb\t\n",
    "wnut17": "in\t\nOslo\t\n\t\nnow\t\n",
    "weibo": "去0\t\n纽1\t\n\t\n",
    "emobank": "id,split,V,A,D,text\na,test,,,,Oh\n",
    "ukpconvarg": "#id\tlabel\ta1\ta2\n1_2\t\tYes.\tNo.\n",
    "fewfc": '{"id": "a", "content": "甲", "events": null}',
    "phee": '{"id": "a", "context": "Fever.", "annotations": null}',
}
READ_ALL = """
import importlib, json, sys
from conftest import use_template

from core.base.settings import with_tables

counts = {}
for task, paths in json.loads(sys.argv[1]).items():
    use_template(task)
    data, settings = importlib.import_module("task.data"), importlib.import_module("task.settings")
    own = [settings.Settings.model_construct()] if task == "named_entity_recognition" else []
    for path in paths:
        more = {}
        if "ukpconvarg" in path:  # the settings say which fields are choices
            choices = {"choice_columns": ["a1", "a2"]}
            more = {"settings": with_tables(settings.Settings)(competition=choices)}
        counts[path] = len(data.read_examples(path, *own, False, **more))
print(json.dumps(counts))
"""


@pytest.mark.parametrize("name", FORMATS)
def test_files_without_gold_are_converted(name: str, tmp_path: Path, capsys) -> None:
    content, expected, _ = BLIND[name]
    for each in (content, MORE_BLIND.get(name, content)):
        records, said = convert(name, each, tmp_path, capsys)
        assert f"{UNLABELLED}: {len(expected)}" in said
        assert all(record.pop("id") for record in records)
        assert records == expected


@pytest.mark.slow
def test_predict_reads_converted_files_without_gold(tmp_path: Path) -> None:
    paths: dict[str, list[str]] = {}
    for name, (content, _, task) in BLIND.items():
        source, out = tmp_path / "in", tmp_path / f"{name}.jsonl"
        source.write_text(content, encoding="utf-8")
        convert_file(name, source, out)
        paths.setdefault(task, []).append(str(out))
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, json.dumps(paths)],
        cwd=ROOT / "tests",
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    counts = {Path(path).stem: count for path, count in found.items()}
    assert counts.pop("ukpconvarg") == 2  # a pair has two choices
    assert counts == {name: len(BLIND[name][1]) for name in BLIND if name != "ukpconvarg"}

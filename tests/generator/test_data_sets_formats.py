"""Converters: official formats in, records out, and one sentence for whatever is broken."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from extras.host_formats.records import Conversion, text_id
from generator import InputError
from generator.data_sets.convert import FORMATS, advice, convert_file, read_splits
from generator.data_sets.relation_extraction import locate


def pinned(name: str, files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Return the records of each split, as for a pinned data set."""
    with advice("fetch it again"):
        return read_splits(name, files, splits)[1]


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.write_text(text, encoding="utf-8")
    return path


def write_json_lines(path: Path, *records: dict) -> Path:
    """Write one JSON object a line."""
    return write(path, "".join(json.dumps(record) + "\n" for record in records))


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
    records = pinned("knowledgenet", [path], {"train": ["7:10:40"]})
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
    records = pinned("knowledgenet", [path], {"train": ["b"], "dev": ["a"]})
    assert [record["id"] for record in records["train"] + records["dev"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{", "line 2: not JSON"),
        ('{"documentId": "8"}', "line 2: the field 'passages' is missing"),
        ('{"passages": ["a"]}', "line 2: an item of 'passages' is \"a\" instead of an object"),
        (passage("b", facts=[{"propertyId": "2"}]), "line 2, passage b: the field 'subjectStart'"),
        (
            passage("b", facts=[{**fact("2", "Bolt", "Ann"), "objectEnd": 14}]),
            "line 2, passage b: the object of a fact is not the text at",
        ),
        (passage("a", facts=[]), "line 2, passage a: record a comes twice"),
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
        pinned("knowledgenet", [path], {"train": ["a", "b"]})
    assert str(path) in str(error.value)


# ----------------------------------------------------------------------- FinRE

SENTENCES = ("甲乙公司收购丙厂", "甲乙集团与甲乙合作", "丁行")


def write_pairs(path: Path, *lines: str) -> Path:
    """Write lines as the official files have them: an empty line after each."""
    path.write_text("".join(f"{line}\n\n" for line in lines), encoding="utf-8")
    return path


def finre_records(path: Path, *sentences: str) -> list[dict]:
    """Convert one FinRE file for the given sentences."""
    return pinned("finre", [path], {"train": [text_id(text) for text in sentences]})["train"]


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
    records = finre_records(path, one, two, three)
    assert [record["text"] for record in records] == [one, two, three]
    assert records[0]["triples"] == [
        {"subject": [0, 4], "predicate": "收购", "object": [6, 8]},
        {"subject": [6, 8], "predicate": "被收购", "object": [0, 4]},
    ]
    # The second "甲乙" is meant: the first one lies inside of the head.
    assert records[1]["triples"] == [{"subject": [0, 4], "predicate": "拥有", "object": [5, 7]}]
    assert records[2]["triples"] == []


def test_finre_keeps_nested_names_where_nothing_else_fits() -> None:
    assert locate("甲乙集团", "甲乙集团", "甲乙", "here", Conversion()) == ((0, 4), (0, 2))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("甲\t乙\t收购", "line 3: 3 fields instead of"),
        ("丁行\t\t收购\t丁行", 'line 3: the sentence does not hold its tail ""'),
        ("戊\t丁行\t收购\t丁行", 'line 3: the sentence does not hold its head "戊"'),
        ("丁行\t戊\t收购\t丁行", 'line 3: the sentence does not hold its tail "戊"'),
        ("甲\t乙\t收购\t甲乙", "the train split is missing"),
    ],
)
def test_finre_refuses_a_broken_file(tmp_path: Path, line: str, expected: str) -> None:
    path = write_pairs(tmp_path / "train.txt", f"甲乙公司\t丙厂\t收购\t{SENTENCES[0]}", line)
    with pytest.raises(InputError, match=expected):
        finre_records(path, SENTENCES[0], SENTENCES[2])


def test_a_file_that_is_no_utf8_is_refused_by_line(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "train.txt", f"甲乙公司\t丙厂\t收购\t{SENTENCES[0]}")
    path.write_bytes(path.read_bytes() + "丁行".encode("gbk"))
    with pytest.raises(InputError, match="line 3: not UTF-8"):
        finre_records(path, SENTENCES[0])


# -------------------------------------------------------------- format of SQuAD

CONTEXT = "\U0001f600 Ann founded Bolt in Oslo. Ann left."


def question(name: str, *answers: tuple[str, int]) -> dict:
    """Return a question in the official format."""
    return {
        "id": name,
        "question": "Who founded Bolt?",
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
    }


def write_squad(path: Path, *questions: dict) -> Path:
    """Write a file with two articles, of which the first has no question."""
    articles = [
        {"title": "empty", "paragraphs": []},
        {"title": "Bolt", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]},
    ]
    return write(path, json.dumps({"version": "1.1", "data": articles}))


def convert_squad(path: Path, *names: str) -> list[dict]:
    """Convert one file for the given questions."""
    return pinned("squad", [path], {"train": list(names)})["train"]


def test_squad_answers_are_distinct_spans(tmp_path: Path) -> None:
    path = write_squad(
        tmp_path / "a.json", question("q", ("Ann", 2), ("Bolt", 14), ("Ann", 2), ("Ann", 28))
    )
    [record] = convert_squad(path, "q")
    assert record == {
        "id": "q",
        "question": "Who founded Bolt?",
        "context": CONTEXT,
        "answers": [[2, 5], [14, 18], [28, 31]],
    }
    assert [CONTEXT[start:end] for start, end in record["answers"]] == ["Ann", "Bolt", "Ann"]


@pytest.mark.parametrize("answer", [("Anna", -1), (".", -1), ("Anna", 3), ("Ann", 15), ("Ann", 99)])
def test_squad_answers_that_are_no_span_stay_as_texts(
    tmp_path: Path, answer: tuple[str, int]
) -> None:
    path = write_squad(tmp_path / "a.json", question("q", answer, ("Ann", 2), answer))
    [record] = convert_squad(path, "q")
    assert record["answers"] == [[2, 5]]
    assert record["answer_texts"] == [answer[0], "Ann", answer[0]]


def test_squad_answers_without_any_span(tmp_path: Path) -> None:
    path = write_squad(tmp_path / "a.json", question("q", ("Ann", -1)), question("none"))
    marked, unanswerable = convert_squad(path, "q", "none")
    assert marked["answers"] == [] and marked["answer_texts"] == ["Ann"]
    assert unanswerable["answers"] == [] and "answer_texts" not in unanswerable


def test_squad_questions_may_be_in_any_file_and_come_in_the_pinned_order(tmp_path: Path) -> None:
    one = write_squad(tmp_path / "one.json", question("a"), question("left out", (4, "wrong")))
    two = write_squad(tmp_path / "two.json", question("b"), question("a"))
    records = pinned("squad", [one, two], {"train": ["b"], "dev": ["a"]})
    assert [record["id"] for record in records["train"] + records["dev"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not JSON"),
        ("[]", "record q of the train split is missing"),
        ("7", "the file is 7 instead of a list"),
        ({"data": [{}]}, "item 1: the field 'paragraphs' is missing"),
        (question("q", ("Ann", "2")), 'q: the answer_start of an answer is "2" instead of a whole'),
        (question("q", (7, 2)), "question q: the text of an answer is 7 instead of a string"),
        ({"id": "q", "answers": []}, "question q: the field 'question' is missing"),
        (question("other"), "record q of the train split is missing"),
    ],
)
def test_squad_refuses_a_broken_file(tmp_path: Path, content: str | dict, expected: str) -> None:
    path = tmp_path / "a.json"
    if isinstance(content, dict) and "id" in content:
        write_squad(path, content)
    else:
        write(path, content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=expected) as error:
        convert_squad(path, "q")
    assert str(path) in str(error.value)


def test_squad_refuses_a_question_that_comes_twice_and_differs(tmp_path: Path) -> None:
    path = write_squad(tmp_path / "a.json", question("q", ("Ann", 2)), question("q", ("Bolt", 14)))
    with pytest.raises(InputError, match="record q comes twice and differs"):
        convert_squad(path, "q")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json cannot be read"):
        convert_squad(tmp_path / "absent.json", "q")


# ------------------------------------------------------- a file of one's own

CMRC = [
    {
        "context_id": "TRAIN_1",
        "title": "甲",
        "context_text": "甲在北京。乙在北京，丙在上海。",
        "qas": [
            {"query_id": "TRAIN_1_Q_0", "query_text": "丙在哪?", "answers": ["上海", "在上海"]},
            {"query_id": "TRAIN_1_Q_1", "query_text": "乙在哪?", "answers": ["北京", "丁"]},
        ],
    }
]
# Format -> a file in it, and its records.
OWN_FILES = {
    "squad": (
        {"data": [{"paragraphs": [{"context": "Ann left.", "qas": [question("q", ("Ann", 0))]}]}]},
        [
            {
                "id": "q",
                "question": "Who founded Bolt?",
                "context": "Ann left.",
                "answers": [[0, 3]],
            }
        ],
    ),
    "cmrc2018": (
        CMRC,
        [
            {
                "id": "TRAIN_1_Q_0",
                "question": "丙在哪?",
                "context": CMRC[0]["context_text"],
                "answers": [[12, 14], [11, 14]],
            },
            {
                "id": "TRAIN_1_Q_1",
                "question": "乙在哪?",
                "context": CMRC[0]["context_text"],
                "answers": [],
                # Which of two places is meant nobody knows.
                "answer_texts": ["北京", "丁"],
            },
        ],
    ),
    "finre": (
        "甲公司\t乙厂\t收购\t甲公司收购乙厂\n",
        [
            {
                "id": text_id("甲公司收购乙厂"),
                "text": "甲公司收购乙厂",
                "triples": [{"subject": [0, 3], "predicate": "收购", "object": [5, 7]}],
            }
        ],
    ),
    "e2e": ("mr,ref\na,b\na,c\n", [{"id": text_id("a"), "source": "a", "targets": ["b", "c"]}]),
    "csl_title": ("to title\ta\tt\n", [{"id": text_id("a"), "source": "a", "targets": ["t"]}]),
    "selqa": (
        "q\tc\t1\n",
        [
            {
                "id": text_id("q", "c"),
                "text_a": "q",
                "text_b": "c",
                "label": "1",
                "group": text_id("q"),
            }
        ],
    ),
    "emobank": (
        'id,split,V,A,D,text\na_1_2,dev,3.0,2.5,4,"Oh, ""dear"""\n',
        [
            {
                "id": text_id("a_1_2"),
                "text_a": 'Oh, "dear"',
                "valence": 3.0,
                "arousal": 2.5,
                "dominance": 4.0,
            }
        ],
    ),
}
OWN_FILES["wnut17"] = (
    "in\tO\nOslo\tB-place\n\t\nFjord\tI-place\nnow\tO\n",
    [
        {
            "id": text_id("in Oslo", "O B-place"),
            "text": "in Oslo",
            "entities": [{"type": "place", "span": [3, 7]}],
        },
        {
            "id": text_id("Fjord now", "I-place O"),
            "text": "Fjord now",
            "entities": [{"type": "place", "span": [0, 5]}],
        },
    ],
)
OWN_FILES["weibo"] = (
    "去0\tO\n纽0\tB-GPE.NAM\n约1\tI-GPE.NAM\n",
    [
        {
            "id": text_id("去0 纽0 约1", "O B-GPE.NAM I-GPE.NAM"),
            "text": "去纽约",
            "entities": [{"type": "GPE.NAM", "span": [1, 3]}],
        }
    ],
)
OWN_FILES["drcd"] = OWN_FILES["squad"]
DOCUMENT = {
    "title": "Bolt (company)",
    "sents": [["Ann", "Lee", "founded", "Bolt", "."], ["Lee", "left", "."]],
    "vertexSet": [
        [
            {"name": "Ann Lee", "sent_id": 0, "pos": [0, 2], "type": "PER"},
            {"name": "Lee", "sent_id": 1, "pos": [0, 1], "type": "PER"},
        ],
        [{"name": "Bolt", "sent_id": 0, "pos": [3, 4], "type": "ORG"}],
    ],
    "labels": [{"h": 1, "t": 0, "r": "P112", "evidence": [0]}],
}
OWN_FILES["redocred"] = (
    [DOCUMENT],
    [
        {
            "id": text_id("Bolt (company)"),
            "text": "Ann Lee founded Bolt . Lee left .",
            "triples": [
                {"subject": [16, 20], "predicate": "P112", "object": [0, 7]},
                {"subject": [16, 20], "predicate": "P112", "object": [23, 26]},
            ],
        }
    ],
)
OWN_FILES["semeval2010"] = (
    '7\t"The <e1>a "b"</e1> of <e2>c</e2>."\r\nEntity-Origin(e2,e1)\r\nComment: so\r\n\r\n'
    '8\t"<e1>a</e1>-<e2>b</e2>"\r\nOther\r\nComment:\r\n',
    [
        {
            "id": "7",
            "text_a": 'The <e1>a "b"</e1> of <e2>c</e2>.',
            "label": "Entity-Origin(e2,e1)",
        },
        {"id": "8", "text_a": "<e1>a</e1>-<e2>b</e2>", "label": "Other"},
    ],
)

OWN_FILES["ukpconvarg"] = (
    '#id\tlabel\ta1\ta2\narg7_arg8\ta2\tNo. <br/>  <br/> "Never!\tYes, <br/> &c.\n',
    [
        {
            "id": "arg7_arg8",
            "prompt": "in",
            "a1": 'No.\n\n"Never!',
            "a2": "Yes,\n&c.",
            "label": "a2",
        }
    ],
)


def write_own(path: Path, content: object) -> Path:
    """Write a file of one's own: a text, or what becomes JSON."""
    return write(path, content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize("name", OWN_FILES)
def test_a_file_of_ones_own_is_converted_whole(name: str, tmp_path: Path, capsys) -> None:
    content, records = OWN_FILES[name]
    source, out = write_own(tmp_path / "in", content), tmp_path / "data" / "train.jsonl"
    convert_file(name, source, out)
    assert [json.loads(line) for line in out.read_text("utf-8").splitlines()] == records
    told = capsys.readouterr().out
    assert told.startswith(f"{out}: {len(records)} records\n")
    assert ("is unknown: see answer_texts: 2, the first in" in told) == (name == "cmrc2018")


OWN_LINES = {
    "knowledgenet": {"documentId": "7", "passages": [passage()]},
    "phee": {"id": "a", "context": "Ann slept.", "annotations": []},
    "fewfc": {"id": "a", "content": "甲", "events": []},
}


def test_every_format_is_tried_and_named() -> None:
    assert {*OWN_FILES, *OWN_LINES} == FORMATS.keys()
    done = subprocess.run(
        [sys.executable, "-m", "generator", "data", "convert", "--help"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0 and all(name in done.stdout for name in FORMATS)


@pytest.mark.parametrize("name", OWN_LINES)
def test_a_file_of_lines_is_converted_whole(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in.json", tmp_path / "out.jsonl"
    convert_file(name, write_json_lines(source, OWN_LINES[name]), out)
    [record] = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert record["text"] and record["id"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("squat", "{}", "no format 'squat': the names are squad, cmrc2018, drcd, knowledgenet"),
        ("squad", "{", "not JSON .*: correct the file"),
        ("squad", "[" * 100_000, "not JSON .*: correct the file"),
        ("squad", {"data": []}, "holds no record in the format squad: check the format"),
        ("squad", {"data": [{}]}, "item 1: the field 'paragraphs' is missing: correct the file"),
        ("cmrc2018", [{"context_text": "a"}], "item 1: the field 'qas' is missing"),
        ("cmrc2018", [{"context_text": "a", "qas": [{}]}], "item 1: the field 'query_id' is"),
        (
            "cmrc2018",
            [{**CMRC[0], "context_text": "\ud83d"}],
            r"\\ud83d is half of a character: write both halves",
        ),
        ("e2e", "a,b\n", "the first line is not mr,ref: correct the file"),
        ("emobank", "a,b\n", "the first line is not id,split,V,A,D,text: correct the file"),
        ("emobank", "id,split,V,A,D,text\na,dev,x,1,1,t\n", "line 2: .* are no ratings"),
        ("emobank", "id,split,V,A,D,text\na,dev,nan,1,1,t\n", "line 2: .*a rating is not finite"),
        ("finre", "a\tb\n", "line 1: 2 fields instead of"),
        ("semeval2010", "7\ta\n", "line 1: the field 'sentence' is missing: correct the file"),
        ("semeval2010", "7 a\n", 'line 1: "7 a" is no sentence, relation or comment'),
        ("semeval2010", '7\t"a"\nOther\nOther\n', 'line 3: "Other" is no sentence'),
        ("semeval2010", '7\t"<e2>a</e2><e1>b</e1>"\n', "line 1: the sentence has no <e1>"),
        ("ukpconvarg", "7_8\ta1\tx\ty\n", "the first line is not #id, label, a1, a2, with tabs"),
        ("ukpconvarg", "#id\tlabel\ta1\ta2\n7_8\ta1\tx\n", "line 2: 3 fields instead of #id, la"),
        ("ukpconvarg", "#id\tlabel\ta1\ta2\n7\tequal\tx\ty\n", 'line 2: the label is "equal" ins'),
        ("ukpconvarg", "#id\tlabel\ta1\ta2\n7\ta1\tx\t \n", "line 2: the argument a2 is empty"),
    ],
)
def test_a_broken_file_of_ones_own_is_refused(
    name: str, content: object, expected: str, tmp_path: Path
) -> None:
    source, out = write_own(tmp_path / "in", content), tmp_path / "out.jsonl"
    out.write_text("as it was")
    with pytest.raises(InputError, match=expected) as error:
        convert_file(name, source, out)
    assert "fetch" not in str(error.value) and "\n" not in str(error.value)
    assert out.read_text() == "as it was" and len(list(tmp_path.iterdir())) == 2


def test_the_file_to_convert_is_not_replaced(tmp_path: Path) -> None:
    source = write_own(tmp_path / "in", OWN_FILES["e2e"][0])
    for out in (source, tmp_path):
        with pytest.raises(InputError, match="is a folder, or the file to convert: name a file"):
            convert_file("e2e", source, out)
    assert source.read_text() == OWN_FILES["e2e"][0]


# ------------------------------------------------------------------- Re-DocRED


def test_redocred_takes_the_pinned_documents_of_both_files(tmp_path: Path) -> None:
    left_out = {**DOCUMENT, "title": "left out", "labels": [{"h": 7, "t": 0, "r": "P1"}]}
    one = write_own(tmp_path / "one.json", [left_out, {**DOCUMENT, "title": "a"}])
    two = write_own(tmp_path / "two.json", [DOCUMENT, DOCUMENT])
    splits = {"train": [text_id(str(DOCUMENT["title"]))], "dev": [text_id("a")]}
    records = pinned("redocred", [one, two], splits)
    assert records["train"] == OWN_FILES["redocred"][1]
    assert records["dev"] == [{**records["train"][0], "id": text_id("a")}]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({**DOCUMENT, "labels": [{"h": 2, "t": 0, "r": "P1"}]}, "item 2: a label names entity 2"),
        ({**DOCUMENT, "labels": []}, "item 2: record .* comes twice and differs"),
        ({**DOCUMENT, "title": "other"}, "record .* of the train split is missing"),
    ],
)
def test_redocred_refuses_a_broken_file(tmp_path: Path, second: dict, expected: str) -> None:
    path = write_own(tmp_path / "a.json", [DOCUMENT, second])
    names = [text_id(str(DOCUMENT["title"])), text_id("b")]
    with pytest.raises(InputError, match=expected) as error:
        pinned("redocred", [path], {"train": names})
    assert str(path) in str(error.value)


# ----------------------------------------------------------------- UKPConvArg1


def test_ukpconvarg_takes_the_debate_and_the_side_from_the_name_of_the_file(tmp_path: Path) -> None:
    pair = "#id\tlabel\ta1\ta2\n{}\ta1\tx\ty\n"
    yes = write(tmp_path / "is-it-wrong-_yes-it-is.csv", pair.format("1_2"))
    no = write(tmp_path / "is-it-wrong-_no-.csv", pair.format("3_4"))
    records = pinned("ukpconvarg", [yes, no], {"train": ["3_4"], "dev": ["1_2"]})
    prompts = [record["prompt"] for split in records.values() for record in split]
    assert prompts == ["is it wrong: no", "is it wrong: yes it is"]


# ----------------------------------------------------------------------- FewFC

NEWS = "甲公司\U0001f4c8收购乙厂51%股权,甲公司另购丙厂"


def mention(role: str, start: int, end: int, **changes: object) -> dict:
    """Return a mention in the official format."""
    return {"word": NEWS[start:end], "span": [start, end], "role": role, **changes}


def news(name: str, *events: dict) -> dict:
    """Return a sentence in the official format."""
    return {"id": name, "content": NEWS, "events": list(events)}


def purchase(*mentions: dict, kind: str = "收购") -> dict:
    """Return an event in the official format."""
    return {"type": kind, "mentions": list(mentions)}


def test_fewfc_events_are_sorted_and_distinct(tmp_path: Path) -> None:
    trigger, buyer = mention("trigger", 4, 6), mention("sub-org", 0, 3)
    first = purchase(mention("proportion", 8, 11), buyer, trigger)
    path = write_json_lines(
        tmp_path / "a.json",
        news(
            "a",
            purchase(mention("trigger", 18, 19), mention("sub-org", 14, 17)),
            first,
            purchase(trigger, buyer, buyer, mention("proportion", 8, 11)),
            purchase(trigger, mention("sub", 0, 3), buyer, kind="投资"),
            purchase(buyer),
        ),
        news("b"),
    )
    records = pinned("fewfc", [path], {"train": ["b", "a"]})["train"]
    assert records[0] == {"id": "b", "text": NEWS, "events": []}
    buyer = {"role": "sub-org", "span": [0, 3]}
    assert records[1]["events"] == [
        {"type": "收购", "trigger": None, "arguments": [buyer]},
        {
            "type": "投资",
            "trigger": [4, 6],
            "arguments": [{"role": "sub", "span": [0, 3]}, buyer],
        },
        {
            "type": "收购",
            "trigger": [4, 6],
            "arguments": [buyer, {"role": "proportion", "span": [8, 11]}],
        },
        {
            "type": "收购",
            "trigger": [18, 19],
            "arguments": [{"role": "sub-org", "span": [14, 17]}],
        },
    ]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: the line is \\[\\] instead of an object"),
        (news("b", {"type": "收购"}), "line 2: the field 'mentions' is missing"),
        (
            news("b", purchase(mention("sub", 0, 3, word="丁厂"))),
            r"line 2: a mention of sub is not the text at \[0, 3\)",
        ),
        (news("b", purchase(mention("sub", 0, 3, span=[3, 3]))), "is not the text at"),
        (news("b", purchase(mention("sub", 0, 3, span=[3]))), "line 2: a span is .* instead of"),
        (
            news("b", purchase(mention("trigger", 0, 3), mention("trigger", 4, 6))),
            "line 2: an event has two triggers",
        ),
        (news("a", purchase(mention("sub", 0, 3))), "line 2: record a comes twice"),
        (news("c"), "record b of the train split is missing"),
    ],
)
def test_fewfc_refuses_a_broken_file(tmp_path: Path, second: str | dict, expected: str) -> None:
    path = write_json_lines(tmp_path / "a.json", news("a"))
    second = second if isinstance(second, str) else json.dumps(second)
    path.write_text(path.read_text() + second + "\n")
    with pytest.raises(InputError, match=expected) as error:
        pinned("fewfc", [path], {"train": ["a", "b"]})
    assert str(path) in str(error.value)


# ------------------------------------------------------------------------ PHEE

REPORT = "Fever and rash after aspirin in a boy."


def entity(*mentions: list[tuple[str, int]], **sub_arguments: object) -> dict:
    """Return an entity in the official format: mentions, each with its parts."""
    return {
        "text": [[words for words, _ in parts] for parts in mentions],
        "start": [[start for _, start in parts] for parts in mentions],
        "entity_id": ["T1"] * len(mentions),
        **sub_arguments,
    }


def report(name: str, *events: dict) -> dict:
    """Return a sentence in the official format."""
    events = [{"event_id": f"E{number}", **event} for number, event in enumerate(events)]
    return {
        "id": name,
        "context": REPORT,
        "is_mult_event": len(events) > 1,
        "annotations": [{"events": events}],
    }


def adverse(**roles: dict) -> dict:
    """Return an event in the official format."""
    return {"event_type": "Adverse_event", "Trigger": entity([("after", 15)]), **roles}


def test_phee_has_an_argument_for_each_part_of_each_mention(tmp_path: Path) -> None:
    event = adverse(
        Treatment=entity([("aspirin", 21)], Drug=entity([("aspirin", 21)])),
        Effect=entity([("rash", 10)], [("Fever", 0)]),
        Subject=entity([("a", 32), ("boy", 34)]),
        Severity={"text": [["Fever"]], "start": [[0]], "value": "high"},
    )
    other = {**adverse(), "event_type": "Potential_therapeutic_event"}
    path = write_json_lines(tmp_path / "a.json", report("1_2", other, event))
    [record] = pinned("phee", [path], {"train": ["1_2"]})["train"]
    assert record == {
        "id": "1_2",
        "text": REPORT,
        "events": [
            {
                "type": "Adverse_event",
                "trigger": [15, 20],
                "arguments": [
                    {"role": "Effect", "span": [0, 5]},
                    {"role": "Effect", "span": [10, 14]},
                    {"role": "Treatment", "span": [21, 28]},
                    {"role": "Subject", "span": [32, 33]},
                    {"role": "Subject", "span": [34, 37]},
                ],
            },
            {"type": "Potential_therapeutic_event", "trigger": [15, 20], "arguments": []},
        ],
    }


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{", "line 2: not JSON"),
        (report("b", {"event_type": "Adverse_event"}), "line 2: the field 'Trigger' is missing"),
        (report("b", adverse(Effect=entity([("rash", 9)]))), "line 2: a part of Effect is not"),
        (report("b", adverse(Trigger=entity([("after", 0)]))), "line 2: the trigger is not the"),
        (report("b", adverse(Trigger=entity())), "line 2: 0 triggers in an event"),
        (
            report("b", adverse(Effect={"text": [["rash"]], "start": [[10, 11]]})),
            "line 2: a part of Effect has 1 texts and 2 starts",
        ),
        (
            report("b", adverse(Effect={"text": [["rash"], ["Fever"]], "start": [[10]]})),
            "line 2: a part of Effect has 2 texts and 1 starts",
        ),
        (report("a", adverse()), "line 2: record a comes twice"),
        (report("c"), "record b of the train split is missing"),
    ],
)
def test_phee_refuses_a_broken_file(tmp_path: Path, second: str | dict, expected: str) -> None:
    path = write_json_lines(tmp_path / "a.json", report("a"))
    second = second if isinstance(second, str) else json.dumps(second)
    path.write_text(path.read_text() + second + "\n")
    with pytest.raises(InputError, match=expected) as error:
        pinned("phee", [path], {"train": ["a", "b"]})
    assert str(path) in str(error.value)


# ------------------------------------------------------------------------- E2E

MEANING = "name[Bolt], food[Thai]"


def write_csv(path: Path, *rows: tuple[str, ...]) -> Path:
    """Write rows below the official header."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("mr", "ref"), *rows])
    return path


def test_e2e_has_all_references_of_a_meaning_in_the_order_of_the_file(tmp_path: Path) -> None:
    train = write_csv(
        tmp_path / "train.csv",
        (MEANING, 'Bolt, a "Thai" place.'),
        ("name[Oslo]", "left out"),
        (MEANING, "Thai food: at Bolt."),
        (MEANING, 'Bolt, a "Thai" place.'),
    )
    # The same meaning in another file is another record's.
    dev = write_csv(tmp_path / "dev.csv", ("name[Ann]", "Ann."), (MEANING, "not of train"))
    splits = {"train": [text_id(MEANING)], "dev": [text_id("name[Ann]")]}
    records = pinned("e2e", [train, dev], splits)
    assert records["train"] == [
        {
            "id": text_id(MEANING),
            "source": MEANING,
            "targets": [
                'Bolt, a "Thai" place.',
                "Thai food: at Bolt.",
                'Bolt, a "Thai" place.',
            ],
        }
    ]
    assert [record["targets"] for record in records["dev"]] == [["Ann."]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "the first line is not mr,ref"),
        ("ref,mr\n", "the first line is not mr,ref"),
        (f'mr,ref\n"a, b",c\n"{MEANING}",b,c\n', "line 3: 3 fields instead of mr and ref"),
        (f'mr,ref\n"{MEANING}"\n', "line 2: 1 fields instead of mr and ref"),
        ("b" * 200_000, "line 1: not CSV"),
        (f'mr,ref\na,"{"b" * 200_000}\n', "line 2: not CSV"),
        (f'mr,ref\na,"b\n"{MEANING}",b\n', "line 2: not CSV"),
        (f'mr,ref\na,"b\n{MEANING},b\n', "line 2: not CSV"),
        ("mr,ref\na,b\n", "of the train split is missing"),
    ],
)
def test_e2e_refuses_a_broken_file(tmp_path: Path, content: str, expected: str) -> None:
    path = write(tmp_path / "train.csv", content)
    with pytest.raises(InputError, match=expected) as error:
        pinned("e2e", [path], {"train": [text_id(MEANING)]})
    assert str(path) in str(error.value)


# ------------------------------------------------------------------- CSL titles


def test_csl_pairs_abstracts_with_titles(tmp_path: Path) -> None:
    dev = write(tmp_path / "dev.tsv", 'to title\t 研究"甲"。\t甲的研究\nto title\t乙文\t论乙\n')
    test = write(tmp_path / "test.tsv", "to title\t丙文\t论丙\n")
    splits = {
        "train": [text_id("乙文")],
        "dev": [text_id(' 研究"甲"。')],
        "test": [text_id("丙文")],
    }
    records = pinned("csl_title", [dev, test], splits)
    assert records == {
        "train": [{"id": text_id("乙文"), "source": "乙文", "targets": ["论乙"]}],
        "dev": [{"id": text_id(' 研究"甲"。'), "source": ' 研究"甲"。', "targets": ["甲的研究"]}],
        "test": [{"id": text_id("丙文"), "source": "丙文", "targets": ["论丙"]}],
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("to title\t甲", "line 2: 2 fields instead of prompt, abstract and title"),
        ("to title\t甲\t乙", "of the train split is missing"),
    ],
)
def test_csl_refuses_a_broken_file(tmp_path: Path, line: str, expected: str) -> None:
    path = write(tmp_path / "dev.tsv", f"to title\t丙文\t论丙\n{line}\n")
    with pytest.raises(InputError, match=expected) as error:
        pinned("csl_title", [path], {"train": [text_id("丙文"), text_id("丁文")]})
    assert str(path) in str(error.value)


# ----------------------------------------------------------------------- SelQA


def test_selqa_ids_do_not_depend_on_the_order_of_the_files(tmp_path: Path) -> None:
    rows = ["Who ?\tAnn .\t1", "Who ?\tBolt .\t0", "Who ?\tAnn .\t0", "Where ?\tAnn .\t0"]
    one = write(tmp_path / "one.tsv", "\n".join(rows) + "\n")
    two = write(tmp_path / "two.tsv", "\n".join(rows[1:3]) + "\n")
    three = write(tmp_path / "three.tsv", "\n".join([rows[3], rows[0]]) + "\n")
    pair = text_id("Who ?", "Ann .")
    splits = {
        "train": [f"{pair}-2", text_id("Where ?", "Ann .")],
        "dev": [text_id("Who ?", "Bolt ."), pair],
    }
    records = pinned("selqa", [one], splits)
    assert records == pinned("selqa", [two, three], splits) == pinned("selqa", [three, two], splits)
    group = text_id("Who ?")
    assert records["train"][0] == {
        "id": f"{pair}-2",
        "text_a": "Who ?",
        "text_b": "Ann .",
        "label": "1",
        "group": group,
    }
    assert [record["label"] for record in records["train"]] == ["1", "0"]
    assert [record["label"] for record in records["dev"]] == ["0", "0"]
    assert [record["group"] for record in records["dev"]] == [group, group]
    assert records["train"][1]["group"] == text_id("Where ?")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Who ?\tAnn .", "line 2: 2 fields instead of question, candidate and label"),
        ("Who ?\tAnn .\t", 'line 2: the label is "" instead of 0 or 1'),
        ("Who ?\tAnn .\t2", 'line 2: the label is "2" instead of 0 or 1'),
        ("Who ?\tAnn .\t1", "of the train split is missing"),
    ],
)
def test_selqa_refuses_a_broken_file(tmp_path: Path, line: str, expected: str) -> None:
    path = write(tmp_path / "a.tsv", f"Who ?\tBolt .\t0\n{line}\n")
    with pytest.raises(InputError, match=expected) as error:
        pinned("selqa", [path], {"train": [text_id("Who ?", "Oslo .")]})
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("wnut17", "Oslo B-place\n", "line 1: not a token, a tab and a tag"),
        ("wnut17", "in\tO\n\nOslo\tE-place\n", "line 3: .E-place. is not a tag of BIO"),
        ("weibo", "纽\tO\n", "line 1: .纽. is not a character and a digit"),
    ],
)
def test_broken_columns_are_refused(tmp_path: Path, name: str, content: str, expected: str) -> None:
    source = write(tmp_path / "in.conll", content)
    with pytest.raises(InputError, match=expected):
        convert_file(name, source, tmp_path / "out.jsonl")

"""Queries of tables with one row for each question, and columns for each of its answers."""

import json
import sys

import pytest
from conftest import use_template

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from extras.retrieval.vectors import read_texts  # noqa: E402

FIRST = sys.path[0]
from extras.retrieval import questions  # noqa: E402

sys.path[0] = FIRST  # which a script sets to its project

TABLE = (
    "QuestionId,CorrectAnswer,QuestionText,AnswerAText,AnswerBText,MisconceptionAId,"
    'MisconceptionBId\n0,A,"How many {3}?",three,four,,1672.0\n1,B,Why,yes,no,7,\n'
)
MAPPING = 'MisconceptionId,MisconceptionName\n7,"Counts, twice"\n1672,Adds one\n'
SAMPLE = "QuestionId_Answer,MisconceptionId\n0_B,7 1672\n1_A,7 1672\n"
FLAGS = ["--answers", "A,B", "--id", "{QuestionId}_{*}", "--text", "{QuestionText} {Answer*Text}"]


@pytest.fixture
def folder(tmp_path):
    for name, content in (("train", TABLE), ("mapping", MAPPING), ("sample", SAMPLE)):
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    return tmp_path


def start(monkeypatch, folder, out, *words, flags=FLAGS):
    """Run the command; return the content of its file."""
    arguments = [str(folder / word) if word.endswith(".csv") else word for word in words]
    command = ["questions.py", str(folder / "train.csv"), str(folder / out), *flags, *arguments]
    monkeypatch.setattr(sys, "argv", command)
    main = getattr(questions.main, "__wrapped__", questions.main)
    main()
    return (folder / out).read_text("utf-8").splitlines()


LINK = ("--link", "Misconception*Id", "--corpus", "mapping.csv")


def test_each_answer_with_a_link_is_a_pair(monkeypatch, folder):
    pairs = [json.loads(line) for line in start(monkeypatch, folder, "pairs.jsonl", *LINK)]
    assert pairs == [
        {
            "id": "0_B",
            "group": "0_B",
            "text_a": "How many {3}? four",
            "text_b": "Adds one",
            "label": "1",
        },
        {"id": "1_A", "group": "1_A", "text_a": "Why yes", "text_b": "Counts, twice", "label": "1"},
    ]
    judgements = start(monkeypatch, folder, "gold.qrels", *LINK)
    assert judgements == ["0_B 0 1672 1", "1_A 0 7 1"]


def test_ids_are_taken_as_they_are_if_the_corpus_has_them(monkeypatch, folder):
    corpus = MAPPING + "1672.0,Another\n"
    (folder / "mapping.csv").write_text(corpus, encoding="utf-8")
    pairs = [json.loads(line) for line in start(monkeypatch, folder, "pairs.jsonl", *LINK)]
    assert [pair["text_b"] for pair in pairs] == ["Another", "Counts, twice"]


def test_judgements_have_no_blanks_in_their_ids(monkeypatch, folder):
    flags = [*FLAGS[:2], "--id", "{QuestionId} {*}", *FLAGS[4:]]
    with pytest.raises((InputError, SystemExit)):
        start(monkeypatch, folder, "gold.qrels", *LINK, flags=flags)
    assert not (folder / "gold.qrels").exists()
    assert len(start(monkeypatch, folder, "pairs.jsonl", *LINK, flags=flags)) == 2


def test_queries_are_those_of_the_sample(monkeypatch, folder):
    found = [json.loads(line) for line in start(monkeypatch, folder, "q.jsonl")]
    assert [query["id"] for query in found] == ["0_A", "0_B", "1_A", "1_B"]
    found = [json.loads(x) for x in start(monkeypatch, folder, "q.jsonl", "--sample", "sample.csv")]
    assert found == [{"id": "0_B", "text": "How many {3}? four"}, {"id": "1_A", "text": "Why yes"}]


@pytest.mark.parametrize(
    ("words", "flags", "expected"),
    [
        (LINK[:2], FLAGS, "--link and --corpus belong together"),
        (("--link", "Wrong*", *LINK[2:]), FLAGS, "no column 'WrongA': correct --link"),
        ((), [*FLAGS[:2], "--id", "{QuestionId}", *FLAGS[4:]], "the id '0' comes twice"),
        ((), [*FLAGS[:4], "--text", "{Other*}"], 'line 2: the field "OtherA" is missing'),
        ((), [*FLAGS[:4], "--text", "{Other"], "a brace has no partner"),
        (("--sample", "sample.csv"), ["--answers", "A", *FLAGS[2:]], "has '0_B', which no row"),
    ],
)
def test_what_does_not_fit_is_refused(monkeypatch, folder, words, flags, expected):
    with pytest.raises(InputError, match=expected):
        start(monkeypatch, folder, "out.jsonl", *words, flags=flags)
    assert not (folder / "out.jsonl").exists()


def test_a_link_to_no_text_names_its_line(monkeypatch, folder):
    (folder / "mapping.csv").write_text(MAPPING.replace("1672", "1"), encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.csv, line 2: .* no text with the id '1672'"):
        start(monkeypatch, folder, "out.jsonl", *LINK)


def test_a_corpus_of_two_columns_has_its_ids_first(folder, capsys):
    assert [*read_texts(folder / "mapping.csv")] == [("7", "Counts, twice"), ("1672", "Adds one")]
    said = capsys.readouterr().out
    assert said == "mapping.csv: id: MisconceptionId; text: MisconceptionName\n"

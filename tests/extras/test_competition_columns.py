"""Columns of any name: several texts, JSON Lines, delimiters, numbers and labels as they come."""

import csv
import json
import re

import numpy as np
import pytest
from conftest import use_template
from project_process import ProjectProcess
from projects import bake_project, flags

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.competition.checks import find_faults  # noqa: E402
from extras.competition.rows import Dialect, read_rows  # noqa: E402
from extras.competition.segments import Segments, share_room  # noqa: E402
from extras.competition.settings import Table  # noqa: E402
from extras.competition.splitting import write_parts  # noqa: E402
from extras.competition.submission import read_form, write_table  # noqa: E402
from inspection import checks as inspection  # noqa: E402
from library.encoding import encode_examples  # noqa: E402
from library.predictions import prediction_records  # noqa: E402
from task.data import ExampleGenerator  # noqa: E402
from task.decode import make_candidates  # noqa: E402
from task.records import collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

WORDS = "amber basil cedar delta ember fjord grove heath".split()
BATTLES = "id,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
BATTLES += '1,"who, me?",yes,no,1,0,0\n2,why,a,b,0,1,0\n3,how,c,d,0,0,1\n'
TEXTS = ["prompt", "response_a", "response_b"]
WINNERS = "winner_model_a,winner_model_b,winner_tie"


def make_settings(output="labels", **competition):
    own = {name: competition.pop(name) for name in ("metric", "train_file") if name in competition}
    return with_tables(Settings)(output=output, **own, competition=competition)


def write(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return path


def refusal(path, settings):
    with pytest.raises(InputError) as error:
        read_examples(path, settings=settings)
    return str(error.value)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([" ".join(WORDS)] * 3, 300)


# --------------------------------------------------------------------- several texts


def test_several_texts_are_read_in_the_order_of_the_setting(tmp_path, capsys):
    path = write(tmp_path / "a.csv", BATTLES)
    settings = make_settings(text_columns=TEXTS, target_columns=WINNERS)
    first, *_ = read_examples(path, settings=settings)
    assert first.texts == ("who, me?", "yes", "no")
    assert (first.context, first.text_a, first.text_b) == (("who, me?",), "yes", "no")
    assert "texts: prompt, response_a, response_b; targets" in capsys.readouterr().out
    turned = make_settings(text_columns=TEXTS[::-1], target_columns=WINNERS)
    assert read_examples(path, settings=turned)[0].texts == ("no", "yes", "who, me?")
    two = make_settings(text_columns=TEXTS[:2], target_columns=WINNERS)
    assert read_examples(path, settings=two)[0].context is None
    wrong = make_settings(text_columns=["prompt", "answer"], target_columns=WINNERS)
    assert "no column 'answer', which competition.text_columns names" in refusal(path, wrong)


def test_a_template_joins_columns_to_one_text(tmp_path, capsys):
    path = write(tmp_path / "a.csv", BATTLES)
    template = "{{Q}} {prompt}\nA: {response_a} B: {response_b} ({prompt})"
    settings = make_settings(text_template=template, target_columns=WINNERS)
    first, second, _ = read_examples(path, settings=settings)
    assert first.texts == ("{Q} who, me?\nA: yes B: no (who, me?)",)
    assert second.text_a == "{Q} why\nA: a B: b (why)"
    said = capsys.readouterr().out
    assert "text: prompt, response_a, response_b, joined by text_template; targets" in said
    lines = write(tmp_path / "a.jsonl", '{"n": 3, "body": "x {y}", "label": "a"}\n' * 2)
    joined = make_settings(text_template="{n} of {body}")
    assert read_examples(lines, settings=joined)[0].texts == ("3 of x {y}",)
    # Pseudo-labels have the text as it was joined.
    own = write(tmp_path / "own.jsonl", '{"id": 1, "text_a": "3 of x", "label": "a"}\n')
    assert read_examples(own, settings=joined)[0].texts == ("3 of x",)
    wrong = make_settings(text_template="{prompt} {answer}", target_columns=WINNERS)
    assert "no column 'answer', which competition.text_template names" in refusal(path, wrong)
    late = write(lines, '{"n": 3, "body": "x", "label": "a"}\n{"n": 3, "label": "a"}\n')
    assert 'line 2: the field "body" is missing' in refusal(late, joined)
    listed = write(lines, '{"n": [3], "body": "x", "label": "a"}\n')
    assert 'line 1: "n" must be a string or a number, not [3]' in refusal(listed, joined)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("no column", "it names no column"),
        ("{prompt", "a brace has no partner"),
        ("prompt} {text}", "a brace has no partner"),
        ("{} {prompt}", "{} is no name of a column"),
        ("{prompt!r}", "{prompt!r} is no name of a column"),
        ("{prompt:>9}", "{prompt:>9} is no name of a column"),
        ("{text_a}", "{text_a} is a field of the project's own format"),
    ],
)
def test_templates_that_name_no_columns_are_refused(template, said):
    with pytest.raises(ValueError) as error:
        make_settings(text_template=template)
    assert said in str(error.value)
    with pytest.raises(ValueError, match="text_template names all texts"):
        make_settings(text_template="{prompt}", text_columns=TEXTS)


def test_segments_of_two_texts_are_the_pair_of_the_tokenizer(tokenizer):
    """Tokens, segments and cut are those of the package tokenizers, at any length."""
    counts = [(0, 3), (3, 0), (7, 7), (20, 3), (3, 20), (19, 20), (20, 19), (20, 20), (1, 1)]
    rows = [[" ".join((WORDS * 3)[:n]) for n in both] for both in counts]
    for length in (8, 9, 12, 13, 20, 60):
        found = Segments(tokenizer, length)(rows)
        tokenizer.enable_truncation(length, strategy="longest_first")
        pairs = tokenizer.encode_batch([tuple(row) for row in rows])
        tokenizer.no_truncation()
        for own, pair in zip(found, pairs, strict=True):
            assert own.ids == pair.ids and own.type_ids == pair.type_ids
            assert own.sequence_ids == pair.sequence_ids
            assert bool(own.overflowing) == bool(pair.overflowing)


def test_three_texts_are_separate_segments_of_which_the_longest_are_cut(tokenizer):
    [found] = Segments(tokenizer, 14)([[" ".join(WORDS), "amber", " ".join(WORDS)]])
    special = [tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")]
    places = [n for n, token in enumerate(found.ids) if token in special]
    assert places == [0, 5, 7, 13] and len(found.ids) == 14
    assert found.text_ids == [None, 0, 0, 0, 0, None, 1, None, 2, 2, 2, 2, 2, None]
    assert found.sequence_ids == [*[None] * 6, 0, None, *[1] * 5, None]
    assert found.type_ids == [0] * 8 + [1] * 6
    assert share_room([5, 100, 80], 45) == [5, 20, 20]
    assert share_room([1, 2], 9) == [1, 2]


def test_the_model_reads_all_texts(tmp_path, tokenizer):
    text = BATTLES.replace("why", " ".join(WORDS)).replace("2,", "2,", 1)
    settings = make_settings(text_columns=TEXTS, target_columns=WINNERS)
    examples = read_examples(write(tmp_path / "a.csv", text), settings=settings)
    names = ["token_ids", "padding_mask", "text_numbers"]
    labels = collect_targets(examples, settings)
    batches = ExampleGenerator.of(examples, tokenizer, labels, names, settings, 2)
    known = encode_examples(tokenizer, examples, settings.max_length)
    longest = known[1]
    row = batches.arrays[1]
    assert row[0].tolist() == longest.ids and longest.text_ids.count(0) == len(WORDS)
    assert sorted({*row[2].tolist()}) == [0, 1, 2]  # the responses are compared with each other


def test_check_shows_records_as_the_model_reads_them(tmp_path, tokenizer):
    long = " ".join([*WORDS, *WORDS])
    rows = f"{BATTLES}4,{long},amber,{long},0,0,1\n"
    settings = make_settings(text_columns=TEXTS, target_columns=WINNERS, one_label=True)
    settings.max_length, settings.train_file = 15, "data/train.csv"
    plain = rows.replace("who, me?", "amber").replace("yes", "basil").replace("no,", "cedar,")
    examples = read_examples(write(tmp_path / "a.csv", plain), settings=settings)
    shown = inspection.show_records(settings, examples, tokenizer).splitlines()
    assert shown[1:3] == [
        "data/train.csv, as the model reads it:",
        "line 2, 7 tokens: [CLS] amber [SEP] basil [SEP] cedar [SEP]",
    ]
    assert shown[3] == "  gold: winner_model_a" and len(shown) == 8
    cut = "amber basil cedar delta ember <11 of 16 tokens cut> [SEP]"
    assert shown[6] == f"line 5, 15 tokens: [CLS] {cut} amber [SEP] {cut}"
    numbers = read_examples(
        write(tmp_path / "n.csv", "id,text,target\n1,amber,2.5\n"), settings=make_settings("number")
    )
    assert inspection.show_records(settings, numbers, tokenizer).splitlines()[-2:] == [
        "line 2, 3 tokens: [CLS] amber [SEP]",
        "  gold: target 2.5",
    ]


def test_check_shows_both_texts_of_a_bi_encoder_separately(tmp_path, tokenizer):
    path = write(tmp_path / "a.csv", "id,text_a,text_b,label\n1,amber,basil cedar,1\n")
    settings = make_settings()
    examples = read_examples(path, settings=settings)
    joined = inspection.show_records(settings, examples, tokenizer)
    assert "[CLS] amber [SEP] basil cedar [SEP]" in joined
    settings.retrieval.loss = "negatives"
    apart = inspection.show_records(settings, examples, tokenizer)
    assert "tokens: [CLS] amber [SEP]\n" in apart and "tokens: [CLS] basil cedar [SEP]\n" in apart


# ------------------------------------------------------------------------ JSON Lines

NEWS = '{"label": "102", "label_des": "fun", "sentence": "a film", "keywords": ""}\n'
NEWS += '{"label": "103", "label_des": "sport", "sentence": "a ball", "keywords": "x"}\n'


def test_fields_of_json_lines_have_any_names(tmp_path, capsys):
    path = write(tmp_path / "train.json", NEWS)
    examples = read_examples(path, settings=make_settings())
    assert [(e.id, e.text_a, e.labels) for e in examples] == [
        (1, "a film", ("102",)),
        (2, "a ball", ("103",)),
    ]
    said = capsys.readouterr().out
    assert "train.json: id: the number of the line, for it has none; text: sentence" in said
    settings = make_settings(label_column="label_des")
    assert [e.labels for e in read_examples(path, settings=settings)] == [("fun",), ("sport",)]
    test = write(tmp_path / "test.json", '{"id": 7, "sentence": "a film", "keywords": ""}\n')
    [example] = read_examples(test, False, settings)
    assert (example.id, example.text_a, example.labelled) == (7, "a film", False)


def test_json_lines_of_a_project_are_read_as_before(tmp_path):
    """Pseudo-labels of a table are such a file: they have none of the columns that it has."""
    record = {"id": "1", "context": ["why"], "text_a": "a", "text_b": "b", "label": {"x": 1.0}}
    path = write(tmp_path / "pseudo.jsonl", json.dumps(record) + "\n")
    settings = make_settings(text_columns=TEXTS, label_column="winner")
    [example] = read_examples(path, settings=settings)
    assert example.texts == ("why", "a", "b") and example.labels == ("x",)
    broken = write(tmp_path / "b.jsonl", json.dumps({**record, "context": [1]}) + "\n")
    assert '"context" must be a string, not 1' in refusal(broken, settings)


def test_values_of_json_are_labels_numbers_and_texts(tmp_path):
    lines = [
        {"q": "1", "title": "a", "body": "b", "x": 1, "y": 0, "g": 3, "grade": "2,5"},
        {"q": "2", "title": "c", "body": "d", "x": 0, "y": 1, "g": 4, "grade": 3},
    ]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    common = {"text_columns": ["title", "body"], "id_column": "q", "group_column": "g"}
    settings = make_settings(target_columns="x,y", one_label=True, **common)
    examples = read_examples(path, settings=settings)
    assert [(e.id, e.labels, e.group) for e in examples] == [("1", ("x",), "3"), ("2", ("y",), "4")]
    settings = make_settings("number", target_columns="grade", decimal=",", **common)
    assert [e.numbers for e in read_examples(path, settings=settings)] == [(2.5,), (3.0,)]


def test_pseudo_labels_are_numbers_of_the_columns_of_the_sample(tmp_path):
    """The sample names the columns of a table, and so the fields of what a teacher writes."""
    sample = write(tmp_path / "sample.csv", "id,flow,words\n1,0,0\n")
    record = {"id": "1", "text_a": "a", "flow": 2.5, "words": 1}
    path = write(tmp_path / "pseudo.jsonl", json.dumps(record) + "\n")
    settings = make_settings("number", sample_submission=str(sample))
    [example] = read_examples(path, settings=settings)
    assert (example.labels, example.numbers) == (("flow", "words"), (2.5, 1.0))
    own = write(tmp_path / "own.jsonl", '{"id": "1", "text_a": "a", "target": 3}\n')
    assert read_examples(own, settings=settings)[0].numbers == (3.0,)
    broken = write(tmp_path / "b.jsonl", '{"id": "1", "text_a": "a", "flow": 3}\n')
    assert 'b.jsonl, line 1: the field "words" is missing' in refusal(broken, settings)


def test_an_own_context_is_read_without_ids_too(tmp_path):
    record = {"context": ["why"], "text_a": "a", "text_b": "b", "label": "x"}
    path = write(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    [example] = read_examples(path, settings=make_settings())
    assert (example.id, example.texts) == (1, ("why", "a", "b"))


def test_own_texts_are_never_read_in_another_order_than_the_setting_says(tmp_path):
    record = {"id": 1, "text_a": "a", "text_b": "b", "label": "x"}
    path = write(tmp_path / "own.jsonl", json.dumps(record) + "\n")
    for names in (["text_b", "text_a"], ["text_b"], ["text_a", "answer"]):
        assert "competition.text_columns is " in refusal(path, make_settings(text_columns=names))
    assert "text_column and pair_column are" in refusal(path, make_settings(text_column="text_b"))
    same: list[dict] = [
        {"text_columns": ["text_a", "text_b"]},
        {"text_column": "text_a"},
        {"pair_column": "text_b"},
        {"text_columns": TEXTS},
    ]
    for own in same:
        [example] = read_examples(path, settings=make_settings(**own))
        assert example.texts == ("a", "b")
    grouped = write(tmp_path / "g.jsonl", json.dumps({**record, "group": "q"}) + "\n")
    assert read_examples(grouped, settings=make_settings(id_column="group"))[0].id == "q"


@pytest.mark.parametrize("name", ["id", "text_b", "group", "weight"])
def test_a_field_that_only_late_records_have_is_refused(name, tmp_path):
    lines = [{"text": "a", "label": "xy"[number % 2]} for number in range(130)]
    lines[120] |= {name: 2}
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    expected = f'line 121: the record has "{name}", but the first 100 records have none'
    assert expected in refusal(path, make_settings())


def test_what_is_predicted_is_no_text(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,label,x,y\n1,a,p,0,1\n2,b,q,1,0\n")
    expected = "the column 'label' is both a text and what is to be predicted"
    assert expected in refusal(path, make_settings(text_columns=["text", "label"]))
    assert expected in refusal(path, make_settings(text_column="label"))
    wrong = make_settings(text_column="text", pair_column="y", target_columns="x,y")
    assert "the column 'y' is both a text" in refusal(path, wrong)
    with pytest.raises(ValueError, match="text_column and pair_column are both 'text'"):
        Table(text_column="text", pair_column="text")


def test_a_usual_name_that_is_absent_is_no_setting(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a", "kind": "x"}\n')
    expected = "no field 'label': its fields are text, kind: name the right one with competition."
    assert expected + "label_column" in refusal(path, make_settings())
    assert expected.replace("label", "target") + "target_columns" in refusal(
        path, make_settings("number")
    )


def test_a_table_without_a_header_is_told_to_get_one(tmp_path):
    path = write(tmp_path / "a.csv", "I like it,pos\nNot my taste,neg\n")
    expected = "its columns are I like it, pos: name the right one with competition.label_column"
    assert f"{expected}, or if its first line is a record, write the names" in refusal(
        path, make_settings()
    )


def test_a_target_of_json_is_a_finite_number(tmp_path):
    for record in ({"text": "a"}, {"id": 1, "text_a": "a"}):
        path = write(tmp_path / "a.jsonl", json.dumps({**record, "target": 10**400}) + "\n")
        assert "a finite number" in refusal(path, make_settings("number"))
        path = write(tmp_path / "b.jsonl", json.dumps({**record, "target": "much"}) + "\n")
        message = refusal(path, make_settings("number"))
        assert "number" in message and "string" not in message


BROKEN_JSON = {
    "no text": ({"sentence": "a", "label": "x"}, {"label": "y"}, 'line 2: the field "sentence" is'),
    "number as text": ({"sentence": "a", "label": "x"}, {"sentence": 5, "label": "y"}, "a string"),
    "no label": ({"sentence": "a", "label": "x"}, {"sentence": "b"}, "line 2: the label in the"),
    "ids of some": (
        {"sentence": "a", "label": "x"},
        {"sentence": "b", "label": "y", "id": 3},
        "line 1: the id in the column 'id' is empty",
    ),
    "two texts": ({"one": "a", "two": "b", "label": "x"}, {}, "text_columns if there are"),
}


@pytest.mark.parametrize("case", BROKEN_JSON)
def test_broken_json_lines_are_refused_in_one_sentence(case, tmp_path):
    *records, expected = BROKEN_JSON[case]
    path = write(tmp_path / "a.json", "".join(json.dumps(record) + "\n" for record in records))
    assert expected in refusal(path, make_settings())


# ---------------------------------------------------------------------------- tables

QUOTED = 'index\tsentence\tlabel\n0\t"Great, fun\t1\n1\tsay "no" twice\t0\n2\tan inch " more\t1\n'


def test_quotes_belong_to_texts_where_the_setting_says_so(tmp_path):
    """Each cell begins or ends as if quotes enclosed it; GLUE has such files."""
    path = write(tmp_path / "train.tsv", QUOTED + '3\t"whole" text ""\t0\n4\t"all of it"\t1\n')
    settings = make_settings(quoting="none", id_column="index")
    texts = [example.text_a for example in read_examples(path, settings=settings)]
    assert texts[0] == '"Great, fun' and texts[3:] == ['"whole" text ""', '"all of it"']
    even = write(tmp_path / "even.tsv", 'index\tsentence\tlabel\n0\t"say ""yes"""\t1\n')
    assert read_examples(even, settings=settings)[0].text_a == '"say ""yes"""'
    settings.competition.quoting = "cells"
    assert read_examples(even, settings=settings)[0].text_a == 'say "yes"'
    path = write(tmp_path / "b.csv", "id,sentence,label\n1,a, b,x\n")
    settings = make_settings(quoting="none")
    assert "quotes enclose nothing in this file, so no text may hold" in refusal(path, settings)


def test_a_delimiter_holds_for_files_that_have_it(tmp_path):
    path = write(tmp_path / "a.csv", 'id;text;label\n1;"a; b";x\n2;c,d;y\n')
    assert "or set competition.delimiter = ';'" in refusal(path, make_settings())
    settings = make_settings(delimiter=";")
    assert [e.text_a for e in read_examples(path, settings=settings)] == ["a; b", "c,d"]
    comma = write(tmp_path / "b.csv", 'id,text,label\n1,"a, b",x\n')
    assert read_examples(comma, settings=settings)[0].text_a == "a, b"
    assert make_settings(delimiter="tab").competition.delimiter == "\t"
    with pytest.raises(ValueError, match="give one character"):
        Table(delimiter=";;")


def test_parts_keep_the_delimiter(tmp_path):
    path = write(tmp_path / "a.csv", 'id;text;label\n1;"a; b";x\n2;c,d;y\n')
    settings = make_settings(delimiter=";")
    examples = read_examples(path, settings=settings)
    parts = write_parts(path, examples, np.array([False, True]), settings.competition.dialect)
    rows = [[*read_rows(part, Dialect(delimiter=";"))] for part, _ in parts]
    assert rows == [
        [(2, {"id": "1", "text": "a; b", "label": "x"})],
        [(2, {"id": "2", "text": "c,d", "label": "y"})],
    ]


def test_columns_of_a_table_without_a_header_have_the_names_of_the_setting(tmp_path):
    """CoLA is so: train.tsv has no header, test.tsv has one."""
    rows = 'gj04\t1\t\tA film.\ngj04\t0\t*\tFilm a "the.\n'
    path = write(tmp_path / "train.tsv", rows)
    sample = write(tmp_path / "s.tsv", "index\tlabel\n0\t1\n")
    names = ["source", "label", "mark", "sentence"]
    settings = make_settings(column_names=names, sample_submission=str(sample))
    examples = read_examples(path, settings=settings)
    found = [(e.line, e.id, e.text_a, e.labels) for e in examples]
    assert found == [(1, 0, "A film.", ("1",)), (2, 1, 'Film a "the.', ("0",))]
    test = write(tmp_path / "test.tsv", "index\tsentence\n7\tA film.\n")
    assert [(e.id, e.text_a) for e in read_examples(test, False, settings)] == [("7", "A film.")]
    with_header = write(tmp_path / "dev.tsv", "\t".join(names) + "\n" + rows)
    assert len(read_examples(with_header, settings=settings)) == 2
    parts = write_parts(path, examples, np.array([False, True]), settings.competition.dialect)
    assert [part.read_text("utf-8") for part, _ in parts] == [*rows.splitlines(keepends=True)]
    form = read_form(sample, "", "auto", settings.competition)
    assert form.header == ("index", "label") and form.ids == ["0"]


def test_a_header_is_never_read_as_a_row_nor_a_row_as_a_header(tmp_path):
    names = ("id", "text", "label")
    for header in ("ID,Text,Label", "label,text,id"):
        path = write(tmp_path / "a.csv", f"{header}\n1,a,x\n")
        [(line, row)] = read_rows(path, Dialect(names=names))
        assert line == 2 and [*row] == header.split(",")
    path = write(tmp_path / "b.csv", "1,2,a,x\n2,3,b,y\n")
    with pytest.raises(InputError, match="line 1: 4 cells, but competition.column_names names 3"):
        [*read_rows(path, Dialect(names=names))]
    assert Table(column_names=[" id ", "text"]).column_names == ["id", "text"]
    with pytest.raises(ValueError, match="name each column once"):
        Table(column_names=["id", "id "])


NUMBERS = {
    "comma": ({"decimal": ","}, "2,5", 2.5),
    "comma of a share": ({"decimal": ","}, "-,25", -0.25),
    "german": ({"decimal": ",", "thousands": "."}, "1.234.567,5", 1234567.5),
    "english": ({"thousands": ","}, "1,234,567.5", 1234567.5),
    "french": ({"decimal": ",", "thousands": " "}, "1\u202f234,5", 1234.5),
    "no separator": ({"thousands": ","}, "1234.5", 1234.5),
    "exponent": ({"decimal": ","}, "1,5e3", 1500.0),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_read_as_they_are_written(case, tmp_path):
    format_of, cell, number = NUMBERS[case]
    path = write(tmp_path / "a.csv", f'id;text;target\n1;a;"{cell}"\n2;b;3\n')
    settings = make_settings("number", delimiter=";", **format_of)
    assert read_examples(path, settings=settings)[0].numbers == (number,)


WRONG_NUMBERS = {
    "comma": ({}, "2,5", "or set competition.decimal = ','"),
    "english": ({}, "1,234.5", "competition.decimal = '.' and competition.thousands = ','"),
    "point": (
        {"decimal": ","},
        "2.5",
        "is '2.5', which is not a finite number: write it as 1234,5",
    ),
    "groups": ({"thousands": ","}, "1,23", "write it as 1,234.5"),
    "words": ({}, "two", "write it as 1234.5."),
}


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_other_numbers_are_refused(case, tmp_path):
    format_of, cell, expected = WRONG_NUMBERS[case]
    path = write(tmp_path / "a.csv", f'id;text;target\n1;a;"{cell}"\n')
    said = refusal(path, make_settings("number", delimiter=";", **format_of))
    assert "a.csv, line 2: the target 'target' is" in said and expected in said


def test_one_character_has_one_meaning_in_a_number():
    with pytest.raises(ValueError, match="decimal and thousands are both ','"):
        Table(decimal=",", thousands=",")
    with pytest.raises(ValueError, match="text_columns names all texts"):
        Table(text_columns=["a"], text_column="a")
    with pytest.raises(ValueError, match="name each column once"):
        Table(text_columns=["a", "a"])


def test_a_number_without_end_is_not_called_a_matter_of_its_format(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,target\n1,a,1e400\n")
    message = refusal(path, make_settings("number"))
    assert "'1e400', which is not a finite number" in message and "decimal" not in message


# ---------------------------------------------------------------------------- labels


def test_another_name_of_a_label_is_no_label(tmp_path):
    """Else a label would change once more with each reading, as of pseudo-labels."""
    for chain in ({"a": "b", "b": "c"}, {"a": "b", "b": "a"}):
        with pytest.raises(ValueError, match="'a' is another name of 'b', which is another name"):
            Table(label_aliases=chain)
    assert Table(label_aliases={"a": "b", "b": "b"}).aliases["a"] == "b"


def test_check_finds_other_names_of_no_label_and_labels_that_can_not_change_places(tmp_path):
    path = write(tmp_path / "a.csv", "id,one,two,label\n1,a,b,x\n2,c,d,y\n")
    common = {"text_columns": ["one", "two"], "train_file": str(path)}
    settings = make_settings(label_aliases={"X": "x", "Z": "zett"}, **common)
    examples = read_examples(path, settings=settings)
    labels = collect_targets(examples, settings)
    [finding] = find_faults({str(path): examples}, labels, settings)
    assert "other names of the label 'zett', which no training example has" in finding.what
    settings = make_settings(swap_training=True, swap_labels={"x": "Y"}, **common)
    with pytest.raises(InputError, match="swap_labels names 'Y', which no training example has"):
        find_faults({str(path): examples}, labels, settings)


def test_labels_have_other_names(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,label\n1,a,pos\n2,b,POS\n3,c,negative\n4,d,0\n")
    aliases = {"pos": "positive", "POS": "positive", "0": "negative"}
    settings = make_settings(label_aliases=aliases)
    examples = read_examples(path, settings=settings)
    assert [e.labels[0] for e in examples] == ["positive", "positive", "negative", "negative"]
    record = {"id": 1, "text_a": "a", "labels": ["POS", "x"]}
    own = write(tmp_path / "own.jsonl", json.dumps(record) + "\n")
    assert read_examples(own, settings=settings)[0].labels == ("positive", "x")
    soft = write(tmp_path / "soft.jsonl", '{"id": 1, "text_a": "a", "label": {"pos": 1.0, "0": 0}}')
    assert read_examples(soft, settings=settings)[0].labels == ("positive",)
    both = write(
        tmp_path / "b.jsonl", '{"id": 1, "text_a": "a", "label": {"pos": 0.5, "POS": 0.5}}'
    )
    assert "two probabilities are of the label 'positive'" in refusal(both, settings)
    with pytest.raises(ValueError, match="write pairs of labels"):
        Table(label_aliases="pos")
    assert Table(label_aliases='{"pos": "positive"}').aliases == {"pos": "positive"}  # of a flag


def submit(tmp_path, train, sample, rows, **competition):
    """Return what is written for a test file whose answers are given."""
    settings = make_settings(**competition)
    examples = read_examples(write(tmp_path / "train.csv", train), settings=settings)
    labels = collect_targets(examples, settings)
    candidates = make_candidates(examples, rows, labels)
    form = read_form(write(tmp_path / "s.csv", sample), "", "auto", settings.competition)
    records = prediction_records(examples, candidates, labels, 0.0)
    write_table(tmp_path / "out.csv", records, form, labels, settings)
    return (tmp_path / "out.csv").read_bytes().decode()


def test_a_submission_spells_labels_as_the_sample(tmp_path):
    train = "id,text,label\n1,a,pos\n2,b,neg\n"
    own = {"label_aliases": {"pos": "positive", "neg": "negative"}}
    rows = np.array([[0.1, 0.9], [0.8, 0.2]])  # negative, positive
    written = submit(tmp_path, train, "id,label\n2,pos\n1,pos\n", rows, metric="accuracy", **own)
    assert written == "id,label\n2,neg\n1,pos\n"
    sample = "id,label\n2,positive\n1,positive\n"
    written = submit(tmp_path, train, sample, rows, metric="accuracy", **own)
    assert written == "id,label\n2,negative\n1,positive\n"


def test_a_submission_keeps_the_header_and_lone_carriage_returns_of_the_sample(tmp_path):
    train = 'id,text,label\n"1\r2",a,pos\n2,b,neg\n'
    rows = np.array([[0.1, 0.9], [0.8, 0.2]])
    sample = 'id, label\n2,pos\n"1\r2",pos\n'
    written = submit(tmp_path, train, sample, rows, metric="accuracy").encode()
    assert written == b'id, label\n2,neg\n"1\r2",pos\n'


def test_other_names_that_are_numbers_are_labels_of_the_sample(tmp_path):
    """Cells 0 and 1 of a sample are not taken for probabilities if they are names of labels."""
    train = "id,text,label\n1,a,neg\n2,b,pos\n"
    rows = np.array([[0.1, 0.9], [0.8, 0.2]])  # neg, pos
    own = {"label_aliases": {"0": "neg", "1": "pos"}}
    assert submit(tmp_path, train, "id,x\n2,0\n1,0\n", rows, **own) == "id,x\n2,0\n1,1\n"
    chances = submit(tmp_path, train, "id,x\n2,0.5\n1,0.5\n", rows, **own)
    assert chances == "id,x\n2,0.2\n1,0.9\n"
    column = submit(tmp_path, train, "id,0\n2,0.5\n1,0.5\n", rows, metric="roc_auc", **own)
    assert column == "id,0\n2,0.8\n1,0.1\n"


def test_the_decimals_of_a_submission_are_those_of_the_tables(tmp_path):
    train = "id;text;label\n1;a;neg\n2;b;pos\n"
    rows = np.array([[0.25, 0.75], [0.8, 0.2]])
    own = {"delimiter": ";", "decimal": ","}
    # Numbers that are no labels are probabilities, however they are written.
    assert submit(tmp_path, train, "id;p\n2;0,5\n1;0,5\n", rows, **own) == "id;p\n2;0,2\n1;0,75\n"
    whole = submit(tmp_path, train, "id;pos\n2;0\n1;0\n", rows, metric="roc_auc", **own)
    assert whole == "id;pos\n2;0,2\n1;0,75\n"
    points = submit(tmp_path, train, "id;pos\n2;0.5\n1;0.5\n", rows, metric="roc_auc", **own)
    assert points == "id;pos\n2;0.2\n1;0.75\n"


def test_other_names_are_those_of_any_value_of_json(tmp_path):
    own = {"label_aliases": {"1": "pos", "true": "pos", "0": "neg"}}
    lines = [{"id": n, "text_a": "a", "label": y} for n, y in enumerate([True, 1.0, 1, "1", 0])]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    examples = read_examples(path, settings=make_settings(**own))
    assert [example.labels for example in examples] == [("pos",)] * 4 + [("neg",)]


def test_a_label_with_several_other_names_that_the_sample_lacks_is_warned_of(tmp_path, capsys):
    train = "id,text,label\n1,a,N\n2,b,P\n"
    rows = np.array([[0.1, 0.9], [0.8, 0.2]])
    aliases = {"N": "neg", "negative": "neg", "P": "pos", "positive": "pos"}
    sample = "id,label\n2,N\n1,N\n"
    own = {"label_aliases": aliases, "metric": "accuracy"}
    assert submit(tmp_path, train, sample, rows, **own) == "id,label\n2,N\n1,pos\n"
    warning = "writes labels by their other names, but has none of 'pos'"
    assert warning in capsys.readouterr().out
    sample = sample.replace("1,N", "1,P")
    assert submit(tmp_path, train, sample, rows, **own) == "id,label\n2,N\n1,P\n"
    assert warning not in capsys.readouterr().out


def test_columns_are_matched_by_the_other_names_of_labels(tmp_path):
    aliases = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}
    rows = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])
    sample = "id;winner_tie;winner_model_a;winner_model_b\n3;0,3;0,3;0,4\n2;0,3;0,3;0,4\n1;1;0;0\n"
    common = {"text_columns": TEXTS, "target_columns": WINNERS, "one_label": True}
    for own in ({}, {"label_aliases": aliases}):
        settings = {**common, **own, "delimiter": ";", "decimal": ",", "metric": "log_loss"}
        written = submit(tmp_path, BATTLES, sample, rows, **settings)
        assert written.splitlines() == [
            "id;winner_tie;winner_model_a;winner_model_b",
            "3;0,5;0,2;0,3",
            "2;0,3;0,1;0,6",
            "1;0,1;0,7;0,2",
        ]


def test_columns_of_which_one_is_1_in_each_row_are_one_label(tmp_path, capsys):
    path = write(tmp_path / "a.csv", BATTLES)
    common = {"text_columns": TEXTS, "target_columns": WINNERS, "train_file": str(path)}
    settings = make_settings(**common)
    assert settings.competition.one_label is True
    said = capsys.readouterr().out
    assert f"exactly one of {WINNERS.replace(',', ', ')} is 1 in each of 3 rows" in said
    examples = read_examples(path, settings=settings)
    assert not collect_targets(examples, settings).several
    assert make_settings(**common, one_label=False).competition.one_label is False
    for row in ("4,how,c,d,0,1,1\n", "4,how,c,d,0,0,0\n"):
        write(path, BATTLES + row)
        settings = make_settings(**common)
        assert settings.competition.one_label is False
        assert collect_targets(read_examples(path, settings=settings), settings).several
    truths = re.sub(r"(?<=,)[01](?=[,\n])", lambda cell: str(cell[0] == "1"), BATTLES)
    write(path, truths)  # as pandas writes dummies
    assert make_settings(**common).competition.one_label is True
    write(path, BATTLES + "4,how,c,d,0,0,much\n")
    assert "line 5: the target 'winner_tie' is 'much'" in refusal(path, make_settings(**common))


# -------------------------------------------------------------------- all the scripts


def write_battles(path, count, labelled=True):
    """Write battles whose longer answer wins, with commas, quotes and line breaks in the texts."""
    random = np.random.default_rng(count)
    names = ["id", "model_a", "prompt", "response_a", "response_b", *WINNERS.split(",")]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names if labelled else names[:5], extrasaction="ignore")
        writer.writeheader()
        for number in range(count):
            sizes = random.integers(1, 6, 2)
            one, two = (" ".join(random.choice(WORDS, size)) for size in sizes)
            wins = [int(sizes[0] > sizes[1]), int(sizes[0] < sizes[1]), int(sizes[0] == sizes[1])]
            prompt = f'say "{random.choice(WORDS)}",\nplease'
            cells = [f"{count}_{number}", "gpt", prompt, one, two, *wins]
            writer.writerow(dict(zip(names, cells, strict=True)))
    return path


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    project = bake_project("text_classification", tmp_path_factory.mktemp("battles"))
    process = ProjectProcess(project)
    for name, count in (("train", 48), ("dev", 16), ("test", 12)):
        write_battles(project / f"{name}.csv", count, name != "test")
    yield process
    process.stop()


@pytest.mark.further
@pytest.mark.trains
def test_several_texts_from_check_to_submission(process, tmp_path):
    project = process.project
    sample = write(tmp_path / "sample.csv", f"id,{WINNERS}\n")
    rows = [*read_rows(project / "test.csv")][::-1]
    lines = [f"{row['id']},0.3,0.3,0.4\n" for _, row in rows]
    write(sample, sample.read_text("utf-8") + "".join(lines))
    files = {f"{name}_file": f"{name}.csv" for name in ("train", "dev", "test")}
    settings = {**files, "epochs": 1, "metric": "log_loss", "batch_size": 8}
    settings |= {"competition.text_columns": ",".join(TEXTS)}
    settings |= {"competition.sample_submission": str(sample), "distillation.files": "[]"}

    def succeeds(*command, **own):
        asked = flags(project, **{**settings, **own}) if own else []
        done = process.run(*command, *asked)
        assert done.code == 0, f"{done.out}\n{done.err}"
        return done.out

    told = succeeds("check.py", run_name="plain")
    assert "one label, whose probabilities sum to 1" in told
    assert 'tokens: [CLS] say " ' in told and "texts: prompt, response_a, response_b" in told
    told = succeeds("train.py", run_name="plain", floor=True)
    assert "floor: dev log_loss" in told
    assert "log_loss" in succeeds("evaluate.py", "plain", project / "dev.csv")
    assert "floor" in succeeds("compare.py", "plain", "floor")
    succeeds("predict.py", "plain", project / "test.csv", tmp_path / "out.csv")
    written = [row for _, row in read_rows(tmp_path / "out.csv")]
    assert [*written[0]] == ["id", *WINNERS.split(",")]
    assert [row["id"] for row in written] == [row["id"] for _, row in rows]
    sums = [sum(float(row[name]) for name in WINNERS.split(",")) for row in written]
    assert sums == pytest.approx([1.0] * 12, abs=1e-5)

    succeeds("train.py", run_name="kept", floor=False, **{"cache.enabled": True})
    predictions = [
        (project / "runs" / name / "predictions/dev.jsonl").read_bytes()
        for name in ("plain", "kept")
    ]
    assert predictions[0] == predictions[1]

    label = "extras/distillation/label.py"
    succeeds(label, "plain", project / "test.csv", project / "pseudo.jsonl")
    first = json.loads((project / "pseudo.jsonl").read_text("utf-8").splitlines()[0])
    assert first.keys() == {"id", "context", "text_a", "text_b", "label"}
    more = {"distillation.files": '["pseudo.jsonl"]', "floor": False}
    told = succeeds("train.py", run_name="more", **more)
    assert "pseudo.jsonl: 12 more records to learn from" in told
    succeeds("split.py", project / "train.csv", run_name="plain")
    parts = [project / f"train_{part}.csv" for part in ("part", "dev_part")]
    assert sum(len([*read_rows(part)]) for part in parts) == 48
    folds = {"run_name": "folds", "folds.count": 2, "floor": False}
    succeeds("extras/folds/cross_validate.py", **folds)
    scores = json.loads((project / "runs/folds/scores.json").read_text("utf-8"))
    assert scores["dev"]["records"] == 48 and "neg_log_loss" in scores["dev"]


# --------------------------------------------------------------------- as hosts publish them

AFQMC = '{"sentence1": "who is it", "sentence2": "who", "label": "1"}\n'
AFQMC += '{"sentence1": "where", "sentence2": "when", "label": "0"}\n'
# Kaggle's LMSYS: the turns of a conversation in JSON, null, and half of a character as an escape.
TURNS = (
    'id,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n30192,"[""a?"",'
    '""b \\ud83d""]","[""one"",null]","[""x \\""y\\"""",""\\u00e9""]",1,0,0\n'
)


def test_pairs_of_usual_names_need_no_setting(tmp_path, capsys):
    path = write(tmp_path / "train.json", AFQMC)
    first, second = read_examples(path, settings=make_settings())
    assert (first.text_a, first.text_b, second.text_b) == ("who is it", "who", "when")
    assert "text: sentence1; pair: sentence2; label: label\n" in capsys.readouterr().out
    one = make_settings(text_column="sentence2")
    assert read_examples(path, settings=one)[0].texts == ("who",)
    table = write(tmp_path / "a.csv", "id,premise,hypothesis,label\n1,a b,c,x\n2,d,e,y\n")
    assert read_examples(table, settings=make_settings())[1].texts == ("d", "e")


def test_fields_that_are_not_read_are_named(tmp_path, capsys):
    path = write(tmp_path / "train.json", NEWS)
    read_examples(path, settings=make_settings())
    assert "label: label; not read: label_des, keywords\n" in capsys.readouterr().out
    joined = make_settings(text_template="{sentence} ({keywords})")
    assert read_examples(path, settings=joined)[1].text_a == "a ball (x)"
    said = capsys.readouterr().out
    assert "text: sentence, keywords, joined by text_template; label: label; not read" in said


def test_lists_of_turns_are_joined(tmp_path, capsys):
    path = write(tmp_path / "a.csv", TURNS)
    names = {"text_columns": TEXTS, "target_columns": WINNERS}
    [example] = read_examples(path, settings=make_settings(**names, turn_separator=r"\n"))
    assert example.texts == ("a?\nb �", "one\n", 'x "y"\né')
    assert "warning" not in capsys.readouterr().out
    [written] = read_examples(path, settings=make_settings(**names))
    assert written.texts[1] == '["one",null]'
    assert "texts of 'prompt' are lists in JSON" in capsys.readouterr().out
    plain = write(tmp_path / "b.csv", BATTLES)
    wrong = make_settings(**names, turn_separator=" ")
    assert "line 2: the text in the column 'prompt' is no list of texts" in refusal(plain, wrong)
    template = make_settings(
        text_template="{prompt} | {response_a}", target_columns=WINNERS, turn_separator="; "
    )
    assert read_examples(path, settings=template)[0].text_a == "a?; b � | one; "


def test_a_label_called_target_is_found_though_the_sample_says_prediction(tmp_path):
    sample = write(tmp_path / "sample.csv", "qid,prediction\n7,0\n")
    path = write(tmp_path / "a.csv", "qid,question_text,target\n1,who is it,0\n2,why,1\n")
    examples = read_examples(path, settings=make_settings(sample_submission=str(sample)))
    assert [(e.id, e.labels) for e in examples] == [("1", ("0",)), ("2", ("1",))]


def test_pairs_of_labels_are_given_as_in_the_settings_file():
    for given in ('{ a = "b" }', '{"a": "b"}', {"a": "b"}):
        assert make_settings(swap_labels=given).competition.swap_labels == '{"a": "b"}'
    with pytest.raises(ValueError, match="write pairs of labels"):
        make_settings(swap_labels="{ a = 1 }")

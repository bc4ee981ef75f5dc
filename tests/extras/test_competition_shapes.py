"""Files in the shapes of competitions: what they hold is read, and cells are written as theirs."""

import csv
import json

import numpy as np
import pytest
from conftest import use_template

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from extras.competition.checks import find_faults  # noqa: E402
from extras.competition.splitting import find_uneven_parts, hold_out  # noqa: E402
from extras.competition.submission import implied_aliases, read_form, write_table  # noqa: E402
from extras.retrieval.negatives import Labels, matched_queries, training_records  # noqa: E402
from inspection.folds import fold_keys  # noqa: E402
from library.predictions import prediction_records  # noqa: E402
from task.decode import make_candidates  # noqa: E402
from task.records import collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402


def settings_of(output="labels", metric="auto", positive_label="", **competition):
    own = {"output": output, "metric": metric, "positive_label": positive_label}
    return with_tables(Settings)(**own, competition=competition)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def submit(folder, settings, train, test, rows, sample, columns=""):
    """Return the rows of the table that a run writes, which gives the test records these scores."""
    own = settings.competition
    learned = read_examples(write(folder / "train.csv", train), settings=settings)
    if own.is_listwise:
        settings.output = "number"
        learned = read_examples(folder / "train.csv", settings=settings)
    labels = collect_targets(learned, settings)
    asked = read_examples(write(folder / "test.csv", test), False, settings)
    candidates = make_candidates(asked, np.array(rows, float), labels)
    predictions = prediction_records(asked, candidates, labels, 0.5)
    form = read_form(write(folder / "sample.csv", sample) if sample else None, columns, "auto", own)
    groups = [example.group for example in asked] if asked[0].group is not None else []
    write_table(folder / "out.csv", predictions, form, labels, settings, groups)
    with open(folder / "out.csv", newline="", encoding="utf-8") as file:
        return [*csv.reader(file)]


# ------------------------------------------------------------------------------ reading


def test_a_row_without_a_fold_group_has_one_of_its_own(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,author,label\n1,a,x,0\n2,b,,1\n3,c, ,0\n4,d,x ,1\n")
    examples = read_examples(path, settings=settings_of(fold_group_column="author"))
    groups = [example.fold_group for example in examples]
    assert groups[0] == groups[3] == "x" and len({*groups}) == 3
    with pytest.raises(InputError, match="line 3: the group in the column 'author' is empty"):
        read_examples(path, settings=settings_of(group_column="author"))


def test_a_question_and_a_sentence_are_a_pair(tmp_path):
    path = write(tmp_path / "a.tsv", "index\tquestion\tsentence\tlabel\n0\twho ?\tme .\tx\n")
    assert read_examples(path, settings=settings_of())[0].texts == ("who ?", "me .")
    path = write(tmp_path / "b.tsv", "sentence\tlabel\tquestion1\nme .\tx\t7\n")
    assert read_examples(path, settings=settings_of())[0].texts == ("me .",)


def test_a_file_of_another_encoding_than_the_setting_is_read_as_it_is(tmp_path):
    settings = settings_of(encoding="gb18030")
    row = "id,text,label\n9,体育新闻快报,x\n"
    for content in (row.encode("gb18030"), row.encode(), row.encode("utf-8-sig")):
        [example] = read_examples(write(tmp_path / "a.csv", content), settings=settings)
        assert (example.id, example.text_a) == ("9", "体育新闻快报")


def test_a_header_of_other_names_is_no_row(tmp_path):
    settings = settings_of(column_names=["id", "label", "text"])
    path = write(tmp_path / "a.csv", "id,class,comment\n1,x,a\n2,y,b\n")
    with pytest.raises(InputError, match="a.csv, line 1: 'id' is a name in competition.column_n"):
        read_examples(path, settings=settings)
    path = write(tmp_path / "b.csv", "1,x,a\n2,y,b\n")
    assert [e.text_a for e in read_examples(path, settings=settings)] == ["a", "b"]


@pytest.mark.parametrize("cell", ["NONE", "-1", "", "?"])
@pytest.mark.parametrize("output", ["labels", "number"])
def test_what_hosts_write_for_unknown_labels_is_none(output, cell, tmp_path):
    if output == "number" and cell == "-1":
        return
    settings = settings_of(output, target_columns="p,q")
    path = write(tmp_path / "a.csv", f"id,text,p,q\n1,a,{cell},{cell}\n2,b,1,0\n")
    first, second = read_examples(path, False, settings)
    assert not first.labelled and second.labelled
    with pytest.raises(InputError, match="line 2"):
        read_examples(path, settings=settings)


def test_truth_values_are_labels(tmp_path):
    settings = settings_of(target_columns="p,q")
    path = write(tmp_path / "a.csv", "id,text,p,q\n1,a,True,False\n2,b,FALSE,true\n")
    assert [e.labels for e in read_examples(path, settings=settings)] == [("p",), ("q",)]
    path = write(tmp_path / "a.jsonl", '{"id": 1, "text_a": "a", "label": true}\n')
    assert read_examples(path, settings=settings_of())[0].labels == ("true",)


def test_lists_of_a_template_are_joined_beside_texts(tmp_path):
    settings = settings_of(text_template="{abst} | {keyword}", turn_separator=", ")
    record = {"id": 1, "abst": "A text.", "keyword": ["one", "two"], "label": "1"}
    path = write(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    assert read_examples(path, settings=settings)[0].text_a == "A text. | one, two"


def test_parts_of_unlike_sizes_or_labels_are_said(tmp_path):
    rows = "".join(f"{n},q{n // 50},text {n},l{n // 50}\n" for n in range(100))
    path = write(tmp_path / "a.csv", "id,question,answer,label\n" + rows)
    settings = settings_of(text_columns=["question", "answer"], fold_group_column="question")
    examples = read_examples(path, settings=settings)
    held = hold_out([*fold_keys(examples)], 0.1, 1)
    share, labels = find_uneven_parts(examples, held, 0.1)
    assert "50% of the records are held out, not 10%" in share
    assert labels.startswith("labels that only held-out records have: 1, 'l")
    examples = read_examples(path, settings=settings_of(text_columns=["question", "answer"]))
    held = hold_out([*fold_keys(examples)], 0.1, 1)
    assert find_uneven_parts(examples, held, 0.1) == [] and 8 <= held.sum() <= 12


# ------------------------------------------------------------------------------ writing

TWO = "id,text,label\n1,a,{}\n2,b,{}\n"
ASKED = "id,text\n7,x\n8,y\n"
LIKELY = [[0.3, 0.7], [0.8, 0.2]]


@pytest.mark.parametrize(
    ("names", "cell", "expected"),
    [
        (("0.0", "1.0"), "0", ["1", "0"]),
        (("0", "1"), "0.0", ["1.0", "0.0"]),
        (("False", "True"), "0", ["1", "0"]),
        (("0", "1"), "false", ["true", "false"]),
        (("0", "1"), "True", ["True", "False"]),
        (("0", "1"), "1", ["1", "0"]),
        (("0", "1"), "0.5", ["0.7", "0.2"]),
    ],
)
def test_labels_are_numbers_or_truth_values_as_the_sample_has_them(names, cell, expected, tmp_path):
    sample = f"id,target\n7,{cell}\n8,{cell}\n"
    rows = submit(tmp_path, settings_of(), TWO.format(*names), ASKED, LIKELY, sample)
    assert [row[1] for row in rows[1:]] == expected
    assert implied_aliases(["2", "10"], {"x", "y"}) == {}


@pytest.mark.parametrize(
    ("metric", "table", "sample", "expected"),
    [
        ("map_at_k", {}, "7,x y z\n8,x y z\n", ["y x z", "z x y"]),
        ("map_at_k", {"k": 2}, "7,x y\n8,x y\n", ["y x", "z x"]),
        ("auto", {"label_separator": ";"}, "7,x;y\n8,x\n", ["y;z", "x;z"]),
    ],
)
def test_other_names_of_labels_are_found_in_cells_of_several(
    metric, table, sample, expected, tmp_path, capsys
):
    settings = settings_of(metric=metric, label_aliases={"x": "X", "y": "Y", "z": "Z"}, **table)
    train = "id,text,label\n1,a,X\n2,b,Y\n3,c,Z\n"
    rows = [[0.3, 0.6, 0.1], [0.3, 0.2, 0.5]] if not table.get("label_separator") else []
    rows = rows or [[0.3, 0.8, 0.6], [0.7, 0.2, 0.9]]
    found = submit(tmp_path, settings, train, ASKED, rows, "id,label\n" + sample)
    assert [row[1] for row in found[1:]] == expected
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "sample", "said"),
    [
        ({"k": 3}, "7,X Y\n8,X Y\n", "have up to 2 labels, and this run writes 3"),
        ({}, "7,a b c\n8,a b c\n", "the sample has a b c where this run writes its labels"),
    ],
)
def test_cells_of_another_kind_are_warned_of(table, sample, said, tmp_path, capsys):
    settings = settings_of(metric="map_at_k", **table)
    train = "id,text,label\n1,a,X\n2,b,Y\n3,c,Z\n"
    submit(tmp_path, settings, train, ASKED, [[0.3, 0.6, 0.1]] * 2, "id,label\n" + sample)
    assert said in capsys.readouterr().out


def test_a_label_without_an_example_has_a_column_of_zeros(tmp_path, capsys):
    settings = settings_of(target_columns="p,q,r")
    train = "id,text,p,q,r\n1,a,1,0,0\n2,b,1,1,0\n3,c,0,0,0\n"
    sample = "id,p,q,r\n7,0.5,0.5,0.5\n8,0.5,0.5,0.5\n"
    for metric, cells in (("roc_auc", ["0.3", "0.7", "0"]), ("auto", ["0.3", "0.7", "0"])):
        settings.metric = metric
        rows = submit(tmp_path, settings, train, ASKED, LIKELY, sample)
        assert rows[:2] == [["id", "p", "q", "r"], ["7", *cells]]
        assert "no training record has the label 'r', so" in capsys.readouterr().out
    test = read_examples(tmp_path / "test.csv", False, settings)
    learned = read_examples(tmp_path / "train.csv", settings=settings)
    settings.competition.sample_submission = str(tmp_path / "sample.csv")
    settings.test_file = "test.csv"
    labels = collect_targets(learned, settings)
    found = find_faults({"train.csv": learned, "test.csv": test}, labels, settings)
    assert ["no training record has the label 'r', so" in one.what for one in found] == [True]


def test_a_sample_that_is_an_example_can_be_left_out(tmp_path):
    sample = "id,label\n7,x\n"
    with pytest.raises(InputError, match="--sample none --columns id,label"):
        submit(tmp_path, settings_of(), TWO.format("x", "y"), ASKED, LIKELY, sample)
    rows = submit(tmp_path, settings_of(), TWO.format("x", "y"), ASKED, LIKELY, "", "id,label")
    assert rows == [["id", "label"], ["7", "y"], ["8", "x"]]


def test_a_sample_of_json_lines_is_refused(tmp_path):
    path = write(tmp_path / "sample.jsonl", '{"id": 7, "label": "x"}\n')
    with pytest.raises(InputError, match="sample.jsonl is no table"):
        read_form(path, "", "auto", settings_of().competition)


def test_the_longest_cell_of_all_rows_says_how_many_ranks_there_are(tmp_path):
    rows = [f"{n},a{n} b{n}" for n in range(200)]
    sample = write(tmp_path / "sample.csv", "\n".join(["q,docs", *rows, "200,a b c d e f g\n"]))
    form = read_form(sample, "", "auto", settings_of().competition)
    assert form.longest_cell(" ") == 7


def test_a_column_without_a_name_has_none_in_the_submission(tmp_path):
    sample = ",label\n7,x\n8,x\n"
    test = ASKED.replace("id,", ",")
    settings = settings_of(sample_submission=str(write(tmp_path / "sample.csv", sample)))
    rows = submit(tmp_path, settings, TWO.format("x", "y"), test, LIKELY, sample)
    assert rows == [["", "label"], ["7", "y"], ["8", "x"]]


# ------------------------------------------------------------------------------ groups

CHOICES = [f"ending{n}" for n in range(3)]
SWAG = "id,prompt,ending0,ending1,ending2,label\n{},p,a,b,c,{}\n"
NAMES = {str(n): name for n, name in enumerate(CHOICES)}


@pytest.mark.parametrize(
    ("metric", "sample", "expected"),
    [
        ("auto", "id,label\n7,0\n", ["7", "2"]),
        ("map_at_k", "id,label\n7,0 1 2\n", ["7", "2 0 1"]),
        ("auto", "id,2,1,0\n7,0.1,0.1,0.1\n", None),
    ],
)
def test_choices_are_written_as_the_sample_names_them(metric, sample, expected, tmp_path):
    settings = settings_of(metric=metric, choice_columns=CHOICES, label_aliases=NAMES)
    train = SWAG.format(1, 0) + "2,p,b,c,a,2\n"
    rows = submit(tmp_path, settings, train, SWAG.format(7, ""), [[0.2], [0.1], [0.9]], sample)
    if expected:
        assert rows[1] == expected
    else:
        header, cells = rows
        assert header == ["id", "2", "1", "0"]
        assert float(cells[1]) > float(cells[3]) > float(cells[2])
        assert abs(sum(map(float, cells[1:])) - 1) < 1e-5


RANKED = (
    "qid,docid,query,passage,grade\n{0},d1,q,a,{1}\n{0},d2,q,b,{2}\nx y,d1,q2,a,1\nx y,d3,q2,c,0\n"
)


@pytest.mark.parametrize("loss", ["listwise", "mse"])
def test_cells_of_groups_hold_the_candidates_of_a_column(loss, tmp_path, capsys):
    texts = {"text_columns": ["query", "passage"], "group_column": "qid", "loss": loss}
    kind = {"label_column": "grade"} if loss == "mse" else {"target_columns": "grade"}
    settings = settings_of(metric="map", candidate_column="docid", **texts, **kind)
    rows = [[0.3], [0.9], [0.8], [0.2]]
    rows = rows if loss == "listwise" else [[1 - own, own] for [own] in rows]
    sample = "qid,ranking\nx y,d1 d2\nq5,d1 d2\n"
    test = RANKED.format("q5", "", "").replace(",1\n", ",\n").replace(",0\n", ",\n")
    args = (RANKED.format("q1", 1, 0), test, rows, sample)
    found = submit(tmp_path, settings, *args)
    assert found == [["qid", "ranking"], ["x y", "d1 d3"], ["q5", "d2 d1"]]
    assert "warning" not in capsys.readouterr().out
    # Without that column the ids of the records are written, and that is said.
    settings = settings_of(metric="map", **texts, **kind)
    found = submit(tmp_path, settings, *args)
    assert found[2] == ["q5", "1 0"]
    assert "name it with competition.candidate_column" in capsys.readouterr().out
    with pytest.raises(ValueError, match="set group_column"):
        settings_of(candidate_column="docid")


@pytest.mark.parametrize("metric", ["map", "map_at_k"])
def test_another_number_of_ids_than_that_of_the_sample_is_warned_of(metric, tmp_path, capsys):
    texts = {"text_columns": ["query", "passage"], "group_column": "qid", "k": 3}
    settings = settings_of(metric=metric, positive_label="1", label_column="label", **texts)
    test = "qid,id,query,passage\n" + "".join(f"x,{n},a,b\n" for n in range(4))
    scores = [[1 - n / 9, n / 9] for n in range(4)]
    train = "qid,id,query,passage,label\n1,1,a,b,0\n1,2,a,c,1\n"
    found = submit(tmp_path, settings, train, test, scores, "q,docs\nx,1 2\n")
    written, setting = ("3 2 1 0", 'metric = "map_at_k" and competition.k = 2')
    if metric == "map_at_k":
        written, setting = "3 2 1", "competition.k = 2"
    assert found[1] == ["x", written]
    said = capsys.readouterr().out
    assert f"have up to 2 ids, and this run writes {len(written.split())}: if the host" in said
    assert f"expects 2, set {setting}." in said
    # More than there are can't be written.
    settings = settings_of(metric="map", positive_label="1", label_column="label", **texts)
    submit(tmp_path, settings, train, test, scores, "q,docs\nx,1 2 3 4 5\n")
    assert "have up to" not in capsys.readouterr().out


def test_grades_and_wrong_choices_are_no_matches(tmp_path):
    labels = Labels("1", "0")
    texts = {"text_columns": ["query", "passage"], "group_column": "qid", "loss": "listwise"}
    settings = settings_of("number", target_columns="grade", **texts)
    path = write(tmp_path / "a.csv", RANKED.format("q1", 2, 0))
    queries = matched_queries(path, settings, labels)
    assert [query.matches for query in queries] == [["a"], ["a"]]
    made = [*training_records(queries, [], [[], []], labels)]
    assert [record["label"] for record in made] == ["2", "0", "1", "0"]
    assert all("targets" not in record for record in made)
    settings = settings_of("number", choice_columns=CHOICES, label_aliases=NAMES)
    settings.competition.loss = "listwise"
    path = write(tmp_path / "b.csv", SWAG.format(1, 2))
    [query] = matched_queries(path, settings, labels)
    assert query.matches == ["c"] and len(query.records) == 3
    path = write(tmp_path / "c.csv", "text_a,text_b,label\na,b,1\na,c,\n")
    with pytest.raises(InputError, match="line 3: this record or that of line 2 has no label"):
        matched_queries(path, settings_of(), labels)


def test_a_record_without_a_group_has_no_candidate(tmp_path):
    path = tmp_path / "a.jsonl"
    records = [{"qid": "q1", "docid": "d1", "query": "a", "label": "1"}]
    records += [{"docid": "d2", "query": "b", "label": "0"}]
    write(path, "".join(json.dumps(record) + "\n" for record in records))
    table = {"group_column": "qid", "candidate_column": "docid", "text_column": "query"}
    with pytest.raises(InputError, match='line 2: the record has no "group"'):
        read_examples(path, settings=settings_of(**table))

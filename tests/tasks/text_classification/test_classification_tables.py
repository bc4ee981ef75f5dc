"""Tables in and out: columns are found, broken files refused in a sentence, samples followed."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import use_template

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from extras.competition import checks  # noqa: E402
from extras.competition.rows import Dialect, read_rows  # noqa: E402
from extras.competition.settings import Table  # noqa: E402
from extras.competition.splitting import hold_out, part_text, write_parts  # noqa: E402
from extras.competition.submission import check_form, read_form, write_table  # noqa: E402
from extras.competition.targets import collect_numbers  # noqa: E402
from extras.folds.folds import assign_folds  # noqa: E402
from inspection import checks as inspection  # noqa: E402
from inspection.folds import fold_keys  # noqa: E402
from library.predictions import prediction_records  # noqa: E402
from submission import write_plain_table  # noqa: E402
from task.decode import make_candidates  # noqa: E402
from task.evaluation import evaluate  # noqa: E402
from task.metrics import choose_metric  # noqa: E402
from task.records import check_kind, collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402


def make_settings(**competition):
    own = {name: competition.pop(name) for name in ("output", "metric") if name in competition}
    return with_tables(Settings)(**{"output": "number", **own}, competition=competition)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


GOOD = "essay_id,full_text,prompt,score\n"
ROW = '007,"One, two\nand ""three""",p1,2.5\n'


def test_a_table_is_read_as_it_comes(tmp_path, capsys):
    path = write(tmp_path / "a.csv", "\ufeff" + GOOD + ROW + "\n008,NA,p2,-1e-1\r\n")
    settings = make_settings(target_columns="score", id_column="essay_id")
    settings.competition.fold_group_column = "prompt"
    first, second = read_examples(path, settings=settings)
    assert (first.id, first.text_a) == ("007", 'One, two\nand "three"')
    assert (second.id, second.text_a, second.numbers) == ("008", "NA", (-0.1,))
    assert (first.labels, first.numbers, first.fold_group) == (("score",), (2.5,), "p1")
    assert (first.line, second.line) == (2, 5)
    assert "id: essay_id; text: full_text; targets: score" in capsys.readouterr().out


def test_columns_follow_the_sample(tmp_path):
    sample = write(tmp_path / "sample_submission.csv", "essay_id,score\n9,1\n")
    settings = make_settings(sample_submission=str(sample))
    [example] = read_examples(write(tmp_path / "a.csv", GOOD + ROW), settings=settings)
    assert example.id == "007" and example.numbers == (2.5,)
    plain = write(tmp_path / "test.tsv", "essay_id\twords\n9\tsome\twords\n".replace("e\tw", "e w"))
    [example] = read_examples(plain, False, settings)
    assert (example.id, example.text_a, example.labelled) == ("9", "some words", False)


@pytest.mark.parametrize(
    ("header", "names", "output", "expected"),
    [
        ("toxic,threats,insult", "toxic,threat,insult", "labels", "no column threat, .*'threats'"),
        ("toxic,menace,insult", "toxic,threat,insult", "labels", "no column threat, which sample"),
        (
            "toxic,threats",
            "toxic,threat",
            "labels",
            "no column threat, .*, but 'threats': write it",
        ),
        ("conventons,cohesion", "cohesion,conventions", "number", "conventions, .*'conventons'"),
        ("grade", "score", "number", "no column score, which sample_submission has: write"),
        ("label,label_2", "label,confidence", "labels", None),
        ("label", "label_0,label_1", "labels", None),
        ("target", "score", "number", None),
    ],
)
def test_a_column_of_the_sample_that_a_slip_hides(header, names, output, expected, tmp_path):
    """It used to leave all but one column out, and the task became another one."""
    sample = write(tmp_path / "sample.csv", f"id,{names}\n1{',0' * len(names.split(','))}\n")
    cells = [f"{n},words {n}{f',{n % 2}' * len(header.split(','))}\n" for n in range(4)]
    path = write(tmp_path / "train.csv", f"id,text,{header}\n{''.join(cells)}")
    settings = make_settings(output=output, sample_submission=str(sample))
    if expected is None:
        assert len(read_examples(path, settings=settings)) == 4
    else:
        with pytest.raises(InputError, match=expected):
            read_examples(path, settings=settings)
    blind = write(tmp_path / "test.csv", "id,text\n1,a\n")
    assert len(read_examples(blind, False, settings)) == 1


def test_a_column_weighs_the_records(tmp_path):
    text = "id,words,label,trust\n1,a b,x,0.5\n2,c d,y,2\n"
    settings = make_settings(output="labels", weight_column="trust")
    examples = read_examples(write(tmp_path / "a.csv", text), settings=settings)
    assert [example.weight for example in examples] == [0.5, 2.0]
    for cell, words in (
        ("", "line 2: the weight 'trust' is empty"),
        ("much", "line 2: the weight 'trust' is 'much', which is not a finite number"),
        ("-1", 'line 2: "weight" must be a number from 0 to 1e+30, not -1.0'),
    ):
        path = write(tmp_path / "b.csv", text.replace("0.5", cell))
        with pytest.raises(InputError) as error:
            read_examples(path, settings=settings)
        assert words in str(error.value)
    # The training file needs the column, others may lack it.
    settings = make_settings(output="labels", weight_column="rust")
    assert [one.weight for one in read_examples(tmp_path / "a.csv", settings=settings)] == [1, 1]
    more = SimpleNamespace(files=[str(tmp_path / "a.csv")])
    for changes in ({"train_file": more.files[0]}, {"distillation": more}):
        with pytest.raises(InputError) as error:
            read_examples(tmp_path / "a.csv", settings=settings.model_copy(update=changes))
        assert "no column 'rust', which competition.weight_column names" in str(error.value)


def test_columns_of_probabilities_are_soft_targets(tmp_path):
    text = "id,words,a,b\n1,a b,0.25,0.75\n2,c d,1,0\n"
    path = write(tmp_path / "a.csv", text)
    settings = make_settings(output="labels", target_columns="a,b", one_label=True)
    examples = read_examples(path, settings=settings)
    assert [example.labels for example in examples] == [("b",), ("a",)]
    labels = collect_targets(examples, settings)
    assert labels.counts == (1.25, 0.75) and not labels.several
    assert labels.targets(examples).tolist() == [[0.25, 0.75], [1, 0]]
    settings = make_settings(output="labels", target_columns="a,b")
    examples = read_examples(path, settings=settings)
    assert collect_targets(examples, settings).targets(examples).tolist() == [[0.25, 0.75], [1, 0]]
    path = write(tmp_path / "b.csv", text.replace("0.75", "0.5"))
    settings = make_settings(output="labels", target_columns="a,b", one_label=True)
    with pytest.raises(InputError) as error:
        read_examples(path, settings=settings)
    assert 'line 2: the probabilities of "label" add up to 0.75' in str(error.value)


def test_columns_of_zeros_and_ones_are_labels(tmp_path):
    text = "id,comment_text,toxic,mild\n1,a b,1,0\n2,c d,0,0\n3,e,1,1\n"
    settings = make_settings(output="labels", target_columns="toxic,mild")
    examples = read_examples(write(tmp_path / "a.csv", text), settings=settings)
    assert [example.labels for example in examples] == [("toxic",), (), ("toxic", "mild")]
    assert all(example.several for example in examples)
    settings = make_settings(output="labels", label_column="kind", label_separator=";")
    path = write(tmp_path / "b.csv", "id,text,kind\n1,a,x;y\n2,b,\n")
    assert [e.labels for e in read_examples(path, settings=settings)] == [("x", "y"), ()]


BROKEN = {
    "empty": ("", "a.csv is empty: the first line names the columns"),
    "header alone": (GOOD, "a.csv holds a header and no row"),
    "ragged": (GOOD + ROW + "8,a,b\n", "line 4: 3 cells, but the header has 4 columns: put"),
    "unquoted comma": (GOOD + "8,a, b,p,1\n", "line 2: 5 cells, but the header has 4"),
    "open quote": (GOOD + ROW + '8,"a,p,1\n9,b,p,1\n', "line 4: a double quote that opens"),
    "quote after a quote": (GOOD + '8,"a"b,p,1\n', "line 2: ',' expected after '\"': within"),
    "wrong encoding": (
        (GOOD + ROW).encode() + "8,é,p,1\n".encode("latin-1"),
        "line 4: not utf-8: save the file as UTF-8, unpacked, or set competition.encoding",
    ),
    "two columns of a name": ("id,text,text\n1,a,b\n", "line 1: the header names 'text' twice"),
    "semicolons": ("id;text;score\n1;a;2\n", "line 1: the header is a single column"),
    "no target": ("essay_id,full_text\n1,a\n", "no column 'score', which competition."),
    "empty target": (GOOD + "8,a,p, \n", "line 2: the target 'score' is empty: fill it in"),
    "target nan": (GOOD + ROW + "8,a,p,NaN\n", "line 4: the target 'score' is 'NaN', which is not"),
    "target infinite": (GOOD + "8,a,p,inf\n", "line 2: the target 'score' is 'inf'"),
    "target too large": (GOOD + "8,a,p,1e999\n", "line 2: the target 'score' is '1e999'"),
    "decimal comma": (GOOD + '8,a,p,"2,5"\n', "line 2: the target 'score' is '2,5'"),
    "id twice": (GOOD + ROW + ROW, "line 4: id '007' is on line 2 already: give each row"),
    "empty id": (GOOD + ",a,p,1\n", "line 2: the id in the column 'essay_id' is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_table_is_refused_in_one_sentence(case, tmp_path):
    content, expected = BROKEN[case]
    path = write(tmp_path / "a.csv", content)
    settings = make_settings(target_columns="score", id_column="essay_id")
    with pytest.raises(InputError) as error:
        read_examples(path, settings=settings)
    message = str(error.value)
    assert expected in message and message.startswith(str(path)) and "\n" not in message


def test_other_encodings_are_read(tmp_path):
    path = write(tmp_path / "a.csv", (GOOD + "8,é,p,1\n").encode("cp1252"))
    settings = make_settings(target_columns="score", encoding="cp1252")
    assert read_examples(path, settings=settings)[0].text_a == "é"


def test_which_text_is_asked_where_it_is_not_clear(tmp_path):
    path = write(tmp_path / "a.csv", "id,first,second,target\n1,a,b,2\n")
    asked = "which column is the text. Set competition.text_column, text_columns .* choice_columns"
    with pytest.raises(InputError, match=asked):
        read_examples(path, settings=make_settings())
    settings = make_settings(text_column="second", pair_column="first")
    assert read_examples(path, settings=settings)[0].texts == ("b", "a")
    with pytest.raises(InputError, match="no column 'no', which competition.text_column names"):
        read_examples(path, settings=make_settings(text_column="no"))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({}, 'the field "target" is missing'),
        ({"target": "2"}, '"target" must be'),
        ({"target": True}, '"target" must be'),
        ({"target": float("nan")}, '"target" is nan: a target must be a finite number'),
    ],
)
def test_broken_targets_of_json_lines_are_refused(record, expected, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "1", "text_a": "a", **record}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=expected):
        read_examples(path, settings=make_settings())


@pytest.mark.parametrize(
    ("numbers", "table", "expected"),
    [
        ([1, 1, 1], {}, "every training example has target = 1: there is nothing to learn"),
        ([0, 1, 2], {"loss": "bce"}, "line 4 of the training file has target = 2"),
        (range(200), {"loss": "ordinal"}, "target has 200 different values: take"),
    ],
)
def test_numbers_that_no_loss_fits_are_refused(numbers, table, expected, tmp_path):
    rows = "".join(f"{n},text {n},{value}\n" for n, value in enumerate(numbers))
    path = write(tmp_path / "a.csv", "id,text,target\n" + rows)
    settings = make_settings(**table)
    with pytest.raises(InputError, match=expected):
        collect_targets(read_examples(path, settings=settings), settings)


# ------------------------------------------------------------------------ submissions


@pytest.fixture
def predicted(tmp_path):
    """Records of three rows with two targets, the second of whole numbers."""
    text = "id,text,flow,score\nb,x y,0.5,1\na,z,0.25,3\nc,w,0.75,2\n"
    settings = make_settings(target_columns="flow,score", metric="qwk")
    examples = read_examples(write(tmp_path / "a.csv", text), settings=settings)
    labels = collect_targets(examples, settings)
    candidates = make_candidates(examples, np.array([[0.5, 1.2], [0.2, 2.9], [0.7, 1.8]]), labels)
    evaluation = evaluate(examples, candidates, labels, tmp_path / "a.csv", settings)
    return evaluation, labels, settings


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_a_submission_follows_the_sample(predicted, tmp_path):
    evaluation, labels, settings = predicted
    assert evaluation.scores["per_target"]["score"]["qwk"] == 1
    sample = write(tmp_path / "s.csv", "id,score,flow\na,0,0\nb,0,0\nc,0,0\n")
    form = read_form(sample, "", "numbers", Table())
    write_table(tmp_path / "o.csv", evaluation.predictions, form, labels, settings)
    assert rows_of(tmp_path / "o.csv") == [
        ["id", "score", "flow"], ["a", "2.9", "0.2"], ["b", "1.2", "0.5"], ["c", "1.8", "0.7"]
    ]  # fmt: skip
    with pytest.raises(InputError, match="the columns Points, flow have other names than the pred"):
        wrong = read_form(sample, "Id,Points,flow", "grades", Table())
        write_table(tmp_path / "o.csv", evaluation.predictions, wrong, labels, settings)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("a b", r"not asked for by the sample: c \(1 of 3 ids\): predict"),
        ("a b c d", r"without a row in the predicted file: d \(1 of 4 ids\): predict"),
        ("a b b", "line 4: the id 'b' is on line 3 already"),
    ],
)
def test_ids_that_do_not_fit_are_named(ids, expected, predicted, tmp_path):
    rows = "".join(f"{name},0,0\n" for name in ids.split())
    sample = write(tmp_path / "s.csv", "id,flow,score\n" + rows)
    with pytest.raises(InputError, match=expected):
        form = read_form(sample, "", "auto", Table())
        write_table(tmp_path / "o.csv", predicted[0].predictions, form, *predicted[1:])
    assert not (tmp_path / "o.csv").exists()


def labelled(tmp_path, text, rows, metric="auto", **table):
    settings = make_settings(output="labels", metric=metric, **table)
    path = write(tmp_path / "a.csv", text)
    examples = read_examples(path, settings=settings)
    labels = collect_targets(examples, settings)
    candidates = make_candidates(examples, np.array(rows), labels)
    evaluation = evaluate(examples, candidates, labels, path, settings)
    return evaluation, labels, settings


THREE = "id,text,label\n1,a,x\n2,b,y\n3,c,z\n"
LIKELY = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.2, 0.3]]


@pytest.mark.parametrize(
    ("sample", "metric", "first"),
    [
        ("id,label\n1,x\n2,x\n3,x\n", "auto", ["1", "x"]),
        ("id,z,x,y\n1,0,0,0\n2,0,0,0\n3,0,0,0\n", "auto", ["1", "0.1", "0.7", "0.2"]),
        ("id,guess\n1,x y\n2,x\n3,x\n", "map_at_k", ["1", "x y"]),
    ],
)
def test_cells_hold_what_the_sample_has(sample, metric, first, tmp_path):
    evaluation, *rest = labelled(tmp_path, THREE, LIKELY, metric, k=2)
    form = read_form(write(tmp_path / "s.csv", sample), "", "auto", Table())
    write_table(tmp_path / "o.csv", evaluation.predictions, form, *rest)
    assert rows_of(tmp_path / "o.csv")[1] == first


def test_one_column_of_two_labels_holds_the_probability(tmp_path):
    evaluation, *rest = labelled(
        tmp_path, "id,text,winner\n1,a,0\n2,b,1\n", [[0.7, 0.3], [0.2, 0.8]], label_column="winner"
    )
    sample = write(tmp_path / "s.csv", "id,winner\n2,0.5\n1,0.5\n")
    form = read_form(sample, "", "auto", Table())
    write_table(tmp_path / "o.csv", evaluation.predictions, form, *rest)
    assert rows_of(tmp_path / "o.csv")[1:] == [["2", "0.8"], ["1", "0.3"]]
    assert {"roc_auc", "log_loss", "neg_log_loss", "brier", "f_beta"} <= evaluation.scores.keys()


# ------------------------------------------------------------------ paths and groups


def test_a_label_is_never_predicted_without_its_parents(tmp_path):
    text = "id,text,label\n1,q,a/b\n2,r,a/c\n3,s,d\n"
    random = np.random.default_rng(1)
    for thresholds in ("one", "per_label"):
        evaluation, labels, _ = labelled(
            tmp_path, text, random.random((3, 4)), hierarchy="/", thresholds=thresholds
        )
        assert labels.names == ("a", "a/b", "a/c", "d") and labels.several
        for record in evaluation.predictions:
            for name in record["labels"]:
                assert name.rpartition("/")[0] in ("", *record["labels"])


def test_groups_of_folds_stay_together(tmp_path):
    rows = "".join(f"{n},text {n},{n % 5},g{n % 7}\n" for n in range(70))
    path = write(tmp_path / "a.csv", "id,text,target,author\n" + rows)
    settings = make_settings(fold_group_column="author")
    examples = read_examples(path, settings=settings)
    groups = np.array([example.fold_group for example in examples])
    keys = [*fold_keys(examples)]
    fold_of = assign_folds(keys, 3, 1)
    held = hold_out(keys, 0.2, 1)
    assert 0.1 < held.mean() < 0.35
    for group in set(groups):
        assert len(set(fold_of[groups == group])) == len(set(held[groups == group])) == 1
    parts = write_parts(path, examples, held, Dialect())
    found = [read_examples(part, settings=settings) for part, _ in parts]
    assert sorted(e.id for own in found for e in own) == sorted(e.id for e in examples)
    for own in found:
        check_kind(own, collect_targets(examples, settings), path)
    faults = checks.find_faults(
        {"a": found[0], "b": found[0]},
        SimpleNamespace(names=("target",), are_numbers=True, scaling={"loss": "mse", "levels": []}),
    )
    assert any("fold groups in two files: " in str(fault) for fault in faults)


def test_check_names_wrong_targets(tmp_path):
    settings = make_settings(loss="bce")
    good = write(tmp_path / "a.csv", "id,text,target\n1,a,0\n2,b,1\n3,c,0.5\n")
    bad = write(tmp_path / "b.csv", "id,text,target\n1,A,7\n2,d,7\n")
    files = {p.name: read_examples(p, settings=settings) for p in (good, bad)}
    labels = collect_targets(files["a.csv"], settings)
    found = [str(fault) for fault in checks.find_faults(files, labels)]
    assert any("target is 7 in every record" in fault for fault in found)
    contradictions = [str(fault) for fault in inspection.find_data_faults(files)]
    [shown] = [fault for fault in contradictions if "different numbers: 1 text " in fault]
    assert "a.csv, line 2: target 0 and b.csv, line 2: target 7" in shown
    assert "take their mean" in shown
    outside = write(tmp_path / "c.csv", "id,text,target\n1,x,0.1\n2,d,7\n")
    files["c.csv"] = read_examples(outside, settings=settings)
    found = [str(fault) for fault in checks.find_faults(files, labels)]
    assert any("error: target beyond 0 to 1 in 1 records" in fault for fault in found)


def test_check_names_paths_that_do_not_fit(tmp_path):
    settings = make_settings(output="labels", hierarchy="/")
    path = write(tmp_path / "a.csv", "id,text,label\n1,a,x/y\n2,b,X/y\n3,c,y\n")
    files = {"a.csv": read_examples(path, settings=settings)}
    labels = collect_targets(files["a.csv"], settings)
    found = [str(fault) for fault in checks.find_faults(files, labels)]
    assert any("differ only in case or blanks" in fault for fault in found)
    assert any("with a parent in some records only: 'y'" in fault for fault in found)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("qwk", "targets that are whole"), ("f1", "output = .labels"), ("ndcg", "groups")],
)
def test_a_score_that_numbers_lack_is_refused(metric, expected, tmp_path):
    settings = make_settings()
    path = write(tmp_path / "a.csv", "id,text,target\n1,a,0.5\n2,b,1\n")
    examples = read_examples(path, settings=settings)
    labels = collect_targets(examples, settings)
    assert choose_metric("auto", labels, examples) == "neg_rmse"
    with pytest.raises(InputError, match=f"metric = '{metric}' needs {expected}"):
        choose_metric(metric, labels, examples)
    assert (
        len(
            prediction_records(
                examples, make_candidates(examples, np.ones((2, 1)), labels), labels, {}
            )
        )
        == 2
    )


def test_the_parts_of_one_file_never_replace_those_of_another(tmp_path):
    settings = make_settings(target_columns="target")
    rows = "".join(f"{n},text {n},{n}\n" for n in range(8))
    paths = [write(tmp_path / name, "id,text,target\n" + rows) for name in ("a.csv", "b.csv")]
    held = np.arange(8) < 2
    parts = []
    for path in paths:
        examples = read_examples(path, settings=settings)
        parts += [part for part, _ in write_parts(path, examples, held, Dialect())]
    names = ["a_part.csv", "a_dev_part.csv", "b_part.csv", "b_dev_part.csv"]
    assert [part.name for part in parts] == names
    before = {part: part.read_bytes() for part in parts}
    write_parts(paths[1], examples, held, Dialect())  # the same again
    with pytest.raises(InputError, match="b_part.csv is there already and holds something else"):
        write_parts(paths[1], examples, ~held, Dialect())
    assert {part: part.read_bytes() for part in parts} == before


# -------------------------------------------------- the metric decides, names are matched


TWO = "id,text,winner\n1,a,0\n2,b,1\n3,c,0\n"
RISKS = [[0.7, 0.3], [0.2, 0.8], [0.9, 0.1]]


def written(tmp_path, labelled_run, sample, columns="", kind="auto", groups=()):
    """Return the rows of a submission."""
    evaluation, *rest = labelled_run
    path = write(tmp_path / "s.csv", sample) if sample else None
    form = read_form(path, columns, kind, Table())
    write_table(tmp_path / "o.csv", evaluation.predictions, form, *rest, groups)
    return rows_of(tmp_path / "o.csv")


@pytest.mark.parametrize("metric", ["log_loss", "brier", "roc_auc", "pr_auc"])
@pytest.mark.parametrize("cell", ["0", "1", "0.5", ""])
def test_a_metric_of_probabilities_gets_them_whatever_the_sample_holds(
    metric, cell, tmp_path, capsys
):
    run = labelled(tmp_path, TWO, RISKS, metric, label_column="winner")
    sample = "id,guess\n" + "".join(f"{n},{cell}\n" for n in "123")
    rows = written(tmp_path, run, sample)
    assert rows[1:] == [["1", "0.3"], ["2", "0.8"], ["3", "0.1"]]
    assert f"cells: probabilities: guess = '1' (metric = {metric!r})" in capsys.readouterr().out
    assert written(tmp_path, run, "")[:2] == [["id", "0", "1"], ["1", "0.7", "0.3"]]


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "matthews"])
def test_a_metric_of_labels_gets_labels(metric, tmp_path, capsys):
    run = labelled(tmp_path, TWO, RISKS, metric, label_column="winner")
    sample = "id,guess\n1,0.5\n2,0.5\n3,0.5\n"
    assert written(tmp_path, run, sample)[1:] == [["1", "0"], ["2", "1"], ["3", "0"]]
    assert "warning: the sample has 0.5 where this run writes its labels" in capsys.readouterr().out
    three = labelled(tmp_path, THREE, LIKELY, metric)
    rows = written(tmp_path, three, "id,z,x,y\n1,0,0,0\n2,0,0,0\n3,0,0,0\n")
    assert rows[1:] == [["1", "0", "1", "0"], ["2", "0", "0", "1"], ["3", "0", "1", "0"]]


@pytest.mark.parametrize("metric", ["map_at_k", "top_k_accuracy", "ndcg_at_k"])
def test_a_metric_of_ranks_gets_the_likeliest_labels(metric, tmp_path):
    run = labelled(tmp_path, THREE, LIKELY, metric, k=2)
    assert written(tmp_path, run, "id,guess\n1,0\n2,0\n3,0\n")[1] == ["1", "x y"]
    blank = labelled(tmp_path, THREE.replace(",y", ",y y"), LIKELY, metric, k=2)
    with pytest.raises(InputError, match="the label 'y y' holds ' ', which separates the labels"):
        written(tmp_path, blank, "id,guess\n1,0\n2,0\n3,0\n")


MODELS = "id,text,winner\n1,a,model_a\n2,b,model_b\n3,c,tie\n"


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,tie,Model-B,modelA", ""),
        ("id,prob tie,prob model b,prob model a", ""),
        ("id,tie_p,model_b_p,model_a_p", ""),
        ("id,prob_tie,prob_b,prob_a", "id,prob_tie=tie,prob_b=model_b,prob_a=model_a"),
        ("id,1,2,3", "id,tie,model_b,model_a"),
    ],
)
def test_columns_are_matched_by_name(header, columns, tmp_path):
    run = labelled(tmp_path, MODELS, LIKELY, "log_loss", label_column="winner")
    sample = f"{header}\n" + "".join(f"{n},0.3,0.3,0.3\n" for n in "123")
    assert written(tmp_path, run, sample, columns)[1] == ["1", "0.1", "0.2", "0.7"]


@pytest.mark.parametrize("metric", ["auto", "log_loss", "accuracy"])
def test_columns_of_other_names_are_refused_with_the_mapping(metric, tmp_path):
    run = labelled(tmp_path, MODELS, LIKELY, metric, label_column="winner")
    sample = "id,prob_tie,prob_b,prob_a\n1,0.3,0.3,0.3\n2,0.3,0.3,0.3\n3,0.3,0.3,0.3\n"
    mapping = 'columns "id,prob_tie=tie,prob_b=model_b,prob_a=model_a"'
    with pytest.raises(InputError, match=mapping):
        written(tmp_path, run, sample)
    with pytest.raises(InputError, match="a column 'even', which this run does not predict"):
        written(tmp_path, run, sample, "id,prob_tie=even,prob_b,prob_a")


def test_numbers_are_matched_by_name_too(predicted, tmp_path):
    sample = write(tmp_path / "s.csv", "id,second,first\na,0,0\nb,0,0\nc,0,0\n")
    form = read_form(sample, "", "numbers", Table())
    with pytest.raises(InputError, match="have other names than the predictions flow, score"):
        write_table(tmp_path / "o.csv", predicted[0].predictions, form, *predicted[1:])
    form = read_form(sample, "id,second=score,first=flow", "numbers", Table())
    write_table(tmp_path / "o.csv", predicted[0].predictions, form, *predicted[1:])
    assert rows_of(tmp_path / "o.csv")[1] == ["a", "2.9", "0.2"]


def test_one_column_of_two_labels_says_which_it_is(tmp_path):
    text = TWO.replace(",0\n", ",fake\n").replace(",1\n", ",real\n")
    run = labelled(tmp_path, text, RISKS, "roc_auc", label_column="winner")
    ids = "1,0\n2,0\n3,0\n"
    with pytest.raises(InputError, match="that of 'fake' or of 'real'. Say it with --columns"):
        written(tmp_path, run, "id,score\n" + ids)
    assert written(tmp_path, run, "id,score\n" + ids, "id,score=fake")[1] == ["1", "0.7"]
    assert written(tmp_path, run, "id,Fake\n" + ids)[1] == ["1", "0.7"]
    several = labelled(tmp_path, "id,text,p,q\n1,a,1,0\n2,b,0,1\n3,c,0,0\n", RISKS, "roc_auc",
                       target_columns="p,q")  # fmt: skip
    with pytest.raises(InputError, match="one column can't hold the probabilities of 2 labels"):
        written(tmp_path, several, "id,score\n" + ids)


def test_several_labels_are_joined_as_they_were_read(tmp_path):
    text = "id,text,label\n1,a,x;y\n2,b,y\n3,c,z\n"
    rows = [[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]]
    run = labelled(tmp_path, text, rows, label_separator=";")
    assert written(tmp_path, run, "id,label\n1,x\n2,x\n3,x\n")[1] == ["1", "x;y"]
    assert written(tmp_path, run, "")[1] == ["1", "x;y"]


def test_a_part_of_a_table_keeps_a_lone_carriage_return(tmp_path):
    path = write(tmp_path / "a.csv", 'id,text,label\n1,a,x\n2,"plain\r",y\n')
    part = write(tmp_path / "b.csv", part_text(path, {2, 3}, Dialect()))
    rows = [row for _, row in read_rows(part)]
    assert rows == [row for _, row in read_rows(path)] and rows[1]["text"] == "plain\r"


def test_a_plain_table_keeps_a_lone_carriage_return(tmp_path):
    write_plain_table(tmp_path / "a.csv", [{"id": "1\r2", "label": "x"}], False)
    assert (tmp_path / "a.csv").read_bytes() == b'id,label\n"1\r2",x\n'


def test_records_with_numbers_under_other_names_are_refused(tmp_path):
    settings = make_settings(output="number")
    for own in ({"a": 1.0}, {"target": 1.0, "score": 2.0}):
        examples = [
            SimpleNamespace(line=n, labels=tuple(names), numbers=[*names.values()])
            for n, names in enumerate(({"target": 3.0}, own), start=1)
        ]
        with pytest.raises(InputError, match="line 2 has the numbers .*, and line 1 has target"):
            collect_numbers(examples, settings)


def test_ids_of_json_that_pandas_made_floats_are_whole(tmp_path):
    table = {"group_column": "query", "candidate_column": "doc", "label_column": "label"}
    settings = make_settings(output="labels", text_columns=["a"], **table)
    record = {"query": 7.0, "doc": 12.0, "a": "text", "label": "x"}
    path = write(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    [example] = read_examples(path, settings=settings)
    assert (str(example.id), str(example.group)) == ("7/12", "7")


@pytest.mark.parametrize("other", ["x y", "x, y", "x|y", "x/y"])
def test_another_separator_in_the_sample_is_named(other, tmp_path, capsys):
    rows = [[0.9, 0.8, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]]
    run = labelled(tmp_path, "id,text,label\n1,a,x;y\n2,b,y\n3,c,z\n", rows, label_separator=";")
    written(tmp_path, run, f'id,label\n1,"{other}"\n2,x\n3,z\n')
    assert (
        f"the sample joins labels by {other[1]!r}, and this run by ';'" in capsys.readouterr().out
    )
    written(tmp_path, run, "id,label\n1,x;y\n2,x\n3,x\n")
    assert "joins" not in capsys.readouterr().out


def test_a_prediction_that_is_not_finite_is_refused(tmp_path):
    rows = [[0.7, 0.2, 0.1], [np.nan, np.nan, np.nan], [0.5, 0.2, 0.3]]
    with pytest.raises(InputError, match="record '2' is not finite"):
        labelled(tmp_path, THREE, rows)


def test_ids_in_another_unicode_form_are_shown_as_such(tmp_path):
    text = THREE.replace("1,a", "caf\u00e9,a")
    run = labelled(tmp_path, text, LIKELY)
    with pytest.raises(InputError, match=r"'cafe\\u0301' of the sample looks like 'caf\\xe9'"):
        written(tmp_path, run, "id,label\ncafe\u0301,x\n2,x\n3,x\n")


GROUPED = "id,text,group,label\n1,a,g1,0\n2,b,g1,1\n3,c,g2,1\n4,d,g2,0\n"
CHANCES = [[0.7, 0.3], [0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]


@pytest.mark.parametrize("metric", ["auto", "map", "map_at_k", "ndcg"])
def test_ranked_groups_get_their_records(metric, tmp_path):
    run = labelled(tmp_path, GROUPED, CHANCES, metric, group_column="group")
    groups = ["g1", "g1", "g2", "g2"]
    by_group = written(tmp_path, run, "group,ids\ng2,0\ng1,0\n", groups=groups)
    assert by_group[1:] == [["g2", "4 3"], ["g1", "2 1"]]
    scores = "id,score\n4,0\n3,0\n2,0\n1,0\n"
    assert written(tmp_path, run, scores, groups=groups)[1:3] == [["4", "0.4"], ["3", "0.1"]]
    with pytest.raises(InputError, match="the ids of sample_submission are no groups"):
        written(tmp_path, run, scores, kind="ranked", groups=groups)
    assert written(tmp_path, run, "", kind="ranked", groups=groups)[1] == ["g1", "2 1"]
    with pytest.raises(InputError, match=r"predicted file: g3 \(1 of 3 ids\)"):
        written(tmp_path, run, "group,ids\ng2,0\ng3,0\ng1,0\n", groups=groups)
    with pytest.raises(InputError, match=r"predicted file: 5 \(1 of 5 ids\)"):
        written(tmp_path, run, scores + "5,0\n", groups=groups)


@pytest.mark.parametrize(("metric", "said"), [("roc_auc", 1), ("pr_auc", 1), ("log_loss", 0)])
def test_labels_without_auc_are_named(metric, said, tmp_path):
    """Of test no record has q and each has r: a mean over the labels is one over p."""
    table = {"output": "labels", "metric": metric, "target_columns": "p,q,r"}
    settings = make_settings(**table, one_label=False)
    text = "id,text,p,q,r\n1,a,1,0,1\n2,b,0,1,0\n3,c,0,0,1\n"
    train = read_examples(write(tmp_path / "a.csv", text), settings=settings)
    path = write(tmp_path / "t.csv", "id,text,p,q,r\n1,a,1,0,1\n2,b,0,0,1\n")
    test = read_examples(path, settings=settings)
    labels = collect_targets(train, settings)
    found = checks.find_faults({"train.csv": train, "test.csv": test}, labels, settings)
    assert [fault.where for fault in found] == ["test.csv"] * said
    assert all("every one: 2, 'q' for one" in fault.what for fault in found)
    candidates = make_candidates(test, np.array([[0.9, 0.8, 0.1], [0.2, 0.9, 0.1]]), labels)
    scores = evaluate(test, candidates, labels, path, settings).scores
    assert scores["labels_without_auc"] == ["q", "r"] and scores["roc_auc"] == 1
    whole = evaluate(train, make_candidates(train, np.eye(3), labels), labels, path, settings)
    assert "labels_without_auc" not in whole.scores


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("1 2", "not asked for by the sample: 3"),
        ("1 2 3 4", "without a row in the predicted file: 4"),
        ("1.0 2.0 3.0", "'1.0' of the sample looks like '1': write both in one way"),
        ("01 2 3", "'01' of the sample looks like '1'"),
    ],
)
def test_check_compares_the_ids_of_sample_and_test_file(ids, expected, tmp_path):
    sample = write(tmp_path / "s.csv", "id,label\n" + "".join(f"{n},x\n" for n in ids.split()))
    settings = make_settings(output="labels", sample_submission=str(sample))
    settings.test_file = "test.csv"
    train = read_examples(write(tmp_path / "a.csv", THREE), settings=settings)
    test = read_examples(write(tmp_path / "t.csv", "id,text\n1,a\n2,b\n3,c\n"), False, settings)
    labels = collect_targets(train, settings)
    files = {"train.csv": train, "test.csv": test}
    found = [str(fault) for fault in checks.find_faults(files, labels, settings)]
    assert len(found) == 1 and found[0].startswith("error: ids differ: ") and expected in found[0]
    sample.write_text("id,label\n3,x\n1,x\n2,x\n", encoding="utf-8")
    assert checks.find_faults(files, labels, settings) == []
    sample.write_text("id,p,q,r\n3,x,y,z\n1,x,y,z\n2,x,y,z\n", encoding="utf-8")
    [fault] = checks.find_faults(files, labels, settings)
    assert "predict.py can't fill it as it is" in str(fault) and '--columns "id,p=' in str(fault)


ONE_HOT = "id,text,p,q,r\n1,a,1,0,0\n2,b,0,1,0\n3,c,0,0,1\n"


def test_columns_of_which_one_is_1_are_one_label(tmp_path):
    targets = {"output": "labels", "target_columns": "p,q,r"}
    path = write(tmp_path / "a.csv", ONE_HOT)
    for one_label in (False, True):
        settings = make_settings(**targets, one_label=one_label)
        settings.train_file = settings.dev_file = str(path)
        examples = read_examples(path, settings=settings)
        labels = collect_targets(examples, settings)
        found = inspection.find_label_faults({str(path): examples}, labels, settings)
        assert labels.several != one_label and labels.names == ("p", "q", "r")
        said = [f for f in found if "set competition.one_label = true" in f.fix]
        assert len(said) == (not one_label)
    for row, number in (("4,d,1,1,0\n", 2), ("4,d,0,0,0\n", 0)):
        broken = write(tmp_path / "b.csv", ONE_HOT + row)
        with pytest.raises(InputError, match=f"line 5: {number} of the columns p, q, r are 1"):
            read_examples(broken, settings=settings)


STILL = {
    "one class": ("macro_f1", "label\n1,a,x\n2,b,x\n", "each record has the same label, x"),
    "matthews of one class": ("matthews", "label\n1,a,x\n2,b,x\n", "matthews is 0.0000 whatever"),
    "auc of one class": ("roc_auc", "label\n1,a,x\n2,b,x\n", "roc_auc is 0.5000 whatever a model"),
    "loss of unknown": ("log_loss", "label\n1,a,v\n2,b,w\n", "neg_log_loss is 0.0000 whatever"),
    "unknown labels": ("accuracy", "label\n1,a,v\n2,b,w\n", "accuracy is 0.0000 whatever a model"),
}


@pytest.mark.parametrize("case", STILL)
def test_check_names_a_dev_file_on_which_the_score_stands_still(case, tmp_path):
    metric, rows, expected = STILL[case]
    settings = make_settings(output="labels", metric=metric)
    train = read_examples(write(tmp_path / "a.csv", THREE), settings=settings)
    path = write(tmp_path / "d.csv", f"id,text,{rows}")
    settings.dev_file = str(path)
    labels = collect_targets(train, settings)
    dev = read_examples(path, settings=settings)
    [fault] = inspection.find_still_score(dev, labels, settings)
    assert expected in str(fault) and fault.level == "warning"
    settings.dev_file = str(tmp_path / "a.csv")
    assert inspection.find_still_score(train, labels, settings) == []


def test_check_names_numbers_on_which_the_score_stands_still(tmp_path):
    for metric, still in (("pearson", True), ("qwk", True), ("rmse", False)):
        settings = make_settings(metric=metric)
        train = read_examples(
            write(tmp_path / "a.csv", "id,text,target\n1,a,1\n2,b,2\n3,c,3\n"), settings=settings
        )
        path = write(tmp_path / "d.csv", "id,text,target\n1,a,2\n2,b,2\n")
        settings.dev_file = str(path)
        dev, labels = read_examples(path, settings=settings), collect_targets(train, settings)
        assert len(inspection.find_still_score(dev, labels, settings)) == still


# ------------------------------------------------------------------------- quotes of a table

EVEN = "".join(f"{n}\tplain words {n}\t{n % 2}\n" for n in range(3, 9))


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        # A text that begins with a quote, and one that ends with one: not a cell of several rows.
        ('1\t"Great , fun\t1\n2\tsaid "she"\t0\n', ['"Great , fun', 'said "she"']),
        ('1\t"Great"\t1\n2\t""\t0\n', ['"Great"', '""']),
        ('1\t"\t1\n2\t"a" b "c"\t0\n', ['"', '"a" b "c"']),
        # As pandas writes: quotes around a cell whose own are written twice, or with a tab.
        ('1\t"say ""yes"""\t1\n2\t"a"\t0\n', ['say "yes"', "a"]),
        ('1\t"a\tb"\t1\n2\t"c\nd"\t0\n', ["a\tb", "c\nd"]),
    ],
)
def test_quotes_of_a_tsv_are_what_its_lines_say(rows, texts, tmp_path):
    path = write(tmp_path / "a.tsv", "id\ttext\tlabel\n" + rows + EVEN)
    examples = read_examples(path, settings=make_settings(output="labels"))
    assert [example.text_a for example in examples[:2]] == texts
    assert len(examples) == 8 and [e.id for e in examples] == [str(n) for n in range(1, 9)]


def test_a_tsv_with_quotes_around_every_cell_is_unquoted(tmp_path):
    path = write(tmp_path / "a.tsv", '"id"\t"text"\t"label"\n"1"\t"Great"\t"x"\n')
    [example] = read_examples(path, settings=make_settings(output="labels"))
    assert (example.id, example.text_a, example.labels) == ("1", "Great", ("x",))


SWALLOWED = {
    # Line 5 has a cell less, so the quotes could be those of cells with line breaks.
    "a.tsv": (
        'id\ttext\tlabel\n1\t"Great , fun\t1\n2\tfine\t1\n3\tsaid "she"\t0\n4\tb\n',
        "line 2: a tab expected after '\"'",
    ),
    "b.tsv": (
        'id\ttext\tlabel\n1\t"Great , fun\t1\n2\tfine\t1\n3\tshe said"\t0\n4\tb\n',
        "lines 2 to 4: a double quote opens a cell",
    ),
    "c.csv": (
        'id,text,label\n1,"Great fun,1\n2,fine,1\n3,she said",0\n4,b,1\n',
        "lines 2 to 4: a double quote opens a cell",
    ),
}


@pytest.mark.parametrize("name", SWALLOWED)
def test_a_quote_that_swallows_rows_is_named(name, tmp_path):
    content, expected = SWALLOWED[name]
    path = write(tmp_path / name, content)
    with pytest.raises(InputError) as error:
        read_examples(path, settings=make_settings(output="labels"))
    message = str(error.value)
    assert expected in message
    assert ("line 5, which has 2 cells" in message) == name.endswith(".tsv")


def test_a_csv_text_of_several_lines_is_no_row(tmp_path):
    path = write(tmp_path / "a.csv", 'id,text,label\n1,"I came, saw\nand won, too",1\n2,b,0\n')
    examples = read_examples(path, settings=make_settings(output="labels"))
    assert [example.text_a for example in examples] == ["I came, saw\nand won, too", "b"]


def test_the_parts_of_a_tsv_hold_its_lines(tmp_path):
    lines = [f'{n}\t"Great , fun {n}\t{n % 2}\n' for n in range(8)]
    path = write(tmp_path / "a.tsv", "id\ttext\tlabel\n" + "".join(lines))
    examples = read_examples(path, settings=make_settings(output="labels"))
    held = np.arange(8) < 2
    (part, _), (dev, _) = write_parts(path, examples, held, Dialect())
    assert part.read_text() == "id\ttext\tlabel\n" + "".join(lines[2:])
    assert dev.read_text() == "id\ttext\tlabel\n" + "".join(lines[:2])


@pytest.mark.parametrize("name", ["hex", "rot13", "base64", "nope"])
def test_what_is_no_encoding_of_texts_is_refused(name):
    with pytest.raises(ValueError, match="Python has no such encoding"):
        make_settings(encoding=name)


# ------------------------------------------------------------------------- cells of labels


@pytest.mark.parametrize(
    "cell", ['{"choices":["a","b"]}', '["a", "b"]', "['a', 'b']", "{'a': 1}", "[1, 2]"]
)
@pytest.mark.parametrize("separator", ["", "|"])
def test_a_list_in_a_label_cell_is_refused(cell, separator, tmp_path):
    quoted = cell.replace('"', '""')
    path = write(tmp_path / "a.csv", f'id,text,label\n1,b,x\n2,c,"{quoted}"\n')
    settings = make_settings(output="labels", label_separator=separator)
    with pytest.raises(InputError, match="line 3: the label in the column 'label' is .*lists lab"):
        read_examples(path, settings=settings)


def test_labels_in_brackets_are_labels(tmp_path):
    path = write(tmp_path / "a.csv", "id,text,label\n1,b,[CLS]\n2,c,{x}\n")
    examples = read_examples(path, settings=make_settings(output="labels"))
    assert [example.labels for example in examples] == [("[CLS]",), ("{x}",)]


def test_ids_and_labels_that_pandas_made_floats_are_whole_numbers(tmp_path):
    rows = [{"id": 1.0, "text_a": "a", "label": 2.0}, {"id": 2.0, "text_a": "b", "label": 2}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    examples = read_examples(path)
    assert [example.id for example in examples] == [1, 2]
    assert [type(example.id) for example in examples] == [int, int]
    assert {example.labels for example in examples} == {("2",)}
    rows = [{"id": 1, "text_a": "a", "labels": [2.0, 3]}]
    path = write(tmp_path / "b.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read_examples(path)[0].labels == ("2", "3")
    write(path, json.dumps({"id": 1.5, "text_a": "a", "label": "b"}))
    with pytest.raises(InputError, match='"id" must be a string or a whole number, not 1.5'):
        read_examples(path)


def test_lines_that_look_like_rows_may_be_one_text(tmp_path):
    path = write(tmp_path / "a.csv", 'id,label,text\n7,a,"News:\n10,b,c"\n8,b,ok\n')
    with pytest.raises(InputError, match='one text, set competition.quoting = "cells"'):
        read_examples(path, settings=make_settings(output="labels"))
    first, _ = read_examples(path, settings=make_settings(output="labels", quoting="cells"))
    assert first.text_a == "News:\n10,b,c"


def test_a_form_is_refused_before_the_predictions(predicted, tmp_path):
    _, labels, settings = predicted
    sample = write(tmp_path / "s.csv", "id,score,flow\na,0,0\nb,0,0\n")
    form = read_form(sample, "", "numbers", Table())
    check_form(form, ["a", "b"], labels, settings, ())
    with pytest.raises(InputError, match="not asked for by the sample: c"):
        check_form(form, ["a", "b", "c"], labels, settings, ())


def test_placeholders_for_labels_are_none_in_a_file_to_predict(tmp_path):
    table = {"choice_columns": ["A", "B"], "label_column": "answer"}
    path = write(tmp_path / "a.csv", "id,question,A,B,answer\n1,which?,x,y,-1\n2,what?,x,z,?\n")
    settings = make_settings(output="number", loss="listwise", **table)
    examples = read_examples(path, require_labels=False, settings=settings)
    assert len(examples) == 4 and not any(example.labelled for example in examples)
    with pytest.raises(InputError, match="is '-1', but the choices are"):
        read_examples(path, settings=settings)

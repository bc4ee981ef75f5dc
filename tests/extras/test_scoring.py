"""score.py: the scores of a predictions file of anybody are those that evaluate.py gives."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from project_process import ProjectProcess
from projects import CASES, TASKS, bake_project, run
from sacrebleu import corpus_bleu, corpus_chrf
from sklearn.metrics import cohen_kappa_score, root_mean_squared_error

pytestmark = pytest.mark.slow

# What a predictions file knows nothing of.
OF_A_RUN = {"file", "data_hash", "records", "threshold", "thresholds", "precision_recall", "unread"}
OF_A_RUN |= {"unread_reasons", "cuts"}


@pytest.fixture(scope="module", params=TASKS)
def process(request, tmp_path_factory):
    """A process in a project without runs."""
    project = bake_project(request.param, tmp_path_factory.mktemp("scoring"), "comparison")
    if request.param == "text_classification":  # as in the project with which it was scored
        shutil.copytree(ROOT / "templates/extras/competition", project / "extras/competition")
        table = (project / "extras/competition/config.toml").read_text("utf-8")
        with open(project / "config.toml", "a", encoding="utf-8") as config:
            config.write(f"\n{table}")
    process = ProjectProcess(project)
    yield process
    process.stop()


def reference(process: ProjectProcess) -> tuple[Path, Path, dict]:
    """Return the bundled predictions for dev, the gold, and the scores that they were given."""
    folder = process.project / "reference"
    template = process.project.name.removesuffix("_project")
    predictions = ROOT / f"baselines/{template}_sample/reference/predictions/dev.jsonl"
    scores = json.loads((folder / "scores.json").read_text("utf-8"))["dev"]
    return predictions, process.project / "sample/dev.jsonl", scores


@pytest.mark.shown("seq2seq", "named_entity_recognition")
def test_the_reference_has_the_scores_of_evaluate(process: ProjectProcess, tmp_path: Path) -> None:
    predictions, gold, known = reference(process)
    if "bleu" in known:
        pytest.skip("the reference has no texts: the next test has")
    out = tmp_path / "scores.json"
    done = process.run("score.py", str(predictions), str(gold), "--out", str(out))
    assert done.code == 0, done.err
    scores = json.loads(out.read_text("utf-8"))
    assert {name: scores.get(name) for name in known.keys() - OF_A_RUN} == {
        name: value for name, value in known.items() if name not in OF_A_RUN
    }
    template = process.project.name.removesuffix("_project")
    assert f"{known[CASES[template].DEV_SCORE]:.4f}" in done.out


def test_the_order_of_probabilities_changes_no_score(process: ProjectProcess, tmp_path) -> None:
    if "text_classification" not in process.project.name:
        pytest.skip("only labels have probabilities by name")
    gold, predictions = tmp_path / "gold.jsonl", tmp_path / "predictions.jsonl"
    rows = [(n, "yes" if n % 3 else "no", (n * 7 % 10) / 10) for n in range(20)]
    texts = [{"id": n, "text_a": "a", "label": label} for n, label, _ in rows]
    gold.write_text("".join(f"{json.dumps(one)}\n" for one in texts), "utf-8")
    found = []
    for names in (("no", "yes"), ("yes", "no")):
        given = [
            {
                "id": n,
                "label": "yes",
                "probabilities": {k: p if k == "yes" else 1 - p for k in names},
            }
            for n, _, p in rows
        ]
        predictions.write_text("".join(f"{json.dumps(one)}\n" for one in given), "utf-8")
        out = tmp_path / "scores.json"
        words = (str(predictions), str(gold), "--out", str(out), "--metric", "pr_auc")
        assert process.run("score.py", *words, "--positive_label", "yes").code == 0
        found.append(json.loads(out.read_text("utf-8"))["pr_auc"])
    assert found[0] == found[1]


def test_an_unknown_flag_is_named(process: ProjectProcess) -> None:
    predictions, gold, _ = reference(process)
    done = process.run("score.py", str(predictions), str(gold), "--nonsense", "1")
    assert done.code in (1, 2) and "nonsense" in done.err and "Traceback" not in done.err


def test_written_texts_have_the_bleu_of_sacrebleu(tmp_path: Path) -> None:
    project = bake_project("seq2seq", tmp_path, "comparison")
    golds = [json.loads(line) for line in (project / "sample/dev.jsonl").open(encoding="utf-8")]
    texts = [f"{one['targets'][0]} {'and more' * (n % 3)}".strip() for n, one in enumerate(golds)]
    path, out = tmp_path / "p.jsonl", tmp_path / "scores.json"
    rows = [{"id": g["id"], "prediction": t} for g, t in zip(golds, texts, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    run("score.py", path, "sample/dev.jsonl", "--out", out, cwd=project)
    scores = json.loads(out.read_text("utf-8"))
    most = max(len(one["targets"]) for one in golds)
    streams = [[(one["targets"] + [None] * most)[n] for one in golds] for n in range(most)]
    assert scores["bleu"] == pytest.approx(corpus_bleu(texts, streams).score, abs=1e-9)
    assert scores["chrf"] == pytest.approx(corpus_chrf(texts, streams).score, abs=1e-9)
    assert scores["exact_match"] == pytest.approx(np.mean([n % 3 == 0 for n in range(len(golds))]))


def test_ids_that_differ_are_one_sentence(process: ProjectProcess, tmp_path: Path) -> None:
    predictions, gold, _ = reference(process)
    first, second, *rest = predictions.read_text("utf-8").splitlines()
    other = json.dumps({**json.loads(first), "id": "other"})
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join([second, second, other, *rest]) + "\n", "utf-8")
    done = process.run("score.py", str(path), str(gold))
    name, again = (json.loads(line)["id"] for line in (first, second))
    total = len(rest) + 2
    assert done.code == 1 and done.err.strip() == (
        f"error: {path} lacks 1 of {total} records ({str(name)!r}), has 1 that the gold lacks "
        f"('other'), repeats 1 ({str(again)!r}): write one record for each id of the gold."
    )
    path.write_text(json.dumps({**json.loads(first), "id": "9" * 4000}) + "\n", "utf-8")
    assert len(process.run("score.py", str(path), str(gold)).err) < 500


def test_a_record_that_is_no_prediction_is_named(process: ProjectProcess, tmp_path: Path) -> None:
    predictions, gold, _ = reference(process)
    rows = [json.loads(line) for line in predictions.read_text("utf-8").splitlines()]
    rows = [{**row, "prediction": "x"} for row in rows]
    rows[1] = {"id": rows[1]["id"], "nothing": 1}
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = process.run("score.py", str(path), str(gold))
    assert done.code == 1 and "p.jsonl, line 2: " in done.err and "Traceback" not in done.err


def test_numbers_have_the_scores_of_scikit_learn(tmp_path: Path) -> None:
    project = bake_project("text_classification", tmp_path, "comparison,competition")
    config = (project / "config.toml").read_text("utf-8")
    assert 'output = "labels"' in config
    changed = config.replace('output = "labels"', 'output = "number"')
    (project / "config.toml").write_text(changed, "utf-8")
    draw = np.random.default_rng(1)
    gold = draw.integers(0, 5, 40)
    found = gold + draw.normal(0, 1, 40)
    grades = np.clip(np.rint(found), 0, 4).astype(int)
    rows = [{"id": n, "text_a": "x", "target": int(value)} for n, value in enumerate(gold)]
    answers = [
        {"id": n, "targets": {"target": value}, "grades": {"target": int(grade)}}
        for n, (value, grade) in enumerate(zip(found.tolist(), grades, strict=True))
    ]
    for name, records in (("gold", rows), ("predictions", answers)):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    paths = [tmp_path / name for name in ("predictions.jsonl", "gold.jsonl")]
    run("score.py", *paths, "--out", tmp_path / "scores.json", cwd=project)
    scores = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert scores["rmse"] == pytest.approx(root_mean_squared_error(gold, found))
    kappa = cohen_kappa_score(gold, grades, labels=range(5), weights="quadratic")
    assert scores["qwk"] == pytest.approx(kappa)

    process = ProjectProcess(project)
    try:
        for wrong in ({"target": float("nan")}, {"target": True}, {}):
            answers[1] = {"id": 1, "targets": wrong, "grades": {"target": 1}}
            text = "".join(json.dumps(record) + "\n" for record in answers)
            paths[0].write_text(text, "utf-8")
            done = process.run("score.py", *map(str, paths))
            assert done.code == 1 and 'line 2: "targets" must be {"target": ...}' in done.err
    finally:
        process.stop()


@pytest.mark.parametrize("wrong", [float("nan"), -0.5, 7])
def test_a_probability_outside_of_0_and_1_is_named(tmp_path: Path, wrong: float) -> None:
    project = bake_project("text_classification", tmp_path, "comparison,competition")
    rows = [{"id": n, "text_a": "a", "label": "xy"[n]} for n in range(2)]
    own = [{"x": 1, "y": 0}, {"x": 0.5, "y": wrong}]
    answers = [{**row, "probabilities": one} for row, one in zip(rows, own, strict=True)]
    paths = [tmp_path / name for name in ("predictions.jsonl", "gold.jsonl")]
    for path, records in zip(paths, (answers, rows), strict=True):
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    process = ProjectProcess(project)
    try:
        done = process.run("score.py", *map(str, paths))
    finally:
        process.stop()
    assert done.code == 1 and "line 2: the probability of 'y' is " in done.err


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A function from gold, answers and flags to what score.py of classification says."""
    folder = tmp_path_factory.mktemp("labels")
    process = ProjectProcess(bake_project("text_classification", folder, "comparison,competition"))

    def score(golds: list, answers: list, *flags: str):
        paths = [folder / name for name in ("predictions.jsonl", "gold.jsonl", "scores.json")]
        rows = [{"id": n, "text_a": "a", **gold} for n, gold in enumerate(golds)]
        found = [{"id": n, **answer} for n, answer in enumerate(answers)]
        for path, records in zip(paths, (found, rows), strict=False):
            path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        paths[2].unlink(missing_ok=True)
        done = process.run("score.py", *map(str, paths[:2]), "--out", str(paths[2]), *flags)
        assert "Traceback" not in done.err
        return done, json.loads(paths[2].read_text("utf-8")) if done.code == 0 else {}

    yield score
    process.stop()


def named(*labels: str) -> list[dict]:
    return [{"label": label} for label in labels]


def test_predicted_labels_have_the_names_and_parents_of_gold(scored) -> None:
    aliases = ("--competition.label_aliases", '{"pos": "positive", "1": "positive"}')
    _, scores = scored(named("pos", "neg", "pos"), [{"label": 1}, *named("neg", "pos")], *aliases)
    assert scores["accuracy"] == 1
    paths = named("a/b", "a/c")
    assert scored(paths, paths, "--competition.hierarchy", "/")[1]["micro_f1"] == 1
    assert scored(paths, paths, "--competition.hierarchy", "/")[1]["accuracy"] == 1


def test_no_score_of_probabilities_hides_what_they_lack(scored) -> None:
    golds, sure = named("a", "b", "a"), {"a": 0.9, "b": 0.1}
    answers = [{"label": "a", "probabilities": sure} for _ in golds]
    _, scores = scored(golds, answers)
    # The order of the labels makes no difference.
    turned = [*answers[:2], {"label": "a", "probabilities": {"b": 0.1, "a": 0.9}}]
    assert scored(golds, turned)[1] == scores and "log_loss" in scores
    for golds_of, answers_of, said in (
        (named("a", "b", "c"), answers, "line 3 has no probability of 'c'"),
        (golds, [*answers[:2], {"label": "a"}], "line 3 has no probability of 'a'"),
        (golds, [{"label": "a"}, *answers[1:]], "line 1 has no probability of 'a'"),
        (golds, [*answers[:2], {"label": "a", "probabilities": {**sure, "c": 0}}], "line 3 has a"),
    ):
        done, scores = scored(golds_of, answers_of)
        assert said in done.out and "log_loss" not in scores and "accuracy" in scores


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"label": "a", "probabilities": {"a": 0, "b": 0}}, "the probabilities sum to 0"),
        ({"label": "a", "probabilities": {"a": 0.9, "b": 0.9}}, "the probabilities sum to 1.8"),
        ({"labels": ["a", "b"]}, 'one "label" for each record'),
        ({"label": {"a": 1}}, 'write the prediction as "label"'),
        ({"label": "a", "score": float("nan")}, 'the "score" is nan'),
        ({"label": "b", "labels": ["b"]}, 'both "label" and "labels"'),
    ],
)
def test_a_prediction_that_can_not_be_scored_is_named(scored, wrong: dict, said: str) -> None:
    done, _ = scored(named("a", "b"), [*named("a"), wrong], "--positive_label", "a")
    ranked = "score" in wrong
    if ranked:
        answers = [{"label": "a", "score": 0.5}, wrong]
        done, _ = scored(named("a", "b"), answers, "--positive_label", "a")
    assert done.code == 1 and "line 2: " in done.err and said in done.err


@pytest.mark.parametrize("grades", [{"target": "1"}, ["target"], {"target": 1.9}, {"other": 1}])
def test_grades_are_whole_numbers(scored, grades: object) -> None:
    golds = [{"target": n} for n in (1, 2)]
    answers = [{"targets": {"target": n}, "grades": {"target": n}} for n in (1, 2)]
    assert scored(golds, answers, "--output", "number")[1]["qwk"] == 1
    answers[1]["grades"] = grades
    done, _ = scored(golds, answers, "--output", "number")
    assert done.code == 1 and 'line 2: "grades" must be {"target": ...}' in done.err


def test_a_key_that_comes_twice_is_named(process: ProjectProcess, tmp_path: Path) -> None:
    predictions, gold, _ = reference(process)
    first, *rest = predictions.read_text("utf-8").splitlines()
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join([first[:-1] + ', "id": 1, "id": 2}', *rest]) + "\n", "utf-8")
    done = process.run("score.py", str(path), str(gold))
    assert done.code == 1 and "line 1: the key 'id' comes twice" in done.err


@pytest.mark.parametrize("template", ["named_entity_recognition", "relation_extraction"])
def test_words_that_are_not_those_of_their_span_are_named(template: str, tmp_path: Path) -> None:
    project = bake_project(template, tmp_path, "comparison")
    text, path = "\U0001f600 Ada founded Zenco", tmp_path / "p.jsonl"
    gold = {"id": 1, "text": text}
    if template == "named_entity_recognition":
        gold["entities"] = [{"type": "x", "span": [2, 5]}]
        wrong = {"entities": [{"type": "x", "span": [3, 6], "text": "Ada"}]}
    else:
        triple = {"subject": [2, 5], "predicate": "p", "object": [14, 19]}
        gold["triples"] = [triple]
        wrong = {"triples": [{**triple, "object": [13, 18], "object_text": "Zenco"}]}
    (tmp_path / "gold.jsonl").write_text(json.dumps(gold) + "\n", "utf-8")
    path.write_text(json.dumps({"id": 1, **wrong}) + "\n", "utf-8")
    process = ProjectProcess(project)
    try:
        done = process.run("score.py", str(path), str(tmp_path / "gold.jsonl"))
    finally:
        process.stop()
    assert done.code == 1 and "p.jsonl, line 1: " in done.err and "the text at [" in done.err


def test_predicted_tags_are_read_in_the_scheme_of_the_gold(tmp_path: Path) -> None:
    process = ProjectProcess(bake_project("named_entity_recognition", tmp_path, "comparison"))

    def score(gold: str, predicted: str, *flags: str):
        paths = [tmp_path / "p.txt", tmp_path / "gold.txt"]
        for path, tags in zip(paths, (predicted, gold), strict=True):
            path.write_text("".join(f"w {tag}\n" for tag in tags.split()), "utf-8")
        return process.run("score.py", *map(str, paths), *flags)

    try:
        for gold, predicted in (
            ("B-PER I-PER O B-LOC", "I-PER I-PER O I-LOC"),
            ("B-PER E-PER O S-LOC", "B-PER I-PER O B-LOC"),
        ):
            assert "is not allowed here in BIO" in score(gold, predicted).err
            dropped = score(gold, predicted, "--conll.broken_tags", "drop")
            assert dropped.code == 0 and "all" in dropped.out and "1.0000" not in dropped.out
        # In BIO1 the tags of BIO2 have the same entities.
        assert "1.0000" in score("I-PER I-PER O I-LOC", "B-PER I-PER O B-LOC").out
    finally:
        process.stop()


def test_texts_are_read_as_utf_8(tmp_path: Path) -> None:
    process = ProjectProcess(bake_project("seq2seq", tmp_path, "comparison"))
    golds = [{"id": n, "source": "a", "targets": [f"text {n} of four words"]} for n in range(2)]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(g) + "\n" for g in golds), "utf-8")
    path = tmp_path / "p.txt"
    text = "".join(f"{one['targets'][0]}\r\n" for one in golds)
    try:
        path.write_text(text, "utf-8-sig", newline="")
        done = process.run("score.py", str(path), str(tmp_path / "gold.jsonl"))
        assert done.code == 0 and "100.0000" in done.out and "1.0000" in done.out
        path.write_bytes(text.replace("text 1", "t\xe9xt").encode("latin-1"))
        done = process.run("score.py", str(path), str(tmp_path / "gold.jsonl"))
        assert done.code == 1 and "p.txt, line 2: not UTF-8" in done.err
    finally:
        process.stop()


@pytest.mark.shown("not JSON")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": "Ada", "a": "wrong"}', "the key 'a' comes twice"),
        (b'{"a": "\xff"}', "line 1: not UTF-8"),
        (b"[1]", "not one JSON object"),
        (b"{", "not JSON"),
    ],
)
def test_a_submission_of_squad_that_is_broken_is_named(
    content: bytes, said: str, tmp_path: Path
) -> None:
    process = ProjectProcess(bake_project("reading_comprehension", tmp_path, "comparison"))
    gold = {"id": "a", "context": "Ada left.", "question": "Who?", "answers": []}
    gold["answers"] = [[0, 3]]
    (tmp_path / "gold.jsonl").write_text(json.dumps(gold) + "\n", "utf-8")
    path = tmp_path / "p.json"
    try:
        path.write_bytes(b'\xef\xbb\xbf{"a": "Ada"}')
        done = process.run("score.py", str(path), str(tmp_path / "gold.jsonl"))
        assert done.code == 0 and "1.0000" in done.out, done.err
        path.write_bytes(content)
        done = process.run("score.py", str(path), str(tmp_path / "gold.jsonl"))
        assert done.code == 1 and "p.json" in done.err and said in done.err
    finally:
        process.stop()

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

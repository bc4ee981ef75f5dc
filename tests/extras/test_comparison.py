"""compare.py: what it finds, prints, and says when something is missing; its bootstrap."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from projects import bake_project, run

from core.base.errors import InputError
from core.base.files import file_hash, write_json, write_json_lines
from extras.comparison import comparison
from extras.comparison.comparison import compare_columns
from extras.competition.resampling import label_score


def write_scored(folder, records, project, file="sample/dev.jsonl"):
    scores = {"dev": {"file": file, "data_hash": file_hash(project / file)}}
    write_json(folder / "scores.json", scores)
    write_json_lines(folder / "predictions" / "dev.jsonl", records)


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    return bake_project("relation_extraction", tmp_path_factory.mktemp("compare"), "comparison")


@pytest.fixture
def project(baked, tmp_path, monkeypatch):
    """A project with a perfect run, and a reference that never finds where anybody was born."""
    project = tmp_path / "my project"
    shutil.copytree(baked, project, ignore=shutil.ignore_patterns("reference"))
    lines = (project / "sample/dev.jsonl").read_text(encoding="utf-8").splitlines()
    perfect = [json.loads(line) for line in lines]
    stripped = [
        {
            "id": record["id"],
            "triples": [
                {**t, "score": 0.9} for t in record["triples"] if t["predicate"] != "born_in"
            ],
        }
        for record in perfect
    ]
    write_scored(project / "runs/good", perfect, project)
    write_scored(project / "reference", stripped, project)
    monkeypatch.setattr(comparison, "PROJECT", project)
    monkeypatch.setattr(comparison, "project_path", lambda path: project / path)
    return project


def run_compare(project, *arguments):
    return run(project / "compare.py", *arguments, cwd=project.parent, check=False)


@pytest.mark.slow
def test_run_against_the_reference(project):
    for folder, epochs in (("runs/good", 2), ("reference", 20)):
        scores = json.loads((project / folder / "scores.json").read_text(encoding="utf-8"))
        write_json(project / folder / "scores.json", scores | {"epochs": epochs})
    done = run_compare(project, "good")
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert "epochs: good was trained for 2, reference for 20\n" in done.stdout
    assert "better" in done.stdout and "born_in" in done.stdout
    result = json.loads((project / "runs/good/comparison.json").read_text(encoding="utf-8"))
    assert result["first"] == 1 and result["second"] < 1
    assert 0 < result["low"] < result["difference"] < result["high"]
    assert result["verdict"] == "better"
    first, *others = result["per_predicate"].items()
    assert first[0] == "born_in" and first[1]["difference"] == 1
    assert first[1]["run_correct"] == first[1]["gold"] > first[1]["other_correct"] == 0
    assert others and all(row["difference"] == 0 for _, row in others)


@pytest.mark.slow
def test_runs_for_which_other_answers_are_right_are_not_compared(tmp_path):
    """Two columns of one table; and a positive label that nobody has."""
    project = bake_project("text_classification", tmp_path, "comparison, competition")
    shutil.copytree(project / "reference", project / "runs/one")
    settings = {"task": "Text classification", "competition": {"label_column": "one"}}
    for name in ("one", "two"):
        shutil.copytree(project / "reference", project / "runs" / name, dirs_exist_ok=True)
        settings["competition"]["label_column"] = name
        (project / "runs" / name / "config.json").write_text(json.dumps(settings))
    done = run_compare(project, "one", "two")
    said = "one has competition.label_column = 'one' and two has 'two': their scores mean"
    assert done.returncode == 1 and said in done.stderr
    assert run_compare(project, "one").returncode == 0
    scores = project / "runs/one/scores.json"
    known = json.loads(scores.read_text())
    known["monitor"], known["dev"]["positive_label"] = "f1", "nobody"
    scores.write_text(json.dumps(known))
    done = run_compare(project, "one")
    assert done.returncode == 0 and "0.0000 f1" in done.stdout, done.stderr


def test_a_score_that_is_gone_is_one_sentence():
    """As of a metric of one's own that was removed from task/metrics.py."""
    golds = [SimpleNamespace(id=str(n), labels=("a",), group=None) for n in range(2)]
    labels = SimpleNamespace(names=["a", "b"], several=False, positive=None)
    rows = {g.id: ("here", {"label": "a", "probabilities": {"a": 0.9, "b": 0.1}}) for g in golds}
    settings = SimpleNamespace(competition=SimpleNamespace(k=1, beta=1.0))
    assert label_score("neg_log_loss", golds, rows, labels, settings).rows == 2
    with pytest.raises(InputError, match="of_mine is no score of this project, or not of these"):
        label_score("of_mine", golds, rows, labels, settings)


@pytest.mark.slow
def test_entities_are_compared_by_the_score_that_decides(tmp_path):
    """F-beta of the run, within its own interval."""
    project = bake_project("named_entity_recognition", tmp_path, "comparison")
    lines = (project / "sample/dev.jsonl").read_text(encoding="utf-8").splitlines()
    gold = [json.loads(line) for line in lines]
    more = [{**one, "entities": [*one["entities"]]} for one in gold]
    for record in more[::3]:
        record["entities"] = record["entities"][:1]  # fewer are found, all of them right
    counts = [sum(len(one["entities"]) for one in records) for records in (more, gold)]
    for name, records in (("few", more), ("all", gold)):
        found = [
            {**one, "entities": [{**e, "score": 0.9} for e in one["entities"]]} for one in records
        ]
        write_scored(project / "runs" / name, found, project)
        config = {"task": "Named-entity recognition", "beta": 3.0}
        (project / "runs" / name / "config.json").write_text(json.dumps(config))
    done = run_compare(project, "few", "all")
    assert done.returncode == 0, done.stderr
    wanted = 10 * counts[0] / (9 * counts[1] + counts[0])
    assert f"this   {wanted:.4f} F3" in done.stdout and "other  1.0000 F3" in done.stdout


@pytest.mark.slow
def test_one_sentence_when_a_run_is_missing(project):
    done = run_compare(project, "absent")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    sentence = "absent is not a run: runs/ has good."
    assert sentence in done.stderr


def test_folders_are_found_by_path_and_by_name(project):
    for name in ("good", "runs/good", str(project / "runs/good"), "reference"):
        scored = comparison.find_scored(name)
        assert comparison.shared_gold_file(scored, scored) == project / "sample/dev.jsonl"


def test_a_data_folder_may_have_the_name_of_a_run(project, monkeypatch):
    (project / "good").mkdir()
    monkeypatch.chdir(project)
    assert comparison.find_scored("good").folder == project / "runs/good"


def test_dev_file_outside_the_project(project, tmp_path):
    elsewhere = tmp_path / "elsewhere.jsonl"
    (project / "sample/dev.jsonl").rename(elsewhere)
    scores = {"dev": {"file": elsewhere.name, "data_hash": file_hash(elsewhere)}}
    write_json(project / "runs/good/scores.json", scores)
    write_json(project / "runs/good/config.json", {"dev_file": str(elsewhere)})
    run = comparison.find_scored("good")
    assert comparison.shared_gold_file(run, run) == elsewhere


def test_other_data_is_refused(project):
    write_scored(project / "runs/other", [], project, "sample/test.jsonl")
    run, other = comparison.find_scored("good"), comparison.find_scored("other")
    with pytest.raises(InputError, match="good was scored on sample/dev.jsonl and other on sample"):
        comparison.shared_gold_file(run, other)


def test_changed_data_is_refused(project):
    run = comparison.find_scored("good")
    with open(project / "sample/dev.jsonl", "a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(InputError, match="has changed since good was scored"):
        comparison.shared_gold_file(run, run)
    (project / "sample/dev.jsonl").unlink()
    with pytest.raises(InputError, match="is missing"):
        comparison.shared_gold_file(run, run)


def test_unscored_and_incomplete_folders_are_refused(project):
    (project / "runs/empty").mkdir()
    with pytest.raises(InputError, match="has no scores.json"):
        comparison.find_scored("empty")
    write_json(project / "runs/empty/scores.json", {"test": {}})
    with pytest.raises(InputError, match='has no "dev"'):
        comparison.find_scored("empty")
    run = comparison.find_scored("good")
    with pytest.raises(InputError, match="lacks 1 of 1 records, 'unknown'"):
        comparison.read_predictions(run, ["unknown"])
    path = project / "runs/good/predictions/dev.jsonl"
    path.write_text(path.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(InputError, match="comes twice: keep one"):
        comparison.read_predictions(run, ["unknown"])
    path.unlink()
    with pytest.raises(InputError, match="is not a file"):
        comparison.read_predictions(run, ["unknown"])


# ------------------------------------------------------------------- the bootstrap


def draw_counts(random, records, quality):
    gold = random.integers(0, 4, records)
    correct = random.binomial(gold, quality)
    return np.stack([correct, correct + random.integers(0, 2, records), gold], axis=1)


def f1(counts):
    correct, predicted, gold = counts.sum(0)
    return 2 * correct / (predicted + gold) if predicted + gold else 0.0


def test_agrees_with_a_loop():
    random = np.random.default_rng(3)
    first, second = draw_counts(random, 120, 0.8), draw_counts(random, 120, 0.7)
    second[:, 2] = first[:, 2]
    found = compare_columns(first, second, resamples=8000).difference()
    differences = []
    for _ in range(8000):
        drawn = random.integers(0, len(first), len(first))
        differences.append(f1(first[drawn]) - f1(second[drawn]))
    assert found.first == pytest.approx(f1(first)) and found.second == pytest.approx(f1(second))
    assert found.difference == pytest.approx(f1(first) - f1(second))
    # 8000 draws leave about 0.002 of noise in each end.
    assert [found.low, found.high] == pytest.approx(
        np.percentile(differences, [2.5, 97.5]), abs=0.005
    )


def test_records_stay_paired():
    # Both miss the same records and one misses more: unpaired draws would see no clear difference.
    random = np.random.default_rng(4)
    hard = random.random(400) < 0.5
    first = np.stack([~hard, np.ones(400), np.ones(400)], axis=1).astype(int)
    second = first.copy()
    second[np.flatnonzero(~hard)[:10], 0] = 0
    found = compare_columns(first, second).difference()
    assert found.difference == pytest.approx(10 / 400)
    # The number of the ten that are drawn is binomial, of mean 10 and deviation 3.1.
    assert [found.low, found.high] == pytest.approx([4 / 400, 17 / 400], abs=1.01 / 400)
    assert found.verdict == "better"
    assert compare_columns(second, first).difference().verdict == "worse"


def test_a_system_against_itself(tmp_path, capsys):
    counts = draw_counts(np.random.default_rng(5), 50, 0.6)
    found = compare_columns(counts, counts).difference()
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.verdict == "the same on every record"
    run = comparison.Scored("run", tmp_path, "dev.jsonl", "sha256:0")
    comparison.print_comparison(run, run, found, {}, "label")
    said = capsys.readouterr().out
    assert "difference +0.0000\n" in said and "interval" not in said
    second = counts.copy()
    second[0] += (0, 1, 0)
    comparison.print_comparison(run, run, compare_columns(counts, second).difference(), {}, "label")
    assert ", 95 % interval +0.0000 to +" in capsys.readouterr().out


def test_a_table_has_the_columns_of_its_rows_or_is_not_printed(tmp_path, capsys):
    run = comparison.Scored("run", tmp_path, "dev.jsonl", "sha256:0")
    found = comparison.Difference(0.5, 0.4, 0.1, 0.05, 0.15, 10)
    comparison.print_comparison(run, run, found, {}, "label", "qwk")
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("verdict: ") and "gold" not in said
    scores = {"run_score": 0.5, "other_score": 0.4, "difference": 0.1}
    comparison.print_comparison(run, run, found, {"vocabulary": scores}, "target", "qwk")
    said = capsys.readouterr().out
    assert "vocabulary" in said and "+0.100" in said and "gold" not in said and "right" not in said
    counts = {"run_correct": 3, "other_correct": 2, "gold": 4}
    comparison.print_comparison(run, run, found, {"x": {**scores, **counts}}, "label", "f1")
    said = capsys.readouterr().out
    assert "gold" in said and "3 : 2" in said


@pytest.mark.parametrize("labels", [3, 100])
def test_many_columns_are_the_same_as_few(labels):
    """Counts of many labels are summed by another way."""
    random = np.random.default_rng(7)
    first, second = (random.random((40, labels)) < 0.1 for _ in range(2))
    statistic = lambda *sums, axis: sum(own.sum(axis) for own in sums)  # noqa: E731
    found = compare_columns(first, second, statistic, resamples=200).difference()
    whole = (own.sum(axis=1)[:, None] for own in (first, second))
    assert found == compare_columns(*whole, statistic, resamples=200).difference()


@pytest.mark.parametrize("records", [50, 400])
def test_the_same_records_are_drawn_for_a_seed(records):
    """Those that numpy draws from the seed 1, whatever a score is computed from."""
    random = np.random.default_rng(8)
    first, second = random.random((2, records, 1))
    drawn = np.random.default_rng(1).integers(0, records, (300, records))
    wanted = np.percentile((first - second)[drawn, 0].mean(axis=1), [2.5, 97.5])
    found = compare_columns(first, second, np.mean, resamples=300).difference()
    assert [found.low, found.high] == pytest.approx(wanted, abs=1e-12)


def test_very_many_records_are_drawn_fewer_times(monkeypatch):
    monkeypatch.setattr(comparison, "DRAWN_RECORDS", 30_000)
    scores = np.random.default_rng(9).random((2, 100, 1))
    assert compare_columns(*scores, np.mean).difference().resamples == 300
    assert compare_columns(*scores, np.mean, resamples=50).difference().resamples == 50


def test_nothing_found_and_nothing_to_find():
    empty = np.zeros((5, 3), int)
    assert compare_columns(empty, empty, resamples=100).difference().first == 0


def test_same_interval_whatever_fits_into_memory(monkeypatch):
    random = np.random.default_rng(6)
    first, second = draw_counts(random, 30, 0.8), draw_counts(random, 30, 0.7)
    whole = compare_columns(first, second, resamples=500).difference()
    monkeypatch.setattr("extras.comparison.comparison.NUMBERS_AT_ONCE", 1)
    assert compare_columns(first, second, resamples=500).difference() == whole


def test_too_few_records():
    with pytest.raises(InputError, match="too few"):
        compare_columns(np.ones((1, 3)), np.ones((1, 3))).difference()
    with pytest.raises(ValueError):
        compare_columns(np.ones((4, 3)), np.ones((5, 3))).difference()

"""All runs at a glance: what is compared, what is left out, and the page in a browser."""

import json
import shutil

import numpy as np
import pytest
from browser import dump, needs_chromium, open_page, read_result
from conftest import ROOT
from projects import TEMPLATES, bake_project, run

from core.base.errors import InputError
from core.base.files import file_hash, read_json, write_json, write_json_lines
from extras.comparison.comparison import Scored, compare_columns
from extras.runs_table.runs_table import Row, compare_group, group_rows
from extras.runs_table.shown import print_groups

MONITOR = {"monitor": "f1", "finished": "2026-01-01", "code_hash": "sha256:abcdef0123456789"}
SETTINGS = {"task": "Relation extraction", "train_hash": "sha256:11112222", "code": {"a.py": "1"}}


@pytest.fixture(scope="module", params=TEMPLATES)
def any_project(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return bake_project(request.param, folder, "comparison, runs_table")


@pytest.mark.shown("relation_extraction", "text_classification")
@pytest.mark.slow
def test_each_task_compares_all_its_runs(any_project):
    """The reference, as a run, and one that is better by the score in its file only."""
    for name in ("one", "two"):
        shutil.copytree(any_project / "reference", any_project / "runs" / name)
    path = any_project / "runs/two/scores.json"
    scores = read_json(path)
    scores["dev"][scores["monitor"]] += 0.001
    write_json(path, scores)
    said = table(any_project)
    rows = [line.split() for line in said.splitlines()]
    [one], [two] = ([row for row in rows if row[:1] == [name]] for name in ("one", "two"))
    assert (
        "best" in two
        and " ".join(one).endswith("the same on every record 0.1 ")
        or ("+0.0000" in one and "the same on every record" in " ".join(one))
    )
    assert "not compared" not in said and (any_project / "runs/index.html").is_file()


# ------------------------------------------------------------------- runs made up here


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    return bake_project(
        "relation_extraction", tmp_path_factory.mktemp("table"), "comparison, runs_table"
    )


@pytest.fixture
def project(baked, tmp_path):
    """Three runs that find 90, 80 and 30 of 100 triples, with settings and curves of their own."""
    project = tmp_path / "my_project"
    shutil.copytree(baked, project)
    for name, share, settings in (
        ("high", 0.9, {"learning_rate": 0.01, "devices": {"xla": False}}),
        ("middle", 0.8, {"learning_rate": 0.02, "devices": {"xla": True}}),
        ("low", 0.3, {"learning_rate": 0.01, "dropout": 0.5}),
    ):
        write_run(project, name, share, {"dropout": 0.1, "epochs": 2, **settings})
    return project


def gold_of(project):
    lines = (project / "sample/dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def write_run(project, name, share, settings, seed=1):
    """Write what a training leaves of a run that finds about a share of the triples."""
    random, folder = np.random.default_rng(seed), project / "runs" / name
    gold = gold_of(project)
    found = [
        {
            "id": record["id"],
            "triples": [{**t, "score": 0.9} for t in record["triples"] if random.random() < share],
        }
        for record in gold
    ]
    write_json_lines(folder / "predictions/dev.jsonl", found)
    correct, wanted = (sum(len(r["triples"]) for r in rows) for rows in (found, gold))
    data = {"file": "sample/dev.jsonl", "data_hash": file_hash(project / "sample/dev.jsonl")}
    score = 2 * correct / (correct + wanted)
    write_json(folder / "config.json", {**SETTINGS, **settings})
    write_json(folder / "scores.json", {**MONITOR, "minutes": 12.34, "dev": {**data, "f1": score}})
    curve = [{"step": 10, "dev_f1": score / 2}, {"step": 20, "dev_f1": score}]
    write_json_lines(folder / "metrics.jsonl", curve)
    return score


def table(project, *arguments):
    """Return what compare.py prints without arguments."""
    return run(project / "compare.py", *arguments, cwd=project.parent).stdout


def facts_of(project):
    """Return what the page holds of each group."""
    text = (project / "runs/index.html").read_text(encoding="utf-8")
    return json.loads(text.partition('id="facts">')[2].partition("</script>")[0])


def resample(counts, other, draws=4000):
    """Return the ends of the intervals of a score and of a difference, by a loop."""
    random = np.random.default_rng(7)
    scores, differences = [], []
    for _ in range(draws):
        drawn = random.integers(0, len(counts), len(counts))
        one, two = (2 * c[drawn, 0].sum() / c[drawn, 1:].sum() for c in (counts, other))
        scores.append(one)
        differences.append(one - two)
    return np.percentile(scores, [2.5, 97.5]), np.percentile(differences, [2.5, 97.5])


def count(project, name):
    rows = (project / "runs" / name / "predictions/dev.jsonl").read_text("utf-8").splitlines()
    pairs = zip(map(json.loads, rows), gold_of(project), strict=True)
    return np.array(
        [(len(f["triples"]), len(f["triples"]), len(gold["triples"])) for f, gold in pairs]
    )


@pytest.mark.slow
def test_scores_intervals_and_differences(project):
    """They agree with a loop that draws the records again."""
    said = table(project)
    [group] = facts_of(project)
    rows = {row["name"]: row for row in group["rows"]}
    assert list(rows) == ["high", "middle", "low"]
    assert group["title"].startswith("F1 on sample/dev.jsonl [") and "3 runs" in group["title"]
    for name, row in rows.items():
        assert row["minutes"] == 12.34 and row["code"] == "abcdef01" and row["data"] == "11112222"
        assert row["curve"] == [[10, row["score"] / 2], [20, row["score"]]]
        own, difference = resample(count(project, name), count(project, "high"))
        assert row["interval"] == pytest.approx(own, abs=0.006)
        if name != "high":
            assert row["difference"][0] == pytest.approx(row["score"] - rows["high"]["score"])
            assert row["difference"][1:] == pytest.approx(difference, abs=0.006)
    assert rows["high"]["difference"] is None
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == {"high": "best", "middle": "worse", "low": "worse"}
    # Free settings, such as devices.xla, change no score.
    assert rows["middle"]["changed"] == {"learning_rate": "0.02"}
    assert rows["low"]["changed"] == {"dropout": "0.5"}
    assert rows["low"]["settings"] == {"dropout": "0.5", "learning_rate": "0.01"}
    assert "learning_rate = 0.02" in said and "worse" in said and "12.3" in said


@pytest.mark.slow
def test_a_small_difference_is_not_clear(project):
    """Another draw of triples, with a score that is nearly the same."""
    write_run(project, "again", 0.89, {"dropout": 0.1, "learning_rate": 0.01}, seed=3)
    table(project)
    [group] = facts_of(project)
    found = {row["name"]: row for row in group["rows"]}
    other = found["again"] if found["again"]["difference"] else found["high"]
    assert other["verdict"] == "no clear difference"
    assert other["difference"][1] < 0 < other["difference"][2]


@pytest.mark.slow
def test_other_data_and_other_scores_are_apart(project):
    for name, change in (
        ("other_data", {"dev": {"file": "x.jsonl", "data_hash": "sha256:99", "f1": 0.99}}),
        ("other_score", {"monitor": "precision"}),
    ):
        shutil.copytree(project / "runs/high", project / "runs" / name)
        path = project / "runs" / name / "scores.json"
        scores = read_json(path) | change
        scores["dev"].setdefault("precision", 0.99)
        write_json(path, scores)
    said = table(project)
    assert said.startswith("3 tables: runs with other dev records or another deciding score")
    groups = [[row["name"] for row in group["rows"]] for group in facts_of(project)]
    assert groups[0] == ["high", "middle", "low"]
    assert sorted(groups[1:]) == [["other_data"], ["other_score"]]
    assert "other_data: my_project/" not in said
    assert "other_data: x.jsonl is missing, or has changed since other_data was scored" in said


@pytest.mark.slow
def test_what_is_no_scored_run_is_named_in_a_line(project):
    runs = project / "runs"
    (runs / "foreign").mkdir()
    (runs / "notes.txt").write_text("not a folder")
    write_json(runs / "begun/config.json", SETTINGS)
    write_json(runs / "chess/config.json", {"task": "chess"})
    write_json(runs / "odd/scores.json", {"monitor": "f1", "dev": {"f1": "high"}})
    (runs / "broken").mkdir()
    (runs / "broken/scores.json").write_text('{"dev": ')
    (runs / "binary").mkdir()
    (runs / "binary/config.json").write_bytes(b"\xff\xfe\x00")
    blends = {"one": 1, "two": {"weights": [1]}, "three": {"runs": ["a"], "weights": ["x"]}}
    for name, blend in blends.items():
        shutil.copytree(runs / "high", runs / f"blend_{name}")
        write_json(runs / f"blend_{name}" / "config.json", {**SETTINGS, "blend": blend})
    predictions = runs / "middle/predictions/dev.jsonl"
    predictions.write_text("".join(predictions.read_text().splitlines(True)[:-1]))
    with open(runs / "low/metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 3')
    lines = table(project).splitlines()
    wanted = {
        "foreign: no run of this project, for it has neither config.json nor scores.json.",
        "begun: unfinished, and not scored yet: the same training command goes on.",
        "chess: a run of another task, chess.",
        'odd: runs/odd/scores.json has no "dev" with "file", "data_hash" and the score that '
        '"monitor" names: restore it, or train again.',
    }
    assert wanted <= {*lines}
    for name, words in (
        ("broken", "runs/broken/scores.json is not valid JSON"),
        ("binary", "runs/binary/config.json is not valid JSON"),
        *((f"blend_{name}", 'has a broken "blend": write it again') for name in blends),
        ("middle", "runs/middle/predictions/dev.jsonl lacks 1 of 150 records"),
    ):
        [line] = [line for line in lines if line.startswith(f"{name}: ")]
        assert words in line
    [group] = facts_of(project)
    assert [row["name"] for row in group["rows"]] == ["high", "middle", "low"]
    assert [row["verdict"] for row in group["rows"]] == ["best", "not compared", "worse"]
    assert len(group["rows"][2]["curve"]) == 2


@pytest.mark.slow
def test_the_best_may_be_damaged(project):
    """Then the others are compared with the next best."""
    (project / "runs/high/predictions/dev.jsonl").unlink()
    table(project)
    [group] = facts_of(project)
    assert [row["verdict"] for row in group["rows"]] == ["not compared", "best", "worse"]


def test_a_run_that_needs_the_settings_of_another():
    """A floor has none: it is compared once another run is known."""
    rows = [make_row(name, score) for name, score in (("floor", 0.9), ("one", 0.5), ("two", 0.4))]

    def compare(run, other):
        if run.name == other.name == "floor":
            raise InputError("no settings.")
        ones = [np.full((20, 1), 10 * len(scored.name)) for scored in (run, other)]
        return compare_columns(*ones, np.mean)

    compare_group(rows, compare, lambda: None)
    assert [row.verdict for row in rows] == ["better", "best", "the same on every record"]
    assert rows[0].difference == (20, 20, 20) and rows[0].fault == ""


def make_row(name, score):
    scored = Scored(name, ROOT, "dev.jsonl", "sha256:abcdef0123")
    return Row(name, scored, "f1", "", score)


def test_scores_of_other_ranks_have_a_table_of_their_own():
    rows = [make_row(name, score) for name, score in (("a", 0.9), ("b", 0.5), ("c", 0.4))]
    for row, k in zip(rows, (6, 1, 1), strict=True):
        row.monitor, row.asked = "map_at_k", {"competition.k": k}
    assert [[row.name for row in group] for group in group_rows(rows)] == [["b", "c"], ["a"]]
    for row in rows:
        row.monitor = "accuracy"
    assert len(group_rows(rows)) == 1
    rows[0].asked["competition.label_column"] = "other"
    assert [[row.name for row in group] for group in group_rows(rows)] == [["b", "c"], ["a"]]


def test_a_floor_joins_the_runs_of_its_score():
    rows = [make_row(name, score) for name, score in (("floor", 0.9), ("one", 0.5), ("two", 0.4))]
    for row in rows[1:]:
        row.asked = {"positive_label": "yes"}
    assert [[row.name for row in group] for group in group_rows(rows)] == [["floor", "one", "two"]]
    rows[2].asked = {"positive_label": "no"}  # which of the two scores it has is not known
    assert sorted(len(group) for group in group_rows(rows)) == [1, 1, 1]


@pytest.mark.slow
def test_a_blend_is_among_its_runs(project):
    """Also as the best one: the others are then compared with the best that has settings."""
    runs = project / "runs"
    shutil.copytree(runs / "high", runs / "blend")
    blend = {"runs": ["high", "low"], "weights": [0.7, 0.3]}
    for name in ("high", "middle", "low", "blend"):
        config = read_json(runs / name / "config.json") | {"positive_label": "yes"}
        write_json(
            runs / name / "config.json", config | ({"blend": blend} if name == "blend" else {})
        )
    scores = read_json(runs / "blend/scores.json")
    scores["dev"]["f1"] += 0.001
    write_json(runs / "blend/scores.json", scores)
    table(project)
    [group] = facts_of(project)
    assert [row["name"] for row in group["rows"]] == ["blend", "high", "middle", "low"]
    changed = {row["name"]: row["changed"] for row in group["rows"]}
    assert changed["blend"] == {"blend": "0.70 high + 0.30 low"}
    assert changed["low"] == {"dropout": "0.5"} and changed["middle"]["learning_rate"] == "0.02"


def test_a_hash_is_no_markup_of_the_terminal(capsys):
    print_groups([[make_row("[bold]", 0.5)]], ["[red]: odd"])
    said = capsys.readouterr().out
    assert all(words in said for words in ("F1 on dev.jsonl [abcdef01]", "[bold]", "[red]: odd"))


@pytest.mark.slow
def test_inner_runs_and_unfinished_ones(project):
    runs = project / "runs"
    (runs / "search/wide").mkdir(parents=True)
    (runs / "search/wide/round").symlink_to(runs)  # leads in a circle
    for name in ("search/wide/trial_1", "search/wide/trial_2", "crossed/fold_1"):
        shutil.copytree(runs / "low", runs / name)
    for name in ("config.json", "scores.json", "predictions"):
        copy = shutil.copytree if name == "predictions" else shutil.copy
        copy(runs / "low" / name, runs / "crossed" / name)
    scores = read_json(runs / "low/scores.json")
    del scores["finished"]
    write_json(runs / "low/scores.json", scores)
    said = table(project)
    [group] = facts_of(project)
    assert [row["name"] for row in group["rows"]] == [
        *("high", "middle", "crossed", "low", "search/wide/trial_1", "search/wide/trial_2")
    ]
    assert group["rows"][3]["verdict"] == "worse, unfinished"
    assert "runs/search/wide has more of them (1): see runs/index.html." in said
    assert "search/wide/trial_1" in said and "search/wide/trial_2" not in said


@pytest.mark.slow
def test_a_project_without_runs(baked, tmp_path):
    project = tmp_path / "empty"
    shutil.copytree(baked, project)
    done = run(project / "compare.py", cwd=project, check=False)
    assert done.returncode == 1 and done.stderr == (
        "error: runs/ has no run yet: train one with: python train.py\n"
    )


@pytest.mark.slow
def test_a_note_is_kept_shown_and_removed(project):
    script = "extras/runs_table/notes.py"
    text = 'twice the rate,\n <b>"bold"</b>'
    run(project / script, "middle", text, cwd=project.parent)
    run(project / script, str(project / "runs/high"), "first", cwd=project.parent)
    said = table(project)
    assert "first" in said
    notes = [row["note"] for row in facts_of(project)[0]["rows"]]
    assert notes == ["first", 'twice the rate, <b>"bold"</b>', ""]
    run(project / script, "high", "", cwd=project.parent)
    assert not (project / "runs/high/note.txt").exists()
    done = run(project / script, "absent", "x", cwd=project, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: absent is not a run: runs/ has high, low, middle.\n"


@pytest.mark.slow
def test_two_runs_are_still_compared(project):
    assert "verdict: high against low: better" in table(project, "high", "low")


# ------------------------------------------------------------------------ in a browser

CLICK = """<script>
{
const rows = () => [...document.querySelectorAll("tbody tr")].map((row) =>
  row.querySelector("td").textContent);
const press = (title) => [...document.querySelectorAll("th button")]
  .find((button) => button.textContent === title).click();
const choose = (select, value) => {
  select.value = value;
  select.dispatchEvent(new Event("change"));
};
const found = { first: rows() };
press("run"); found.byName = rows();
press("run"); found.byNameFalling = rows();
press("score"); found.byScore = rows();
press("score"); found.byScoreRising = rows();
found.sorted = document.querySelector("th[aria-sort]").textContent;
const [setting, value] = document.querySelectorAll("select");
found.settings = [...setting.options].map((option) => option.value);
choose(setting, "learning_rate");
found.values = [...value.options].map((option) => option.value);
choose(value, "0.01"); found.filtered = rows();
choose(setting, "any"); found.all = rows();
const words = document.querySelector("input");
words.value = "Middle 0.02"; words.dispatchEvent(new Event("input")); found.searched = rows();
found.count = document.querySelector("section p").textContent;
words.value = ""; words.dispatchEvent(new Event("input"));
found.bold = document.querySelectorAll("td b").length;
found.curves = [...document.querySelectorAll("svg")].map((svg) => svg.getAttribute("aria-label"));
found.link = document.querySelector("a") ? document.querySelector("a").getAttribute("href") : "";
const result = document.createElement("pre");
result.textContent = JSON.stringify(found);
document.body.replaceChildren(result);
}
</script></body>"""


@pytest.mark.slow
@needs_chromium
def test_the_page_sorts_and_filters(project, tmp_path):
    (project / "runs/high/note.txt").write_text("<b>bold</b></script><script>alert(1)</script>")
    (project / "runs/high/report.html").write_text("a report")
    table(project)
    page = project / "runs/index.html"
    sound = open_page(page, tmp_path, width=1200)
    assert sound["faults"] == [] and sound["drawings"] == 3
    assert open_page(page, tmp_path, dark=True)["background"] == "rgb(13, 17, 23)"
    assert open_page(page, tmp_path)["width"] <= 390
    clicked = tmp_path / "clicked.html"
    clicked.write_text(page.read_text("utf-8").replace("</body>", CLICK), "utf-8")
    found = read_result(dump(clicked))
    assert found["first"] == found["byScore"] == ["high", "middle", "low"]
    assert found["byName"] == ["high", "low", "middle"]
    assert found["byNameFalling"] == ["middle", "low", "high"]
    assert found["byScoreRising"] == ["low", "middle", "high"] and found["sorted"] == "score"
    assert found["settings"] == ["any", "dropout", "learning_rate"]
    assert found["values"] == ["any", "0.01", "0.02"]
    assert found["filtered"] == ["low", "high"] and len(found["all"]) == 3
    assert found["searched"] == ["middle"] and found["count"] == "1 of 3 runs"
    assert found["bold"] == 0 and found["link"] == "high/report.html"
    assert "dev score of low: best at step 20 of 20" in found["curves"]

"""extras/blends: fitted weights, what they gain on new records, and a blend as a run."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import use_template
from project_process import Done, ProjectProcess
from projects import TASKS, bake_project, flags, further, shorten, template_of
from sklearn.linear_model import LogisticRegression, Ridge

use_template("text_classification")

from core.runs import members  # noqa: E402
from core.scores.evaluation import Evaluation  # noqa: E402
from extras.blends.blends import hash_of_weights, mean_scores  # noqa: E402
from extras.blends.fitting import Parts, fit_weights, score_held_out  # noqa: E402
from extras.blends.stack import Stack  # noqa: E402
from extras.blends.stacking import fit_stack  # noqa: E402
from extras.chunks.plan import Plan, describe_run  # noqa: E402
from extras.competition.examples import NumberExample  # noqa: E402
from inspection.blends import Stacking as StackedLabels  # noqa: E402

FIT = "extras/blends/fit.py"
EXTRAS = "blends, chunks, distillation, export"  # what reads runs and could meet a blend
BLENDED = [task for task in TASKS if task != "pretraining"]
RECORDS = 240


class Record:
    def __init__(self, number: int, gold: int) -> None:
        self.id, self.gold = number, gold


class Stacking:
    """The label of a record is right or wrong by itself."""

    kind = "each"

    def scores_of(self, part: np.ndarray) -> dict:
        return {"label": {0: float(part[0])}}

    def gold_of(self, example: Record, names) -> dict:
        return {0: float(example.gold)}

    def from_scores(self, scores: dict, parts) -> np.ndarray:
        return np.array([scores["label"][0]])


def make_parts(strengths: list[float], seed: int) -> Parts:
    """Return runs that see the gold label as well as their strength says; 0: not at all."""
    draw = np.random.default_rng(seed)
    gold = draw.integers(0, 2, RECORDS)
    scores = [strength * (2 * gold - 1) + draw.normal(0, 1.5, RECORDS) for strength in strengths]
    candidates = [
        {number: np.array([1 / (1 + np.exp(-score))]) for number, score in enumerate(own)}
        for own in scores
    ]
    records = [Record(number, label) for number, label in enumerate(gold)]
    return Parts(records, np.arange(RECORDS), candidates, evaluate, "f1", True, Stacking())


def evaluate(records: list[Record], found: dict, tuned: dict | None) -> Evaluation:
    """Score labels by F1 of label 1, with the best threshold or the one that is tuned."""
    scores = np.array([found[record.id][0] for record in records])
    gold = np.array([record.gold for record in records])
    order = np.argsort(-scores)
    hits = np.cumsum(gold[order])
    f1 = 2 * hits / (np.arange(1, len(gold) + 1) + gold.sum())
    threshold = tuned["threshold"] if tuned else scores[order[np.argmax(f1)]]
    chosen = scores >= threshold
    both = chosen.sum() + gold.sum()
    pairs = zip(records, chosen, strict=True)
    return Evaluation(
        scores={"f1": 2 * (chosen & (gold == 1)).sum() / both, "threshold": threshold},
        predictions=[{"id": one.id, "label": int(label)} for one, label in pairs],
        shown=[],
    )


@pytest.mark.parametrize("strengths", [[1, 0.8], [1, 0.2], [1, 0.8, 0.6], [1, 1, 0]])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_are_about_as_good_as_the_best_of_all(strengths, seed):
    """All weights in steps of 0.05 are tried, too."""
    parts, count = make_parts(strengths, seed), len(strengths)
    weights = parts.fit()
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    every = [np.array(t) / 20 for t in itertools.product(range(21), repeat=count) if sum(t) == 20]
    found = parts.score(weights)
    assert found >= max(map(parts.score, every)) - 0.01
    assert found >= max(map(parts.score, [*np.eye(count), np.full(count, 1 / count)]))


def test_of_equally_good_weights_the_equal_ones_are_taken():
    assert fit_weights(lambda weights: 1.0, 3) == pytest.approx([1 / 3] * 3)


def f1_of(records: list[list[dict]], gold: dict[int, int], ids: np.ndarray) -> np.ndarray:
    labels = [{record["id"]: record["label"] for record in own} for own in records]
    truth = np.array([gold[number] for number in ids])
    found = np.array([[own[number] for number in ids] for own in labels])
    return 2 * (found & truth).sum(1) / (found.sum(1) + truth.sum())


@pytest.mark.shown("strengths0")
@pytest.mark.parametrize("fitter", ["fit", "fit_stack"])
@pytest.mark.parametrize("strengths, gains", [([1, 0, 0], False), ([1, 0.95, 0.9], True)])
def test_the_expected_gain_is_that_of_new_records(strengths, gains, fitter):
    """Runs that know nothing add nothing, although weights for them fit; good ones add."""
    differences, fitted = [], []
    for seed in range(4):
        parts = make_parts(strengths, seed)
        records: list[list[dict]] = [[], []]
        fit = getattr(parts, fitter)
        for pair in score_held_out(parts, fit):
            for own, new in zip(records, pair, strict=True):
                own.extend(new)
        assert sorted(record["id"] for record in records[0]) == [*range(RECORDS)]
        gold = {record.id: record.gold for record in parts.examples}
        blend, single = f1_of(records, gold, np.arange(RECORDS))
        differences.append(blend - single)
        fitted.append(parts.score(fit()) - parts.score(parts.best_single()))
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert max(fitted) > 0 and (fitter == "fit_stack" or min(fitted) >= 0)
    if gains:
        assert mean > 2 * error
    else:
        assert mean < 2 * error and np.mean(fitted) > mean


def log_odds_of(shares: np.ndarray) -> np.ndarray:
    return np.log(shares / (1 - shares))


@pytest.mark.parametrize("count", [2, 4])
def test_one_label_of_a_record_is_that_of_scikit_learn(count):
    """Two labels and several; a label that no record has keeps the mean of the runs."""
    draw = np.random.default_rng(3)
    shares = draw.dirichlet([1.0] * (count + 1), (80, 3))
    gold = draw.integers(0, count, 80)  # never the last label
    groups = [str(label) for label in range(count + 1)]
    records = [
        [{name: {n: row[n]} for n, name in enumerate(groups)} for row in own] for own in shares
    ]
    stack = fit_stack("one_label", records, [{int(label): 1.0} for label in gold])
    stack = Stack.of(json.loads(json.dumps(stack.as_dict())))
    rows = np.log(shares.reshape(80, -1))
    wanted = LogisticRegression(max_iter=1000).fit(rows, gold).predict_proba(rows)
    found = np.array([[*map(stack_value, stack.blend(own).values())] for own in records])
    kept = shares.mean(axis=1)[:, count]
    assert found[:, count] == pytest.approx(kept, abs=1e-9)
    assert found[:, :count] == pytest.approx(wanted * (1 - kept)[:, None], abs=1e-9)


def stack_value(group: dict) -> float:
    [value] = group.values()
    return value


def test_spans_that_a_run_lacks_are_stacked_as_by_scikit_learn():
    """Each span has two features for each run: its log-odds, and whether the run lacks it."""
    draw = np.random.default_rng(4)
    shares, found = draw.uniform(0.02, 0.98, (200, 2)), draw.random((200, 2)) < 0.8
    found[:, 0] |= ~found.any(axis=1)
    gold = (draw.random(200) < shares.mean(axis=1)).astype(int)
    records = [
        [
            {"spans": {n: shares[n, run] for n in range(first, first + 10) if found[n, run]}}
            for run in (0, 1)
        ]
        for first in range(0, 200, 10)
    ]
    known = [{n: float(gold[n]) for n in range(first, first + 10)} for first in range(0, 200, 10)]
    del known[0][3]  # not annotated: it teaches nothing, and gets a probability
    stack = fit_stack("each", records, known)
    features = [np.where(found, log_odds_of(shares), 0), ~found]
    rows = np.stack(features, axis=2).reshape(200, 4).astype(float)
    # In the order of the records, so that both take the same steps.
    order = [n for own in records for n in dict.fromkeys([*own[0]["spans"], *own[1]["spans"]])]
    taught = [n for n in order if n != 3]
    model = LogisticRegression(max_iter=1000).fit(rows[taught], gold[taught])
    wanted = model.predict_proba(rows)[:, 1]
    new = [stack.blend(own)["spans"] for own in records]
    assert {n: p for own in new for n, p in own.items()} == pytest.approx(
        dict(enumerate(wanted)), abs=1e-9
    )


def test_numbers_are_stacked_as_by_scikit_learn():
    draw = np.random.default_rng(5)
    gold = draw.normal(3, 2, 90)
    numbers = gold[:, None] + draw.normal(0, 1, (90, 3))
    records = [[{"0": {0: value}} for value in row] for row in numbers]
    stack = fit_stack("numbers", records, [{0: value} for value in gold])
    wanted = Ridge(alpha=gold.var()).fit(numbers, gold).predict(numbers)
    found = [stack.blend(own)["0"][0] for own in records]
    assert found == pytest.approx(wanted, abs=1e-9)
    # A scale of its own changes nothing else: euros or cents.
    cents = [[{"0": {0: 100 * value}} for value in row] for row in numbers]
    again = fit_stack("numbers", cents, [{0: 100 * value} for value in gold])
    assert [again.blend(own)["0"][0] for own in cents] == pytest.approx(100 * wanted)


LABELS = {"names": ["a", "a/b"], "several": True, "positive": None}
LABELS |= {"counts": [1, 1], "records": 2, "pairs": False}


@pytest.mark.parametrize(
    "changes, kind, example, gold",
    [
        ({}, "each", {"labels": ("a/b",)}, {0: 0.0, 1: 1.0}),
        ({"several": False}, "one_label", {"labels": ("a",)}, {0: 1.0, 1: 0.0}),
        ({"scaling": {"loss": "mse"}}, "numbers", {"numbers": (2.5, -1.0)}, {0: 2.5, 1: -1.0}),
    ],
)
def test_labels_and_numbers_are_read_as_they_are_scored(changes, kind, example, gold):
    """Numbers may leave the range from 0 to 1; so they do not become probabilities."""
    stacking = StackedLabels({**LABELS, **changes})
    base = {"id": 1, "text_a": "x", "text_b": None, "labels": (), "several": True}
    base |= {"group": None, "line": 1, **example}
    record = NumberExample(**base)
    assert stacking.kind == kind and stacking.gold_of(record, [0, 1]) == gold
    part = np.array([0.25, 4.0])
    same = stacking.from_scores(stacking.scores_of(part), [part])
    np.testing.assert_array_equal(same, part)


def test_stacked_labels_do_not_contradict_each_other():
    """Paths: no label is more likely than its parent, as with one run."""
    stacking = StackedLabels({**LABELS, "hierarchy": "/"})
    part = np.array([0.2, 0.9])
    first, second = stacking.from_scores(stacking.scores_of(part), [part])
    assert second <= first and max(first, second) >= 0.2


def test_what_is_always_right_keeps_the_mean_of_the_runs():
    parts = [{"answers": {"a": 0.8}}, {"answers": {"a": 0.6}}]
    stack = fit_stack("each", [parts], [{"a": 1.0}])
    odds = (log_odds_of(np.array(0.8)) + log_odds_of(np.array(0.6))) / 2
    assert stack.blend(parts)["answers"]["a"] == pytest.approx(1 / (1 + np.exp(-odds)))
    one = [{"yes": {0: 0.5}, "no": {1: 0.5}}, {"yes": {0: 0.2}, "no": {1: 0.8}}]
    same = fit_stack("one_label", [one], [{1: 1.0}]).blend(one)
    assert same["no"][1] == pytest.approx(2 / 3)  # the odds are the root of 1 times 4


def test_what_a_run_did_not_find_counts_as_nothing():
    means = mean_scores([{"a": 0.8, "b": 0.4}, {"a": 0.4}], [0.75, 0.25])
    assert means == pytest.approx({"a": 0.7, "b": 0.3})


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def succeeds(process: ProjectProcess, *command) -> Done:
    done = process.run(*command)
    assert done.code == 0, f"{done.out}\n{done.err}"
    return done


# The fastest to train.
@pytest.fixture(scope="module", params=further(BLENDED, "text_classification"))
def process(request, tmp_path_factory):
    """A process of a project with two runs, whose encoders and tokens differ."""
    project = bake_project(request.param, tmp_path_factory.mktemp("project"), EXTRAS)
    shorten(project, {"train": 96, "dev": 10, "test": 6})
    process = ProjectProcess(project)
    steps = {"steps": 12, "epochs": 4, "shown_examples": 0}
    succeeds(process, "train.py", *flags(project, run_name="one", **steps))
    others = {"tiny_width": 48, "max_length": 120, "seed": 2, "tiny_vocabulary": 700}
    succeeds(process, "train.py", *flags(project, run_name="two", **{**steps, **others}))
    yield process
    process.stop()


def scores_of(process: ProjectProcess, run: str) -> dict:
    return json.loads((process.project / "runs" / run / "scores.json").read_text("utf-8"))


@pytest.mark.trains
def test_a_blend_is_a_run(process, tmp_path):
    """Fit, predict, evaluate, compare and blend it again, by the commands of the README."""
    done = succeeds(process, FIT, "one", "two", "--name", "blend")
    scores, monitor = scores_of(process, "blend"), scores_of(process, "one")["monitor"]
    fitted = scores["dev"][monitor]
    assert fitted >= max(scores_of(process, run)["dev"][monitor] for run in ("one", "two")) - 1e-6
    assert scores["gain"]["low"] <= scores["gain"]["difference"] <= scores["gain"]["high"]
    assert "expected gain over the best run" in done.out and scores["code_hash"]
    dev = next((process.project / "sample").glob("dev.*"))
    done = succeeds(process, "evaluate.py", "blend", dev)
    again = scores_of(process, "blend")["files"]["sample_dev"]
    assert again[monitor] == pytest.approx(fitted, abs=1e-9)
    predictions = process.project / "runs/blend/predictions"
    assert read(predictions / "dev.jsonl") == read(predictions / "sample_dev.jsonl")
    test = next((process.project / "sample").glob("test.*"))
    succeeds(process, "predict.py", "blend", test, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").stat().st_size > 0
    assert "verdict: blend against one" in succeeds(process, "compare.py", "blend", "one").out
    succeeds(process, FIT, "blend", "two", "--name", "again", "--equal")
    weights = json.loads((process.project / "runs/again/config.json").read_text("utf-8"))["blend"]
    assert weights["weights"] == [0.5, 0.5] and weights["runs"] == ["runs/blend", "runs/two"]


@pytest.mark.trains
def test_a_stack_is_a_run(process, tmp_path):
    """Fit, predict, evaluate, compare and blend it, by the commands of the README."""
    if template_of(process.project) == "seq2seq":
        done = process.run(FIT, "one", "two", "--name", "stack", "--stack")
        assert done.code == 1 and "--stack is not for texts" in done.err
        return
    done = succeeds(process, FIT, "one", "two", "--name", "stack", "--stack")
    config = json.loads((process.project / "runs/stack/config.json").read_text("utf-8"))["blend"]
    assert config["stack"]["fits"] and "weights" not in config
    scores, monitor = scores_of(process, "stack"), scores_of(process, "one")["monitor"]
    assert scores["gain"]["low"] <= scores["gain"]["difference"] <= scores["gain"]["high"]
    assert "expected gain over the best run" in done.out
    dev = next((process.project / "sample").glob("dev.*"))
    succeeds(process, "evaluate.py", "stack", dev)
    again = scores_of(process, "stack")["files"]["sample_dev"]
    assert again[monitor] == pytest.approx(scores["dev"][monitor], abs=1e-9)
    predictions = process.project / "runs/stack/predictions"
    assert read(predictions / "dev.jsonl") == read(predictions / "sample_dev.jsonl")
    test = next((process.project / "sample").glob("test.*"))
    succeeds(process, "predict.py", "stack", test, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").stat().st_size > 0
    assert "verdict: stack against one" in succeeds(process, "compare.py", "stack", "one").out
    succeeds(process, FIT, "stack", "two", "--name", "of_stack", "--stack")
    succeeds(process, "predict.py", "of_stack", test, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").stat().st_size > 0
    assert process.run(FIT, "one", "two", "--name", "x", "--stack", "--equal").code == 2


@pytest.mark.further
@pytest.mark.trains
def test_texts_are_scored_by_all_runs(process, tmp_path):
    """The scores are those of the searches: each run's of its own text, with its own tokens."""
    if template_of(process.project) != "seq2seq":
        pytest.skip("for texts")
    script = process.project / "score_texts.py"
    script.write_text(
        """import json
from generation.texts import decode_texts
from inspection.blends import load_part, predict_together
from task.data import SourceGenerator
from task.records import read_examples
examples = read_examples("sample/test.jsonl")
parts = [load_part([f"runs/{name}"]) for name in ("one", "two")]
found = predict_together(parts, examples)
pairs, texts = [], []
for part, scores in zip(parts, found):
    encoding = (part.tokenizer, part.encoder_inputs, part.settings, 8)
    batches = SourceGenerator.of(examples, *encoding)
    def decode(_, out):
        return list(zip(out["tokens"].tolist(), out["scores"].tolist()))
    for place, rows in part.predictor.decode(batches, decode):
        texts.append([examples[place].id, *scores[examples[place].id]])
        for row, score in zip(*rows):
            [writer] = part.models
            ends = [n for n, token in enumerate(row) if token in writer.tokens.ends]
            ids = row[: ends[0]] if ends else row
            [text] = decode_texts(part.tokenizer, [ids])
            again = part.tokenizer.encode(text, add_special_tokens=False).ids
            if ends and again == ids:
                pairs.append([scores[examples[place].id][text], score])
print(json.dumps([pairs, texts]))
""",
        encoding="utf-8",
    )
    done = succeeds(process, "score_texts.py")
    pairs, texts = json.loads(done.out.splitlines()[-1])
    assert len(pairs) > 20  # of texts whose tokens, read again, are those that were written
    for scored, written in pairs:
        assert scored == pytest.approx(written, abs=2e-5)
    half = len(texts) // 2
    assert sorted(map(sorted, texts[:half])) == sorted(map(sorted, texts[half:]))
    out = tmp_path / "out.jsonl"
    if not (process.project / "runs/of_texts").exists():
        succeeds(process, FIT, "one", "two", "--name", "of_texts", "--equal")
    done = process.run("predict.py", "of_texts", "sample/test.jsonl", out, "--beams", "2")
    assert done.code == 1 and "--beams is for single runs" in done.err


@pytest.mark.trains
def test_one_run_of_weight_one_is_that_run(process, tmp_path):
    """The mean of equal candidates is each of them: the same predictions, but for rounding."""
    project = process.project
    if template_of(project) == "seq2seq":
        pytest.skip("a blend scores texts again, and searches with more beams")
    copy = project / "runs/same"
    succeeds(process, FIT, "one", "two", "--name", "same", "--equal")
    blended = json.loads((copy / "config.json").read_text("utf-8"))
    blended["blend"]["weights"] = [1.0, 0.0]
    (copy / "config.json").write_text(json.dumps(blended), "utf-8")
    scores = scores_of(process, "same") | {"dev": scores_of(process, "one")["dev"]}
    (copy / "scores.json").write_text(json.dumps(scores), "utf-8")
    dev = next((project / "sample").glob("dev.*"))
    for run in ("one", "same"):
        succeeds(process, "evaluate.py", run, dev)
    records = [
        read(project / f"runs/{run}/predictions/sample_dev.jsonl") for run in ("one", "same")
    ]
    assert_close(*records)


def assert_close(first, second) -> None:
    """Compare records whose numbers may differ by rounding."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            assert_close(first[name], second[name])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_close(one, other)
    elif isinstance(first, float):
        assert first == pytest.approx(second, abs=2e-4)
    else:
        assert first == second


@pytest.mark.trains
def test_several_runs_are_scored_together(process):
    """As predict.py averages them; nothing is written, for they have no folder."""
    three = flags(process.project, run_name="three", steps=2, epochs=1, seed=5)
    succeeds(process, "train.py", *three)
    dev = next((process.project / "sample").glob("dev.*"))
    before = {run: scores_of(process, run) for run in ("one", "three")}
    alone = succeeds(process, "evaluate.py", "three", dev).out
    before["three"] = scores_of(process, "three")
    together = succeeds(process, "evaluate.py", "one", "three", dev).out
    assert "these scores are not kept" in together and together != alone
    assert before == {run: scores_of(process, run) for run in ("one", "three")}


def copy_run(run: Path, name: str) -> Path:
    """Return a copy of a run, whose files may change."""
    copied = Path(shutil.copytree(run, run.with_name(name)))
    (copied / "manifest.json").unlink(missing_ok=True)
    return copied


def change(path: Path, function: Callable[[dict], object]) -> None:
    content = json.loads(path.read_text("utf-8"))
    function(content)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.trains
def test_a_run_that_may_go_on_is_named(process):
    if template_of(process.project) != "text_classification":
        pytest.skip("the same code of runs as for other tasks")
    half = copy_run(process.project / "runs/two", "half")
    change(half / "scores.json", lambda scores: scores.pop("finished"))
    done = succeeds(process, FIT, "one", "half", "--name", "of_half", "--equal")
    assert "warning: half is not finished" in done.out and "one is not" not in done.out
    for name in ("half", "of_half"):
        shutil.rmtree(process.project / "runs" / name)


@pytest.mark.trains
def test_what_can_not_be_blended_is_refused(process, tmp_path):
    if template_of(process.project) != "text_classification":
        pytest.skip("the same code of runs as for other tasks")

    def refused(*command) -> str:
        done = process.run(*command)
        assert done.code == 1 and "Traceback" not in done.err
        return done.err

    if not (process.project / "runs/again").exists():
        succeeds(process, FIT, "one", "two", "--name", "again", "--equal")
    assert "at least two runs" in refused(FIT, "one", "--name", "x")
    assert "one is named twice" in refused(FIT, "one", "two", "one", "--name", "x")
    assert "runs/two exists" in refused(FIT, "one", "two", "--name", "two")
    assert "four is not a run" in refused(FIT, "one", "four", "--name", "x")
    assert "run_name" in refused(FIT, "one", "two", "--name", "../x")
    # Of a run that learned from others, their files count too.
    own = json.loads((process.project / "runs/one/config.json").read_text("utf-8"))
    for learned in ({"train_hash": own["dev_hash"]}, {"added_hashes": [own["dev_hash"]]}):
        teachers = process.project / "runs/two/teachers.json"
        teachers.write_text(json.dumps({"teachers": [{"run": "a"}, learned]}), "utf-8")
        said = refused(FIT, "one", "two", "--name", "x")
        assert "two, or a run that it learned from, has learned records of" in said
    teachers.unlink()
    test, out = next((process.project / "sample").glob("test.*")), tmp_path / "out.jsonl"
    assert "again is a blend" in refused("predict.py", "again", "one", test, out)
    said = refused("extras/export/export.py", "again", tmp_path / "exported")
    assert "again means several runs: name one of " in said and "two" in said
    again = {"distillation.init_from": "again"}
    asked = flags(process.project, run_name="x", steps=1, **again)
    assert "again has the weights of several models: name one" in refused("train.py", *asked)
    succeeds(process, "train.py", *flags(process.project, run_name="two", steps=1, overwrite=True))
    assert "trained anew" in refused("predict.py", "again", test, out)
    (process.project / "runs/two").rename(process.project / "runs/gone")
    assert "again blends two, which is gone" in refused("predict.py", "again", test, out)
    assert not out.exists() and not (process.project / "runs/x").exists()
    (process.project / "runs/gone").rename(process.project / "runs/two")


@pytest.mark.further
@pytest.mark.trains
def test_cross_validations_are_fitted_on_what_they_held_out(process):
    project, folds = process.project, "extras/folds/cross_validate.py"
    if template_of(project) != "text_classification":
        pytest.skip("the same code of folds as for other tasks")
    asked = {"steps": 12, "epochs": 4, "folds.count": 2}
    for seed in (1, 2):
        succeeds(process, folds, *flags(project, run_name=f"crossed_{seed}", seed=seed, **asked))
    done = succeeds(process, FIT, "crossed_1", "crossed_2", "--name", "crossed", "--equal")
    assert "crossed_2/fold_2 predicts the 48 records that it held out" in done.out
    scores, config = scores_of(process, "crossed"), project / "runs/crossed/config.json"
    assert scores["dev"]["records"] == 96 and scores["dev"]["file"] == "sample/train.jsonl"
    assert json.loads(config.read_text("utf-8"))["blend"]["fitted_on"] == "held-out records"
    # One cross-validation has the score that it has without the blend.
    [line] = [line for line in done.out.splitlines() if line.endswith("   crossed_1")]
    crossed = scores_of(process, "crossed_1")
    assert f"{crossed['dev'][crossed['monitor']]:.4f}" in line
    test = project / "sample/test.jsonl"
    succeeds(process, "predict.py", "crossed", test, project / "out.jsonl")
    assert len(read(project / "out.jsonl")) == len(read(test))
    # A fit on records that a run has learned says nothing.
    for runs in (("crossed", "crossed_1"), ("crossed_1/fold_1", "crossed_2/fold_1")):
        names = [str(project / "runs" / name) for name in runs]
        done = process.run(FIT, *names, "--name", "x")
        assert done.code == 1 and "learned from, has learned records of" in done.err
    # The folds are those of the trainings, whatever other settings would make of them now.
    fold = project / "runs/crossed_2/fold_1/predictions/dev.jsonl"
    records = fold.read_text("utf-8")
    fold.write_text("".join(records.splitlines(keepends=True)[1:]), "utf-8")
    done = process.run(FIT, "crossed_1", "crossed_2", "--name", "x")
    assert done.code == 1 and "held out 95 of 96 records" in done.err
    fold.write_text(records, "utf-8")
    train = project / "sample/train.jsonl"
    content = train.read_text("utf-8")
    train.write_text(content[content.index("\n") + 1 :], "utf-8")
    done = process.run(FIT, "crossed_1", "crossed_2", "--name", "x")
    assert done.code == 1 and "has changed since crossed_1 was trained on it" in done.err
    train.write_text(content, "utf-8")
    assert not (project / "runs/x").exists()


@pytest.mark.further
@pytest.mark.trains
def test_cross_validations_of_a_table_elsewhere_are_compared(tmp_path):
    """The scores of probabilities need labels, which only the folds have; the table is outside."""
    project = bake_project("text_classification", tmp_path, "blends, competition, runs_table")
    rows = [f"{n},{word} text {n},{n % 2}" for n, word in enumerate(["good", "bad"] * 24)]
    table = tmp_path / "data/train.csv"
    table.parent.mkdir()
    table.write_text("\n".join(["id,text,label", *rows]), encoding="utf-8")
    process = ProjectProcess(project)
    asked = {"train_file": "../data/train.csv", "metric": "roc_auc", "folds.count": 2}
    asked |= {"steps": 4, "epochs": 2, "shown_examples": 0, "floor": True}
    for seed in (1, 2):
        script = "extras/folds/cross_validate.py"
        succeeds(process, script, *flags(project, run_name=f"crossed_{seed}", seed=seed, **asked))
    done = succeeds(process, FIT, "crossed_1", "crossed_2", "--name", "blend")
    assert "expected gain over the best run" in done.out
    for pair in (("crossed_1", "crossed_2"), ("blend", "crossed_1"), ("crossed_1", "floor")):
        assert f"verdict: {pair[0]} against {pair[1]}" in succeeds(process, "compare.py", *pair).out
    done = succeeds(process, "compare.py")
    assert "roc AUC on train.csv" in done.out and "missing" not in done.out
    process.stop()


def test_chunks_of_one_blend_are_not_those_of_another(tmp_path, monkeypatch):
    """Two blends of the same runs with other weights give other answers."""
    monkeypatch.setattr(members, "PROJECT", tmp_path)
    for name in ("one", "two"):
        write(tmp_path / "runs" / name / "config.json", {"seed": 1})
        (tmp_path / "runs" / name / "best.weights.h5").write_bytes(name.encode())
    keys = []
    for name, weights in (("blend", [0.5, 0.5]), ("other", [0.9, 0.1]), ("same", [0.5, 0.5])):
        blend = {"runs": ["runs/one", "runs/two"], "weights": weights}
        write(tmp_path / "runs" / name / "config.json", {"blend": blend})
        plan = Plan((name,), tmp_path, tmp_path / "out.jsonl", 10, None, {})
        keys.append([describe_run(folder) for folder in plan.folders])
    assert keys[0] != keys[1] and keys[0] == keys[2]


def test_a_blend_of_a_blend_knows_the_weights_of_that(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "PROJECT", tmp_path)
    runs = [tmp_path / "runs" / name for name in ("one", "two", "inner")]
    for run in runs[:2]:
        write(run / "config.json", {"seed": 1})
        (run / "best.weights.h5").write_bytes(run.name.encode())
    found = []
    for weights in ([0.5, 0.5], [0.9, 0.1], [0.5, 0.5]):
        write(
            runs[2] / "config.json",
            {"blend": {"runs": ["runs/one", "runs/two"], "weights": weights}},
        )
        found.append(hash_of_weights([runs[0], runs[2]]))
    assert found[0] != found[1] and found[0] == found[2]


def write(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")

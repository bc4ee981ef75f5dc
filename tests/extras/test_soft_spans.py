"""Triples, entities and events with probabilities: how they are read, their loss, trainings."""

import importlib
import json
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT, use_template
from projects import bake_project, check_records, flags, further, run, shorten

from core.base.errors import InputError
from core.data.tokens import Window
from core.layers.pointers import SparseMultilabelLoss
from extras.distillation.pseudo_labels import label_record
from extras.distillation.soft_spans import (
    SoftPairs,
    learn_probabilities,
    pack,
    unpack,
    with_probabilities,
)
from extras.regularization.pair_loss import PairLoss

WORKER = ROOT / "tests/replica_worker.py"
TEXT = "Ada Quill bought Zenco today"
ADA, QUILL, BOTH, BOUGHT, ZENCO, TODAY = (0, 3), (4, 9), (0, 9), (10, 16), (17, 22), (23, 28)
SPANS = (ADA, QUILL, BOUGHT, ZENCO, TODAY)


def triple(subject: tuple, name: str, other: tuple, **more) -> dict:
    return {"subject": [*subject], "predicate": name, "object": [*other], **more}


def entity(span: tuple, name: str, **more) -> dict:
    return {"type": name, "span": [*span], **more}


def event(name: str, trigger: tuple | None, arguments: list, **more) -> dict:
    return {"type": name, "trigger": trigger and [*trigger], "arguments": arguments, **more}


def argument(role: str, span: tuple, **more) -> dict:
    return {"role": role, "span": [*span], **more}


ITEMS: dict[str, list[dict]] = {
    "relation_extraction": [
        triple(BOTH, "buys", ZENCO, probability=0.7),
        triple(ADA, "buys", ZENCO, probability=0.2),
        triple(BOTH, "knows", ZENCO, probability=0.4),
        triple(QUILL, "knows", ADA),
    ],
    "named_entity_recognition": [
        entity(BOTH, "person", probability=0.7),
        entity(ADA, "person", probability=0.2),
        entity(ZENCO, "company"),
        entity(TODAY, "company", probability=0),
    ],
    "event_extraction": [
        event(
            "buy",
            BOUGHT,
            [argument("who", BOTH, probability=0.9), argument("what", ZENCO)],
            probability=0.6,
        ),
        event("buy", BOUGHT, [argument("who", ADA)], probability=0.3),
    ],
}
FIELD = {
    "relation_extraction": "triples",
    "named_entity_recognition": "entities",
    "event_extraction": "events",
}


def read(template: str, items: list[dict], folder: Path, **more) -> Any:
    """Return the module of a task, and the example of a record with some items."""
    if template not in getattr(sys.modules.get("task.data"), "__file__", ""):  # else same classes
        use_template(template)
    data, records = map(importlib.import_module, ("task.data", "task.records"))
    record = {"id": "a", "text": TEXT, FIELD[template]: items, **more}
    path = folder / "x.jsonl"
    first = {"id": "b", "text": TEXT, FIELD[template]: []}
    lines = [json.dumps(one) + "\n" for one in (first, record)]
    path.write_text("".join(lines), encoding="utf-8")
    options = {} if template != "named_entity_recognition" else {"settings": None}
    return data, records.read_examples(path, **options)[1]


# ------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("template", ITEMS)
def test_likely_items_are_gold(template, tmp_path, capsys):
    """Those of at least one half; no field is called unknown."""
    _, example = read(template, ITEMS[template], tmp_path)
    found = getattr(example, FIELD[template])
    kept = [0, 3] if template == "relation_extraction" else [0, 2]
    if template == "event_extraction":
        kept = [0]
    plain = [strip(ITEMS[template][place]) for place in kept]
    assert found == getattr(read(template, plain, tmp_path)[1], FIELD[template])
    assert capsys.readouterr().out == ""


def strip(value: Any) -> Any:
    """Return items without their probabilities."""
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, dict):
        return {name: strip(one) for name, one in value.items() if name != "probability"}
    return value


@pytest.mark.parametrize("template", ITEMS)
def test_items_of_probability_1_are_those_without(template, tmp_path):
    sure = [{**strip(item), "probability": 1} for item in ITEMS[template]]
    plain = read(template, [strip(item) for item in ITEMS[template]], tmp_path)[1]
    assert read(template, sure, tmp_path)[1] == plain and not plain.levels


def test_an_argument_has_the_probability_of_its_event_unless_it_has_its_own(tmp_path):
    _, example = read("event_extraction", ITEMS["event_extraction"], tmp_path)
    found = {
        level: {(one.trigger, role, span) for one in events for role, span in one.arguments}
        for level, events in example.levels
    }
    assert found == {
        0.9: {(None, "who", BOTH)},
        0.6: {(BOUGHT, "who", BOTH), (BOUGHT, "what", ZENCO)},
        0.3: {(BOUGHT, "who", BOTH), (BOUGHT, "what", ZENCO), (BOUGHT, "who", ADA)},
    }


@pytest.mark.parametrize("template", ITEMS)
@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan"), "0.5", True, None, 10**400])
def test_a_bad_probability_is_one_sentence_with_the_line(template, bad, tmp_path):
    items = [{**ITEMS[template][0], "probability": bad}]
    with pytest.raises(InputError) as error:
        read(template, items, tmp_path)
    assert "x.jsonl, line 2: " in str(error.value)
    assert '"probability" must be a number from 0 to 1, not ' in str(error.value)


def test_a_bad_probability_of_an_argument_is_refused(tmp_path):
    items = [event("buy", BOUGHT, [argument("who", ADA, probability=2)])]
    with pytest.raises(InputError, match="line 2.*from 0 to 1, not 2: an item without it has"):
        read("event_extraction", items, tmp_path)


def test_a_writer_of_triples_refuses_probabilities(tmp_path):
    use_template("seq2seq")
    records = importlib.import_module("extras.extraction.records")
    record = {"id": "a", "text": TEXT, "triples": ITEMS["relation_extraction"]}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match="line 1.*not by one that writes them"):
        records.read_examples(path, "triples", True)


# ------------------------------------------------------------------------------ labels


class Batches:
    """Batches of one window, whose tokens are words, as a task labels it."""

    def __init__(self, data: Any, template: str, example: Any, kinds: Any) -> None:
        starts, ends = (np.array(column) for column in zip(*SPANS, strict=True))
        self.windows = [Window(np.arange(5), starts, ends, (0, len(TEXT)))]
        self.examples, self.record_of = [example], [0]
        self.data, self.template, self.kinds = data, template, kinds
        self.labels = [self.label_window(example, self.windows[0])]

    def label_window(self, example: Any, window: Window) -> Any:
        if self.template == "relation_extraction":
            return self.data.pointer_labels(example, window, self.kinds, "shared")
        if self.template == "event_extraction":
            return self.data.pointer_labels(example.events, window, self.kinds)
        return self.data.span_labels(example.entities, window, self.kinds)

    def measure(self) -> None:
        self.measured = len(self.labels)


def found_cells(labels: Any, path: tuple = ()) -> dict[tuple, float]:
    """Return the probability of each cell by its names, its head and its tokens."""
    if isinstance(labels, np.ndarray):
        labels = {
            head: {tuple(pair): None for pair in pairs if pair[0] >= 0}
            for head, pairs in enumerate(labels.tolist() if labels.ndim == 3 else [])
        }
    cells: dict[tuple, float] = {}
    for key, value in labels.items():
        if value is not None:
            cells |= found_cells(value, (*path, key))
            continue
        pairs, shares = unpack(tf.constant([key]))
        cells[(*path, tuple(pairs.numpy()[0].tolist()))] = float(shares[0])
    return cells


CELLS: dict[str, dict[tuple, float]] = {
    "relation_extraction": {
        ("entity_labels", 0, (0, 1)): 0.7,  # of two predicates
        ("entity_labels", 0, (0, 0)): 0.2,
        ("entity_labels", 0, (1, 1)): 1.0,
        ("entity_labels", 1, (3, 3)): 0.7,
        ("entity_labels", 1, (0, 0)): 1.0,
        ("head_labels", 0, (0, 3)): 0.7,  # "Ada Quill" and "Ada" start together
        ("head_labels", 1, (0, 3)): 0.4,
        ("head_labels", 1, (1, 0)): 1.0,
        ("tail_labels", 0, (1, 3)): 0.7,
        ("tail_labels", 0, (0, 3)): 0.2,
        ("tail_labels", 1, (1, 3)): 0.4,
        ("tail_labels", 1, (1, 0)): 1.0,
    },
    "named_entity_recognition": {(0, (3, 3)): 1.0, (1, (0, 1)): 0.7, (1, (0, 0)): 0.2},
    # Labels: the trigger, what, who. A link has the lower probability of its two.
    "event_extraction": {
        ("span", 0, (2, 2)): 0.6,
        ("span", 1, (3, 3)): 0.6,
        ("span", 2, (0, 1)): 0.9,
        ("span", 2, (0, 0)): 0.3,
        ("head", 0, (0, 2)): 0.6,
        ("head", 0, (0, 3)): 0.6,
        ("head", 0, (2, 3)): 0.6,
        ("tail", 0, (1, 2)): 0.6,
        ("tail", 0, (1, 3)): 0.6,
        ("tail", 0, (2, 3)): 0.6,
        ("tail", 0, (0, 2)): 0.3,
    },
}


@pytest.mark.parametrize("template", ITEMS)
def test_cells_have_the_probability_of_the_most_probable_item(template, tmp_path):
    data, example = read(template, ITEMS[template], tmp_path)
    kinds: Any = {
        "relation_extraction": ["buys", "knows"],
        "named_entity_recognition": ["company", "person"],
    }.get(template)
    if kinds is None:
        kinds = data.Schema({"buy": {"roles": [None, "what", "who"], "always_triggered": True}})
    batches = Batches(data, template, example, kinds)
    hard = batches.labels[0]
    soft = with_probabilities(batches)
    assert soft.measured == 1 and batches.labels[0] is hard
    assert found_cells(soft.labels[0]) == pytest.approx(CELLS[template])
    if template == "relation_extraction":
        assert soft.labels[0]["annotated"].tolist() == [1, 1]


def test_a_probability_is_exact_to_2_to_the_minus_30():
    draw = np.random.default_rng(1)
    shares = [*draw.random(200).tolist(), 1.0, 1e-12, 0.5, 1 - 1e-12]
    pairs = [tuple(map(int, pair)) for pair in draw.integers(0, 2**15, (len(shares), 2))]
    packed = [pack(pair, share) for pair, share in zip(pairs, shares, strict=True)]
    assert np.max(packed) < 2**31
    found, probabilities = unpack(tf.constant([*packed, (-1, -1)], tf.int32))
    assert found.numpy().tolist() == [*map(list, pairs), [-1, -1]]
    np.testing.assert_allclose(
        probabilities[:-1], np.maximum(shares, 2.0**-30), rtol=1e-7, atol=1e-9
    )
    assert pack((3, 7), 1.0) == (3, 7)


# ------------------------------------------------------------------------------ the loss


class SoftLoss(SoftPairs, SparseMultilabelLoss):
    """As `change_losses` makes it."""


class RegularizedLoss(PairLoss, SoftLoss):
    """As extras/regularization changes it afterwards."""


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels, targets `[2, 3, 6, 6]` and weights of heads, at random."""
    draw = np.random.default_rng(7)
    scores = draw.normal(scale=4, size=(2, 3, 6, 6))
    targets = np.zeros((2, 3, 6, 6))
    labels = np.full((2, 3, 5, 2), -1, np.int32)
    for row, head in np.ndindex(2, 3):
        cells = draw.choice(36, 4 - head, replace=False)
        for place, cell in enumerate(cells.tolist()):
            share = 1.0 if place == 0 else float(draw.uniform(0.02, 0.98))
            targets[row, head, cell // 6, cell % 6] = share
            labels[row, head, place] = pack((cell // 6, cell % 6), share)
    scores[:, :, 5] = -1e9  # padding, as `mask_impossible` leaves it
    return scores, labels, targets, np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


def formula(scores: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return log(1 + sum (1 - t) e^s) + log(1 + sum t e^-s), of all heads, in float64."""
    falsely = np.log1p(np.sum((1 - targets) * np.exp(scores), axis=(2, 3)))
    powers = np.where(targets > 0, np.exp(-np.maximum(scores, -700)), 0)
    missed = np.log1p(np.sum(targets * powers, axis=(2, 3)))
    return np.sum(weights * (falsely + missed), axis=1)


def possible() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return `drawn` without labels in the padding."""
    scores, labels, targets, weights = drawn()
    targets[:, :, 5] = 0
    pairs, _ = unpack(tf.constant(labels))
    labels[pairs.numpy()[..., 0] == 5] = -1
    return scores, labels, targets, weights


@pytest.mark.parametrize("kind", [SoftLoss, RegularizedLoss])
def test_the_loss_is_that_of_the_formula(kind):
    scores, labels, targets, weights = possible()
    assert ((targets > 0) & (targets < 1)).sum() > 6
    wanted = formula(scores, targets, weights)
    found = kind()(scores.astype("float32"), labels, weights.astype("float32"))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    sure = formula(scores, (targets > 0).astype(float), weights)
    assert np.abs(sure - wanted).min() > 1e-2  # so it matters which probabilities they are


@pytest.mark.parametrize("kind", [SoftLoss, RegularizedLoss])
def test_the_gradient_is_that_of_finite_differences(kind):
    scores, labels, targets, weights = possible()
    tensor = tf.constant(scores, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        loss = tf.reduce_sum(kind()(tensor, labels, tf.constant(weights, tf.float32)))
    gradient = tape.gradient(loss, tensor).numpy()
    step, wanted = 1e-5, np.zeros_like(scores)
    for place in np.argwhere(scores > -1e8):
        for sign in (1, -1):
            moved = scores.copy()
            moved[tuple(place)] += sign * step
            wanted[tuple(place)] += sign * formula(moved, targets, weights).sum() / (2 * step)
    np.testing.assert_allclose(gradient, wanted, atol=2e-6)


def test_without_probabilities_the_loss_is_the_plain_one():
    scores, labels, _, weights = possible()
    plain, _ = unpack(tf.constant(labels))
    arguments = scores.astype("float32"), plain, weights.astype("float32")
    np.testing.assert_allclose(
        SoftLoss()(*arguments), SparseMultilabelLoss()(*arguments), rtol=1e-6
    )


# ------------------------------------------------------------------------ pseudo-labels


def test_scores_become_probabilities():
    items = [{**entity(ADA, "x"), "text": "Ada", "score": 0.9}]
    items += [{**entity(ZENCO, "y"), "text": "Zenco", "score": 0.2}]
    prediction = {"id": 7, "entities": items}
    labelled, sure = label_record({"id": 7, "text": TEXT}, prediction, False)
    wanted = [entity(ADA, "x", probability=0.9), entity(ZENCO, "y", probability=0.2)]
    assert labelled == {"id": 7, "text": TEXT, "entities": wanted} and sure == 0.8
    labelled, sure = label_record({"id": 7, "text": TEXT}, prediction, True)
    assert labelled["entities"] == [entity(ADA, "x"), entity(ZENCO, "y")] and sure == 0.2


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_divides_the_score_of_a_pointer(temperature):
    def sigmoid(score: float) -> float:
        return 1 / (1 + np.exp(-score))

    found = event("buy", BOUGHT, [{**argument("who", ADA), "text": "Ada", "score": sigmoid(-1.5)}])
    found |= {"trigger_text": "bought", "trigger_score": sigmoid(2.0)}
    labelled, _ = label_record({"id": 7}, {"id": 7, "events": [found]}, False, temperature)
    [one] = labelled["events"]
    assert one["probability"] == pytest.approx(sigmoid(2.0 / temperature), abs=1e-4)
    [own] = one["arguments"]
    assert own["probability"] == pytest.approx(sigmoid(-1.5 / temperature), abs=1e-4)


# ------------------------------------------------------------------------------ trainings


def train(project: Path, plan: dict, **settings) -> dict[str, np.ndarray]:
    """Train under observation; return the weights, nothing if the plan kills it."""
    folder = project.parent
    record = folder / "record.npz"
    own = plan or {"record": str(record)}
    (folder / "plan.json").write_text(json.dumps(own), encoding="utf-8")
    arguments = flags(project, **settings)
    done = run(WORKER, project, folder / "plan.json", *arguments, cwd=folder, check=False)
    assert done.returncode == (-signal.SIGKILL if plan else 0), f"{done.stdout}\n{done.stderr}"
    if plan:
        return {}
    with np.load(record) as arrays:
        return {name: arrays[name] for name in arrays if name.startswith("weights/")}


def largest(one: dict, other: dict) -> float:
    assert one.keys() == other.keys() and len(one) > 10
    return max(np.abs(one[name] - other[name]).max() for name in one)


def soften(project: Path, template: str) -> None:
    """Give each second item of the sample a probability; write it without them, too."""
    path = project / "sample" / "train.jsonl"
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    draw = np.random.default_rng(3)
    for record in records:
        for item in record[FIELD[template]][::2]:
            item["probability"] = round(float(draw.uniform(0.3, 0.9)), 4)
    for name, rows in (("train", records), ("plain", strip(records))):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (path.parent / f"{name}.jsonl").write_text(text, encoding="utf-8")


REGULARIZED = {"regularization.span_smoothing": 0.1, "regularization.focal_gamma": 1.0}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize(
    ("template", "more"),
    [
        pytest.param("relation_extraction", {}, marks=pytest.mark.further),
        ("named_entity_recognition", REGULARIZED),
        pytest.param("event_extraction", {}, marks=pytest.mark.further),
    ],
)
def test_probabilities_are_learned_alike_everywhere(template, more, tmp_path):
    """With dropout: on one replica; on two with micro-batches and a cache, killed in mid-epoch."""
    project = bake_project(template, tmp_path, "distillation, cache, regularization")
    shorten(project, {"train": 19, "dev": 4})
    soften(project, template)
    small = {"epochs": 2, "batch_size": 4, "checkpoint_steps": 1, "clip_norm": 0.05, **more}
    small |= {"dropout": 0.1, "attention_dropout": 0.1}
    one = train(project, {}, **small, run_name="one")
    plain = train(project, {}, **small, run_name="plain", train_file="sample/plain.jsonl")
    two = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}
    two |= {**small, "run_name": "two", "cache.enabled": True}
    train(project, {"kill_at": 7}, **two)
    resumed = train(project, {}, **two)
    moved, apart = largest(one, plain), largest(one, resumed)
    print(f"{template}: {apart:.1e} between devices, {moved:.1e} from plain labels")
    assert apart < 1e-5 < 1e-4 < moved


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("template", further(ITEMS, "relation_extraction"))
def test_a_student_learns_the_mean_of_its_teachers(template, tmp_path):
    """From the commands of the README; a tagger says how to learn without probabilities."""
    project = bake_project(template, tmp_path, "distillation, cache, doctor, comparison")
    shorten(project, {"train": 40, "dev": 8, "test": 8})
    steps = {"epochs": 1, "steps": 3, "learning_rate": 1e-2}
    for seed in (1, 2):
        run("train.py", *flags(project, **steps, run_name=f"t{seed}", seed=seed), cwd=project)
    label = "extras/distillation/label.py"
    command = (label, "t1", "t2", "sample/test.jsonl", "pseudo.jsonl", "--floor", "0.1")
    run(*command, cwd=project)
    means = {}
    for seed in (1, 2):
        own = (label, f"t{seed}", "sample/test.jsonl", f"own{seed}.jsonl", "--floor", "0")
        run(*own, cwd=project)
        for record in lines(project / f"own{seed}.jsonl"):
            for name, share in shares_of(record, template).items():
                means[name] = means.get(name, 0.0) + share / 2
    both = lines(project / "pseudo.jsonl")
    found = {n: s for record in both for n, s in shares_of(record, template).items()}
    assert len(found) > 20
    if template == "event_extraction":  # which mentions make events depends on all scores
        found = {name: share for name, share in found.items() if name in means}
    else:
        assert {*found} == {name for name, share in means.items() if round(share, 4) > 0.1}
    assert all(share == pytest.approx(means[name], abs=2e-4) for name, share in found.items()) or (
        template == "event_extraction"
    )
    asked = {**steps, "distillation.files": '["pseudo.jsonl"]', "distillation.weights": "[0.5]"}
    done = run("train.py", *flags(project, **asked, run_name="student"), cwd=project)
    assert "8 more records to learn from, of weight 0.5" in done.stdout
    checked = run(check_records(project), *flags(project, **asked), cwd=project, check=False)
    assert "Traceback" not in checked.stderr and "pseudo.jsonl" in checked.stdout
    tagger = {"named_entity_recognition": {"tagger": "crf"}, "event_extraction": {"model": "crf"}}
    if own_setting := tagger.get(template):
        refused = flags(project, **asked, **own_setting, run_name="tags")
        done = run("train.py", *refused, cwd=project, check=False)
        assert done.returncode == 1 and "a CRF learns one sequence of tags: set" in done.stderr
    run(*command, "--hard", cwd=project)
    assert not any(
        "probability" in json.dumps(record) for record in lines(project / "pseudo.jsonl")
    )


@pytest.mark.parametrize(
    "settings, wanted",
    [
        ({"tagger": "crf"}, 'a CRF learns one sequence of tags: set tagger = "pointer"'),
        ({"model": "crf"}, 'a CRF learns one sequence of tags: set model = "gplinker"'),
        ({"tagger": "pointer"}, "no loss of task/model.py is ManyHeadsLoss or"),
        ({}, "no loss of task/model.py is ManyHeadsLoss or"),
    ],
)
def test_a_loss_that_learns_no_probabilities_is_told_from_a_crf(settings, wanted):
    first = SimpleNamespace(id="r", line=3)
    models = SimpleNamespace(training=keras.Sequential([keras.layers.Dense(1, name="own_loss")]))
    training = SimpleNamespace(models=models, settings=SimpleNamespace(**settings))
    with pytest.raises(InputError, match=re.escape(wanted)):
        learn_probabilities(training, first)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def shares_of(record: dict, template: str) -> dict[tuple, float]:
    """Return the probability of each item of a record, the highest if one is in several events."""
    found: dict[tuple, float] = {}
    for item in record[FIELD[template]]:
        own = item.get("probability", 1.0)
        for one in (item, *item.get("arguments", ())):
            share = one.get("probability", own)
            key = (record["id"], item.get("type"), json.dumps(strip({**one, "arguments": 0})))
            if one is not item or item.get("trigger", True):
                found[key] = max(share, found.get(key, 0.0))
    return found


def test_flags_of_label_that_do_not_fit_are_one_sentence(tmp_path):
    project = bake_project("reading_comprehension", tmp_path, "distillation")
    command = ("extras/distillation/label.py", "x", "sample/test.jsonl", "y.jsonl")
    for flag, words in (
        ("--floor", "--floor 0.5 is a probability"),
        ("--n_best", "--n_best 3 asks"),
    ):
        value = "0.5" if flag == "--floor" else "3"
        done = run(*command, flag, value, cwd=project, check=False)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_a_project_without_the_extra_says_how_to_get_it(tmp_path):
    project = bake_project("relation_extraction", tmp_path, "none")
    path = project / "sample" / "train.jsonl"
    record = {"id": "a", "text": TEXT, "triples": ITEMS["relation_extraction"]}
    path.write_text(json.dumps(record), encoding="utf-8")
    done = run("train.py", *flags(project, steps=1), cwd=project, check=False)
    assert done.returncode == 1 and "distillation" in done.stderr and "Traceback" not in done.stderr

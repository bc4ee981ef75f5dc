"""Two texts in both orders: what is learned in an epoch, and the mean of two predictions."""

import json
import shutil
import signal

import numpy as np
import pytest
from conftest import ROOT, use_template
from project_process import ProjectProcess
from projects import bake_project, flags, run
from run_weights import largest_difference, weights

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.competition.settings import Table  # noqa: E402
from extras.competition.swapping import SwappingGenerator, average_orders, swap  # noqa: E402
from task.data import ExampleGenerator  # noqa: E402
from task.records import Example, collect_targets  # noqa: E402
from task.settings import Settings  # noqa: E402

WORDS = "amber basil cedar delta ember fjord grove heath".split()
NAMES = ("a", "b", "tie")
ON = {"swap_training": True, "swap_prediction": True, "swap_labels": {"a": "b"}}
# 7 steps an epoch, the last one of 4 examples.
SETTINGS = {
    "epochs": 2,
    "batch_size": 8,
    "seed": 3,
    "floor": False,
    "checkpoint_steps": 3,
    "competition.text_columns": '["prompt", "one", "two"]',
    "competition.swap_labels": '{"a": "b"}',
}
WORKER = ROOT / "tests/replica_worker.py"


def make_record(number, random):
    """The longer answer wins."""
    sizes = random.integers(1, 5, 2)
    label = NAMES[2] if sizes[0] == sizes[1] else NAMES[int(sizes[0] < sizes[1])]
    one, two = (" ".join(random.choice(WORDS, size)) for size in sizes)
    return {"id": number, "prompt": f"q {number}", "one": one, "two": two, "label": label}


def make_records(count, first=0):
    random = np.random.default_rng(first)
    return [make_record(number, random) for number in range(first, first + count)]


def turned(record):
    """Return a record with its answers, and the winner, in the other order."""
    label = {"a": "b", "b": "a"}.get(record["label"], record["label"])
    return {**record, "one": record["two"], "two": record["one"], "label": label}


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def make_generator(count=20, **settings):
    records = make_records(count)
    examples = [
        Example(
            id=record["id"],
            context=(record["prompt"],),
            text_a=record["one"],
            text_b=record["two"],
            labels=(record["label"],),
            several=False,
            group=None,
            line=record["id"],
        )
        for record in records
    ]
    own = with_tables(Settings)(max_length=12, buckets=2, competition=ON, **settings)
    tokenizer = train_tokenizer([" ".join(WORDS)] * 3, 300)
    names = ["token_ids", "segment_ids", "padding_mask", "text_numbers"]
    labels = collect_targets(examples, own)
    return ExampleGenerator.of(examples, tokenizer, labels, names, own, 8)


def rows_of(batches):
    """Return the tokens and targets of all rows that count, in order."""
    return [
        (tokens.tolist(), targets.tolist())
        for batch in batches
        for tokens, targets, weight in zip(
            batch["token_ids"], batch["targets"], batch["loss_weight"], strict=True
        )
        if weight
    ]


def test_a_half_of_the_records_is_turned_round_in_each_epoch():
    plain = make_generator()
    names = {"a": "b", "b": "a"}
    swapped = ExampleGenerator.of([swap(e, names) for e in plain.examples], *plain.arguments)
    both = SwappingGenerator(plain, names)
    chosen = []
    for epoch in range(3):
        # The same records in the same places of batches of the same shapes.
        lists = [rows_of(one.batches(epoch)) for one in (plain, swapped, both)]
        origin = [found == other for _, other, found in zip(*lists, strict=True)]
        same = [found == own for own, _, found in zip(*lists, strict=True)]
        assert all(one or other for one, other in zip(origin, same, strict=True))
        positions = np.concatenate([rows for rows, _ in both.plan(epoch)])
        assert (positions >= 20).sum() == 10 and sorted(positions % 20) == [*range(20)]
        chosen.append(sorted(positions[positions >= 20]))
        assert rows_of(both.batches(epoch, 1)) == lists[2][8:]
    assert chosen[0] != chosen[1] != chosen[2]
    assert [rows.tolist() for rows, _ in both.plan(None)] == [
        rows.tolist() for rows, _ in plain.plan(None)
    ]
    assert rows_of(both.batches(1)) == rows_of(
        SwappingGenerator(make_generator(), names).batches(1)
    )
    assert type(both.of(plain.examples, *plain.arguments)) is ExampleGenerator


def test_labels_change_places_with_the_texts():
    [example, *_] = make_generator().examples
    soft = (("a", 0.5), ("b", 0.2), ("tie", 0.3))
    example = Example(**{**vars(example), "labels": ("a",), "probabilities": soft})
    found = swap(example, {"a": "b", "b": "a"})
    assert (found.context, found.text_a, found.text_b) == (
        example.context,
        example.text_b,
        example.text_a,
    )
    assert found.labels == ("b",)
    assert found.probabilities == (("b", 0.5), ("a", 0.2), ("tie", 0.3))
    assert swap(found, {"a": "b", "b": "a"}) == example


def test_the_mean_of_both_orders_puts_labels_back():
    generator = make_generator()
    assert generator.labels.names == NAMES
    rows, other = np.random.default_rng(1).random((2, 20, 3))
    asked = []

    def predict(own):
        asked.append(own)
        assert [e.text_a for e in own.examples] == [e.text_b for e in generator.examples]
        return other

    for _ in range(2):  # encoded once
        found = average_orders(rows, generator, predict)
        assert np.allclose(found, (rows + other[:, [1, 0, 2]]) / 2)
    assert asked[0] is asked[1]


WRONG = {
    "no labels": ({"swap_training": True}, "say with swap_labels which labels change places"),
    "a chain": ({"swap_labels": {"a": "b", "b": "c"}}, "'b' can change places with one label only"),
    "no pairs": ({"swap_labels": "a"}, 'write pairs of labels: { a = "b" }'),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused(case):
    settings, expected = WRONG[case]
    with pytest.raises(ValueError) as error:
        Table(**settings)
    assert expected in str(error.value)


def test_settings_that_do_not_go_together_are_refused():
    for other, expected in (
        ({"output": "number"}, 'with output = "number" set it to "same"'),
        ({"retrieval": {"loss": "negatives"}}, "has no order of texts"),
        ({"used_rows": {"enabled": True}}, "set used_rows.enabled = false"),
        (
            {"regularization": {"virtual_adversary": 1.0, "unlabelled_file": "x"}},
            "leave regularization.unlabelled_file",
        ),
    ):
        with pytest.raises(ValueError) as error:
            with_tables(Settings)(competition=ON, **other)
        assert expected in str(error.value)
    assert Table(swap_labels={"a": "b", "b": "a"}).swapped_names == {"a": "b", "b": "a"}
    assert Table(swap_training=True, swap_labels="same").swapped_names == {}


def test_records_that_can_not_be_swapped_are_refused():
    generator = make_generator()
    single = [Example(**{**vars(e), "text_b": None, "context": None}) for e in generator.examples]
    tokenizer, _, names, *others = generator.arguments
    labels = collect_targets(single, generator.settings)
    alone = ExampleGenerator.of(single, tokenizer, labels, names, *others)
    with pytest.raises(InputError, match="change the order of two texts, but the records have one"):
        average_orders(np.zeros((20, 3)), alone, None)
    generator.settings.competition.swap_labels = '{"a": "c"}'
    with pytest.raises(InputError, match="swap_labels names 'c', which no training example has"):
        average_orders(np.zeros((20, 3)), generator, None)


# -------------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    project = bake_project("text_classification", tmp_path_factory.mktemp("swapping"))
    for name, count, first in (("train", 52, 0), ("dev", 20, 100), ("test", 12, 200)):
        records = make_records(count, first)
        write(project / f"{name}.jsonl", records)
        write(project / f"{name}_turned.jsonl", [turned(record) for record in records])
    process = ProjectProcess(project)
    yield process
    process.stop()


def asked(process, name, **settings):
    files = {f"{part}_file": f"{part}.jsonl" for part in ("train", "dev", "test")}
    return flags(process.project, **{**SETTINGS, **files, "run_name": name, **settings})


def train(process, name, **settings):
    done = process.run("train.py", *asked(process, name, **settings))
    assert done.code == 0, f"{done.out}\n{done.err}"
    return weights(process.project / "runs" / name)


TRAINED = {"competition.swap_training": True, "dropout": 0.2}


@pytest.mark.further
@pytest.mark.trains
def test_replicas_and_interruptions_learn_the_same(process, tmp_path):
    project = process.project
    """One replica; and two with a cache, killed in the second epoch."""
    whole = train(process, "whole", **TRAINED)
    plain = train(process, "plain", dropout=0.2)
    assert largest_difference(whole, plain) > 1e-3
    two = {"devices.logical_devices": 2, "strategy": "mirrored", "cache.enabled": True}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 10}), encoding="utf-8")
    arguments = asked(process, "two", **TRAINED, **two)
    done = run(WORKER, project, plan, *arguments, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL, f"{done.stdout}\n{done.stderr}"
    run("train.py", *arguments, cwd=project)
    assert largest_difference(whole, weights(project / "runs" / "two")) < 1e-5


@pytest.mark.further
@pytest.mark.trains
def test_a_prediction_is_the_mean_of_two_single_ones(process, tmp_path):
    project = process.project
    train(process, "single", epochs=1)
    train(process, "mean", epochs=1, **{"competition.swap_prediction": True})

    def predict(name, file):
        done = process.run("predict.py", name, project / file, tmp_path / "out.jsonl")
        assert done.code == 0, f"{done.out}\n{done.err}"
        lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
        return np.array([[*json.loads(line)["probabilities"].values()] for line in lines])

    one, other = (predict("single", f"test{which}.jsonl") for which in ("", "_turned"))
    back = [1, 0, 2]  # the labels of the other order
    found = predict("mean", "test.jsonl")
    assert np.abs(one - other[:, back]).max() > 1e-3
    assert np.abs(found - (one + other[:, back]) / 2).max() < 1e-6
    assert np.abs(predict("mean", "test_turned.jsonl")[:, back] - found).max() < 1e-6
    scores = json.loads((project / "runs/mean/scores.json").read_text("utf-8"))
    kept = (project / "runs/mean/predictions/dev.jsonl").read_text("utf-8").splitlines()
    again = predict("mean", "dev.jsonl")  # dev was scored in both orders, too
    saved = np.array([[*json.loads(line)["probabilities"].values()] for line in kept])
    assert np.abs(saved - again).max() < 1e-6 and "accuracy" in scores["dev"]
    done = process.run("predict.py", "single", "mean", project / "test.jsonl", tmp_path / "o.csv")
    assert done.code == 1 and "competition.swap_prediction = False and mean True" in done.err
    check_blends(process, "single", "mean")


def check_blends(process, single, mean):
    """A blend may hold runs of one order and of both, but none that reads other texts."""
    fit = ("extras/blends/fit.py", single)
    done = process.run(*fit, mean, "--name", "blend", "--equal")
    assert done.code == 0, f"{done.out}\n{done.err}"
    runs = process.project / "runs"
    config = json.loads((runs / mean / "config.json").read_text("utf-8"))
    config["competition"]["text_columns"] = ["prompt", "two", "one"]
    shutil.copytree(runs / mean, runs / "other", ignore=shutil.ignore_patterns("manifest.json"))
    (runs / "other" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = process.run(*fit, "other", "--name", "x")
    assert done.code == 1 and "other ['prompt', 'two', 'one']: train both" in done.err
    assert not (runs / "x").exists()

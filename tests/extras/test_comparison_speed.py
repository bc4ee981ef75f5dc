"""compare.py of every task, with every metric: seconds of one core for each record."""

import json
import shutil

import numpy as np
import pytest
from projects import TEMPLATES, bake_project, run

from core.base.files import file_hash, write_json, write_json_lines

# Of one core, besides the imports, for 10,000 records: where nothing else runs, the slowest metric
# takes 5. `make test` compares a quarter of them in half of the time: a part of it is the same for
# any number of records.
SECONDS = {2_500: 5.0, 10_000: 10.0}
SIZES = [2_500, pytest.param(10_000, marks=pytest.mark.further)]
LABELS, TARGETS, GROUP = 20, 2, 10
# One process compares by one metric after the other, and prints its seconds and what it found.
TIMED = """
import json, sys, time
from pathlib import Path
import compare
run, found = Path("runs/one"), []
metrics, sys.argv[1:] = sys.argv[1:], ["one", "other"]
for metric in metrics:
    scores = json.loads((run / "scores.json").read_text())
    (run / "scores.json").write_text(json.dumps({**scores, "monitor": metric}))
    begin = time.process_time()
    compare.main()
    seconds = time.process_time() - begin
    found.append([metric, seconds, json.loads((run / "comparison.json").read_text())])
print(json.dumps(found))
"""
METRICS = {
    "relation_extraction": ["f1"],
    "named_entity_recognition": ["f1"],
    "reading_comprehension": ["f1"],
    "event_extraction": [
        *(f"trigger_{what}_f1" for what in ("identification", "classification")),
        *(f"argument_{what}_f1" for what in ("identification", "classification")),
        "duee_f1",
    ],
    "seq2seq": ["bleu", "rouge_l", "exact_match"],
    "pretraining": ["accuracy"],
}
PROBABILITIES = ["neg_log_loss", "neg_brier", "f_beta", "roc_auc", "pr_auc"]
RANKINGS = ["map_at_k", "ndcg", "ndcg_at_k"]
NUMBERS = ["neg_rmse", "neg_mcrmse", "neg_mae", "pearson", "spearman", "qwk"]
KINDS = {
    "single": ["accuracy", "macro_f1", "micro_f1", "matthews", "top_k_accuracy"],
    "several": ["accuracy", "macro_f1", "micro_f1", "top_k_accuracy"],
    "groups": ["f1", "map", "mrr"],
    "numbers": [*NUMBERS, "ndcg", "ndcg_at_k"],
}
KINDS = {
    kind: own + (PROBABILITIES + RANKINGS) * (kind != "numbers") for kind, own in KINDS.items()
}
CASES = [pytest.param(task, "", METRICS[task], id=task) for task in TEMPLATES if task in METRICS]
# The kind of reading comprehension is the language, whose answers are compared in another way.
CASES += [pytest.param("reading_comprehension", "cmrc2018", ["f1"], id="cmrc2018")]
for kind, own in KINDS.items():
    # One kind of records shows the metrics that all kinds have.
    again = [metric for metric in own if metric in PROBABILITIES + RANKINGS]
    again = again if kind in ("several", "groups") else []
    shown = [metric for metric in own if metric not in again]
    CASES += [pytest.param("text_classification", kind, shown, id=kind)]
    if again:
        further = pytest.mark.further
        CASES += [
            pytest.param("text_classification", kind, again, id=f"{kind}_again", marks=further)
        ]


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """A function from a task to its project, in which compare.py is timed."""
    folder, made = tmp_path_factory.mktemp("speed"), {}

    def project_of(task: str):
        if task not in made:
            made[task] = bake_project(task, folder)
            (made[task] / "timed.py").write_text(TIMED, encoding="utf-8")
        return made[task]

    return project_of


def read(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def keep_runs(project, gold, runs, monitor, **facts) -> None:
    """Write a dev file and two runs that were scored on it."""
    path = project / "sample/large.jsonl"
    write_json_lines(path, gold)
    facts = {"file": "sample/large.jsonl", "data_hash": file_hash(path), **facts}
    for name, records in runs.items():
        shutil.rmtree(project / "runs" / name, ignore_errors=True)
        write_json(project / "runs" / name / "scores.json", {"monitor": monitor, "dev": facts})
        write_json_lines(project / "runs" / name / "predictions/dev.jsonl", records)


def repeated(project, count: int) -> list[dict]:
    """Return the records of the sample's dev file again and again, with ids of their own."""
    records = read(project / "sample/dev.jsonl")
    return [{**records[n % len(records)], "id": str(n)} for n in range(count)]


# What is predicted for a record where a system is right; where it is wrong.
PREDICTED = {
    "relation_extraction": (lambda r: {"triples": r["triples"]}, {"triples": []}),
    "named_entity_recognition": (lambda r: {"entities": r["entities"]}, {"entities": []}),
    "event_extraction": (
        lambda r: {
            "events": [
                {**event, "arguments": [{**part, "score": 0.9} for part in event["arguments"]]}
                for event in r["events"]
            ]
        },
        {"events": []},
    ),
    "reading_comprehension": (
        lambda r: {"answer": r["answers"][0] if r["answers"] else None},
        {"answer": [0, 5]},
    ),
    "seq2seq": (
        lambda r: {"exact_match": 1, "rouge_l": 1.0, "statistics": [9, 9, 9, 8, 7, 6, 9, 8, 7, 6]},
        {"exact_match": 0, "rouge_l": 0.7, "statistics": [9, 9, 6, 4, 2, 1, 9, 8, 7, 6]},
    ),
    "pretraining": (lambda r: {"statistics": [9.0, 12.0, 3.5]}, {"statistics": [5.0, 12.0, 9.1]}),
}


def prepare_task(project, task: str, kind: str, count: int) -> None:
    """Write two runs of a task other than text classification."""
    gold = [{"id": str(n)} for n in range(count)]
    gold = gold if task == "pretraining" else repeated(project, count)
    right, wrong = PREDICTED[task]
    runs = {}
    for seed, name in enumerate(("one", "other")):
        hits = np.random.default_rng(seed).random(count) < 0.8
        rows = zip(gold, hits, strict=True)
        runs[name] = [{"id": r["id"], **(right(r) if hit else wrong)} for r, hit in rows]
    facts = {"metric": kind or "squad"} if task == "reading_comprehension" else {}
    keep_runs(project, gold, runs, METRICS[task][0], **facts)


def prepare_labels(project, kind: str, metric: str, count: int) -> None:
    """Write two runs of text classification that predict labels."""
    names = ["0", "1"] if kind == "groups" else [f"label {n:02}" for n in range(LABELS)]
    random, numbers = np.random.default_rng(3), np.arange(count)
    hits = np.eye(len(names), dtype=bool)[random.integers(0, len(names), count)]
    if kind == "several":
        hits |= random.random(hits.shape) < 0.1
    field = "labels" if kind == "several" else "label"

    def record(n: int, row: np.ndarray) -> dict:
        own = [names[place] for place in np.flatnonzero(row)]
        group = {"group": str(n // GROUP)} if kind == "groups" else {}
        return {"id": str(n), **group, field: own if kind == "several" else own[0]}

    gold = [record(n, row) | {"text_a": "a"} for n, row in zip(numbers, hits, strict=True)]
    runs = {}
    for seed, name in enumerate(("one", "other")):
        given = np.random.default_rng(seed).random(hits.shape) + 0.4 * hits
        given = given / 1.4 if kind == "several" else given / given.sum(axis=1, keepdims=True)
        best = given > 0.6 if kind == "several" else given == given.max(axis=1, keepdims=True)
        runs[name] = [
            record(n, row) | {"score": own[-1], "probabilities": dict(zip(names, own, strict=True))}
            for n, row, own in zip(numbers, best, given.tolist(), strict=True)
        ]
    positive = {"positive_label": "1"} if kind == "groups" else {}
    keep_runs(project, gold, runs, metric, **positive)
    labels = {"names": names, "several": kind == "several", "counts": [1] * len(names)}
    labels |= {"records": count, "pairs": False, "positive": positive.get("positive_label")}
    for name in runs:
        write_json(project / "runs" / name / "labels.json", labels)
        write_json(project / "runs" / name / "config.json", {"output": "labels"})


def prepare_numbers(project, metric: str, count: int) -> None:
    """Write two runs of text classification that predict numbers and grades."""
    names = [f"target_{n}" for n in range(TARGETS)]
    random = np.random.default_rng(4)
    numbers = random.integers(1, 6, (count, TARGETS))
    gold = [
        {"id": str(n), "text_a": "a", "group": str(n // GROUP)}
        | dict(zip(names, map(int, row), strict=True))
        for n, row in enumerate(numbers)
    ]
    runs = {}
    for seed, name in enumerate(("one", "other")):
        found = numbers + np.random.default_rng(seed).normal(size=numbers.shape)
        rows = zip(found.tolist(), np.rint(found).clip(1, 5).astype(int).tolist(), strict=True)
        runs[name] = [
            {
                "id": str(n),
                "targets": dict(zip(names, own, strict=True)),
                "grades": dict(zip(names, grades, strict=True)),
            }
            for n, (own, grades) in enumerate(rows)
        ]
    keep_runs(project, gold, runs, metric)
    settings = {"output": "number", "competition": {"target_columns": ",".join(names)}}
    write_json(project / "runs/one/config.json", settings)


@pytest.mark.shown("numbers", "groups", "relation")
@pytest.mark.slow
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("task, kind, metrics", CASES)
def test_compare_ends_in_time(projects, task, kind, metrics, count):
    project = projects(task)
    if task != "text_classification":
        prepare_task(project, task, kind, count)
    elif kind == "numbers":
        prepare_numbers(project, metrics[0], count)
    else:
        prepare_labels(project, kind, metrics[0], count)
    done = run(project / "timed.py", *metrics, cwd=project)
    results = json.loads(done.stdout.splitlines()[-1])
    assert [metric for metric, *_ in results] == metrics
    for metric, seconds, found in results:
        print(f"{metric}: {seconds:.1f} s")
        assert seconds < SECONDS[count], metric
        assert found["low"] <= found["difference"] <= found["high"], metric
        assert found["low"] < found["high"], metric

"""Bi-encoders: losses, the gradient over replicas, vectors, search and its scores."""

import importlib.util
import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from forked_scripts import run_together
from project_process import ProjectProcess
from projects import ENVIRONMENT, bake_project, flags
from pydantic import ValidationError
from small_models import bert_encoder, compile_models

from core.base.errors import InputError
from core.base.settings import with_tables
from core.batches import DataGenerator
from extras.retrieval.bi_encoder import build_pair_models, order_labels, refuse_empty_batches
from extras.retrieval.negatives import (
    Draw,
    Labels,
    Matched,
    choose_negatives,
    matched_queries,
    rank_by_bm25,
    training_records,
)
from extras.retrieval.pair_losses import PairBatch, cosent_loss, negatives_losses
from extras.retrieval.ranking_scores import read_gold, read_ranking
from extras.retrieval.rankings import Candidate, Query, read_queries, write_submission
from extras.retrieval.settings import Settings, Table, complain
from extras.retrieval.vectors import find_nearest, keep_highest, read_texts

WORKER = ROOT / "tests" / "pair_worker.py"
SCALE = 7.0


def make_settings(**table):
    changes = {name: table.pop(name) for name in list(table) if name in Settings.model_fields}
    return with_tables(Settings)(**changes, retrieval=table)


def make_labels(**changes):
    known = {"names": ("0", "1"), "several": False, "positive": "1", "counts": (3, 3)}
    return SimpleNamespace(**{**known, "records": 6, "pairs": True, **changes})


# -------------------------------------------------------------------------- losses


def random_batch(seed: int, pairs: int = 7):
    """Return vectors, grades, which pairs are real, and texts, some of which occur twice."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(2, pairs, 3))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    texts = draw.integers(0, 5, (2, pairs))
    grades = draw.integers(0, 3, pairs) / 2
    return vectors, grades, np.arange(pairs) < pairs - seed % 3, texts


def as_batch(vectors, grades, real, texts) -> PairBatch:
    same = [own[:, None] == own[None, :] for own in texts]
    return PairBatch(*vectors, tf.constant(grades), tf.constant(real), *map(tf.constant, same))


def reference_cosent(vectors, grades, real, texts) -> float:
    """Return CoSENT's loss, pair by pair."""
    cosines, total = (vectors[0] * vectors[1]).sum(-1), 1.0
    for i in np.flatnonzero(real):
        for j in np.flatnonzero(real):
            if grades[i] > grades[j]:
                total += np.exp(SCALE * (cosines[j] - cosines[i]))
    return np.log(total)


def reference_negatives(vectors, grades, real, texts, symmetric) -> float:
    """Return the mean of the cross-entropies as sentence-transformers has it, without twins."""

    def search(queries, answers, query_texts, answer_texts, offered) -> list[float]:
        right = {(query_texts[k], answer_texts[k]) for k in np.flatnonzero(real & (grades > 0))}
        losses = []
        for i in np.flatnonzero(real & (grades == 1)):
            choice = [
                j
                for j in np.flatnonzero(offered)
                if j == i or (query_texts[i], answer_texts[j]) not in right
            ]
            scores = np.array([SCALE * queries[i] @ answers[j] for j in choice])
            losses.append(np.log(np.exp(scores).sum()) - scores[choice.index(i)])
        return losses

    losses = search(*vectors, *texts, real)
    if symmetric:
        back = search(*vectors[::-1], *texts[::-1], real & (grades == 1))
        losses = [(one + other) / 2 for one, other in zip(losses, back, strict=True)]
    return float(np.mean(losses)) if losses else 0.0


def computed(loss: str, vectors, *others) -> tuple[float, np.ndarray]:
    """Return the loss of a batch, and its gradient by the vectors."""
    with tf.GradientTape() as tape:
        places = tf.Variable(vectors)
        batch = as_batch([places[0], places[1]], *others)
        if loss == "cosent":
            value = cosent_loss(batch, SCALE)
        else:
            rows = negatives_losses(batch, SCALE, loss == "symmetric")
            count = max(1, int(np.sum(others[1] & (others[0] == 1))))
            value = tf.reduce_sum(rows) / count
    return float(value), np.asarray(tf.convert_to_tensor(tape.gradient(value, places)))


REFERENCES = {
    "cosent": reference_cosent,
    "negatives": lambda *batch: reference_negatives(*batch, False),
    "symmetric": lambda *batch: reference_negatives(*batch, True),
}


@pytest.mark.shown("negatives", "cosent")
@pytest.mark.parametrize("loss", REFERENCES)
def test_losses_and_gradients_are_those_of_the_reference(loss):
    """Values of 60 batches with texts that occur twice, gradients of some by finite differences."""
    reference, step = REFERENCES[loss], 1e-6
    for seed in range(60):
        vectors, *others = random_batch(seed)
        value, gradient = computed(loss, vectors, *others)
        np.testing.assert_allclose(value, reference(vectors, *others), rtol=1e-9, atol=1e-12)
        if seed < 6:
            slopes = np.zeros_like(vectors)
            for place in np.ndindex(vectors.shape):
                ends = []
                for way in (step, -step):
                    moved = vectors.copy()
                    moved[place] += way
                    ends.append(reference(moved, *others))
                slopes[place] = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


def test_the_reference_without_twins_is_the_plain_cross_entropy():
    """Distinct texts, all of them positive: sentence-transformers' own formula."""
    vectors, *_ = random_batch(1)
    count = vectors.shape[1]
    scores = SCALE * vectors[0] @ vectors[1].T
    plain = np.mean(np.log(np.exp(scores).sum(1)) - np.diag(scores))
    found, _ = computed(
        "negatives", vectors, np.ones(count), np.ones(count, bool), [np.arange(count)] * 2
    )
    np.testing.assert_allclose(found, plain, rtol=1e-12)


# ------------------------------------------------------------------------ gradients


def small_batch(rows: int = 6, length: int = 5) -> dict:
    """Return pairs in which a text occurs twice, once with more padding around others."""
    draw = np.random.default_rng(2)
    batch = {"targets": np.eye(2, dtype="float32")[draw.integers(0, 2, rows)]}
    for side in "ab":
        tokens = draw.integers(1, 20, (rows, length)).astype("int32")
        tokens[3] = tokens[0]
        mask = (np.arange(length) < draw.integers(2, length + 1, (rows, 1))).astype("int32")
        mask[3] = mask[0]
        batch[f"text_{side}_token_ids"] = tokens * mask
        batch[f"text_{side}_padding_mask"] = mask
        batch[f"text_{side}_segment_ids"] = np.zeros_like(tokens)
    weight = np.array([1 / (rows - 1)] * (rows - 1) + [0], "float32")
    return {**batch, "loss_weight": weight}


@pytest.mark.parametrize("loss", ["negatives", "cosent"])
def test_the_loss_of_a_model_is_that_of_its_vectors(loss):
    settings = make_settings(loss=loss, scale=SCALE, dimension=3)
    encoder = bert_encoder(num_layers=1, dropout=0.0, attention_dropout=0.0)
    models = build_pair_models(encoder, make_labels(), settings)
    compile_models(settings, models, 10)
    batch = small_batch()
    _, losses = models.training.batch_gradients({k: tf.constant(v) for k, v in batch.items()})
    embedder = models.training.get_layer("embedder")
    sides = [{name: batch[f"text_{side}_{name}"] for name in embedder.input} for side in "ab"]
    vectors = np.stack([np.asarray(embedder(side)["vector"], np.float64) for side in sides])
    texts = [[str(row) for row in side["token_ids"].tolist()] for side in sides]
    grades, real = batch["targets"][:, 1], batch["loss_weight"] > 0
    wanted = REFERENCES[loss](vectors, grades, real, texts)
    np.testing.assert_allclose(losses["loss"], wanted, rtol=1e-5)


def test_texts_are_told_apart_by_their_tokens_alone():
    settings = make_settings(loss="negatives")
    models = build_pair_models(bert_encoder(num_layers=1), make_labels(), settings)
    compile_models(settings, models, 10)
    gradients = models.training.batch_gradients
    short = {k: tf.constant(v) for k, v in small_batch(length=5).items() if k.startswith("text_a")}
    longer = {k: tf.pad(v, [[0, 0], [0, 3]]) for k, v in short.items()}
    one, other = (gradients.text_numbers(batch, "text_a_").numpy() for batch in (short, longer))
    np.testing.assert_array_equal(one, other)
    assert len({tuple(row) for row in one.tolist()}) == 5


@pytest.mark.further
@pytest.mark.trains
def test_replicas_and_micro_batches_give_the_same_weights(tmp_path):
    """30 steps with dropout: each replica sees the negatives of all."""
    counts = (1, 2, 4)
    commands = [
        ([str(WORKER), str(tmp_path / f"{n}.npz"), str(n)], tmp_path, ENVIRONMENT) for n in counts
    ]
    for done in run_together(commands):
        assert done.returncode == 0, done.stderr
    records = {n: dict(np.load(tmp_path / f"{n}.npz")) for n in counts}
    one, compared = records[1], 0
    for replicas, record in records.items():
        assert record.pop("replicas") == replicas
        for name, value in record.items():
            loss, _, rest = name.split("/")
            difference = np.abs(value - one[f"{loss}/1/{rest}"]).max()
            assert difference < 1e-5, (replicas, name, difference)
            compared += 1
    assert compared > 90
    assert not np.array_equal(one["negatives/1/000"], one["cosent/1/000"])


# --------------------------------------------------------------------------- search


def test_the_nearest_are_found_exactly_and_of_equals_the_first(monkeypatch):
    draw = np.random.default_rng(4)
    vectors = draw.integers(-1, 2, (50, 3)).astype(np.float32)  # most cosines occur often
    queries = draw.integers(-2, 3, (9, 3)).astype(np.float32)
    scores = queries @ vectors.T
    for block, count in [(1, 1), (9 * 7, 5), (9 * 50, 50), (9 * 13, 20)]:
        monkeypatch.setattr("extras.retrieval.vectors.NUMBERS_AT_ONCE", block)
        rows, cosines = find_nearest(queries, vectors, count)
        np.testing.assert_array_equal(rows, np.argsort(-scores, axis=1, kind="stable")[:, :count])
        np.testing.assert_array_equal(cosines, np.take_along_axis(scores, rows, axis=1))


def test_equal_scores_keep_their_order():
    scores, rows = keep_highest(np.ones((2, 6)), np.arange(12).reshape(2, 6), 3)
    assert rows.tolist() == [[0, 1, 2], [6, 7, 8]] and scores.shape == (2, 3)


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": "negatives", "batch_size": 1}, "batch_size = 1 has one: raise it"),
        ({"loss": "cosent", "pooling": "compare"}, "pooling = compare needs both texts at once"),
        ({"loss": "cosent", "pooling": "last"}, "pooling = last is for a classifier"),
        ({"loss": "cosine", "scale": 0}, "greater than 0"),
        ({"loss": "triplet"}, "'none', 'cosine', 'cosent' or 'negatives'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, sentence):
    with pytest.raises(ValidationError, match=sentence):
        make_settings(**changes)


def test_other_tasks_have_no_pairs():
    other = SimpleNamespace(task="Relation extraction", retrieval=Table(loss="cosent"))
    assert "is for pairs of texts, which this task does not have" in complain(other)
    other.retrieval = Table()
    assert complain(other) is None


@pytest.mark.parametrize("other", [{"r_drop": 1.0}, {"adversary": "fgm"}, {"virtual_adversary": 1}])
def test_the_gradient_is_not_made_twice(other):
    with pytest.raises(ValidationError, match="leave the table regularization as it came"):
        with_tables(Settings)(retrieval={"loss": "cosent"}, regularization=other)


@pytest.mark.parametrize(
    ("loss", "labels", "sentence"),
    [
        ("cosent", {"pairs": False}, 'single ones: give each record a "text_b"'),
        ("cosent", {"several": True}, 'needs one "label" a pair'),
        ("cosent", {"positive": None}, "which of the labels 0, 1 says that two texts belong"),
        (
            "cosent",
            {"names": ("a", "b", "c"), "positive": None},
            "or numbers as grades, not a, b, c",
        ),
        ("cosent", {"names": ("0", "1", "5")}, "positive label is '1', and the best grade 5"),
        ("cosent", {"counts": (0, 9)}, "every training pair has the label '1'"),
    ],
)
def test_labels_without_an_order_are_refused(loss, labels, sentence):
    with pytest.raises(InputError, match=sentence):
        order_labels(make_labels(**labels), make_settings(loss=loss))


def test_grades_are_numbers_not_words():
    labels = make_labels(names=("0", "10", "2.5"), positive=None, counts=(1, 1, 1))
    assert order_labels(labels, make_settings(loss="cosent")) == [0, 2, 1]


class Batches(DataGenerator):
    """Pairs whose labels come in a known order: there is nothing to shuffle in one batch."""

    labels = make_labels()

    def __init__(self, labels, batch_size):
        super().__init__(np.full(len(labels), 4), batch_size, 1)
        self.targets = np.eye(2)[labels]


def test_batches_without_a_pair_to_learn_from_are_told(capsys):
    settings = make_settings(loss="negatives")
    with pytest.raises(InputError, match="every batch has no pair with the label '1'"):
        refuse_empty_batches(settings, Batches([0] * 8, 4))
    refuse_empty_batches(settings, Batches([0] * 15 + [1], 4))
    assert "warning: 75% of the batches have no pair with the label '1'" in capsys.readouterr().out
    refuse_empty_batches(settings, Batches([0, 1] * 4, 8))
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match="every batch has pairs of only one label"):
        refuse_empty_batches(make_settings(loss="cosent"), Batches([1] * 8, 4))


# ------------------------------------------------------------------------ a project


def make_pairs(folder: Path) -> None:
    """Write questions with four candidates each, of which one has the same words."""
    draw = random.Random(3)
    colours, things = "red blue green old new tall".split(), "house boat car tree dog lamp".split()
    corpus: dict[str, str] = {}
    for name, count in (("train", 30), ("dev", 8)):
        records, gold = [], []
        for group in range(count):
            pairs = draw.sample([(c, t) for c in colours for t in things], 4)
            for place, (colour, thing) in enumerate(pairs):
                answer = f"the {thing} that is {colour} stands here"
                corpus.setdefault(answer, f"d{len(corpus)}")
                label = str(int(place == 0))
                records.append(
                    {
                        "id": f"{name}{len(records)}",
                        "group": f"q{group}",
                        "text_a": f"where is the {pairs[0][0]} {pairs[0][1]}",
                        "text_b": answer,
                        "label": label,
                    }
                )
                gold += [f"q{group} 0 {corpus[answer]} 1"] if place == 0 else []
        write_lines(folder / f"{name}.jsonl", records)
        (folder / f"{name}.qrels").write_text("\n".join(gold), encoding="utf-8")
    queries = {record["group"]: record["text_a"] for record in records}
    write_lines(folder / "queries.jsonl", [{"id": k, "text": v} for k, v in queries.items()])
    write_lines(folder / "corpus.jsonl", [{"id": v, "text": k} for k, v in corpus.items()])


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A process in a project with a bi-encoder, `bi`, and pairs in its folder `sample`."""
    folder = bake_project("text_classification", tmp_path_factory.mktemp("p"), "retrieval")
    make_pairs(folder / "sample")
    process = ProjectProcess(folder)
    asked = {"run_name": "bi", "epochs": 3, "retrieval.loss": "negatives", "max_length": 16}
    asked |= {"buckets": 1, "test_file": "sample/dev.jsonl", "retrieval.dimension": 8}
    done = process.run("train.py", *flags(folder, **asked))
    assert done.code == 0, done.err
    yield process
    process.stop()


def ok(project, script: str, *arguments: object) -> str:
    done = project.run(script, *map(str, arguments))
    assert done.code == 0, done.err
    return done.out


def refusal(project, script: str, *arguments: object) -> str:
    done = project.run(script, *map(str, arguments))
    assert done.code == 1 and "Traceback" not in done.err, done.err
    return done.err.strip().splitlines()[-1]


EMBED, RERANK, SCORE = (f"extras/retrieval/{name}.py" for name in ("embed", "rerank", "score"))


@pytest.fixture(scope="module")
def vectors(project) -> np.ndarray:
    """The vectors of the corpus, in `corpus.npy`."""
    said = ok(project, EMBED, "bi", "sample/corpus.jsonl", "corpus.npy")
    assert "vectors of 8 numbers; their ids: corpus.ids.jsonl" in said
    return np.load(project.project / "corpus.npy", mmap_mode="r")


@pytest.mark.further
@pytest.mark.trains
def test_a_bi_encoder_is_scored_and_predicts_as_a_classifier(project):
    scores = json.loads((project.project / "runs/bi/scores.json").read_text(encoding="utf-8"))
    assert scores["monitor"] == "map" and scores["dev"]["map"] > 0.5
    said = ok(project, "evaluate.py", "bi", "sample/train.jsonl")
    assert "map" in said and "accuracy" in said
    ok(project, "predict.py", "bi", "sample/dev.jsonl", "predicted.jsonl")
    for record in read_lines(project.project / "predicted.jsonl"):
        assert record["score"] == record["probabilities"]["1"]
        assert abs(sum(record["probabilities"].values()) - 1) < 1e-6
        assert (record["score"] > scores["dev"]["threshold"]) == (record["label"] == "1")


@pytest.mark.trains
def test_vectors_have_the_cosines_that_are_predicted(project, vectors):
    folder = project.project
    assert vectors.dtype == np.float32 and vectors.shape[1] == 8
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    ids = [record["id"] for record in read_lines(folder / "corpus.ids.jsonl")]
    texts = {record["text"]: record["id"] for record in read_lines(folder / "sample/corpus.jsonl")}
    ok(project, EMBED, "bi", "sample/queries.jsonl", "queries.npy")
    queries = np.load(folder / "queries.npy")
    ok(project, "predict.py", "bi", "sample/dev.jsonl", "predicted.jsonl")
    scores = {record["id"]: record["score"] for record in read_lines(folder / "predicted.jsonl")}
    for record in read_lines(folder / "sample/dev.jsonl"):
        row = ids.index(texts[record["text_b"]])
        cosine = queries[int(record["group"][1:])] @ vectors[row]
        assert abs(scores[record["id"]] - (1 + cosine) / 2) < 1e-6


@pytest.mark.trains
def test_embedding_goes_on_where_it_was_interrupted(project, vectors, monkeypatch):
    folder = project.project
    whole, facts = np.array(vectors), (folder / "corpus.meta.json").read_text(encoding="utf-8")
    half = len(whole) // 2
    partial = np.zeros_like(whole)
    partial[:half] = 7  # what was written before is not computed again
    np.save(folder / "again.unfinished.npy", partial)
    state = {**json.loads(facts), "done": half}
    (folder / "again.unfinished.json").write_text(json.dumps(state), encoding="utf-8")
    ok(project, EMBED, "bi", "sample/corpus.jsonl", "again.npy")
    found = np.load(folder / "again.npy")
    assert (found[:half] == 7).all()
    np.testing.assert_allclose(found[half:], whole[half:], atol=1e-6)
    assert not list(folder.glob("again.unfinished*"))
    # Of other texts, or other weights, nothing is taken over.
    np.save(folder / "again.unfinished.npy", partial)
    state["texts"] = "sha256:0"
    (folder / "again.unfinished.json").write_text(json.dumps(state), encoding="utf-8")
    ok(project, EMBED, "bi", "sample/corpus.jsonl", "again.npy")
    np.testing.assert_allclose(np.load(folder / "again.npy"), whole, atol=1e-6)


@pytest.mark.further
@pytest.mark.trains
def test_candidates_are_ranked_and_reranked(project):
    folder = project.project
    ok(project, RERANK, "bi", "sample/dev.jsonl", "ranked.jsonl", "--top", 3)
    ok(project, "predict.py", "bi", "sample/dev.jsonl", "predicted.jsonl")
    scores = {record["id"]: record["score"] for record in read_lines(folder / "predicted.jsonl")}
    ranked = read_lines(folder / "ranked.jsonl")
    groups: dict[str, list[str]] = {}
    for record in read_lines(folder / "sample/dev.jsonl"):
        groups.setdefault(record["group"], []).append(record["id"])
    assert [record["query"] for record in ranked] == list(groups)
    for record in ranked:
        best = sorted(groups[record["query"]], key=lambda name: -scores[name])[:3]
        assert [one["id"] for one in record["candidates"]] == best
    rows = [line.split() for line in (folder / "ranked.trec").read_text("utf-8").splitlines()]
    assert rows[0][:4] == [ranked[0]["query"], "Q0", ranked[0]["candidates"][0]["id"], "1"]
    assert len(rows) == 3 * len(ranked) and {row[5] for row in rows} == {"bi"}
    # Any classifier may rerank: the bi-encoder itself gives the same order, with its probabilities.
    ok(project, RERANK, "bi", "sample/dev.jsonl", "again.jsonl", "--top", 3, "--reranker", "bi")
    for one, other in zip(ranked, read_lines(folder / "again.jsonl"), strict=True):
        assert [c["id"] for c in one["candidates"]] == [c["id"] for c in other["candidates"]]
        # Other pairs share their batches, so the last digit of float32 may differ.
        expected = [scores[c["id"]] for c in other["candidates"]]
        assert [c["score"] for c in other["candidates"]] == pytest.approx(expected, abs=1e-6)


def test_a_bi_encoder_reads_the_tables_of_other_extras():
    """Its own settings lack `output`, which made those of competition refuse any column."""
    table = {"group_column": "group", "pair_column": "b", "k": 5}
    settings = with_tables(Settings)(competition=table, retrieval={"loss": "negatives"})
    assert settings.competition.group_column == "group"


def test_pairs_are_read_from_tables(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("key,text_a,text_b,query\n1,q,a,g\n2,q,b,g\n", encoding="utf-8")
    settings = with_tables(Settings)(competition={"group_column": "query", "id_column": "key"})
    [query] = read_queries(path, settings)
    assert (query.id, query.text) == ("g", "q")
    assert [(one.id, one.text) for one in query.candidates] == [("1", "a"), ("2", "b")]
    gold = tmp_path / "gold.csv"
    gold.write_text("id,group,label\n1,g,1\n2,g,0\n", encoding="utf-8")
    assert read_gold(gold, "1") == ({"g": {"1": 1, "2": 0}}, {"1": "g", "2": "g"})
    predicted = tmp_path / "predicted.csv"
    predicted.write_text("id,label,score\n1,1,0.75\n2,0,0.25\n", encoding="utf-8")
    assert read_ranking(predicted, {"1": "g", "2": "g"}) == {"g": {"1": 0.75, "2": 0.25}}


def test_predictions_without_a_positive_label_are_ranked_by_the_asked_one(tmp_path):
    """Their score is the probability of what is predicted, which ranks sure misses first."""
    path = tmp_path / "predicted.jsonl"
    rows = [("1", "0", 0.9, 0.1), ("2", "1", 0.8, 0.8)]
    write_lines(
        path,
        [
            {"id": i, "label": y, "score": s, "probabilities": {"0": 1 - p, "1": p}}
            for i, y, s, p in rows
        ],
    )
    assert read_ranking(path, {"1": "g", "2": "g"}) == {"g": {"1": 0.1, "2": 0.8}}
    for wrong in ({"probabilities": None}, {"score": float("nan")}):
        write_lines(path, [{"id": "1", "label": "0", "score": 0.5, **wrong}])
        with pytest.raises(InputError, match="line 1: not a ranking"):
            read_ranking(path, {"1": "g"})


def test_a_mark_at_the_start_of_a_file_is_no_part_of_a_query(tmp_path):
    path = tmp_path / "found.trec"
    path.write_text("\ufeffq1 Q0 a 1 0.5 run\n", encoding="utf-8")
    assert read_ranking(path, {}) == {"q1": {"a": 0.5}}
    path.write_text("q1 Q0 a 1 nan run\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1: 'nan' is not a number"):
        read_ranking(path, {})


@pytest.mark.trains
def test_a_corpus_is_searched_with_its_vectors_or_without(project, vectors):
    folder, search = project.project, (RERANK, "bi", "sample/queries.jsonl")
    corpus = ("--corpus", "sample/corpus.jsonl", "--top", 5)
    ok(project, *search, "found.jsonl", *corpus, "--vectors", "corpus.npy")
    ok(project, *search, "same.jsonl", *corpus)
    assert read_lines(folder / "found.jsonl") == read_lines(folder / "same.jsonl")
    first = read_lines(folder / "found.jsonl")[0]["candidates"]
    assert len(first) == 5
    assert sorted(first, key=lambda one: -one["score"]) == first


# ------------------------------------------------------------------------ hard negatives


CORPUS = [*enumerate("red boat|Red  Boat|blue boat|old boat|tree|car".split("|"))]


def matched(text: str = "a boat", *answers: str) -> Matched:
    records = [{"text_a": text, "text_b": answer} for answer in answers]
    return Matched("q1", text, records, list(answers))


def test_negatives_are_drawn_from_the_best_texts_that_are_no_match():
    query = matched("a boat", "red boat")
    ranked = [(np.array([0, 2, 1, 3, 5, 4]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]))]

    def chosen(*drawn: int, **changes: float) -> list[int]:
        [rows] = choose_negatives([replace(query, **changes)], CORPUS, ranked, Draw(*drawn))
        return rows

    assert chosen(4, 0, 9, 1) == [2, 3, 5, 4]  # the best first, and no text that equals a match
    assert chosen(9, 1, 2, 1) == [3, 5]
    assert chosen(9, 0, 9, 1, limit=0.6) == [5, 4]
    draws = [chosen(2, 0, 9, seed) for seed in range(20)]
    assert {row for rows in draws for row in rows} == {2, 3, 4, 5}
    assert draws == [chosen(2, 0, 9, seed) for seed in range(20)]


def test_bm25_ranks_by_the_rarer_words_and_reads_chinese_characters():
    pytest.importorskip("bm25s")
    queries = [matched("which blue boat ?"), matched("nothing"), matched("买船")]
    corpus = [*CORPUS, (6, "小船很快"), (7, "大树")]
    first, second, third = rank_by_bm25(queries, corpus, len(corpus))
    assert first[0][0] == 2 and {*first[0]} == {0, 1, 2, 3}
    # Of equal texts the scores are equal, by the formula of Robertson and Zaragoza 2009.
    count = {word: sum(word in text.lower() for _, text in corpus) for word in ("blue", "boat")}
    lengths = np.array([2, 2, 2, 2, 1, 1, 4, 2])
    idf = {w: np.log(1 + (len(corpus) - n + 0.5) / (n + 0.5)) for w, n in count.items()}
    share = 1 / (1 + 1.5 * (0.25 + 0.75 * 2 / lengths.mean()))
    assert first[1][0] == pytest.approx(share * (idf["blue"] + idf["boat"]), rel=1e-5)
    assert not len(second[0]) and third[0].tolist() == [6]


def test_pairs_without_labels_and_groups_are_matches_of_equal_texts(tmp_path):
    path = tmp_path / "pairs.jsonl"
    write_lines(path, [{"text_a": q, "text_b": a} for q, a in (("x", "1"), ("y", "2"), ("x", "3"))])
    labels = Labels("1", "0")
    queries = matched_queries(path, None, labels)
    assert [(query.group, query.matches) for query in queries] == [
        ("q1", ["1", "3"]),
        ("q2", ["2"]),
    ]
    records = list(training_records(queries, CORPUS, [[4], []], labels))
    assert [r["id"] for r in records] == ["q1/0", "q1/1", "q1//4", "q2/0"]
    assert [r["label"] for r in records] == ["1", "1", "0", "1"]
    assert records[2] == {
        "id": "q1//4",
        "group": "q1",
        "text_a": "x",
        "text_b": "tree",
        "label": "0",
    }
    write_lines(path, [{"text_a": "x", "text_b": "1", "label": 0}])
    with pytest.raises(InputError, match="no pair with the label '1'"):
        matched_queries(path, None, labels)


def test_judgements_and_rankings_are_not_given_twice(tmp_path):
    path, pairs = tmp_path / "qrels", tmp_path / "pairs.jsonl"
    path.write_text("q1 0 d1 1\nq2 0 d1 1\nq1 0 d1 0\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3: 'd1' is there already"):
        read_gold(path, "1")
    write_lines(pairs, [{"id": "d", "group": "q", "label": label} for label in "01"])
    with pytest.raises(InputError, match="line 2: 'd' is there already"):
        read_gold(pairs, "1")
    path.write_text("q1 Q0 d1 1 0.5 x\nq1 Q0 d1 2 0.4 x\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2: 'd1' is there already"):
        read_ranking(path, {})
    one = {"query": "q1", "candidates": [{"id": "a", "score": 1.0}]}
    write_lines(pairs, [one, one])
    with pytest.raises(InputError, match="line 2: 'q1' is there already"):
        read_ranking(pairs, {})


def test_queries_without_a_match_are_named(tmp_path, capsys):
    path, labels = tmp_path / "pairs.jsonl", Labels(positive="1", negative="0")
    rows = [("q1", "1"), ("q1", "0"), ("q2", "0")]
    write_lines(path, [{"group": g, "text_a": g, "text_b": "b", "label": y} for g, y in rows])
    assert [query.group for query in matched_queries(path, None, labels)] == ["q1"]
    assert "1 queries have no matching pair" in capsys.readouterr().out


def test_a_submission_has_the_header_and_the_queries_of_the_sample(tmp_path, capsys):
    sample, out = tmp_path / "sample.csv", tmp_path / "out.csv"
    queries = [Query(q, q, [Candidate(f"{q}{n}", "") for n in range(3)]) for q in ("a", "b")]
    sample.write_text("QuestionId,Ids\nb,1 2\na,1 2\n", encoding="utf-8")
    assert write_submission(out, sample, queries) == 2
    assert out.read_text(encoding="utf-8") == "QuestionId,Ids\nb,b0 b1\na,a0 a1\n"
    for content, said in (
        ("q,ids,more\na,1,2\n", "has 3 columns"),
        ("q,ids\na,1\nb,1\nc,1\n", "has the query 'c', which was not ranked"),
        ("q,ids\na,1\n", "lacks the query 'b', which was ranked"),
        ("q,ids\na,1 2 3 4\nb,1\n", "query 'a' has 3 candidates, and a cell of"),
        ("q,ids\na,\nb,\n", "has empty cells, so how many ids the host wants is unknown"),
        ("q,ids\na,1\nb,1\na,1\n", "has the query 'a' twice"),
    ):
        sample.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            write_submission(out, sample, queries)
    sample.write_text("q,ids\na,0\nb,0\n", encoding="utf-8")
    assert write_submission(out, sample, queries) == 1
    assert "has one id, so one is written for each query, of 3" in capsys.readouterr().out
    sample.write_text(",ids\na,0\nb,0\n", encoding="utf-8")
    write_submission(tmp_path / "out.tsv", sample, queries)
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == "\tids\na\ta0\nb\tb0\n"
    queries[0].id = "a\rc"
    sample.write_bytes(b'q, ids\n"a\rc",0\nb,0\n')
    write_submission(out, sample, queries)
    assert out.read_bytes() == b'q, ids\n"a\rc",a0\nb,b0\n'
    texts = tmp_path / "texts.csv"
    texts.write_text('id,text\n7,"one, two"\n8,three\n', encoding="utf-8")
    assert [*read_texts(texts)] == [("7", "one, two"), ("8", "three")]


@pytest.mark.further
@pytest.mark.trains
def test_mined_negatives_are_learned_from(project, vectors):
    pytest.importorskip("bm25s")
    folder, mine = project.project, "extras/retrieval/mine.py"
    given = ("sample/train.jsonl", "mined.jsonl", "--corpus", "sample/corpus.jsonl")
    assert "30 queries, 60 negatives" in ok(project, mine, *given, "--negatives", 2, "--top", 5)
    records = read_lines(folder / "mined.jsonl")
    matches = {r["group"]: r["text_b"] for r in records if r["label"] == "1"}
    mined = [r for r in records if "//" in r["id"]]
    assert len(mined) == 60 and all(r["text_b"] != matches[r["group"]] for r in mined)
    words = {r["group"]: set(r["text_a"].split()) for r in records}
    assert all(words[r["group"]] & {*r["text_b"].split()} - {"the", "is"} for r in mined)
    asked = {"run_name": "mined", "steps": 2, "max_length": 16, "train_file": "mined.jsonl"}
    ok(project, "train.py", *flags(folder, **asked, test_file="sample/dev.jsonl"))
    search = ("--run", "bi", "--vectors", "corpus.npy", "--below", 0.9)
    ok(project, mine, *given, *search)
    none = ("sample/train.jsonl", "none.jsonl", *given[2:])
    assert "negative of any query of sample/train.jsonl: raise --below, or --top" in refusal(
        project, mine, *none, *search[:-1], -1
    )
    assert not (folder / "none.jsonl").exists()
    # Only its own match shares a word with a query: more texts are no help.
    pair = {"id": "1", "text_a": "zebra stripes", "text_b": "a zebra", "label": "1", "group": "z"}
    write_lines(folder / "zebra.jsonl", [pair])
    texts_of = {"1": "a zebra", "2": "one cow", "3": "two cows"}
    write_lines(folder / "animals.jsonl", [{"id": n, "text": t} for n, t in texts_of.items()])
    told = refusal(project, mine, "zebra.jsonl", "none.jsonl", "--corpus", "animals.jsonl")
    assert told.count("share a word, and no other one does: name a bi-encoder with --run") == 1
    few = ok(project, mine, *none, "--negatives", 40, "--top", 40)
    assert "of the queries: raise --top, or lower --skip" in few
    by_row = {record["id"]: n for n, record in enumerate(read_lines(folder / "corpus.ids.jsonl"))}
    texts = {
        r["text"]: vectors[by_row[r["id"]]] for r in read_lines(folder / "sample/corpus.jsonl")
    }
    encoded = {r["text_a"] for r in read_lines(folder / "mined.jsonl")}
    queries = folder / "asked.jsonl"
    write_lines(queries, [{"id": text, "text": text} for text in sorted(encoded)])
    ok(project, EMBED, "bi", "asked.jsonl", "asked.npy")
    own = dict(zip(sorted(encoded), np.load(folder / "asked.npy"), strict=True))
    for record in read_lines(folder / "mined.jsonl"):
        if "//" in record["id"]:
            match = own[record["text_a"]] @ texts[matches[record["group"]]]
            assert own[record["text_a"]] @ texts[record["text_b"]] < 0.9 * match + 1e-6
    assert "--below needs the bi-encoder" in refusal(project, mine, *given, "--below", 0.9)
    assert "choose 1 or more" in refusal(project, mine, *given, "--negatives", 60)


@pytest.mark.trains
def test_what_cannot_be_searched_is_refused(project, vectors, tmp_path):
    folder, search = project.project, (RERANK, "bi", "sample/queries.jsonl", "out.jsonl")
    corpus = ("--corpus", "sample/corpus.jsonl")
    size = len(vectors)
    assert f"--top 900, but sample/corpus.jsonl has {size} texts: set it to at most {size}" in (
        refusal(project, *search, *corpus, "--top", 900)
    )
    assert "--corpus needs --top" in refusal(project, *search, *corpus)
    assert "keeps nothing" in refusal(project, *search, *corpus, "--top", 0)
    wide = tmp_path / "wide.npy"
    np.save(wide, np.zeros((size, 9)))
    wrong = (*search, *corpus, "--top", 3, "--vectors")
    assert "has vectors of 9 numbers, and bi makes 8" in refusal(project, *wrong, wide)
    np.save(wide, np.zeros((size, 8)))
    ids = "".join(f'{{"id": "x{n}"}}\n' for n in range(size))
    (tmp_path / "wide.ids.jsonl").write_text(ids, encoding="utf-8")
    assert "has the vectors of other texts" in refusal(project, *wrong, wide)
    ids = (folder / "corpus.ids.jsonl").read_text(encoding="utf-8")
    (tmp_path / "wide.ids.jsonl").write_text(ids, encoding="utf-8")
    (tmp_path / "wide.meta.json").write_text('{"content": "0", "weights": "1"}', encoding="utf-8")
    assert "has the vectors of other texts" in refusal(project, *wrong, wide), "of the same ids"
    (tmp_path / "wide.meta.json").write_text('{"weights": "sha256:0"}', encoding="utf-8")
    assert "was written by another run than bi" in refusal(project, *wrong, wide)
    wide.write_bytes(b"no numbers")
    assert "is no file of vectors" in refusal(project, *wrong, wide)
    spaced = tmp_path / "spaced.jsonl"
    write_lines(spaced, [{"id": "a b", "text": "x"}, {"id": "c", "text": "y"}])
    said = refusal(project, *search, "--corpus", spaced, "--top", 1)
    assert "the id 'a b' has white space" in said
    write_lines(spaced, [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}])
    assert "line 2: id 'a' is on line 1 already" in refusal(project, EMBED, "bi", spaced, "out.npy")
    assert "let its name end in .npy" in refusal(project, EMBED, "bi", spaced, "out.txt")
    assert 'line 1: the field "group" is missing' in refusal(
        project, RERANK, "bi", "sample/queries.jsonl", "out.jsonl"
    )


@pytest.mark.trains
def test_single_texts_have_no_bi_encoder(project):
    path = project.project / "sample/single.jsonl"
    write_lines(path, [{"id": str(n), "text_a": "x", "label": str(n % 2)} for n in range(4)])
    files = {name: "sample/single.jsonl" for name in ("train_file", "dev_file", "test_file")}
    asked = {"run_name": "single", "retrieval.loss": "cosent", "max_length": 16, **files}
    said = refusal(project, "train.py", *flags(project.project, **asked))
    assert 'the training file has single ones: give each record a "text_b"' in said
    assert not (project.project / "runs/single").exists()


# ---------------------------------------------------------------------------- scores

needs_trec_eval = pytest.mark.skipif(
    importlib.util.find_spec("pytrec_eval") is None,
    reason="pip install -r templates/extras/retrieval/requirements.txt",
)


@needs_trec_eval
def test_scores_are_means_over_the_queries_that_have_something_relevant():
    from extras.retrieval.ranking_scores import score_ranking

    gold = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2, "d": 1}, "q3": {"e": 0}, "q4": {"f": 1}}
    ranking = {"q1": {"a": 0.1, "b": 0.9}, "q2": {"d": 0.5, "c": 0.4}, "q3": {"e": 1.0}}
    scores = score_ranking(gold, ranking, [1, 2])
    assert scores["MRR"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert scores["recall@1"] == pytest.approx((0 + 1 / 2 + 0) / 3)
    assert scores["MAP@2"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    gain = (1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3))
    assert scores["NDCG@2"] == pytest.approx((1 / np.log2(3) + gain + 0) / 3)


@pytest.mark.trains
def test_rankings_and_predictions_are_scored_beside_each_other(project):
    ok(project, RERANK, "bi", "sample/dev.jsonl", "ranked.jsonl")
    ok(project, "predict.py", "bi", "sample/dev.jsonl", "predicted.jsonl")
    rankings = ("ranked.jsonl", "ranked.trec", "predicted.jsonl")
    command = (SCORE, "sample/dev.jsonl", *rankings, "--k", 1, 4)
    if importlib.util.find_spec("pytrec_eval") is None:
        said = refusal(project, *command)
        assert "pip install -r extras/retrieval/requirements.txt in this project" in said
        return
    rows = [line.split() for line in ok(project, *command).splitlines()]
    scores = json.loads((project.project / "runs/bi/scores.json").read_text(encoding="utf-8"))
    assert [row[0] for row in rows[1:3]] == ["MRR", "recall@1"]
    for row in rows[1:-1]:
        assert len(set(row[1:])) == 1, row
    assert float(rows[1][1]) == pytest.approx(scores["dev"]["mrr"], abs=1e-4)


@pytest.mark.trains
def test_what_is_not_a_ranking_is_refused(project, tmp_path):
    gold, table, bad = "sample/dev.jsonl", tmp_path / "gold.qrels", tmp_path / "bad.jsonl"
    table.write_text("q1 0 a 1\nq1 0 b\n", encoding="utf-8")
    assert "line 2: 3 columns, and trec_eval's format has 4" in (
        refusal(project, SCORE, table, gold)
    )
    table.write_text("q1 0 a yes\n", encoding="utf-8")
    assert "line 1: 'yes' is not a whole number" in refusal(project, SCORE, table, gold)
    write_lines(bad, [{"id": "strange", "score": 1}])
    assert "line 1: not a ranking of the pairs of GOLD" in refusal(project, SCORE, gold, bad)
    write_lines(bad, [{"id": "1", "label": "yes", "group": "q"}])
    assert "no pair has the label '1': set --positive_label" in refusal(project, SCORE, bad, bad)

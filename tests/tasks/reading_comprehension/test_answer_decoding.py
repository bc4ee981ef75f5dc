"""The model's mask and loss against plain NumPy; decoding against trying every span."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from conftest import use_template

use_template("reading_comprehension")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.fast.transformer import MASKED  # noqa: E402
from extras.regularization.losses import change_losses  # noqa: E402
from extras.regularization.settings import Table  # noqa: E402
from formats.records import prediction_records  # noqa: E402
from inspection import comparison, errors  # noqa: E402
from task import data, decode, evaluation, model, records  # noqa: E402
from task.decode import Candidate  # noqa: E402
from task.settings import Settings  # noqa: E402

FRONT = 3


def window(length, byte_level=False):
    """Return a window: three tokens of frame and question, then tokens of three characters."""
    starts = np.full(length, -1)
    places = np.arange(length - FRONT - 1)
    starts[FRONT:-1] = 10 + 3 * (places // 2 * 2 if byte_level else places)
    ends = np.where(starts < 0, -1, starts + 3)
    ids = np.arange(length)
    return data.QuestionWindow(ids, starts, ends, (0, 999), np.zeros(length, int), False)


def masked_scores(random, windows, length):
    """Return random scores as the model's last layer leaves them."""
    scores = random.normal(0, 3, (len(windows), 1, length, length)).astype(np.float32)
    scores[:, :, *np.tril_indices(length, -1)] = MASKED
    context = np.stack([np.pad(w.is_context, (0, length - len(w))) for w in windows])
    return np.array(model.AnswerPairs()(scores, context.astype(np.int32))), scores, context


def test_only_pairs_of_the_context_and_the_first_cell_are_possible():
    windows = [window(9), window(6)]
    masked, scores, context = masked_scores(np.random.default_rng(1), windows, 11)
    for row in range(2):
        for i in range(11):
            for j in range(11):
                possible = i == j == 0 or (context[row, i] and context[row, j] and i <= j)
                assert masked[row, i, j] == (scores[row, 0, i, j] if possible else MASKED)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_is_the_negative_log_of_the_probability_of_all_gold_pairs(smoothing):
    random = np.random.default_rng(2)
    masked, _, _ = masked_scores(random, [window(9), window(6), window(8)], 9)
    gold = [[(3, 4), (5, 5)], [(0, 0)], [(3, 6)]]
    answers = np.full((3, 4, 2), -1, np.int32)
    for row, pairs in zip(answers, gold, strict=True):
        row[: len(pairs)] = pairs
    losses = np.array(model.MarginalSpanLoss(smoothing)(masked, answers))
    assert losses.shape == (3,)
    for scores, pairs, loss in zip(masked.astype(np.float64), gold, losses, strict=True):
        weights = np.exp(scores)  # the masked ones vanish
        expected = -np.log(sum(weights[pair] for pair in pairs) / weights.sum())
        every = -np.log(weights[scores > MASKED] / weights.sum())
        expected = (1 - smoothing) * expected + smoothing * every.mean()
        assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_has_the_probability_of_all_gold_pairs(gamma):
    masked, _, _ = masked_scores(np.random.default_rng(2), [window(9), window(6)], 9)
    answers = np.array([[[3, 4], [5, 5]], [[0, 0], [-1, -1]]], np.int32)
    layer = model.MarginalSpanLoss()
    own = SimpleNamespace(_flatten_layers=lambda **_: iter([layer]))
    change_losses(SimpleNamespace(training=own), Table(focal_gamma=gamma))
    found = layer(masked, answers).numpy()
    for scores, pairs, loss in zip(masked.astype(np.float64), answers, found, strict=True):
        weights = np.exp(scores)
        p = sum(weights[i, j] for i, j in pairs.tolist() if i >= 0) / weights.sum()
        assert loss == pytest.approx(-((1 - p) ** gamma) * np.log(p), rel=1e-4)


def test_a_focal_loss_of_smoothed_answers_is_refused():
    table = {"focal_gamma": 2.0}
    assert with_tables(Settings)(regularization=table).regularization.focal_gamma == 2
    with pytest.raises(ValueError, match="focal_gamma or label_smoothing to 0"):
        with_tables(Settings)(regularization=table, label_smoothing=0.1)


def test_loss_of_huge_scores_is_finite_and_its_gradient_is_probability_minus_target():
    import tensorflow as tf

    scores = np.full((1, 4, 4), MASKED, np.float32)
    scores[0, 0, 0], scores[0, 2, 2], scores[0, 2, 3] = 5e4, 5e4, 0
    variable = tf.Variable(scores)
    with tf.GradientTape() as tape:
        loss = model.MarginalSpanLoss()(variable, np.array([[[2, 2], [-1, -1]]], np.int32))
    assert float(loss[0]) == pytest.approx(np.log(2), abs=1e-3)
    gradient = tape.gradient(loss, variable).numpy()[0]
    expected = np.zeros((4, 4))
    expected[0, 0], expected[2, 2] = 0.5, -0.5
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_scores_have_32_bits_where_layers_have_16(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        ids = keras.Input((None,), dtype="int32", name="token_ids")
        mask = keras.Input((None,), dtype="int32", name="padding_mask")
        encoder = keras.Model({"token_ids": ids, "padding_mask": mask},
                              keras.layers.Embedding(20, 8)(ids), name="encoder")  # fmt: skip
        settings = Settings.model_construct(pointer="plain", pointer_size=4, label_smoothing=0.1)
        models = model.build_models(encoder, settings)
    finally:
        keras.config.set_dtype_policy(before)
    batch = {
        "token_ids": np.ones((1, 9), np.int32),
        "padding_mask": np.array([[1] * 7 + [0] * 2], np.int32),
        "context_mask": window(9).is_context.astype(np.int32)[None],
        "answers": np.array([[[3, 4]]], np.int32),
    }
    assert models.inference.output["scores"].dtype == "float32"
    [loss] = np.array(models.training(batch)["span_loss"])
    assert loss.dtype == np.float32 and np.isfinite(loss)


@pytest.mark.parametrize("pointer", ["efficient", "plain"])
def test_models_clone_and_share_their_layers(pointer):
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    }
    hidden = keras.layers.Embedding(20, 8)(inputs["token_ids"])
    encoder = keras.Model(inputs, hidden, name="encoder")
    settings = Settings.model_construct(pointer=pointer, pointer_size=4)
    models = model.build_models(encoder, settings)
    training, inference = models.training, models.inference
    random = np.random.default_rng(3)
    batch = {
        "token_ids": random.integers(0, 20, (2, 9)).astype(np.int32),
        "padding_mask": np.ones((2, 9), np.int32),
        "context_mask": np.stack([window(9).is_context] * 2).astype(np.int32),
        "answers": np.array([[[3, 4]], [[0, 0]]], np.int32),
    }
    clone = keras.models.clone_model(training)
    clone.set_weights(training.get_weights())
    loss = training(batch)["span_loss"]
    np.testing.assert_allclose(loss, clone(batch)["span_loss"], rtol=1e-6)
    scores = np.array(
        inference({name: batch[name] for name in batch if name != "answers"})["scores"]
    )
    weights = np.exp(scores.astype(np.float64))
    expected = -np.log([weights[0, 3, 4] / weights[0].sum(), weights[1, 0, 0] / weights[1].sum()])
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def every_span(scores, one, answer_length, length_scores=None):
    """Return span -> log-odds of all spans of a window, by trying every one."""
    found = {}
    for i in np.flatnonzero(one.is_context):
        for j in range(i, min(i + answer_length, len(one))):
            if one.is_context[j]:
                odds = float(scores[i, j]) - float(scores[0, 0])
                odds += 0 if length_scores is None else length_scores[j - i]
                span = (int(one.starts[i]), int(one.ends[j]))
                found[span] = max(odds, found.get(span, odds))
    return found


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("answer_length", [1, 3, 100])
def test_decoding_finds_the_best_spans(answer_length, prior):
    random = np.random.default_rng(answer_length)
    windows = [window(length) for length in (12, 5, 9, 12)]
    masked, _, _ = masked_scores(random, windows, 12)
    lengths = random.normal(size=answer_length) if prior else None
    found = decode.decode_batch(masked, windows, answer_length, lengths, most=6)
    for scores, one, spans in zip(masked, windows, found, strict=True):
        expected = every_span(scores, one, answer_length, lengths)
        best = sorted(expected, key=expected.get, reverse=True)[:6]
        assert set(spans) == set(best)
        for span in best:
            assert spans[span] == pytest.approx(expected[span], abs=1e-5)


def test_bytes_of_one_character_make_one_candidate():
    one = window(12, byte_level=True)
    masked, _, _ = masked_scores(np.random.default_rng(5), [one], 12)
    (spans,) = decode.decode_batch(masked, [one], 30, most=500)
    expected = every_span(masked[0], one, 30)
    assert spans == pytest.approx({s: v for s, v in expected.items() if s[0] < s[1]}, abs=1e-5)


def test_a_window_without_context_has_no_candidate():
    one = window(FRONT + 1)
    masked, _, _ = masked_scores(np.random.default_rng(6), [one], 6)
    assert decode.decode_batch(masked, [one], 30) == [{}]


class Outputs:
    """Replaces a predictor: yields scores, two windows at a time."""

    def __init__(self, scores):
        self.scores = scores

    def decode(self, generator, decode, progress):
        for start in range(0, len(self.scores), 2):
            positions = np.arange(start, min(start + 2, len(self.scores)))
            results = decode(positions, {"scores": self.scores[positions]})
            yield from zip(positions, results, strict=True)


class Windows:
    """Replaces a generator."""

    def __init__(self, examples, windows, record_of):
        self.examples, self.windows, self.record_of = examples, windows, record_of


def example(identity, answers=((10, 13),), context=None):
    return records.Example(identity, "Who?", context or "0123456789" * 6, tuple(answers), (), 1)


def test_windows_of_a_question_are_merged_and_the_surest_wins():
    random = np.random.default_rng(7)
    windows = [window(12) for _ in range(3)]
    masked, _, _ = masked_scores(random, windows, 12)
    masked[1] -= 1000 * (masked[1] > MASKED / 2)  # a shift of all scores of a window says nothing
    generator = Windows([example("a"), example("b")], windows, [0, 0, 1])
    settings = Settings.model_construct(answer_length=4, length_prior=0.0)
    found = decode.predict_answers(Outputs(masked), generator, settings)
    first, second = every_span(masked[0], windows[0], 4), every_span(masked[1], windows[1], 4)
    merged = {span: max(first[span], second[span]) for span in first}
    best = sorted(merged, key=merged.get, reverse=True)[:5]
    assert [candidate.span for candidate in found["a"]][:5] == best
    assert found["a"][0].log_odds == pytest.approx(merged[best[0]], abs=1e-3)
    assert len(found["a"]) <= decode.MOST_SPANS and len(found) == 2
    odds = [candidate.log_odds for candidate in found["b"]]
    assert odds == sorted(odds, reverse=True)


def test_the_prior_of_lengths_changes_the_answer():
    masked = np.full((1, 8, 8), MASKED, np.float32)
    masked[0, 0, 0], masked[0, 3, 3], masked[0, 3, 5] = 0, 2.0, 1.5
    generator = Windows([example("a")], [window(8)], [0])
    lengths = np.log([0.1, 0.1, 0.8])
    spans = []
    for weight in (0.0, 1.0):
        settings = Settings.model_construct(answer_length=3, length_prior=weight)
        found = decode.predict_answers(Outputs(masked), generator, settings, lengths)
        spans.append(found["a"][0].span)
    assert spans == [(10, 13), (10, 19)]


def test_n_best_are_distinct_texts_with_probabilities():
    context = "Ada and Bob and Ada."
    candidates = [Candidate((0, 3), 2.0), Candidate((16, 19), 1.5), Candidate((8, 11), 0.0)]
    ranked = decode.rank_texts(context, candidates, 5)
    assert [text for _, text, _ in ranked] == ["Ada", "Bob"]
    total = 1 + np.exp(2) + np.exp(1.5) + np.exp(0)
    assert [p for *_, p in ranked] == pytest.approx([np.exp(2) / total, 1 / total])
    assert len(decode.rank_texts(context, candidates, 1)) == 1
    extreme = decode.rank_texts(context, [Candidate((0, 3), 9e8), Candidate((8, 11), -9e8)], 5)
    assert [p for *_, p in extreme] == [1, 0]


def test_score_is_the_odds_as_a_probability_and_never_overflows():
    assert Candidate((0, 1), 0.0).score == 0.5
    assert Candidate((0, 1), np.log(3)).score == pytest.approx(0.75)
    assert 0 < Candidate((0, 1), -1e9).score < 1e-300 and Candidate((0, 1), 1e9).score == 1


def test_records_below_the_threshold_have_no_answer():
    examples = [example("a"), example("b"), example("c")]
    candidates = {"a": [Candidate((10, 13), 1.0)], "b": [Candidate((10, 13), -1.0)], "c": []}
    sure, unsure, nothing = prediction_records(examples, candidates, 0.5, 5)
    assert (sure["answer"], sure["text"]) == ([10, 13], "012")
    assert (unsure["answer"], unsure["text"], unsure["score"]) == (None, "", 0.2689)
    assert unsure["n_best"][0]["answer"] == [10, 13]
    assert (nothing["answer"], nothing["text"], nothing["n_best"]) == (None, "", [])
    everything = prediction_records(examples, candidates, 0.0, 5)
    assert [record["text"] for record in everything] == ["012", "012", ""]
    assert json.loads(json.dumps(everything)) == everything


def evaluate(tmp_path, examples, candidates, **kwargs):
    file = tmp_path / "dev.jsonl"
    file.write_text("x", encoding="utf-8")
    settings = Settings.model_construct(metric="squad", n_best=2)
    return evaluation.evaluate(examples, candidates, file, settings, **kwargs)


def test_evaluation_tunes_the_threshold_where_there_is_something_to_refuse(tmp_path):
    examples = [example("a"), example("b", answers=())]
    candidates = {"a": [Candidate((10, 13), 1.0)], "b": [Candidate((10, 13), -1.0)]}
    found = evaluate(tmp_path, examples, candidates, shown=2)
    assert (
        found.scores["f1"] == found.scores["exact_match"] == 1 and found.scores["threshold"] == 0.5
    )
    assert found.scores["file"] == "dev.jsonl" and found.scores["records"] == 2
    assert "(no answer)" in found.shown[1] and "012" in found.shown[0]
    assert evaluate(tmp_path, examples, candidates, threshold=0.9).scores["f1"] == 0.5
    assert evaluate(tmp_path, examples[:1], candidates).scores["threshold"] == 0


def test_errors_of_the_report(tmp_path):
    examples = [example("a"), example("b", answers=()), example("c", answers=[(20, 24)])]
    spans = {"a": (10, 13), "b": (10, 13), "c": (20, 23)}
    candidates = {name: [Candidate(span, 9.0)] for name, span in spans.items()}
    records = prediction_records(examples, candidates, 0.0, 5)
    right, first, second = errors.find_errors(examples, records, "squad")
    assert right.errors == 0 and right.measures == {"F1": 1, "exact match": 1}
    assert [found.ranks for found in (right, first, second)] == [[1], [], [0]]
    assert right.kind == "who" and 0.99 < right.items[0].score < 1
    assert first.id == "b" and [item.kind for item in first.items] == ["invented"]
    assert second.id == "c" and [item.kind for item in second.items] == ["missed", "invented"]
    assert second.items[0].spans == [(20, 24, "")] and second.items[1].spans == [(20, 23, "")]
    assert second.text == examples[2].context and second.items[0].label == "Who?"


def test_comparison_reads_spans_and_groups_questions():
    gold = [example("a"), example("b", answers=()), example("c", answers=[(0, 40)])]
    assert comparison.read_answer("x", {"answer": [10, 13]}, gold[0]) == "012"
    assert comparison.read_answer("x", {"answer": None}, gold[0]) == ""
    for broken in ({}, {"answer": 3}, {"answer": [1]}, {"answer": ["a", "b"]}):
        with pytest.raises(InputError, match="x: not a prediction: write the file with"):
            comparison.read_answer("x", broken, gold[0])
    for outside in ([0, 99], [-3, 5], [4, 4]):  # a slice would be another answer
        with pytest.raises(InputError, match="x: the answer .* is not inside the context of 60"):
            comparison.read_answer("x", {"answer": outside}, gold[0])
    run = np.array([[1, 1], [0, 0.5], [0, 0.2]])
    rows = comparison.compare_kinds(gold, run, np.zeros((3, 2)))
    assert list(rows) == ["none", "1 to 5 characters", "16 to 40 characters"]
    assert rows["none"]["difference"] == 0.5 and rows["1 to 5 characters"]["run_correct"] == 1

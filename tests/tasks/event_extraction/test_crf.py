"""The CRF against sums and maxima over all sequences of tags, and both models as models."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from scipy.special import logsumexp

use_template("event_extraction")

from core.data.tokens import train_tokenizer  # noqa: E402
from core.encoders.encoder import BertEncoder  # noqa: E402
from core.fast.transformer import MASKED  # noqa: E402
from core.layers.crf import (  # noqa: E402
    CrfLoss,
    TagTransitions,
    legal_transitions,
    log_sum,
    score_tags,
    viterbi,
)
from core.prediction.predictor import Predictor  # noqa: E402
from extras.doctor import model_checks  # noqa: E402
from extras.tpu import static_checks  # noqa: E402
from library.graph import events_at  # noqa: E402
from task.data import EventGenerator  # noqa: E402
from task.decode import make_selector, predict_events  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Event, Example, collect_schema  # noqa: E402
from task.settings import Settings  # noqa: E402

LABELS, BATCH, LENGTH = 2, 4, 5
TAGS = 1 + 2 * LABELS
LENGTHS = [5, 3, 1, 4]


@pytest.fixture(params=[1.0, 12.0], ids=["usual scores", "large scores"])
def scores(request):
    """Emissions, transitions as the layer gives them, and the mask."""
    random = np.random.default_rng(7)
    emissions = random.normal(0, request.param, (BATCH, LENGTH, TAGS)).astype(np.float32)
    layer = TagTransitions(LABELS)
    layer.build(emissions.shape)
    layer.transitions.assign(random.normal(0, 1, (TAGS + 1, TAGS)))
    transitions = np.array(layer(emissions))
    mask = (np.arange(LENGTH) < np.array(LENGTHS)[:, None]).astype(np.int32)
    return emissions, transitions, mask


def all_sequences(emissions, transitions, length):
    """Return `{tags: score}` of every legal sequence of one example, in float64."""
    legal = legal_by_words()
    found = {}
    for tags in itertools.product(range(TAGS), repeat=length):
        steps = list(zip((TAGS, *tags), tags, strict=False))
        if all(legal[step] for step in steps):
            found[tags] = sum(float(transitions[step]) for step in steps) + sum(
                float(emissions[index, tag]) for index, tag in enumerate(tags)
            )
    return found


def legal_by_words():
    """Return what may follow what, from the names of the tags: inside x after begin or inside x."""
    names = ["O", *(f"{part}{n}" for n in range(LABELS) for part in "BI"), "start"]
    return {
        (i, j): not names[j].startswith("I") or names[i] in (f"B{names[j][1:]}", names[j])
        for i in range(TAGS + 1)
        for j in range(TAGS)
    }


def test_legal_transitions():
    legal = legal_transitions(LABELS)
    assert {(i, j): bool(legal[i, j]) for i, j in legal_by_words()} == legal_by_words()


def test_likelihood_is_that_of_all_sequences(scores):
    emissions, transitions, mask = scores
    random = np.random.default_rng(1)
    sums = np.array(log_sum(emissions, transitions, mask))
    for row, length in enumerate(LENGTHS):
        every = all_sequences(emissions[row], transitions[row], length)
        np.testing.assert_allclose(sums[row], logsumexp(list(every.values())), rtol=1e-5)
        chosen = list(every)[random.integers(len(every))]
        tags = np.zeros((BATCH, LENGTH), np.int32)
        tags[row, :length] = chosen
        tags[row, length:] = 3  # padding counts for nothing, whatever stands there
        own = np.array(score_tags(emissions, transitions, tags, mask))[row]
        np.testing.assert_allclose(own, every[chosen], rtol=1e-5)
        loss = np.array(CrfLoss()(emissions, transitions, tags, mask))[row]
        expected = logsumexp(list(every.values())) - every[chosen]
        np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-4)


def test_probabilities_of_all_sequences_sum_to_one(scores):
    emissions, transitions, mask = (array[:1] for array in scores)
    every = all_sequences(emissions[0], transitions[0], LENGTH)
    tags = np.array(list(every), np.int32)
    repeated = [np.repeat(array, len(tags), axis=0) for array in (emissions, transitions, mask)]
    losses = np.array(CrfLoss()(repeated[0], repeated[1], tags, repeated[2]))
    np.testing.assert_allclose(np.exp(-losses.astype(float)).sum(), 1, rtol=1e-4)


def test_gradient_is_expected_minus_true_counts(scores):
    """d loss / d emission(t, y) = P(tag t is y) - [it is]: by the sum over all sequences."""
    emissions, transitions, mask = scores
    tags = np.zeros((BATCH, LENGTH), np.int32)
    emitted = tf.constant(emissions)
    with tf.GradientTape() as tape:
        tape.watch(emitted)
        loss = tf.reduce_sum(CrfLoss()(emitted, transitions, tags, mask))
    gradient = tape.gradient(loss, emitted).numpy()
    for row, length in enumerate(LENGTHS):
        every = all_sequences(emissions[row], transitions[row], length)
        total = logsumexp(list(every.values()))
        expected = np.zeros((LENGTH, TAGS))
        expected[:length, 0] = -1
        for sequence, score in every.items():
            expected[np.arange(length), list(sequence)] += np.exp(score - total)
        np.testing.assert_allclose(gradient[row], expected, atol=2e-5)


def test_viterbi_finds_the_best_of_all_sequences(scores):
    emissions, transitions, _ = scores
    for row, length in enumerate(LENGTHS):
        found = viterbi(emissions[row, :length], transitions[row])
        every = all_sequences(emissions[row], transitions[row], length)
        assert found.shape == (length,) and tuple(found) == max(every, key=every.get)


def test_viterbi_never_breaks_bio():
    random = np.random.default_rng(3)
    emissions = random.normal(0, 3, (50, 40, TAGS)).astype(np.float32)
    layer = TagTransitions(LABELS)
    transitions = np.array(layer(emissions))
    found = np.stack([viterbi(*pair) for pair in zip(emissions, transitions, strict=True)])
    legal = legal_transitions(LABELS)
    before = np.concatenate([np.full((50, 1), TAGS), found[:, :-1]], axis=1)
    assert legal[before, found].all()
    assert len(np.unique(found)) == TAGS


def test_padding_changes_nothing(scores):
    emissions, transitions, mask = scores
    random = np.random.default_rng(5)
    noise = np.where(mask[..., None], emissions, random.normal(0, 9, emissions.shape))
    noise = np.concatenate([noise, random.normal(0, 9, (BATCH, 3, TAGS))], axis=1)
    longer = np.pad(mask, ((0, 0), (0, 3)))
    tags = np.zeros((BATCH, LENGTH + 3), np.int32)
    one = CrfLoss()(emissions, transitions, tags[:, :LENGTH], mask)
    two = CrfLoss()(noise.astype(np.float32), transitions, tags, longer)
    np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-6)


def test_transitions_are_learned_and_forbidden_ones_stay_so(scores):
    emissions, _, mask = scores
    layer = TagTransitions(LABELS)
    with tf.GradientTape() as tape:
        loss = CrfLoss()(emissions, layer(emissions), np.zeros((BATCH, LENGTH), np.int32), mask)
    gradient = tape.gradient(loss, layer.transitions.value).numpy()
    legal = legal_transitions(LABELS)
    assert np.all(gradient[~legal] == 0) and np.all(gradient[legal] != 0)
    assert np.all(np.array(layer(emissions))[:, ~legal] == MASKED)


# ------------------------------------------------------------------------------- whole models

TEXTS = ["ada bought zenco", "bob sold acme to ada", "ada and bob met"]
EVENTS = [
    (Event("buy", (4, 10), (("buyer", (0, 3)), ("what", (11, 16)))),),
    (
        Event("buy", (4, 8), (("buyer", (17, 20)), ("what", (9, 13)))),
        Event("sell", (4, 8), (("seller", (0, 3)),)),
    ),
    (),
]


@pytest.fixture(params=["gplinker", "crf"])
def project(request):
    """Settings, tokenizer, schema, generator and both models of a small project."""
    keras.utils.set_random_seed(1)
    settings = Settings.model_construct(
        model=request.param, pointer_size=8, buckets=2, max_length=16, window_overlap=4
    )
    tokenizer = train_tokenizer(TEXTS * 3, 100)
    examples = [Example(str(n), *row, n) for n, row in enumerate(zip(TEXTS, EVENTS, strict=True))]
    schema = collect_schema(examples)
    encoder = BertEncoder(
        vocabulary_size=tokenizer.get_vocab_size(),
        num_layers=1,
        num_heads=1,
        hidden_dim=32,
        intermediate_dim=32,
        max_sequence_length=16,
        name="encoder",
    )
    models = build_models(encoder, schema, settings)
    encoding = (tokenizer, schema, models.encoder_inputs, settings)
    generator = EventGenerator(examples, *encoding, batch_size=8)
    unlabelled = EventGenerator(examples, *encoding, batch_size=2, labels=False)
    return models.training, models.inference, generator, unlabelled


@pytest.mark.shown("crf")
@pytest.mark.trains
def test_models_are_ready_for_replicas_and_tpu(project):
    training, _, generator, _ = project
    batch = model_checks.ragged_batch(generator)
    assert model_checks.find_wrong_keys(generator, training) == []
    assert model_checks.find_config_faults(training, batch) == []
    assert static_checks.find_dynamic_shapes(training, batch) == []
    assert model_checks.find_split_faults(training, batch) == []


@pytest.mark.shown("gplinker")
@pytest.mark.trains
def test_models_learn_three_records_by_heart(project):
    training, inference, generator, unlabelled = project
    training.compile(optimizer=keras.optimizers.Adam(1e-2))
    training.fit(generator.to_dataset(), epochs=1, steps_per_epoch=120, verbose=0, shuffle=False)
    select = make_selector(generator.schema, generator.model)
    predictor = Predictor([inference], tf.distribute.get_strategy(), select)
    candidates = predict_events(predictor, unlabelled)
    found = {name: set(events_at(own, 0.5)) for name, own in candidates.items()}
    expected = {str(n): set(events) for n, events in enumerate(EVENTS)}
    if generator.model == "crf":
        # The word that triggers two types has the tag of one: the other event loses its trigger.
        assert [event.trigger for event in expected.pop("1")] == 2 * [(4, 8)]
        assert sum(event.trigger == (4, 8) for event in found.pop("1")) == 1
    assert found == expected


@pytest.mark.shown("crf")
@pytest.mark.trains
def test_the_mean_of_two_models_is_decoded(project):
    """Twice the same model is that model; two differ from both, also in the transitions."""
    _, inference, generator, unlabelled = project
    strategy = tf.distribute.get_strategy()
    select = make_selector(generator.schema, generator.model)
    other = keras.models.clone_model(inference)
    other.set_weights([weight * 3 for weight in inference.get_weights()])
    one, same, mixed = (
        next(iter(Predictor(models, strategy, select).batches(unlabelled)))[1]
        for models in ([inference], [inference, inference], [inference, other])
    )
    alone = next(iter(Predictor([other], strategy, select).batches(unlabelled)))[1]
    for name in one:
        np.testing.assert_allclose(one[name], same[name], rtol=1e-6, atol=1e-6)
        # Of the pointers the best are selected after the mean: test_pointers.py compares them.
        if generator.model == "crf":
            np.testing.assert_allclose(
                mixed[name], (one[name].astype(float) + alone[name]) / 2, rtol=1e-4, atol=1e-4
            )

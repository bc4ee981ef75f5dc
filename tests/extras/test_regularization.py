"""Adversaries, gradient penalty and R-Drop against eager computations that share no code."""

import dataclasses
import types
from collections import Counter
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError
from small_models import CrossEntropy, make_settings
from traced_memory import peak_memory

from core.base.errors import InputError
from core.batches import DataGenerator
from core.exact.dropout import Masks, place_dropout
from core.fast.transformer import LayerNormalization, exact_gelu_function
from core.scores.evaluation import DevScorer, Evaluation
from core.step import Logits, TrainingModel, inputs_of, with_row_numbers
from extras.regularization import hooks
from extras.regularization.regularization import (
    Adversary,
    Regularization,
    VirtualAdversary,
    WeightAdversary,
    divergence,
    kernels_of,
)
from extras.regularization.regularized_gradients import (
    SECOND_PASS,
    VIRTUAL_PASS,
    RegularizedGradients,
)
from extras.regularization.train_scores import choose_examples
from extras.regularization.unlabelled import UNLABELLED, WithUnlabelled

BATCH, LENGTH, LABELS = 4, 5, 3
DROPOUT = 0.3


def make_model(dropout: float = 0.0) -> tuple[TrainingModel, keras.Model, keras.KerasTensor]:
    """Return a classifier, its encoder, of the parts of a Transformer layer, and its logits."""
    keras.utils.set_random_seed(1)
    token_ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = keras.layers.Embedding(11, 8, name="token_embedding")
    hidden = keras.layers.Dropout(dropout, name="dropout")(table(token_ids))
    hidden = keras.layers.Dense(8, exact_gelu_function, name="dense")(hidden)
    hidden = LayerNormalization(name="norm")(hidden)
    encoder = keras.Model(token_ids, hidden, name="encoder")
    encoder.token_embedding = table
    labels = keras.Input((), dtype="int32", name="labels")
    logits = keras.layers.Dense(LABELS, name="logits")(
        keras.layers.GlobalMaxPooling1D()(encoder(token_ids))
    )
    loss = CrossEntropy(name="label_loss")(logits, labels)
    model = TrainingModel({"token_ids": token_ids, "labels": labels}, {"label_loss": loss})
    place_dropout(model, 1)
    random = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign(weight + 0.3 * random.normal(size=weight.shape))
    return model, encoder, logits


def make_batch() -> dict[str, tf.Tensor]:
    random = np.random.default_rng(3)
    return {
        "token_ids": tf.constant(random.integers(1, 6, (BATCH, LENGTH)), "int32"),  # some repeat
        "labels": tf.constant(random.integers(0, LABELS, BATCH), "int32"),
        "loss_weight": tf.constant([0.4, 0.3, 0.3, 0.0]),
    }


def compile_with(model, regularization: Regularization, accumulation: int) -> None:
    model.compile(
        keras.optimizers.SGD(),
        accumulation,
        make_gradients=lambda model: RegularizedGradients(model, regularization),
    )


def found_gradients(regularization, accumulation=1, dropout=0.0) -> tuple[list, dict]:
    model, encoder, logits = make_model(dropout)
    regularization = dataclasses.replace(
        regularization,
        embeddings=encoder.token_embedding.embeddings,
        scores=(Logits(logits, "softmax"),),
    )
    if awp := regularization.weight_adversary:
        awp = dataclasses.replace(awp, kernels=kernels_of(encoder))
        regularization = dataclasses.replace(regularization, weight_adversary=awp)
    compile_with(model, regularization, accumulation)
    gradients, losses = model.batch_gradients(with_row_numbers(make_batch()))
    return [gradient.numpy() for gradient in gradients], losses


def plain_loss(model, batch, table=None) -> tf.Tensor:
    """Return the weighted loss; `table`: assigned for the while."""
    inputs = inputs_of(batch)
    return tf.reduce_sum(model(inputs, training=True)["label_loss"] * batch["loss_weight"])


def gradient_at(model, table, shift: np.ndarray) -> list[np.ndarray]:
    """Return the gradient with the table shifted by assignment."""
    before = table.numpy()
    table.assign(before + shift)
    with tf.GradientTape() as tape:
        loss = plain_loss(model, make_batch())
    variables = [variable.value for variable in model.trainable_variables]
    found = tape.gradient(loss, variables, unconnected_gradients="zero")
    table.assign(before)
    return [tf.convert_to_tensor(gradient).numpy() for gradient in found]


def table_place(model, table) -> int:
    return [variable.path for variable in model.trainable_variables].index(table.path)


def adversarial_reference(adversary: Adversary) -> list[np.ndarray]:
    """Return the mean of both gradients, with NumPy's norms and projections."""
    model, encoder, _ = make_model()
    table = encoder.token_embedding.embeddings
    place = table_place(model, table)
    shift = np.zeros(table.shape, "float32")
    gradients = shifted = gradient_at(model, table, shift)
    for _ in range(adversary.steps):
        slope = shifted[place]
        shift = shift + adversary.step_size * slope / np.linalg.norm(slope)
        length = np.linalg.norm(shift)
        shift = shift * min(1.0, adversary.size / length)
        shifted = gradient_at(model, table, shift)
    return [(one + other) / 2 for one, other in zip(gradients, shifted, strict=True)]


ADVERSARIES = {"fgm": Adversary(0.5, 1, 0.5), "pgd": Adversary(0.5, 3, 0.3)}


@pytest.mark.shown("2]")
@pytest.mark.trains
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversaries_agree_with_an_eager_reference(name, accumulation):
    adversary = ADVERSARIES[name]
    found, _ = found_gradients(Regularization(adversary=adversary), accumulation)
    expected = adversarial_reference(adversary)
    clean, _ = found_gradients(Regularization())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-5)
    assert max(np.abs(o - c).max() for o, c in zip(found, clean, strict=True)) > 1e-3


@pytest.mark.shown("2]")
@pytest.mark.trains
@pytest.mark.parametrize("accumulation", [1, 2])
def test_shifted_kernels_agree_with_an_eager_reference(accumulation):
    """Of the one kernel of this encoder; its bias, the embeddings and the head stay."""
    part = 0.2
    awp = Regularization(weight_adversary=WeightAdversary((), part))
    found, _ = found_gradients(awp, accumulation)
    model, encoder, _ = make_model()
    [kernel] = [v for v in encoder.trainable_variables if v.path.endswith("dense/kernel")]
    assert [variable.path for variable in kernels_of(encoder)] == [kernel.path]
    clean = gradient_at(model, kernel, np.zeros(kernel.shape, "float32"))
    slope = clean[table_place(model, kernel)]
    shift = part * np.linalg.norm(kernel.numpy()) * slope / np.linalg.norm(slope)
    shifted = gradient_at(model, kernel, shift)
    for one, other, own in zip(clean, shifted, found, strict=True):
        np.testing.assert_allclose(own, (one + other) / 2, atol=1e-6, rtol=1e-5)
    assert max(np.abs(o - c).max() for o, c in zip(shifted, clean, strict=True)) > 1e-3


@pytest.mark.shown("2]")
@pytest.mark.trains
@pytest.mark.parametrize("accumulation", [1, 2])
def test_gradient_penalty_agrees_with_an_eager_reference(accumulation):
    weight = 0.7
    found, _ = found_gradients(Regularization(gradient_penalty=weight), accumulation)
    clean, _ = found_gradients(Regularization())
    model, encoder, _ = make_model()
    table = encoder.token_embedding.embeddings
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = plain_loss(model, make_batch())
        slope = tf.convert_to_tensor(inner.gradient(loss, table.value))
        penalty = weight / 2 * tf.reduce_sum(slope**2)
    expected = outer.gradient(penalty, variables, unconnected_gradients="zero")
    for one, other, own in zip(found, clean, expected, strict=True):
        np.testing.assert_allclose(one - other, tf.convert_to_tensor(own), atol=1e-5, rtol=1e-4)
    assert max(np.abs(tf.convert_to_tensor(own)).max() for own in expected) > 1e-2


def test_gradient_penalty_agrees_with_finite_differences():
    """Along one direction of all weights together."""
    weight, step = 0.7, 1e-3
    found, _ = found_gradients(Regularization(gradient_penalty=weight))
    clean, _ = found_gradients(Regularization())
    model, encoder, _ = make_model()
    table = encoder.token_embedding.embeddings
    place = table_place(model, table)
    random = np.random.default_rng(5)
    directions = [random.normal(size=variable.shape) for variable in model.trainable_variables]
    before, heights = model.get_weights(), []
    for sign in (1, -1):
        for variable, direction in zip(model.trainable_variables, directions, strict=True):
            variable.assign(variable + sign * step * direction)
        slope = gradient_at(model, table, np.zeros(table.shape, "float32"))[place]
        heights.append(weight / 2 * np.sum(slope.astype("float64") ** 2))
        model.set_weights(before)
    slope = (heights[0] - heights[1]) / (2 * step)
    ours = sum(
        float(np.sum((one - other) * direction))
        for one, other, direction in zip(found, clean, directions, strict=True)
    )
    assert abs(slope) > 0.1
    assert ours == pytest.approx(slope, rel=1e-2)


def test_gradient_penalty_keeps_the_dropout_of_the_gradient():
    """Both passes see one mask: with other ones the length would be that of no gradient."""
    once, _ = found_gradients(Regularization(gradient_penalty=1e-12), dropout=DROPOUT)
    clean, _ = found_gradients(Regularization(), dropout=DROPOUT)
    for one, other in zip(once, clean, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-6)


def test_r_drop_agrees_with_scipy():
    from scipy.special import log_softmax, softmax

    model, _, logits = make_model(DROPOUT)
    both = keras.Model(model.input, logits)
    passes = []
    for number in (0, SECOND_PASS):
        with Masks(tf.constant(0), tf.range(BATCH), number).drawn():
            passes.append(np.asarray(both(inputs_of(make_batch()), training=True), "float64"))
    first, second = passes
    labels = make_batch()["labels"].numpy()
    rows = np.arange(BATCH)
    entropies = [-log_softmax(part, -1)[rows, labels] for part in (first, second)]
    p, q = softmax(first, -1), softmax(second, -1)
    log_p, log_q = log_softmax(first, -1), log_softmax(second, -1)
    distance = (p * (log_p - log_q)).sum(-1) + (q * (log_q - log_p)).sum(-1)
    _, losses = found_gradients(Regularization(r_drop=4.0), dropout=DROPOUT)
    np.testing.assert_allclose(losses["label_loss"], np.mean(entropies, axis=0), rtol=1e-5)
    np.testing.assert_allclose(losses["loss"], np.mean(entropies, axis=0) + distance, rtol=1e-5)
    assert distance.min() > 1e-3


@pytest.mark.shown("0.3-2")
@pytest.mark.trains
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("dropout", [0.0, DROPOUT])
def test_virtual_adversary_agrees_with_an_eager_reference(dropout, accumulation):
    """Miyato et al. 2018, algorithm 1, with KL(p, q) + KL(q, p) by its definition."""
    virtual = VirtualAdversary(0.7, 0.5, 3)
    model, encoder, logits = make_model(dropout)
    table = encoder.token_embedding.embeddings
    scores = (Logits(logits, "softmax"),)
    regularization = Regularization(embeddings=table, virtual_adversary=virtual, scores=scores)
    compile_with(model, regularization, accumulation)
    model.optimizer.iterations.assign(4)
    batch = {
        name: array for name, array in with_row_numbers(make_batch()).items() if name != "labels"
    }
    found = [gradient.numpy() for gradient in model.batch_gradients.without_labels(batch)]

    model, encoder, logits = make_model(dropout)
    table = encoder.token_embedding.embeddings
    answer = keras.Model(encoder.input, logits)
    start, variables = table.numpy(), [v.value for v in model.trainable_variables]

    def change_gradients(shift) -> list[np.ndarray]:
        def probabilities():
            with Masks(tf.constant(4), tf.range(BATCH), VIRTUAL_PASS).drawn():
                return tf.nn.log_softmax(answer(batch["token_ids"], training=True))

        one = probabilities().numpy()
        table.assign(start + shift)
        with tf.GradientTape() as tape:
            other = probabilities()
            both = tf.exp(one) * (one - other) + tf.exp(other) * (other - one)
            loss = 0.7 * tf.reduce_sum(tf.reduce_sum(both, axis=1) * batch["loss_weight"])
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        table.assign(start)
        return [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]

    noise = tf.random.stateless_normal(start.shape, [3, 4]).numpy()
    slope = change_gradients(0.05 * noise / np.linalg.norm(noise))[table_place(model, table)]
    expected = change_gradients(0.5 * slope / np.linalg.norm(slope))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-3)
    assert max(np.abs(other).max() for other in expected) > 1e-2


class Numbers(DataGenerator):
    """Batches of examples that are their own numbers."""

    def make_batch(self, examples, length):
        return {"numbers": np.stack([examples] * length, axis=1)}


def test_unlabelled_batches_go_on_where_they_were():
    generator = WithUnlabelled(
        Numbers([2] * 9, 4, buckets=1, seed=1), Numbers([3] * 7, 4, buckets=1, seed=1)
    )
    assert len(generator) == 3
    name = f"{UNLABELLED}numbers"
    whole = [batch for epoch in range(4) for batch in generator.batches(epoch)]
    assert [len(batch[name]) for batch in whole] == [4] * 12
    # Two batches an epoch of the unlabelled: each example once in both.
    for start in range(0, 12, 2):
        seen = [
            number
            for batch in whole[start : start + 2]
            for number, weight in zip(
                batch[name][:, 0], batch[f"{UNLABELLED}loss_weight"], strict=True
            )
            if weight
        ]
        assert sorted(seen) == list(range(7))
    for position in range(12):
        batch = next(generator.batches(*divmod(position, 3)))
        for key, array in batch.items():
            np.testing.assert_array_equal(array, whole[position][key])
    batch = next(iter(generator.to_dataset(1, 2)))
    np.testing.assert_array_equal(batch[name], whole[5][name])


@pytest.mark.parametrize("kind", ["sigmoid", "softmax", "softmax_of_all"])
def test_divergence_is_that_of_the_definition(kind):
    random = np.random.default_rng(1)
    one, other = random.normal(size=(2, 2, 3, 4)) * 3
    if kind == "sigmoid":
        p, q = (1 / (1 + np.exp(-logits)) for logits in (one, other))
        expected = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        expected += q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    else:
        axes = (-1,) if kind == "softmax" else (1, 2)
        p, q = (np.exp(x) / np.exp(x).sum(axis=axes, keepdims=True) for x in (one, other))
        expected = (p - q) * (np.log(p) - np.log(q))
    found = divergence(tf.constant(one), tf.constant(other), kind)
    np.testing.assert_allclose(found, expected.sum(axis=(1, 2)), rtol=1e-4)
    assert float(tf.reduce_sum(divergence(tf.constant(one), tf.constant(one), kind))) == 0.0


def prepared(settings, encoder, compared, batches=None, scorer=None) -> SimpleNamespace:
    """Return the parts of a training that the extra may change, after it has done so."""
    models = SimpleNamespace(encoder=encoder, compared=compared)
    training = SimpleNamespace(
        settings=settings, models=models, batches=batches, scorer=scorer, make_gradients=None
    )
    hooks.prepare(training)
    return training


def test_what_the_table_asks_for_is_what_a_step_does():
    model, encoder, logits = make_model()
    scores = (Logits(logits, "softmax"),)
    assert prepared(make_settings(), encoder, scores).make_gradients is None
    table = {"adversary": "pgd", "adversary_size": 0.5, "r_drop": 2.0, "virtual_adversary": 0.3}
    training = prepared(make_settings(regularization=table, seed=7), encoder, scores)
    model.compile(keras.optimizers.SGD(), make_gradients=training.make_gradients)
    found = model.batch_gradients.regularization
    assert found.adversary == Adversary(0.5, 3, 0.25) and found.r_drop == 2.0
    assert found.virtual_adversary == VirtualAdversary(0.3, 0.5, 7)
    assert found.embeddings is encoder.token_embedding.embeddings and found.scores == scores


def test_answers_that_depend_on_each_other_are_not_compared():
    _, encoder, _ = make_model()
    for table in ({"r_drop": 1.0}, {"virtual_adversary": 1.0}):
        with pytest.raises(InputError, match="set both to 0, or choose another model"):
            prepared(make_settings(regularization=table), encoder, ())


def test_a_file_without_labels_wants_a_task_that_reads_it():
    table = {"virtual_adversary": 1.0, "unlabelled_file": "sample/test.jsonl"}
    settings, batches = make_settings(regularization=table), Numbers([2] * 9, 4, buckets=1)
    _, encoder, logits = make_model()
    scores = (Logits(logits, "softmax"),)
    assert prepared(make_settings(), encoder, scores, batches).batches is batches
    with pytest.raises(InputError, match="this task compares scores that need labels"):
        prepared(settings, encoder, scores, batches)
    batches.read_unlabelled = lambda path: Numbers([3] * 7, 4, buckets=1)
    both = prepared(settings, encoder, scores, batches).batches
    assert isinstance(both, WithUnlabelled) and both.labelled is batches


def test_training_records_are_chosen_by_the_seed_and_groups_stay_whole():
    plain = [SimpleNamespace(number=n) for n in range(50)]
    numbers = [[one.number for one in choose_examples(plain, 8, seed)] for seed in (1, 1, 2)]
    assert numbers[0] == numbers[1] == sorted({*numbers[0]}) and len(numbers[0]) == 8
    assert numbers[0] != numbers[2]
    assert choose_examples(plain, 99, 1) == plain
    sizes = np.random.default_rng(1).integers(1, 6, 40)
    grouped = [SimpleNamespace(group=str(n)) for n, size in enumerate(sizes) for _ in range(size)]
    found = Counter(one.group for one in choose_examples(grouped, 30, 1))
    assert all(count == sizes[int(group)] for group, count in found.items())
    assert 30 <= found.total() < 30 + max(sizes)


def test_a_long_name_of_a_group_needs_its_own_room_alone():
    named = [SimpleNamespace(group=name) for name in ("a" * 20_000, *map(str, range(999)))]
    assert len(choose_examples(named, 30, 1)) == 30
    assert peak_memory(lambda: choose_examples(named, 30, 1)) < 10_000_000


def test_training_records_are_scored_by_what_dev_has_tuned():
    class Batches(Numbers):
        def __init__(self, examples, *arguments):
            self.examples = examples
            super().__init__([2] * len(examples), *arguments)

    train, dev = Batches.of([*range(20)], 4), Batches.of([*range(100, 106)], 3)

    class Scorer(DevScorer):
        def score(self, batches, tuned=None):
            threshold = tuned["threshold"] if tuned else 0.25
            numbers = {"f1": float(np.mean(batches.examples)), "threshold": threshold}
            scores = {**numbers, "file": "a", "per_label": {}}
            return Evaluation(scores, [batches.batch_size], ["b"])

    scorer = Scorer(types.SimpleNamespace(models=[]), dev, None)
    assert prepared(make_settings(), None, (), train, scorer).scorer is scorer
    for most, count in ((5, 5), (500, 6)):  # never more than dev has
        settings = make_settings(regularization={"curve_records": most})
        both = prepared(settings, None, (), train, scorer).scorer
        found, alone = both.score_dev(), scorer.score_dev()
        chosen = choose_examples(train.examples, count, settings.seed)
        beside = {"train_f1": np.mean(chosen)}
        assert len(chosen) == count and found.scores == {**alone.scores, "beside": beside}
        assert (found.predictions, found.shown) == (alone.predictions, alone.shown)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"regularization": {"gradient_penalty": 1.0}, "recompute": {"enabled": True}},
            "second derivatives",
        ),
        (
            {"regularization": {"adversary": "awp"}, "recompute": {"enabled": True}},
            "without their shift",
        ),
        ({"regularization": {"unlabelled_file": "sample/test.jsonl"}}, "virtual_adversary = 0"),
    ],
)
def test_settings_that_contradict_each_other(settings, message):
    with pytest.raises(ValidationError, match=message):
        make_settings(**settings)

"""The generator of batches: every example once, an order that can be continued, little padding."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from core.base.errors import InputError
from core.batches import DataGenerator, pad
from core.fast import batch_plan
from core.fast.batch_plan import copy_parts, in_float32
from core.fast.buckets import bucket_boundaries
from core.prediction.predictor import Predictor


class Numbers(DataGenerator):
    """Batches of example numbers, as many times as the example is long."""

    def __init__(self, lengths, **kwargs):
        self.made = []
        super().__init__(lengths, **kwargs)

    def make_batch(self, positions, length):
        rows = [np.full(self.lengths[index], index, np.int32) for index in positions]
        batch = {"token_ids": pad(rows, length, -1), "example": positions.astype(np.int32)}
        self.made.append(batch)
        return batch


def make(examples=101, batch_size=8, buckets=4, seed=0, longest=60) -> Numbers:
    lengths = np.random.default_rng(5).integers(3, longest + 1, examples)
    return Numbers(lengths, batch_size=batch_size, buckets=buckets, seed=seed)


def consumed(batches) -> list[int]:
    """Return the examples that weigh something, in order."""
    return [
        int(example)
        for batch in batches
        for example, weight in zip(batch["example"], batch["loss_weight"], strict=True)
        if weight > 0
    ]


CASES = [(101, 8, 4), (96, 8, 4), (5, 8, 4), (1, 1, 1), (101, 101, 12), (50, 1, 3), (33, 16, 1)]


@pytest.mark.parametrize("examples,batch_size,buckets", CASES)
@pytest.mark.parametrize("epoch", [0, 1, None])
def test_every_example_once(examples, batch_size, buckets, epoch):
    generator = make(examples, batch_size, buckets)
    batches = list(generator.batches(epoch))
    assert sorted(consumed(batches)) == list(range(examples))
    assert len(batches) == len(generator)
    for batch in batches:
        longest = generator.lengths[batch["example"]].max()
        assert batch["token_ids"].shape[0] == batch_size
        assert batch["token_ids"].shape[1] in generator.boundaries
        assert batch["token_ids"].shape[1] >= longest


@pytest.mark.parametrize("examples,batch_size,buckets", CASES)
def test_weights_sum_to_one_and_one_batch_is_partial(examples, batch_size, buckets):
    generator = make(examples, batch_size, buckets)
    for epoch in (0, 1, None):
        real = []
        for batch in generator.batches(epoch):
            weight = batch["loss_weight"]
            assert weight.dtype == np.float32 and weight.shape == (batch_size,)
            assert weight.sum(dtype="float64") == pytest.approx(1)
            real.append(int((weight > 0).sum()))
            np.testing.assert_allclose(weight[: real[-1]], 1 / real[-1], rtol=1e-6)
            assert not weight[real[-1] :].any()
        assert [count for count in real[:-1] if count < batch_size] == []
        assert real[-1] == (examples % batch_size or batch_size)


def test_order_depends_on_seed_and_epoch_alone():
    orders = {
        (seed, epoch): consumed(make(seed=seed).batches(epoch))
        for seed, epoch in itertools.product((0, 1, 2), (0, 1, 2))
    }
    generator = make(seed=1)
    for epoch in (2, 0, 1, 0):
        np.random.seed(epoch)  # the global generators play no part
        keras.utils.set_random_seed(epoch)
        assert consumed(generator.batches(epoch)) == orders[1, epoch]
    assert len(set(map(tuple, orders.values()))) == len(orders)


def test_buckets_are_mixed_within_an_epoch():
    lengths = [length for _, length in make(400).plan(0)]
    assert lengths != sorted(lengths) and len(set(lengths)) == 4


@pytest.mark.parametrize("skip", [0, 1, 7, 12, 13])
def test_skipping_goes_on_with_the_next_batch(skip):
    generator = make()
    assert len(generator) == 13
    whole = [batch for epoch in (3, 4) for batch in generator.batches(epoch)]
    rest = generator.to_dataset(epoch=3, skip=skip).take(len(whole) - skip)
    for batch, expected in zip(rest, whole[skip:], strict=True):
        assert batch.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(batch[name], array)


def test_dataset_goes_on_without_end():
    generator = make(20, 8)
    assert len(list(generator.to_dataset().take(10))) == 10


def test_prediction_is_shortest_first():
    generator = make()
    batches = [batch for batch in generator.to_prediction_dataset()]
    numbers = consumed([{k: v.numpy() for k, v in batch.items()} for batch in batches])
    assert numbers == [index for part, _ in generator.plan(None) for index in part]
    lengths = generator.lengths[numbers]
    buckets = np.searchsorted(generator.boundaries, lengths)
    assert (np.diff(buckets) >= 0).all()


@pytest.mark.parametrize("examples,batch_size,buckets", CASES)
def test_prediction_pads_nothing_in_vain(examples, batch_size, buckets):
    """No rows that fill up, and no length but that of the longest; trained is as before."""
    generator = make(examples, batch_size, buckets)
    trained = list(generator.batches(0))
    generator.fits_batch = True
    lengths = np.sort(generator.lengths)
    parts = [lengths[first : first + batch_size] for first in range(0, examples, batch_size)]
    shapes = [batch["token_ids"].shape for batch in generator.to_prediction_dataset()]
    assert shapes == [(len(part), part[-1]) for part in parts]
    numbers = consumed(generator.batches(None))
    assert generator.lengths[numbers].tolist() == lengths.tolist()
    for batch, before in zip(generator.batches(0), trained, strict=True):
        np.testing.assert_array_equal(batch["token_ids"], before["token_ids"])


@pytest.mark.parametrize("dataset", ["to_dataset", "to_prediction_dataset"])
def test_nobody_waits_for_the_tuner_of_tf_data(dataset):
    """It sleeps 10 ms, 20, 40 and so on; who closes a data set often has to wait until it wakes."""
    assert getattr(make(), dataset)().options().autotune.enabled is False


@pytest.mark.parametrize("trial", range(40))
def test_boundaries_waste_the_fewest_tokens(trial):
    random = np.random.default_rng(trial)
    lengths = random.choice(random.integers(1, 60, 8), random.integers(1, 50))
    buckets = int(random.integers(1, 6))
    unique, counts = np.unique(lengths, return_counts=True)

    def padded(boundaries) -> int:
        boundaries = np.array(boundaries)
        return int(boundaries[np.searchsorted(boundaries, lengths)].sum())

    best = min(
        padded([*chosen, unique[-1]])
        for count in range(min(buckets, len(unique)))
        for chosen in itertools.combinations(unique[:-1], count)
    )
    boundaries = bucket_boundaries(unique, counts, buckets)
    assert len(boundaries) <= buckets and boundaries[-1] == unique[-1]
    assert list(boundaries) == sorted(set(boundaries))
    assert padded(boundaries) == best


def test_each_length_has_a_bucket_where_there_are_enough():
    unique, counts = np.unique([7, 4, 9, 4], return_counts=True)
    np.testing.assert_array_equal(bucket_boundaries(unique, counts, 300), unique)


def test_buckets_save_padding():
    random = np.random.default_rng(2)
    lengths = np.clip(random.lognormal(3.3, 0.5, 3000).astype(int), 4, 128)
    waste = {}
    for count in (1, 12):
        plan = Numbers(lengths, batch_size=16, buckets=count).plan(0)
        waste[count] = sum(len(examples) * length for examples, length in plan) / lengths.sum()
    print(f"padded / real tokens: {waste}")
    assert waste[12] < 1.15 < 2 < waste[1]


def test_one_bucket_has_one_static_shape():
    generator = make(buckets=1)
    longest = int(generator.lengths.max())
    specification = generator.to_dataset().element_spec
    assert specification["token_ids"].shape == (8, longest)
    shapes = {batch["token_ids"].shape for batch in generator.batches(0)}
    assert shapes == {(8, longest)}
    several = make(buckets=4).to_dataset().element_spec
    assert several["token_ids"].shape.as_list() == [8, None]
    assert several["example"].shape == several["loss_weight"].shape == (8,)


def model_of(*names, shape=None) -> keras.Model:
    """Return a model with such inputs: `example` has no axis but the first, unless `shape` is."""
    shapes = {"example": () if shape is None else shape}
    inputs = {
        name: keras.Input(shapes.get(name, (None,)), dtype="int32", name=name) for name in names
    }
    flat = [keras.layers.Reshape((-1,))(ops.expand_dims(x, -1)) for x in inputs.values()]
    return keras.Model(inputs, [ops.sum(x, axis=1) for x in flat])


def test_keys_are_compared_with_the_model():
    make().check_keys(model_of("token_ids", "example"))
    with pytest.raises(InputError) as caught:
        make().check_keys(model_of("token_ids", "segment_ids"))
    assert "missing keys ['segment_ids']" in str(caught.value)
    assert "no input reads ['example']" in str(caught.value)
    assert "Numbers" in str(caught.value)
    make().check_keys(model_of("example"), all_read=False)
    with pytest.raises(InputError, match=r"missing keys \['gold'\].*made from labels"):
        make().check_keys(model_of("example", "gold"), all_read=False)


def test_types_are_compared_with_the_model():
    tokens = keras.Input((None,), dtype="float32", name="token_ids")
    example = keras.Input((), dtype="int32", name="example")
    summed = ops.sum(tokens, axis=1) + ops.cast(example, "float32")
    model = keras.Model([tokens, example], summed)
    with pytest.raises(InputError, match="token_ids is int32 in make_batch, and its keras.Input"):
        make().check_keys(model)


@pytest.mark.parametrize("shape", [(1,), (None,), (2, 3)])
def test_shapes_are_compared_with_the_model(shape):
    """Keras's `fit` would add an axis, the function that predicts would not."""
    with pytest.raises(InputError) as caught:
        make().check_keys(model_of("example", shape=shape), all_read=False)
    assert f"example has the shape (8,) in make_batch, and its keras.Input {(None, *shape)}" in str(
        caught.value
    )


def test_dataset_feeds_copies():
    """TensorFlow may compute in place in the memory that it is handed."""
    generator = make(40, 8)
    fed = list(itertools.islice(copy_parts(generator.stream(0, 0), 8, (0,)), 5))
    for batch, arrays in zip(fed, generator.made, strict=True):
        for name, array in arrays.items():
            np.testing.assert_array_equal(batch[name], array)
            assert not np.shares_memory(batch[name], array)


def test_pad():
    padded = pad([np.array([[1, 2]]), np.array([[3, 4], [5, 6]])], 3, -1)
    assert padded.tolist() == [[[1, 2], [-1, -1], [-1, -1]], [[3, 4], [5, 6], [-1, -1]]]


class Torn(Numbers):
    """The third batch of an epoch can't be made."""

    def batches(self, epoch, skip=0):
        for number, batch in enumerate(super().batches(epoch, skip)):
            if number == 2:
                raise InputError("shard 3 is torn: prepare it anew.")
            yield batch


@pytest.mark.parametrize("dataset", ["to_dataset", "to_prediction_dataset"])
def test_a_mistake_in_a_batch_comes_out_as_it_was(dataset):
    generator = Torn(np.full(101, 5), batch_size=8)
    with pytest.raises(InputError, match="^shard 3 is torn: prepare it anew.$"):
        with generator.own_errors():
            list(getattr(generator, dataset)())
    with pytest.raises(tf.errors.OpError), make().own_errors():
        raise tf.errors.AbortedError(None, None, "of something else")


def test_a_batch_is_computed_while_the_one_before_is_decoded(monkeypatch):
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    model = keras.Model({"token_ids": tokens}, {"number": keras.ops.max(tokens, axis=1)})
    predictor, generator, events = Predictor([model], tf.distribute.get_strategy()), make(30), []
    forward, shapes = predictor.forward, []

    def watch(batch):
        events.append("F")
        shapes.append(tuple(batch["token_ids"].shape))
        return forward(batch)

    monkeypatch.setattr(predictor, "forward", watch)

    def decode(positions, outputs):
        events.append("D")
        return outputs["number"].tolist()

    found = dict(predictor.decode(generator, decode))
    assert found == {index: index for index in range(30)}
    assert "".join(events) == "FFDFDFDD"
    lengths = np.sort(generator.lengths)
    assert shapes == [(8, lengths[7]), (8, lengths[15]), (8, lengths[23]), (6, lengths[29])]


def test_a_weight_that_float32_can_not_hold_is_refused(monkeypatch):
    monkeypatch.setattr(batch_plan, "record_weights", lambda made: [1.0, 1e39])
    with pytest.raises(InputError, match="multiplies to more than 3e38"):
        DataGenerator.of([1, 2], 1)  # lengths and batch size
    with pytest.raises(InputError, match="multiplies to more than 3e38"):
        in_float32([1.0, 1e30 * 1e9])
    assert in_float32([1.0, 1e30]).dtype == np.float32

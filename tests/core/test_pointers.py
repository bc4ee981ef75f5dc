"""Pointers, RoPE and the loss against NumPy, finite differences, cloning, saving and XLA."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from core.fast import one_pass
from core.fast.transformer import MASKED
from core.layers import many_heads, pointers
from core.layers.global_pointer import EfficientGlobalPointer, GlobalPointer, rotate
from core.layers.pointer_search import best_spans, score_pairs
from core.layers.pointers import PairScores, SparseMultilabelLoss

BATCH, LENGTH, WIDTH, HEADS, SIZE, PAIRS = 3, 7, 10, 4, 6, 3
POINTERS = [GlobalPointer, EfficientGlobalPointer]


@pytest.fixture
def random():
    return np.random.default_rng(1)


@pytest.fixture
def mask():
    lengths = np.array([LENGTH, 4, 1])
    return (np.arange(LENGTH) < lengths[:, None]).astype("int32")


def rotate_numbers(vectors: np.ndarray) -> np.ndarray:
    """Rotate `[..., length, size]` as complex numbers."""
    length, size = vectors.shape[-2:]
    speeds = 10000.0 ** (-2 * np.arange(size // 2) / size)
    numbers = vectors[..., 0::2] + 1j * vectors[..., 1::2]
    numbers = numbers * np.exp(1j * np.arange(length)[:, None] * speeds)
    return np.stack([numbers.real, numbers.imag], axis=-1).reshape(vectors.shape)


def numpy_scores(pointer, weights: list[np.ndarray], hidden, rotary=True) -> np.ndarray:
    """Return the scores `[batch, heads, length, length]` before masking, head by head.

    Args:
        pointer: the class.
        weights: kernel and bias of the projection, then those of the types.
        hidden: `[batch, length, width]`.
        rotary: whether queries and keys are rotated.
    """
    weights = [np.asarray(weight, "float64") for weight in weights]
    projected = hidden.astype("float64") @ weights[0] + weights[1]
    scores = np.zeros((BATCH, HEADS, LENGTH, LENGTH))
    turn = rotate_numbers if rotary else lambda vectors: vectors
    for head in range(HEADS):
        query, key = projected[..., :SIZE], projected[..., SIZE:]
        if pointer is GlobalPointer:
            query = projected[..., head * SIZE : (head + 1) * SIZE]
            key = projected[..., (HEADS + head) * SIZE : (HEADS + head + 1) * SIZE]
        scores[:, head] = np.einsum("bid,bjd->bij", turn(query), turn(key)) / np.sqrt(SIZE)
        if pointer is EfficientGlobalPointer:
            types = projected @ weights[2] + weights[3]
            scores[:, head] += types[:, :, None, head] + types[:, None, :, HEADS + head]
    return scores


def randomise(layer, random) -> None:
    """Give biases a value too: they are zero at the beginning."""
    layer.set_weights([random.normal(size=w.shape) * 0.5 for w in layer.get_weights()])


def closed_form(scores, labels, head_weight=None) -> np.ndarray:
    """Return the loss `[batch]` from dense labels, in float64."""
    losses = np.zeros(scores.shape[:2])
    for example, head in np.ndindex(*losses.shape):
        true = np.zeros(scores.shape[2:], bool)
        for i, j in labels[example, head]:
            if i >= 0:
                true[i, j] = True
        grid = scores[example, head].astype("float64")
        losses[example, head] = np.logaddexp.reduce([0, *grid[~true]])
        losses[example, head] += np.logaddexp.reduce([0, *-grid[true]])
    return (losses * (1 if head_weight is None else head_weight)).sum(axis=1)


def draw_labels(random, mask) -> np.ndarray:
    """Draw pairs that lie in the texts; the last head has none, unused ones are -1."""
    labels = np.full((BATCH, HEADS, PAIRS, 2), -1, "int32")
    for example, length in enumerate(mask.sum(axis=1)):
        for head in range(HEADS - 1):
            cells = random.permutation(length * length)[: random.integers(1, PAIRS + 1)]
            labels[example, head, : len(cells)] = np.stack(np.divmod(cells, length), axis=-1)
    return labels


def build(pointer, spans=True, static=False, **kwargs) -> keras.Model:
    """Return a functional model over a pointer and its loss."""
    length = LENGTH if static else None
    hidden = keras.Input((length, WIDTH), name="hidden")
    mask = keras.Input((length,), dtype="int32", name="mask")
    labels = keras.Input((HEADS, PAIRS, 2), dtype="int32", name="labels")
    weight = keras.Input((HEADS,), name="head_weight")
    parts = pointer(HEADS, SIZE, name="pointer", **kwargs)(hidden)
    scores = PairScores(spans, name="scores")(parts, mask)
    loss = SparseMultilabelLoss(name="loss")(scores, labels, weight)
    return keras.Model([hidden, mask, labels, weight], {"scores": scores, "loss": loss})


def draw_inputs(random, mask) -> list[np.ndarray]:
    hidden = random.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
    weight = random.integers(0, 2, (BATCH, HEADS)).astype("float32")
    return [hidden, mask, draw_labels(random, mask), weight]


# --- RoPE ---


@pytest.mark.parametrize("length,size", [(1, 2), (7, 6), (200, 64)])
def test_rotation_is_that_of_complex_numbers(random, length, size):
    vectors = random.normal(size=(2, length, size)).astype("float32")
    np.testing.assert_allclose(rotate(vectors), rotate_numbers(vectors), atol=3e-5)


def test_product_depends_on_the_distance_alone(random):
    query, key = random.normal(size=(2, 8)).astype("float32")
    queries, keys = (np.asarray(rotate(np.tile(v, (1, 50, 1))))[0] for v in (query, key))
    products = queries @ keys.T
    for distance in (-20, -1, 0, 3, 31):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert np.ptp([products[0, distance] for distance in range(50)]) > 0.1


# --- pointers ---


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("spans", [True, False])
def test_scores_agree_with_numpy(random, mask, pointer, rotary, spans):
    layer = pointer(HEADS, SIZE, rotary=rotary)
    hidden = random.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
    layer(hidden)
    randomise(layer, random)
    scores = np.asarray(PairScores(spans)(layer(hidden), mask))
    possible = mask[:, None, :, None] * mask[:, None, None, :] > 0
    if spans:
        possible = possible & np.triu(np.ones((LENGTH, LENGTH), bool))
    possible = np.broadcast_to(possible, scores.shape)
    np.testing.assert_allclose(
        scores[possible],
        numpy_scores(pointer, layer.get_weights(), hidden, rotary)[possible],
        rtol=1e-5,
        atol=2e-5,
    )
    assert (scores[~possible] == np.float32(MASKED)).all()


@pytest.mark.parametrize("pointer", POINTERS)
def test_padding_changes_nothing(random, mask, pointer):
    layer = pointer(HEADS, SIZE)
    hidden = random.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
    scores = np.asarray(PairScores()(layer(hidden), mask))
    noise = hidden + 9 * (1 - mask[..., None])
    longer = np.pad(noise, [(0, 0), (0, 4), (0, 0)]).astype("float32")
    padded = np.asarray(PairScores()(layer(longer), np.pad(mask, [(0, 0), (0, 4)])))
    np.testing.assert_allclose(padded[:, :, :LENGTH, :LENGTH], scores, atol=1e-5)


@pytest.mark.parametrize("pointer", POINTERS)
def test_pointer_config_goes_round(pointer):
    layer = pointer(5, 8, rotary=False, name="links", dtype="mixed_bfloat16")
    again = pointer.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.heads, again.head_size, again.rotary) == (5, 8, False)
    assert PairScores.from_config(PairScores(spans=False).get_config()).spans is False
    with pytest.raises(ValueError, match="even"):
        pointer(5, 7)


def two_models(pointer, random, mask, ties, spans=True, **options):
    """Return the parts of a pointer in two models, and the mean of their whole scores."""
    parts, grids = [], []
    for _ in range(2):
        layer = pointer(HEADS, SIZE, **options)
        hidden = random.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
        layer(hidden)
        randomise(layer, random)
        if ties:  # half of the tokens are the same, and weights are few
            hidden[:, 1::2] = hidden[:, 1:2]
            layer.set_weights([np.round(weight) for weight in layer.get_weights()])
        parts.append(layer(hidden))
        grids.append(np.asarray(PairScores(spans)(parts[-1], mask)))
    return parts, np.mean(grids, axis=0)


@pytest.mark.shown("EfficientGlobalPointer")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("pointer", POINTERS)
def test_best_spans_are_those_of_the_whole_grid(random, mask, pointer, ties, compiled):
    """Against a stable sort of all cells: of equal ones the first is taken, in every head."""
    parts, grid = two_models(pointer, random, mask, ties, rotary=not ties)
    for most in (1, 5, LENGTH**2, 500):
        chosen = tf.function(lambda: best_spans(parts, mask, most), jit_compile=compiled)  # noqa: B023
        scores, first, last = (array.numpy() for array in chosen())
        cells = first * LENGTH + last
        kept = min(most, LENGTH**2)
        flat = grid.reshape(BATCH, HEADS, -1)
        expected = np.sort(flat)[..., ::-1][..., :kept]
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-5)
        assert scores.shape == cells.shape == (BATCH, HEADS, kept)
        found = np.take_along_axis(flat, cells, axis=-1)
        np.testing.assert_allclose(found, scores, rtol=1e-6, atol=1e-5)
        equal = scores[..., 1:] == scores[..., :-1]
        assert (cells[..., 1:] > cells[..., :-1])[equal].all()
        assert not ties or (equal & (scores[..., 1:] > MASKED / 2)).any() or most == 1


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("rotary", [True, False])
def test_scores_of_pairs_are_those_of_the_whole_grid(random, mask, pointer, rotary):
    parts, grid = two_models(pointer, random, mask, False, spans=False, rotary=rotary)
    rows, columns = (random.integers(0, 4, (2, HEADS, n)) for n in (3, 5))
    parts, grid = [[part[:2] for part in own] for own in parts], grid[:2]
    example, every = np.arange(2), np.arange(HEADS)

    # Other tokens for each head; the same ones for all heads; one head for each pair of rows.
    found = score_pairs(parts, every[:, None], rows, columns)
    at = np.ix_(example, every)
    expected = grid[
        at[0][..., None, None], at[1][..., None, None], rows[..., None], columns[..., None, :]
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    found = score_pairs(parts, every[:, None], rows[:, :1], columns[:, :1])
    expected = grid[
        at[0][..., None, None],
        at[1][..., None, None],
        rows[:, :1, :, None],
        columns[:, :1, None, :],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    heads = np.array([[1, 1, 3], [2, 0, 2]])
    found = np.asarray(score_pairs(parts, heads, rows[:, 0], rows[:, 1])).copy()
    expected = grid[
        example[:, None, None], heads[:, :, None], rows[:, 0, :, None], rows[:, 1, None, :]
    ]
    same = heads[:, :, None] == heads[:, None, :]
    np.testing.assert_allclose(found[same], expected[same], rtol=1e-5, atol=1e-5)


# --- loss ---


@pytest.mark.parametrize("scale", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_loss_is_the_closed_form(random, mask, scale, weighted):
    scores = (random.normal(size=(BATCH, HEADS, LENGTH, LENGTH)) * scale).astype("float32")
    scores[:, :, mask[0] == 0] = MASKED
    labels = draw_labels(random, mask)
    weight = random.random((BATCH, HEADS)).astype("float32") if weighted else None
    loss = SparseMultilabelLoss()(scores, labels, weight)
    assert loss.shape == (BATCH,)
    np.testing.assert_allclose(loss, closed_form(scores, labels, weight), rtol=2e-6)


def test_loss_of_confident_hits_is_small_and_exact():
    """The sparse form that subtracts the true pairs from the sum loses all digits here."""
    scores = np.full((1, 1, 5, 5), -60, "float32")
    scores[0, 0, 1, 3] = scores[0, 0, 0, 0] = 60
    labels = np.array([[[[1, 3], [0, 0], [-1, -1]]]], "int32")
    loss, gradient = loss_and_gradient(scores, labels)
    assert 0 <= loss[0] < 1e-6
    assert np.abs(gradient).max() < 1e-6
    # All of it wrong: 2 x 60 and the logarithm of how many.
    wrong = SparseMultilabelLoss()(-scores, labels)
    np.testing.assert_allclose(wrong, [120 + np.log(23) + np.log(2)], rtol=1e-6)


def test_loss_without_positives_and_all_masked(random):
    labels = np.full((2, 1, PAIRS, 2), -1, "int32")
    scores = random.normal(size=(2, 1, LENGTH, LENGTH)).astype("float32")
    scores[1] = MASKED
    loss, gradient = loss_and_gradient(scores, labels)
    np.testing.assert_allclose(loss, closed_form(scores, labels), rtol=1e-6)
    assert loss[1] == 0
    assert np.isfinite(gradient).all() and not gradient[1].any()


def test_position_zero_is_a_pair_like_any_other(random):
    """Unused labels point at cell 0 inside: the true cell 0 must not suffer from it."""
    scores = random.normal(size=(1, 2, LENGTH, LENGTH)).astype("float32")
    labels = np.array([[[[0, 0], [-1, -1], [2, 2]], [[-1, -1], [-1, -1], [1, 4]]]], "int32")
    loss = SparseMultilabelLoss()(scores, labels)
    np.testing.assert_allclose(loss, closed_form(scores, labels), rtol=1e-6)


@pytest.mark.parametrize("spans", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_many_heads_learn_the_same_one_after_another(random, mask, monkeypatch, spans, scale):
    layer = EfficientGlobalPointer(HEADS, SIZE, rotary=False)
    hidden = tf.constant(random.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32") * scale)
    labels, weight = draw_labels(random, mask), random.random((BATCH, HEADS)).astype("float32")
    if spans:  # the others are impossible
        labels[labels[..., 0] > labels[..., 1]] = -1
    found = []
    for many in (HEADS + 1, HEADS):
        monkeypatch.setattr(one_pass, "MANY", many)
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            parts = layer(hidden)
            made_of = {"parts": parts, "padding_mask": mask, "spans": spans}
            scores = PairScores(spans)(parts, mask)
            # Many heads learn from the parts: these scores would give another loss.
            given = scores if many > HEADS else scores * 0
            loss = many_heads.ManyHeadsLoss()(given, labels, weight, **made_of)
        gradients = tape.gradient(loss, [hidden, *layer.trainable_variables])
        found.append([loss, *gradients])
        expected = closed_form(scores.numpy(), labels, weight)
        np.testing.assert_allclose(loss, expected, rtol=2e-6)
    for before, after in zip(*found, strict=True):
        assert np.abs(before).max() > 1e-3
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=2e-6 * np.abs(before).max())


def test_heads_with_queries_of_their_own_learn_from_the_scores(random, mask, monkeypatch):
    """As those of a pointer that somebody has written: it returns four parts too."""
    monkeypatch.setattr(one_pass, "MANY", HEADS)
    queries, keys = random.normal(size=(2, BATCH, HEADS, LENGTH, SIZE)).astype("float32")
    starts, ends = random.normal(size=(2, BATCH, HEADS, LENGTH)).astype("float32")
    scores = random.normal(size=(BATCH, HEADS, LENGTH, LENGTH)).astype("float32")
    labels, parts = draw_labels(random, mask), (queries, keys, starts, ends)
    loss = many_heads.ManyHeadsLoss()(scores, labels, parts=parts, padding_mask=mask)
    np.testing.assert_array_equal(loss, SparseMultilabelLoss()(scores, labels))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the peak of memory")
def test_many_heads_of_a_long_text_need_the_memory_of_one(random, monkeypatch):
    """The scores of 64 heads over 512 tokens have 67 MB, and a step kept some ten of such grids."""
    monkeypatch.setattr(many_heads, "AT_ONCE", 1)  # of one core
    length, heads = 512, 64
    layer = EfficientGlobalPointer(heads, 64)
    hidden = tf.constant(random.normal(size=(1, length, WIDTH)).astype("float32"))
    mask, labels = np.ones((1, length), "int32"), np.zeros((1, heads, 1, 2), "int32")

    @tf.function
    def learn(hidden) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            made_of = {"parts": layer(hidden), "padding_mask": mask}
            scores = PairScores()(made_of["parts"], mask)
            loss = many_heads.ManyHeadsLoss()(scores, labels, **made_of)
        return tape.gradient(loss, hidden)

    learn(hidden)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    learn(hidden)
    assert memory("VmHWM") - before < heads * length**2 * 4 / 1024


def memory(name: str) -> int:
    """Return what Linux says of this process, in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def loss_and_gradient(scores, labels, weight=None) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss `[batch]` and the gradient of its sum."""
    scores = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = SparseMultilabelLoss()(scores, labels, weight)
    return loss.numpy(), tape.gradient(loss, scores).numpy()


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_gradient_agrees_with_finite_differences(random, mask, scale):
    scores = (random.normal(size=(BATCH, HEADS, LENGTH, LENGTH)) * scale).astype("float32")
    labels = draw_labels(random, mask)
    weight = random.random((BATCH, HEADS)).astype("float32")
    _, gradient = loss_and_gradient(scores, labels, weight)
    exact, step = scores.astype("float64"), 1e-5
    for index in map(tuple, random.integers(0, scores.shape, (150, 4))):
        values = []
        for sign in (1, -1):
            moved = exact.copy()
            moved[index] += sign * step
            values.append(closed_form(moved, labels, weight).sum())
        expected = (values[0] - values[1]) / (2 * step)
        assert gradient[index] == pytest.approx(expected, abs=2e-6)
    for index in np.argwhere(labels[..., 0] >= 0):
        example, head, pair = index
        assert gradient[example, head][tuple(labels[example, head, pair])] <= 0


@pytest.mark.parametrize("pointer", POINTERS)
def test_gradient_of_the_weights_agrees_with_finite_differences(random, mask, pointer):
    """Through the pointer: the closed form of NumPy scores, in float64."""
    model = build(pointer)
    layer = model.get_layer("pointer")
    randomise(layer, random)
    hidden, mask, labels, weight = draw_inputs(random, mask)
    labels[labels[..., 0] > labels[..., 1]] = -1  # no span runs backwards
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model([hidden, mask, labels, weight])["loss"])
    gradients = tape.gradient(loss, [variable.value for variable in layer.trainable_weights])
    possible = mask[:, None, :, None] * mask[:, None, None, :] > 0
    possible = possible & np.triu(np.ones((LENGTH, LENGTH), bool))
    for number, gradient in enumerate(gradients):
        for index in map(tuple, random.integers(0, gradient.shape, (12, len(gradient.shape)))):
            sums = []
            for step in (1e-5, -1e-5):
                weights = [array.astype("float64") for array in layer.get_weights()]
                weights[number][index] += step
                scores = np.where(possible, numpy_scores(pointer, weights, hidden), MASKED)
                sums.append(closed_form(scores, labels, weight).sum())
            expected = (sums[0] - sums[1]) / 2e-5
            assert gradient.numpy()[index] == pytest.approx(expected, rel=1e-4, abs=1e-4)


# --- as layers of a Keras model ---


@pytest.mark.parametrize("pointer", POINTERS)
def test_model_is_cloned_and_saved(random, mask, pointer, tmp_path):
    model = build(pointer)
    randomise(model.get_layer("pointer"), random)
    inputs = draw_inputs(random, mask)
    expected = model(inputs)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    model.save(tmp_path / "model.keras")
    for copy in (clone, keras.models.load_model(tmp_path / "model.keras")):
        outputs = copy(inputs)
        for name in expected:
            np.testing.assert_array_equal(outputs[name], expected[name])
    assert clone.get_config() == model.get_config()


@pytest.mark.trains
@pytest.mark.parametrize("pointer", POINTERS)
def test_xla_gives_the_same_numbers(random, mask, pointer):
    model = build(pointer)
    randomise(model.get_layer("pointer"), random)
    inputs = [tf.constant(array) for array in draw_inputs(random, mask)]
    variables = [weight.value for weight in model.trainable_weights]

    def step(*inputs):
        with tf.GradientTape() as tape:
            outputs = model(list(inputs))
        return outputs, tape.gradient(outputs["loss"], variables)

    plain, compiled = tf.function(step)(*inputs), tf.function(step, jit_compile=True)(*inputs)
    for name in ("scores", "loss"):
        np.testing.assert_allclose(compiled[0][name], plain[0][name], rtol=1e-5, atol=1e-4)
    for gradient, expected in zip(compiled[1], plain[1], strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("pointer", POINTERS)
def test_shapes_are_static(pointer):
    model = build(pointer, static=True)
    shapes = {name: tensor.shape for name, tensor in model.output.items()}
    assert shapes == {"scores": (None, HEADS, LENGTH, LENGTH), "loss": (None,)}
    assert model.output["scores"].dtype == model.output["loss"].dtype == "float32"
    signature = [tf.TensorSpec((BATCH, *t.shape[1:]), t.dtype) for t in model.inputs]
    traced = tf.function(lambda *inputs: model(list(inputs))).get_concrete_function(*signature)
    assert traced.structured_outputs["scores"].shape == (BATCH, HEADS, LENGTH, LENGTH)
    assert traced.structured_outputs["loss"].shape == (BATCH,)
    unknown = [
        operation.name
        for operation in traced.graph.get_operations()
        for output in operation.outputs
        if not output.shape.is_fully_defined()
    ]
    assert not unknown


@pytest.mark.parametrize("pointer", POINTERS)
def test_bfloat16_runs_close_to_float32(random, mask, pointer):
    model, half = build(pointer), build(pointer, dtype="mixed_bfloat16")
    half.set_weights(model.get_weights())
    inputs = draw_inputs(random, mask)
    assert half.get_layer("pointer").projection.compute_dtype == "bfloat16"
    outputs, expected = half(inputs), model(inputs)
    assert outputs["scores"].dtype == outputs["loss"].dtype == "float32"
    np.testing.assert_allclose(outputs["scores"], expected["scores"], rtol=0.05, atol=0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(half(inputs)["loss"])
    gradients = tape.gradient(loss, [weight.value for weight in half.trainable_weights])
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_change_of_the_possible_pairs_changes_training_and_prediction(random, mask, monkeypatch):
    """A CPU once had a mask of its own for the loss of many heads."""

    def first_token_only(mask, spans) -> tf.Tensor:
        length = mask.shape[1]
        return tf.tile((tf.range(length) == 0)[None, :, None], (len(mask), 1, length))

    assert many_heads.possible_pairs is pointers.possible_pairs
    for module in (pointers, many_heads):
        monkeypatch.setattr(module, "possible_pairs", first_token_only)
    parts = EfficientGlobalPointer(HEADS, SIZE)(random.normal(size=(BATCH, LENGTH, WIDTH)))
    labels = np.zeros((BATCH, HEADS, 1, 2), "int32")
    made_of = {"parts": parts, "padding_mask": mask, "spans": True}
    scores = PairScores()(parts, mask)
    assert (scores.numpy()[:, :, 1:] == MASKED).all()
    losses = []
    for many in (HEADS + 1, HEADS):
        monkeypatch.setattr(one_pass, "MANY", many)
        losses.append(many_heads.ManyHeadsLoss()(scores, labels, **made_of).numpy())
    np.testing.assert_allclose(*losses, rtol=1e-5)
    first = best_spans([parts], mask, most=3)[1].numpy()
    assert (first == 0).all(), "spans from the first token"

"""Triples of whole grids, strict scores and the search for a threshold, against brute force."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from sklearn.metrics import precision_recall_fscore_support

PROJECT = use_template("relation_extraction")

from core.data.tokens import Window, split_into_windows, train_tokenizer  # noqa: E402
from core.encoders.encoder import BertEncoder  # noqa: E402
from core.prediction.predictor import Predictor  # noqa: E402
from inspection import checks  # noqa: E402
from task.data import TripleGenerator, entity_head_count  # noqa: E402
from task.decode import (  # noqa: E402
    LOWEST_LOGIT,
    MOST_SPANS,
    MOST_TRIPLES,
    above,
    decode_window,
    predict_triples,
    select_triples,
)
from task.evaluation import evaluate  # noqa: E402
from task.metrics import count_matches, score, tune_threshold  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Example, Triple  # noqa: E402
from task.settings import Settings  # noqa: E402

PREDICATES = ("born_in", "出生于", "works_for")


def example(identity, triples, annotated=None):
    annotated = None if annotated is None else frozenset(annotated)
    return Example(identity, "text", tuple(triples), annotated, 1)


def triple(subject, predicate="born_in", object_=9):
    return Triple((subject, subject + 1), predicate, (object_, object_ + 1))


def draw(random, most):
    chosen = (
        triple(int(random.integers(4)), str(random.choice(PREDICATES)), int(random.integers(3)))
        for _ in range(random.integers(most + 1))
    )
    return list(dict.fromkeys(chosen))


def draw_records(seed, records=60):
    random = np.random.default_rng(seed)
    golds, predictions = [], {}
    for number in range(records):
        annotated = list(PREDICATES[:2]) if random.random() < 0.3 else None
        right = [t for t in draw(random, 4) if annotated is None or t.predicate in annotated]
        golds.append(example(f"r{number}", right, annotated))
        kept = [t for t in right if random.random() < 0.7]
        predictions[f"r{number}"] = list(dict.fromkeys(kept + draw(random, 2)))
    return golds, predictions


def test_agrees_with_scikit_learn():
    golds, predictions = draw_records(1)
    truth, found, names = [], [], []
    for gold in golds:
        for item in set(gold.triples) | set(predictions[gold.id]):
            if gold.annotated_predicates is None or item.predicate in gold.annotated_predicates:
                truth.append(item in gold.triples)
                found.append(item in predictions[gold.id])
                names.append(item.predicate)
    result = score(golds, predictions)
    expected = precision_recall_fscore_support(truth, found, average="binary")[:3]
    assert [result[k] for k in ("precision", "recall", "f1")] == pytest.approx(expected)
    assert (result["gold"], result["predicted"]) == (sum(truth), sum(found))
    for name in PREDICATES:
        rows = [index for index, other in enumerate(names) if other == name]
        expected = precision_recall_fscore_support(
            np.array(truth)[rows], np.array(found)[rows], average="binary"
        )[:3]
        row = result["per_predicate"][name]
        assert [row[k] for k in ("precision", "recall", "f1")] == pytest.approx(expected)


def test_every_part_must_be_exact():
    gold = example("a", [triple(0)])
    near = [
        Triple((0, 2), "born_in", (9, 10)),
        Triple((0, 1), "works_for", (9, 10)),
        Triple((0, 1), "born_in", (9, 11)),
        Triple((9, 10), "born_in", (0, 1)),
    ]
    assert count_matches(gold, near) == {"born_in": (0, 3, 1), "works_for": (0, 1, 0)}


def test_repeated_predictions_count_once():
    gold = example("a", [triple(0), triple(1)])
    assert count_matches(gold, [triple(0)] * 3) == {"born_in": (1, 1, 2)}


def test_what_is_not_annotated_is_not_judged():
    gold = example("a", [triple(0)], annotated=["born_in"])
    predicted = [triple(0), triple(1, "works_for")]
    assert count_matches(gold, predicted) == {"born_in": (1, 1, 1)}
    assert score([gold], {"a": predicted})["f1"] == 1


def test_an_empty_prediction_scores_nothing():
    result = score([example("a", [triple(0)])], {})
    assert (result["precision"], result["recall"], result["f1"]) == (0, 0, 0)
    nothing = score([example("a", [])], {"a": []})
    assert (nothing["f1"], nothing["per_predicate"]) == (0, {})


def best_of(golds, candidates):
    """Return the threshold that is tuned."""
    return tune_threshold(golds, candidates)["threshold"]


def f1_above(golds, candidates, threshold):
    kept = {name: [t for t, s in scored if s > threshold] for name, scored in candidates.items()}
    return score(golds, kept)["f1"]


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_best_of_all(seed):
    golds, predictions = draw_records(seed, records=25)
    random = np.random.default_rng(seed)
    digits = 1 if seed % 2 else 6  # one digit makes many ties
    candidates = {
        name: [(t, float(np.round(random.random(), digits))) for t in triples for _ in range(2)]
        for name, triples in predictions.items()
    }
    found = f1_above(golds, candidates, best_of(golds, candidates))
    scores = {s for scored in candidates.values() for _, s in scored} | {0.0, 0.5}
    assert found == max(f1_above(golds, candidates, s) for s in (*scores, -1.0))


def test_threshold_lies_in_the_middle_of_the_gap():
    golds = [example("a", [triple(0), triple(1)])]
    candidates = {"a": [(triple(0), 0.9), (triple(1), 0.3), (triple(2), 0.1)]}
    assert best_of(golds, candidates) == pytest.approx(0.2)


def test_equal_scores_move_together():
    golds = [example("a", [triple(0)]), example("b", [])]
    candidates = {
        "a": [(triple(0), 0.4), (triple(1), 0.2)],
        "b": [(triple(2), 0.4), (triple(3), 0.2)],
    }
    # 0.4 brings a right and a wrong one: no threshold parts them.
    assert best_of(golds, candidates) == pytest.approx(0.3)


@pytest.mark.parametrize("candidates", [{}, {"a": []}, {"a": [(triple(5), 0.4)]}])
def test_threshold_stays_where_nothing_improves(candidates):
    assert best_of([example("a", [triple(0)])], candidates) == 0.5
    assert best_of([example("a", [])], candidates) == 0.5


def test_threshold_between_neighbouring_floats():
    high, low = np.nextafter(0.3, 1), 0.3
    golds = [example("a", [triple(0)])]
    candidates = {"a": [(triple(0), float(high)), (triple(1), low)]}
    assert f1_above(golds, candidates, best_of(golds, candidates)) == 1


def test_a_threshold_keeps_all_its_digits(tmp_path):
    """Between 0.9999998 and 0.9999996 there is no number of six digits."""
    path = tmp_path / "dev.jsonl"
    path.write_text("{}")
    golds = [example("a", [triple(0)]), example("b", [])]
    candidates = {"a": [(triple(0), 0.9999998)], "b": [(triple(1), 0.9999996)]}
    found = evaluate(golds, candidates, path)
    assert found.scores["f1"] == 1
    kept = above(candidates, found.scores["threshold"])
    assert [len(triples) for triples in kept.values()] == [1, 0]
    assert evaluate(golds, candidates, path, found.scores["threshold"]).scores["f1"] == 1


# ------------------------------------------------------------- from grids of scores to triples

LENGTH = 20
WINDOW = Window(
    np.zeros(LENGTH, np.int32),
    np.array([-1, *range(0, 3 * LENGTH - 6, 3), -1]),
    np.array([-1, *range(2, 3 * LENGTH - 4, 3), -1]),
    (0, 3 * LENGTH),
)


def draw_parts(random, pointer, heads, rotary_scale, digits):
    """Return the parts of a pointer for one window, rounded to so many binary digits."""
    shapes = [(1, heads if pointer == "plain" else 1, LENGTH, 4)] * 2
    shapes += [(1, heads, LENGTH)] * 2 if pointer == "efficient" else []
    return tuple(
        np.round(random.normal(0, rotary_scale, shape) * 2**digits).astype(np.float32) / 2**digits
        for shape in shapes
    )


def whole_grid(parts):
    """Return the scores `[heads, length, length]` of all pairs of tokens."""
    queries, keys, *biases = (part[0].astype(np.float64) for part in parts)
    scores = queries @ keys.swapaxes(1, 2) / queries.shape[-1] ** 0.5
    return scores + (biases[0][:, :, None] + biases[1][:, None, :] if biases else 0)


def triples_of_grids(grids, shared):
    """Return the triples of whole grids: every cell is looked at, in the order of the cells."""
    found = []
    for predicate, (head, tail) in enumerate(zip(grids["head"], grids["tail"], strict=True)):
        sides = []
        for grid in grids["entity"][slice(0, 2) if shared else slice(2 * predicate, None)][:2]:
            cells = [(-grid[i, j], i, j) for i in range(LENGTH) for j in range(i, LENGTH)]
            sides.append(sorted(cells)[:MOST_SPANS])
        for minus, *one in sides[0]:
            for other_minus, *two in sides[1]:
                links = head[one[0], two[0]], tail[one[1], two[1]]
                found.append((min(-minus, -other_minus, *links), predicate, one, two))
    best = sorted(found, key=lambda row: -row[0])[:MOST_TRIPLES]
    triples = {}
    for value, predicate, one, two in best:
        spans = [(int(WINDOW.starts[i]), int(WINDOW.ends[j])) for i, j in (one, two)]
        if value > LOWEST_LOGIT and min(*spans[0], *spans[1]) >= 0:
            triples[Triple(spans[0], PREDICATES[predicate], spans[1])] = value
    return triples


@pytest.mark.shown("2-efficient-shared")
@pytest.mark.parametrize("digits", [20, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("entity_heads", ["shared", "per_predicate"])
@pytest.mark.parametrize("pointer", ["efficient", "plain"])
@pytest.mark.parametrize("models", [1, 2])
def test_triples_selected_in_the_graph_are_those_of_the_whole_grids(
    pointer, entity_heads, digits, models
):
    shared, random = entity_heads == "shared", np.random.default_rng(digits + models)
    counts = {"entity": entity_head_count(3, entity_heads), "head": 3, "tail": 3}
    outputs = [
        {
            "mask": np.ones((1, LENGTH), np.int32),
            **{name: draw_parts(random, pointer, n, 1.6, digits) for name, n in counts.items()},
        }
        for _ in range(models)
    ]
    grids = {name: sum(whole_grid(own[name]) for own in outputs) / models for name in counts}
    expected = triples_of_grids(grids, shared)
    for compiled in (False, True):
        found = tf.function(lambda: select_triples(outputs), jit_compile=compiled)()  # noqa: B023
        found = {name: array.numpy()[0] for name, array in found.items()}
        assert all(len(array) == MOST_TRIPLES for array in found.values())
        triples = decode_window(found, WINDOW, PREDICATES)
        assert triples == pytest.approx(expected, abs=1e-5) and len(triples) > 50
        assert list(triples) == list(expected)


def test_the_best_of_too_many_equal_triples_are_kept():
    """Hundreds of triples are exactly as sure as the last that finds room: all used to be lost."""
    length = len(WINDOW)
    grid = np.zeros((1, 1, length, length), np.float32)
    scores = {"head": grid + 2, "tail": grid + 2, "entity": np.full((1, 2, length, length), 2.0)}
    scores["entity"][0, :, 3, 4] = 5
    eye = np.eye(length, dtype=np.float32)[None, None]  # a grid is its own product with it
    outputs = {name: (s.astype(np.float32) * length**0.5, eye) for name, s in scores.items()}
    outputs["mask"] = (WINDOW.starts >= 0)[None].astype(np.int32)
    found = {name: array.numpy()[0] for name, array in select_triples([outputs]).items()}
    triples = decode_window(found, WINDOW, PREDICATES)
    assert len(triples) == MOST_TRIPLES and set(triples.values()) == {2.0}
    assert Triple((6, 11), PREDICATES[0], (6, 11)) in triples
    again = {name: array.numpy()[0] for name, array in select_triples([outputs]).items()}
    assert list(decode_window(again, WINDOW, PREDICATES)) == list(triples)


TEXTS = ["ada quill founded zenco", "bob runs acme and zenco in rome", "nobody", "ada " * 20]


def largest_tensor(function, inputs) -> int:
    """Return how many numbers the largest tensor has that a function makes on its way."""
    specs = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs}
    made = tf.function(function).get_concrete_function(specs).graph.as_graph_def(add_shapes=True)
    nodes = [*made.node, *(node for own in made.library.function for node in own.node_def)]
    shapes = (shape for node in nodes for shape in node.attr["_output_shapes"].list.shape)
    return max(int(np.prod([size.size for size in shape.dim])) for shape in shapes)


@pytest.mark.parametrize("entity_heads", ["shared", "per_predicate"])
def test_the_grids_of_many_predicates_are_never_held_together(entity_heads):
    predicates, length = 200, 512
    settings = Settings.model_construct(
        max_length=length, pointer="efficient", pointer_size=8, entity_heads=entity_heads
    )
    encoder = BertEncoder(
        vocabulary_size=20, num_layers=1, num_heads=1, hidden_dim=16,
        intermediate_dim=16, max_sequence_length=length, name="encoder",
    )  # fmt: skip
    models = build_models(encoder, predicates, settings)
    inputs = models.inference.inputs
    inputs = [keras.KerasTensor((1, length), one.dtype, name=one.name) for one in inputs]
    predictor = Predictor([models.inference], tf.distribute.get_strategy(), select_triples)
    assert largest_tensor(predictor.run_replicas, inputs) <= 8 * length**2
    whole = keras.Model(models.inference.inputs, [own.logits for own in models.compared])
    assert largest_tensor(whole, inputs) >= predicates * length**2


@pytest.mark.shown("efficient-shared")
@pytest.mark.parametrize("entity_heads", ["shared", "per_predicate"])
@pytest.mark.parametrize("pointer", ["efficient", "plain"])
def test_predictions_are_those_of_the_scores_that_training_learns(pointer, entity_heads):
    keras.utils.set_random_seed(3)
    settings = Settings.model_construct(
        max_length=16, window_overlap=4, buckets=2, pointer=pointer, pointer_size=8,
        entity_heads=entity_heads,
    )  # fmt: skip
    tokenizer = train_tokenizer(TEXTS * 3, 100)
    encoder = BertEncoder(
        vocabulary_size=tokenizer.get_vocab_size(), num_layers=1, num_heads=1, hidden_dim=16,
        intermediate_dim=16, max_sequence_length=16, name="encoder",
    )  # fmt: skip
    models = build_models(encoder, len(PREDICATES), settings)
    for weight in models.inference.weights:
        if "pointer" in weight.path:
            weight.assign(np.random.default_rng(5).normal(0, 0.6, weight.shape))
    examples = [Example(str(n), text, (), None, n) for n, text in enumerate(TEXTS)]
    generator = TripleGenerator(
        examples, tokenizer, PREDICATES, models.encoder_inputs, settings, 3, labels=False
    )
    strategy = tf.distribute.get_strategy()
    found = predict_triples(Predictor([models.inference], strategy, select_triples), generator)

    names = ("entity", "head", "tail")
    logits = dict(zip(names, (own.logits for own in models.compared), strict=True))
    whole = keras.Model(models.inference.inputs, logits)
    expected = {name: {} for name in found}
    for rows, length in generator.plan(None):
        grids = whole(generator.make_batch(rows, length))
        for row, position in enumerate(rows):
            window = generator.windows[position]
            eye = np.eye(length, dtype=np.float32)[None, None] * length**0.5
            own = {name: (grid[row][None], eye) for name, grid in grids.items()}
            own["mask"] = (np.arange(length) < len(window))[None].astype(np.int32)
            best = {name: array.numpy()[0] for name, array in select_triples([own]).items()}
            merged = expected[str(generator.record_of[position])]
            for key, value in decode_window(best, window, PREDICATES).items():
                merged[key] = max(value, merged.get(key, value))
    assert sum(map(len, found.values())) > 100
    for name, scored in found.items():
        sure = {key: np.log(value / (1 - value)) for key, value in scored}
        assert sure.keys() == expected[name].keys()
        assert sure == pytest.approx(expected[name], abs=1e-4)


def test_gold_beyond_the_bounds_is_lost_and_the_rest_is_found():
    """What check.py reports as the best possible score knows how many spans are kept."""
    text = " ".join(f"n{number}" for number in range(90))
    tokenizer = train_tokenizer([text] * 3, 400)
    window = split_into_windows(tokenizer, [text], 512, 4)[0][0]
    spans = [(text.index(f"n{n} "), text.index(f"n{n} ") + len(f"n{n}")) for n in range(88)]
    settings = Settings.model_construct(entity_heads="shared")
    for count, lost in ((MOST_SPANS, 0), (MOST_SPANS + 3, 3)):
        triples = [Triple(spans[n], "born_in", spans[80]) for n in range(count)]
        own = Example("a", text, tuple(triples), None, 1)
        found = checks.decode_gold(own, window, list(PREDICATES), settings)
        assert len(triples) - len(found) == lost and found.keys() <= {*triples}
    everything = tuple(Triple(one, "born_in", two) for one in spans[:20] for two in spans[:20])
    own = Example("a", text, everything, None, 1)
    assert len(checks.decode_gold(own, window, list(PREDICATES), settings)) == MOST_TRIPLES


def test_a_token_without_characters_is_no_argument():
    """A byte-level tokenizer gives one for a line break."""
    starts, ends = np.array([-1, 0, 3, -1]), np.array([-1, 3, 3, -1])
    window = Window(np.arange(4), starts, ends, (0, 1))
    rows = {"predicates": np.array([0, 0]), "places": np.array([[1, 1, 2, 2], [1, 1, 1, 1]])}
    found = {"scores": np.array([5.0, 5.0], np.float32), **rows}
    assert [*decode_window(found, window, PREDICATES)] == [Triple((0, 3), PREDICATES[0], (0, 3))]

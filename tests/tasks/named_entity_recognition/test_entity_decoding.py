"""From scores to entities: what is kept of overlapping ones, of windows, and what can be taught."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template

use_template("named_entity_recognition")

from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import split_into_windows, train_tokenizer  # noqa: E402
from core.encoders.encoder import BertEncoder  # noqa: E402
from core.prediction.predictor import Predictor  # noqa: E402
from extras.doctor import model_checks  # noqa: E402
from extras.tpu import static_checks  # noqa: E402
from formats.conll import whole_tokens  # noqa: E402
from inspection.checks import find_reach_faults, find_slips, measure_reach  # noqa: E402
from task import decode  # noqa: E402
from task.data import EntityGenerator, tag_labels  # noqa: E402
from task.decode import (  # noqa: E402
    MOST_SPANS,
    make_selector,
    predict_entities,
    rank,
    snap_to_tokens,
)
from task.model import build_models  # noqa: E402
from task.records import Entity, Example, Schema  # noqa: E402
from task.settings import Settings  # noqa: E402

TEXTS = ["Ada met Bo in New York City.", "Bo of York University slept.", "Nobody wept."]
GOLD = [
    [((0, 3), "PER"), ((8, 10), "PER"), ((14, 27), "LOC"), ((18, 22), "LOC")],
    [((0, 2), "PER"), ((6, 21), "ORG"), ((6, 10), "LOC")],
    [],
]
TYPES = ["LOC", "ORG", "PER"]
EXAMPLES = [
    Example(f"{number}", text, tuple(Entity(*one) for one in gold), None, number + 1)
    for number, (text, gold) in enumerate(zip(TEXTS, GOLD, strict=True))
]
NESTED = Schema(TYPES, False)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(9 * TEXTS, 300)


def make_settings(**changes) -> Settings:
    return with_tables(Settings)(
        **{"max_length": 32, "window_overlap": 4, "pointer_size": 8, **changes}
    )


@pytest.mark.parametrize("length", [32, 8])
def test_gold_is_found_again(tokenizer, length):
    """All of it by the pointer, nested entities too, in one window or several."""
    settings = make_settings(max_length=length, window_overlap=min(4, length - 4))
    reach = measure_reach(EXAMPLES, tokenizer, NESTED, settings)
    assert reach.oracle["f1"] == 1 and not find_reach_faults("dev", reach)


@pytest.mark.parametrize(("schema", "tagger"), [(NESTED, "crf"), (Schema(TYPES, True), "pointer")])
def test_flat_models_lose_what_overlaps(tokenizer, schema, tagger):
    reach = measure_reach(EXAMPLES, tokenizer, schema, make_settings(tagger=tagger))
    assert len(reach.faults["overlapping"]) == 2 and reach.oracle["predicted"] == 5
    [finding] = [f for f in find_reach_faults("dev", reach) if "overlap" in f.what]
    assert 'set tagger = "pointer"' in finding.fix


def test_causes_are_told_apart(tokenizer):
    def one(text, *entities) -> Example:
        return Example(text, text, tuple(Entity(*e) for e in entities), None, 1)

    examples = [
        one("Ada met Bo", ((1, 3), "PER")),
        one("Ada met", ((0, 3), "GOD")),
        one(" ".join(20 * ["Bo"]), ((0, 59), "PER")),
    ]
    faults = measure_reach(examples, tokenizer, NESTED, make_settings(max_length=12)).faults
    assert [cause for cause in ("cut", "unseen", "long") if len(faults[cause]) == 1] == [
        "cut",
        "unseen",
        "long",
    ]


def test_entities_beyond_those_that_a_window_keeps_are_named(tokenizer):
    text = " ".join((MOST_SPANS + 6) * ["Bo"])
    gold = tuple(Entity((3 * n, 3 * n + 2), "PER") for n in range(MOST_SPANS + 6))
    crowded = Example("a", text, gold, None, 4)
    settings = make_settings(max_length=MOST_SPANS + 20)
    reach = measure_reach([crowded], tokenizer, NESTED, settings)
    assert reach.faults["crowded"] == 6 * [4]
    [finding] = find_reach_faults("dev", reach)
    assert f"beyond the {MOST_SPANS} that each window keeps: 6" in str(finding)
    assert "lower max_length" in finding.fix
    unseen = Example("b", "Ada met", (Entity((0, 3), "GOD"),), None, 5)
    [finding, oracle] = find_reach_faults(
        "dev", measure_reach([unseen], tokenizer, NESTED, settings)
    )
    assert finding.what.startswith("entities that have a type that is not in the training file: 1")
    assert (oracle.level, oracle.what) == ("error", "a perfect model would score F1 0.0000")


def test_slips_are_words_that_nearly_always_have_another_type():
    forms = {
        "Oslo": {"LOC": list(range(19)), "PER": [40]},
        "York": {"LOC": [1] * 6, "PER": [2] * 6},
    }
    assert find_slips(forms) == [("Oslo", 40)]
    assert find_slips({"Oslo": {"LOC": [1] * 8, "PER": [2]}}) == []


def test_of_entities_that_overlap_the_surest_is_kept():
    scored = {
        Entity((0, 4), "A"): 0.6,
        Entity((2, 9), "B"): 0.9,
        Entity((8, 12), "A"): 0.7,
        Entity((9, 12), "A"): 0.5,
        Entity((20, 22), "A"): 0.6,
        Entity((20, 25), "A"): 0.6,
    }
    every = {"A": 0.0, "B": 0.0}
    kept = [entity.span for entity, _ in rank(scored, True).above(every)]
    assert kept == [(2, 9), (20, 25), (9, 12)]
    assert len(rank(scored, False).above(every)) == 6
    # B is below its threshold: it displaces neither of the two that it overlaps.
    kept = [entity.span for entity, _ in rank(scored, True).above({"A": 0.55, "B": 0.95})]
    assert kept == [(8, 12), (20, 25), (0, 4)]


def test_what_is_found_in_columns_is_whole_tokens():
    tokens = [(0, 3), (4, 9), (10, 14)]
    assert whole_tokens((1, 6), tokens) == (0, 9)
    assert whole_tokens((4, 9), tokens) == (4, 9)
    scored = {Entity((1, 6), "A"): 0.4, Entity((0, 9), "A"): 0.3, Entity((5, 6), "A"): 0.2}
    assert snap_to_tokens(scored, tokens) == {Entity((0, 9), "A"): 0.4, Entity((4, 9), "A"): 0.2}


def test_tags_of_windows(tokenizer):
    """Of New York City and York the first and longer one is taught."""
    [[window]] = split_into_windows(tokenizer, TEXTS[:1], 32, 4)
    tags = tag_labels(EXAMPLES[0].entities, window, TYPES)
    begun = [
        (TYPES[(tag - 1) // 2], int(window.starts[i])) for i, tag in enumerate(tags) if tag % 2
    ]
    assert begun == [("PER", 0), ("PER", 8), ("LOC", 14)]


@pytest.mark.parametrize("tagger", ["pointer", "crf"])
def test_models_have_static_shapes_and_losses_of_each_example(tokenizer, tagger):
    settings = make_settings(tagger=tagger)
    encoder = BertEncoder(
        vocabulary_size=tokenizer.get_vocab_size(),
        num_layers=1,
        num_heads=1,
        hidden_dim=32,
        intermediate_dim=32,
        max_sequence_length=32,
        name="encoder",
    )
    models = build_models(encoder, len(TYPES), settings)
    encoding = (tokenizer, TYPES, models.encoder_inputs, settings)
    batches = EntityGenerator(EXAMPLES, *encoding, 2)
    batch = model_checks.ragged_batch(batches)
    assert model_checks.find_wrong_keys(batches, models.training) == []
    assert model_checks.find_config_faults(models.training, batch) == []
    assert static_checks.find_dynamic_shapes(models.training, batch) == []
    assert model_checks.find_split_faults(models.training, batch) == []
    found = predict_entities(
        Predictor([models.inference], tf.distribute.get_strategy(), make_selector(tagger)),
        EntityGenerator(EXAMPLES, *encoding, 2, labels=False),
        flat=tagger == "crf",
    )
    assert found.keys() == {"0", "1", "2"}
    for example in EXAMPLES:
        for entity, score in found[example.id].ranked:
            start, end = entity.span
            assert 0 <= start < end <= len(example.text) and 0 < score <= 1


def test_tags_are_flat_where_windows_disagree(tokenizer, monkeypatch):
    """Whatever the training file has: of two windows' entities that overlap the longer is kept."""
    found = [{Entity((0, 3), "PER"): 1.0}, {Entity((0, 7), "PER"): 1.0}]
    decoded = [(EXAMPLES[0], one) for one in found]
    monkeypatch.setattr(decode, "decode_windows", lambda *arguments: decoded)
    for tagger, kept in (("crf", [(0, 7)]), ("pointer", [(0, 3), (0, 7)])):
        settings = make_settings(tagger=tagger)
        one = EntityGenerator(EXAMPLES[:1], tokenizer, TYPES, ["token_ids"], settings, 2, False)
        entities = predict_entities(None, one, flat=False)[EXAMPLES[0].id]
        above = entities.above(dict.fromkeys(TYPES, 0.5))
        assert sorted(entity.span for entity, _ in above) == kept


def test_labels_of_a_batch_are_the_gold(tokenizer):
    settings = make_settings()
    batches = EntityGenerator(EXAMPLES[:2], tokenizer, TYPES, ["token_ids"], settings, 2)
    [batch] = list(batches.batches(None))
    order, _ = batches.first_batch(None)
    for row, index in zip(batch["span_labels"], order, strict=True):
        window = batches.windows[index]
        spans = {
            Entity((int(window.starts[i]), int(window.ends[j])), TYPES[kind])
            for kind, cells in enumerate(row.tolist())
            for i, j in cells
            if i >= 0
        }
        assert spans == set(EXAMPLES[index].entities)
    assert np.all(batch["loss_weight"] == 0.5)

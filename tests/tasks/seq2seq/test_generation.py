"""Generation: cached as uncached, batched as single, beams as by hand, the best sequence."""

import dataclasses
import functools
import itertools
import json
import types
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from scipy import special
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

use_template("seq2seq")

from core.base import settings as base_settings  # noqa: E402
from core.base.errors import InputError  # noqa: E402
from core.batches import BatchPlan  # noqa: E402
from core.encoders.encoder import BertEncoder  # noqa: E402
from generation.layers import writing_layers  # noqa: E402
from generation.perplexity import PerplexityScorer  # noqa: E402
from generation.search import Writer, block_ngrams, draw, penalize_repeats  # noqa: E402
from generation.settings import (  # noqa: E402
    GenerationTable,
    TargetTokens,
    check_min_length,
    check_n_best,
)
from generation.steps import CachedSteps  # noqa: E402
from generation.stops import Stops, find_stops  # noqa: E402
from generation.texts import (  # noqa: E402
    IMPOSSIBLE,
    Constraints,
    decode_texts,
    describe_written,
    grow_tree,
    make_constraints,
    read_texts,
)
from generation.tokenizers import train_text_tokenizer  # noqa: E402
from task.data import PairGenerator  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Example  # noqa: E402
from task.settings import Settings  # noqa: E402

LENGTH = 5
VOCABULARY = 30
TOKENS = TargetTokens(begin=2, end=3, never=(0, 1, 2, 4))
SEEDS = {"unilm": 11, "encoder_decoder": 10}
LIKED = {"unilm": 16, "encoder_decoder": 26}


def make_model(kind: str, seed: int = 1, vocabulary: int = VOCABULARY) -> keras.Model:
    """Return an inference model whose weights are large enough to have opinions."""
    keras.utils.set_random_seed(seed)
    encoder = BertEncoder(
        vocabulary_size=vocabulary,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=40,
        dropout=0.1,
        name="encoder",
    )
    settings = Settings.model_construct(target_length=LENGTH, model=kind)
    model = build_models(encoder, settings).inference
    random, arrays = np.random.default_rng(SEEDS[kind] + seed), []
    for array in model.get_weights():
        if array.ndim > 1:
            embedding = len(array) == vocabulary
            array = random.normal(0, 0.05 if embedding else 0.4, array.shape)
            if embedding:
                # The end is a token that this model likes: targets are to differ in length.
                array[[TOKENS.end, LIKED[kind] % vocabulary]] = array[
                    [LIKED[kind] % vocabulary, TOKENS.end]
                ]
        arrays.append(array)
    model.set_weights(arrays)
    return model


@pytest.fixture(scope="module", params=SEEDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return make_model(kind)


def test_an_input_that_the_cache_ignores_is_refused(model):
    mood = keras.Input((1,), name="mood")
    inputs = {tensor.name: tensor for tensor in model.inputs}
    changed = keras.Model({**inputs, "mood": mood}, {"logits": model.outputs[0] + mood[:, None]})
    with pytest.raises(InputError, match="ignore the input 'mood' of the model: set cache = false"):
        writing_layers(changed)


def make_batch(records: int = 6, length: int = 11, seed: int = 0) -> dict[str, tf.Tensor]:
    """Return sources of different lengths, and random numbers."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, records)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    token_ids = random.integers(5, VOCABULARY, mask.shape).astype(np.int32) * mask
    draws = random.random((records, LENGTH)).astype(np.float32)
    arrays = {"token_ids": token_ids, "segment_ids": token_ids * 0, "padding_mask": mask}
    return {name: tf.constant(array) for name, array in {**arrays, "draws": draws}.items()}


def make_writer(models, **table):
    """Return a function from a batch to its outputs, compiled once for all lengths and tests."""
    compiled = compile_writer(tuple(models), GenerationTable(**table).model_dump_json())
    return lambda batch: {name: tensor.numpy() for name, tensor in compiled(batch).items()}


@functools.cache
def compile_writer(models: tuple, settings: str) -> Callable:
    table = GenerationTable.model_validate_json(settings)
    writer = Writer(models, writing_layers, TOKENS, table, LENGTH)
    return tf.function(lambda batch: writer(batch), reduce_retracing=True)


def test_an_input_that_sources_lack_is_named(model):
    writer = Writer([model], writing_layers, TOKENS, GenerationTable(), LENGTH)
    writer.inputs.append(keras.Input((None,), dtype="int32", name="kind"))
    batches = types.SimpleNamespace(
        first_batch=lambda epoch: (np.zeros(1, int), 11),
        make_batch=lambda positions, length: make_batch(len(positions)),
        batch_size=2,
    )
    with pytest.raises(InputError, match=r"the inference model: missing keys \['kind'\]"):
        BatchPlan.check_keys(batches, writer, all_read=False)


def write(models, batch, **table) -> dict[str, np.ndarray]:
    return make_writer(models, **table)(batch)


def step_by_step(models) -> Callable:
    """Return `source -> prefix -> log-probabilities`, by the whole models without any cache."""
    compiled = [compile_model(model) for model in models]

    def of_source(source: dict) -> Callable:
        @functools.cache
        def log_probabilities(prefix: tuple[int, ...]) -> np.ndarray:
            target_ids = np.zeros((1, LENGTH), np.int32)
            target_ids[0, : len(prefix) + 1] = [TOKENS.begin, *prefix]
            batch = {**source, "target_ids": tf.constant(target_ids)}
            logits = [compute(batch)[0, len(prefix)].numpy() for compute in compiled]
            mean = np.mean([special.softmax(row.astype(float)) for row in logits], axis=0)
            logs = np.log(mean)
            logs[list(TOKENS.never)] = -np.inf
            return logs

        return log_probabilities

    return of_source


@functools.cache
def compile_model(model) -> Callable:
    return tf.function(lambda batch: model(batch, training=False)["logits"], reduce_retracing=True)


def one_source(batch: dict, row: int) -> dict:
    """Return a single record without its padding."""
    length = int(tf.reduce_sum(batch["padding_mask"][row]))
    return {name: batch[name][row : row + 1, :length] for name in batch if name != "draws"}


def penalty(length: int, form: str = "mean", power: float = 1.0) -> float:
    return (length if form == "mean" else (5 + length) / 6) ** power


def repeats(prefix: tuple[int, ...], token: int, size: int) -> bool:
    """Return whether a token would complete an n-gram that is already in the prefix."""
    text = (*prefix, token)
    grams = [text[i : i + size] for i in range(len(text) - size + 1)]
    return bool(size) and len(grams) > 0 and grams[-1] in grams[:-1]


def beam_search_by_hand(log_probabilities, beams, form="mean", power=1.0, blocked=0, n_best=1):
    """Return the best finished hypothesis of one record, or all, with lists and no early stop."""
    alive, finished = [((), 0.0)], []
    for _ in range(LENGTH):
        candidates = [
            ((*prefix, token), total + log)
            for prefix, total in alive
            for token, log in enumerate(log_probabilities(prefix))
            if np.isfinite(log) and not repeats(prefix, token, blocked)
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        candidates = candidates[: 2 * beams]
        finished += [c for c in candidates if c[0][-1] == TOKENS.end]
        alive = [c for c in candidates if c[0][-1] != TOKENS.end][:beams]
    found = [(text, total / penalty(len(text), form, power)) for text, total in finished + alive]
    return max(found, key=lambda c: c[1]) if n_best == 1 else sorted(found, key=lambda c: -c[1])


def as_prefix(row: np.ndarray) -> tuple[int, ...]:
    """Return the tokens of an output up to its end."""
    tokens = row.tolist()
    return tuple(tokens[: tokens.index(TOKENS.end) + 1] if TOKENS.end in tokens else tokens)


SEARCHES = {
    "greedy": {"beams": 1},
    "beams": {"beams": 3},
    "gnmt": {"beams": 4, "length_penalty": "gnmt", "length_power": 0.6},
    "blocked": {"beams": 3, "block_ngrams": 2},
    "sample": {"decoding": "sample", "temperature": 0.8, "top_k": 20, "top_p": 0.95},
    "penalized": {"beams": 3, "repetition_penalty": 1.5, "min_length": 2},
}


def test_cached_steps_give_the_logits_of_the_whole_model(model):
    batch = make_batch()
    sources = {name: batch[name] for name in batch if name != "draws"}
    random = np.random.default_rng(3)
    targets = tf.constant(random.integers(5, VOCABULARY, (6, LENGTH)).astype(np.int32))
    whole = model({**sources, "target_ids": targets}, training=False)["logits"].numpy()
    decoder = CachedSteps(writing_layers(model), LENGTH)
    context, state = decoder.begin(sources, 1)
    for index in range(LENGTH):
        logits, state = decoder.step(
            context, state, targets[:, index : index + 1], tf.constant(index)
        )
        np.testing.assert_allclose(logits[:, 0], whole[:, index], rtol=0, atol=1e-5)
    assert whole.std() > 0.1  # a model without opinions would agree with anything


@pytest.mark.shown("unilm-greedy", "encoder_decoder-beams")
@pytest.mark.trains
@pytest.mark.parametrize("name", SEARCHES)
def test_cached_is_uncached_token_for_token(model, name):
    batch = make_batch()
    cached, uncached = (write([model], batch, cache=bool(c), **SEARCHES[name]) for c in (1, 0))
    assert np.array_equal(cached["tokens"], uncached["tokens"])
    np.testing.assert_allclose(cached["scores"], uncached["scores"], rtol=0, atol=1e-5)
    assert len(np.unique(cached["scores"])) > 1


@pytest.mark.shown("unilm")
@pytest.mark.trains
@pytest.mark.parametrize("name", ["greedy", "blocked", "sample"])
def test_a_record_gets_in_a_batch_what_it_gets_alone(model, name):
    batch = make_batch()
    written = make_writer([model], **SEARCHES[name])
    together = written(batch)
    for row in range(6):
        outputs = written({**one_source(batch, row), "draws": batch["draws"][row : row + 1]})
        assert np.array_equal(outputs["tokens"][0], together["tokens"][row])
        np.testing.assert_allclose(outputs["scores"][0], together["scores"][row], atol=1e-5)


@pytest.mark.shown("unilm")
@pytest.mark.trains
@pytest.mark.parametrize(
    ("beams", "form", "power", "blocked"),
    [(2, "mean", 1.0, 0), (3, "gnmt", 0.6, 0), (4, "mean", 0.0, 0), (3, "mean", 1.0, 2)],
)
def test_beam_search_is_that_of_plain_python(model, beams, form, power, blocked):
    batch = make_batch()
    settings = {"length_penalty": form, "length_power": power, "block_ngrams": blocked}
    outputs = write([model], batch, beams=beams, **settings)
    scores_of = step_by_step([model])
    for row in range(6):
        logs = scores_of(one_source(batch, row))
        tokens, score = beam_search_by_hand(logs, beams, form, power, blocked)
        assert as_prefix(outputs["tokens"][row]) == tokens
        assert outputs["scores"][row] == pytest.approx(score, abs=1e-5)


@pytest.mark.shown("unilm")
@pytest.mark.trains
def test_the_best_texts_of_a_search_in_their_order(model):
    batch = make_batch()
    outputs = write([model], batch, beams=4, n_best=3)
    assert outputs["tokens"].shape == (6, 3, LENGTH) and outputs["scores"].shape == (6, 3)
    scores_of = step_by_step([model])
    for row in range(6):
        found = beam_search_by_hand(scores_of(one_source(batch, row)), 4, n_best=3)
        for place, (tokens, score) in enumerate(found[:3]):
            assert as_prefix(outputs["tokens"][row, place]) == tokens
            assert outputs["scores"][row, place] == pytest.approx(score, abs=1e-5)
    alone = write([model], batch, beams=4)
    assert np.array_equal(alone["tokens"], outputs["tokens"][:, 0])


def test_stop_strings_are_found_in_whatever_tokens(word_tokenizer):
    assert find_stops(word_tokenizer, [], 9) is None
    texts = ["at the end", "then\n\nend", "a\n", "ended?", "the  end", "t the ende\n x\n\n y", "\n"]
    for strings in (["\n\n", "the end", "d?"], [" the"], ["你"], ["\n"]):
        check_stops(word_tokenizer, strings, [*texts, "a你好", "the", "你"])


def check_stops(tokenizer, strings, texts, random=None) -> int:
    """Assert that the automaton sees a stop string when the decoded text holds it; count finds."""
    table, found = find_stops(tokenizer, strings, tokenizer.get_vocab_size() + 3), 0
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    if random:
        added = tokenizer.get_added_tokens_decoder()
        usable = [n for n in range(tokenizer.get_vocab_size()) if n not in added]
        encoded += [random.choice(usable, 9).tolist() for _ in texts]
    for ids in encoded:
        state, length = 0, len(ids)
        for place, token in enumerate(ids):
            state = table.nexts[state, table.kinds[token]]
            [so_far] = decode_texts(tokenizer, [ids[: place + 1]])
            held = any(string in so_far for string in strings)
            assert (state == len(table.nexts) - 1) == held, (strings, so_far)
            if held:
                found, length = found + 1, place + 1
                break
        assert table.lengths(np.array([ids])).tolist() == [length]
    return found


GAPPED = "it's (a) 1.5 - 2 你好 a/b, the-end. the 1:2 $5 [x] i't ， 你。a １.２"


@pytest.fixture(scope="module")
def gapped_tokenizer():
    """WordPiece, whose tokens have lost the spaces, or the lack of them, that texts have."""
    made = BertWordPieceTokenizer()
    made.train_from_iterator([GAPPED] * 3, vocab_size=120, min_frequency=1, show_progress=False)
    return made._tokenizer


@pytest.mark.parametrize(
    "strings",
    [["it's"], ["(a)"], ["你好"], [" the"], ["'s"], ["it'"], ["- "], ["1.5", "b,"], [" "]],
)
def test_stop_strings_are_found_in_the_spaces_of_the_text(gapped_tokenizer, strings):
    random = np.random.default_rng(1)
    texts = [GAPPED, *GAPPED.split(" "), "the end", "x the", "(the a", "你 the", "a-the", "1. 5"]
    assert check_stops(gapped_tokenizer, strings, texts, random)


def test_random_stop_strings_are_found_in_random_texts(gapped_tokenizer):
    random, characters, found = np.random.default_rng(2), list("abit's-/(),.: 12你，é "), 0
    for _ in range(25):
        count, length = random.integers(1, 3), random.integers(1, 5)
        strings = ["".join(random.choice(characters, length)) for _ in range(count)]
        texts = ["".join(random.choice(characters, 12)) for _ in range(12)]
        texts += [text[:6] + strings[0] + text[6:] for text in texts]
        found += check_stops(gapped_tokenizer, strings, texts, random)
    assert found > 50


def test_a_text_that_begins_with_a_stop_string_but_its_space_is_whole():
    """No more follows than what was written, and `[PAD]` is not text."""
    tokenizer = train_text_tokenizer(["The end. The end of The town."] * 9, 300)
    ids = tokenizer.encode("The town. The end", add_special_tokens=False).ids
    constraints = Constraints(find_stops(tokenizer, [" The"], 400))
    tokens = np.zeros((1, len(ids) + 4), np.int32)
    tokens[0, : len(ids)] = ids
    frame = TargetTokens(2, 3, ())
    outputs = {"tokens": tokens, "scores": np.array([-1.0])}
    assert read_texts(outputs, frame, constraints, tokenizer) == [("The town.", -1.0, ())]
    ends = len(tokenizer.encode("The town. The", add_special_tokens=False).ids)
    assert constraints.stops.lengths(tokens).tolist() == [ends]


@pytest.fixture(scope="module")
def word_tokenizer():
    made = ByteLevelBPETokenizer()
    texts = ["the end of the end\n\n at the ended? then"] * 3
    made.train_from_iterator(texts, vocab_size=290, min_frequency=1)
    return made._tokenizer


@pytest.mark.trains
@pytest.mark.parametrize("name", ["greedy", "beams"])
def test_a_text_ends_with_what_completes_a_stop_string(model, name):
    """Here each of two tokens is a stop string; they stay, and nothing is written after them."""
    batch = make_batch()
    plain = write([model], batch, **SEARCHES[name])["tokens"]
    common = np.bincount(plain[:, 1:].ravel(), minlength=VOCABULARY)
    common[[0, TOKENS.end]] = 0
    ends = np.argsort(-common)[:2].tolist()
    nexts = np.zeros((2, VOCABULARY), np.int32)
    nexts[0, ends] = nexts[1] = 1
    table = GenerationTable(**SEARCHES[name])
    constraints = Constraints(Stops(np.arange(VOCABULARY, dtype=np.int32), nexts, ()))
    by_string = Writer([model], writing_layers, TOKENS, table, LENGTH, constraints)(batch)
    tokens = dataclasses.replace(TOKENS, other_ends=tuple(ends))
    by_token = Writer([model], writing_layers, tokens, table, LENGTH)(batch)
    np.testing.assert_array_equal(by_string["tokens"], by_token["tokens"])
    np.testing.assert_allclose(by_string["scores"], by_token["scores"], atol=1e-6)
    assert not np.array_equal(by_token["tokens"], plain)
    for row in by_token["tokens"].numpy():
        found = np.flatnonzero(np.isin(row, [*ends, TOKENS.end]))
        assert not len(found) or not row[found[0] + 1 :].any()


@pytest.mark.shown("unilm")
@pytest.mark.trains
def test_of_allowed_texts_the_best_are_written(model):
    """As many beams as texts rank them all; greedy and sampled ones are of them."""
    batch = make_batch()
    random = np.random.default_rng(5)
    texts = {tuple(random.integers(5, 9, length).tolist()) for length in (1, 2, 2, 3, 4, 4, 4)}
    whole = [(*text, TOKENS.end) for text in sorted(texts)]
    constraints = Constraints(tree=grow_tree(whole))

    def write_these(**table):
        table = GenerationTable(**table)
        return Writer([model], writing_layers, TOKENS, table, LENGTH, constraints)(batch)

    outputs = write_these(beams=8, n_best=8)
    scores_of = step_by_step([model])
    for row in range(6):
        logs = scores_of(one_source(batch, row))
        wanted = sorted(
            (
                (sum(logs(text[:at])[token] for at, token in enumerate(text)) / len(text), text)
                for text in whole
            ),
            reverse=True,
        )
        found = [as_prefix(tokens) for tokens in outputs["tokens"][row].numpy()]
        assert found[: len(wanted)] == [text for _, text in wanted]
        scores = outputs["scores"][row].numpy()
        np.testing.assert_allclose(scores[: len(wanted)], [s for s, _ in wanted], atol=1e-5)
        assert np.isneginf(scores[len(wanted) :]).all()
    for table in ({"beams": 1}, {"decoding": "sample"}):
        for row in write_these(**table)["tokens"].numpy():
            assert as_prefix(row) in whole


def test_allowed_texts_come_from_a_file(word_tokenizer, tmp_path):
    path = tmp_path / "allowed.txt"
    path.write_text("the end\n\nthen\nthe end\n", encoding="utf-8")
    table = GenerationTable(allowed=str(path))
    end = TargetTokens(1, 1, ())
    tree = make_constraints(word_tokenizer, end, table, 290, 9).tree
    ids = [[*word_tokenizer.encode(text).ids, 1] for text in ("the end", "then")]
    assert len(tree.tokens) == len({tuple(i[:n]) for i in ids for n in range(1, len(i) + 1)})
    with pytest.raises(InputError, match="tokens with its end, and target_length = 2: shorten"):
        make_constraints(word_tokenizer, end, table, 290, 2)
    for content, message in ((b"\xff", "can't be read as UTF-8"), (b"\n", "is empty: write the")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            make_constraints(word_tokenizer, end, table, 290, 9)


def test_the_line_that_was_chosen_is_written(gapped_tokenizer, tmp_path, capsys):
    """Lower-casing loses the line's case, and nobody can write a character without a token."""
    path = tmp_path / "allowed.txt"
    path.write_text("The End\nIT'S (A)\nit's (a)\n☂ end\nend [SEP] a\n", encoding="utf-8")
    table, special = GenerationTable(allowed=str(path)), [0, 1, 2, 4]
    end = gapped_tokenizer.token_to_id("[SEP]")
    tokens = TargetTokens(end, end, tuple(n for n in special if n != end))
    constraints = make_constraints(gapped_tokenizer, tokens, table, 120, 12)
    said = capsys.readouterr().out
    assert f"{path}: 2 of 5 lines are never written, because they have characters that" in said
    assert "'☂ end', 'end [SEP] a'" in said
    assert "1 of 5 lines are never written, because they have the tokens of an earlier" in said
    rows = np.full((2, 12), end, np.int32)
    for row, text in zip(rows, ("the end", "it's (a)"), strict=True):
        ids = gapped_tokenizer.encode(text, add_special_tokens=False).ids
        row[: len(ids)] = ids
    outputs = {"tokens": rows, "scores": np.array([-1.0, -np.inf])}
    one, other = read_texts(outputs, tokens, constraints, gapped_tokenizer)
    assert one == ("The End", -1.0, ()) and other == ("IT'S (A)", IMPOSSIBLE, ())
    json.loads(json.dumps(describe_written(other), allow_nan=False))
    path.write_text("☂\n", encoding="utf-8")
    with pytest.raises(InputError, match="none of its 1 lines can be written, such as '☂'"):
        make_constraints(gapped_tokenizer, tokens, table, 120, 12)


def test_texts_without_what_follows_a_stop_string(word_tokenizer):
    rows = [word_tokenizer.encode(text).ids for text in ("the end of", "at\n\nthen")]
    tokens = np.zeros((2, 2, 20), np.int32)
    for number, row in enumerate(rows):
        tokens[0, number, : len(row)] = row
        tokens[1, 0, : len(row)] = row
    end = TargetTokens(0, 0, ())
    outputs = {"tokens": tokens, "scores": np.array([[-1.0, -2.0], [-3.0, -np.inf]])}
    constraints = Constraints(find_stops(word_tokenizer, ["\n\n", "nd"], 300))
    one, other = read_texts(outputs, end, constraints, word_tokenizer)
    assert one == ("the e", -1.0, (("at", -2.0),)) and other[1:] == (-3.0, ())
    record = describe_written(one)
    assert record["others"] == [{"prediction": "at", "score": -2.0}]
    assert "others" not in describe_written(other)


@pytest.mark.parametrize(
    ("value", "strings"),
    [
        *(("\n", ["\n"]), ('["a", "[b]"]', ["a", "[b]"]), (["a"], ["a"]), ("[END]", ["[END]"])),
        *(
            ("[1]", ["[1]"]),
            ("a,b", ["a,b"]),
            ('"x"', ['"x"']),
            ("{a}", ["{a}"]),
            (" The", [" The"]),
        ),
        *(("\\", ["\\"]), ('["é\\n"]', ["é\n"]), ("null", ["null"]), ("[]", [])),
    ],
)
def test_stop_strings_of_a_flag(value, strings, tmp_path, monkeypatch):
    """They arrive as they are written: the command line must not split or strip them."""
    (tmp_path / "config.toml").write_text("[generation]\nstop = ['z']\nbeams = 2\n")
    monkeypatch.setattr(base_settings, "CONFIG", tmp_path / "config.toml")
    read_settings = functools.partial(base_settings.read_settings, Settings)
    assert GenerationTable(stop=value).stop == strings
    if isinstance(value, str):
        for flags in (["--generation.stop", value], [f"--generation.stop={value}"]):
            table = read_settings(["--seed", "3", *flags]).generation
            assert (table.stop, table.beams) == (strings, 2)
    with pytest.raises(InputError, match="--generation.stop = .* an empty string ends every text"):
        read_settings(["--generation.stop="])
    with pytest.raises(InputError, match="--generation.stop: expected one argument"):
        read_settings(["--generation.stop", "--seed", "3"])


def test_a_search_has_no_more_texts_than_beams():
    check_n_best(GenerationTable(n_best=4))
    check_n_best(GenerationTable(decoding="sample", beams=1, n_best=7))
    with pytest.raises(InputError, match="n_best = 5, but a search with beams = 4 has no more"):
        check_n_best(GenerationTable(n_best=5))


def test_a_minimum_that_no_text_can_have():
    check_min_length(GenerationTable(min_length=4), 5)
    with pytest.raises(InputError, match="min_length = 5, but target_length = 5 has room for 4"):
        check_min_length(GenerationTable(min_length=5), 5)
    with pytest.raises(InputError, match="lines.txt says which texts may be written"):
        check_min_length(GenerationTable(min_length=2, allowed="lines.txt"), 5)
    with pytest.raises(InputError, match="block_ngrams = 1 may forbid what a line of lines.txt"):
        check_min_length(GenerationTable(block_ngrams=1, allowed="lines.txt"), 5)


@pytest.mark.shown("unilm")
@pytest.mark.trains
def test_enough_beams_find_the_best_of_all_sequences(kind):
    """Six tokens, targets of five at most, and as many beams as prefixes: nothing is overlooked."""
    model = make_model(kind, seed=4, vocabulary=8)
    batch = make_batch(records=2)
    batch["token_ids"] = tf.minimum(batch["token_ids"], 7)
    free = [5, 6, 7]
    outputs = write([model], batch, beams=3 ** (LENGTH - 1))
    scores_of = step_by_step([model])
    for row in range(2):
        logs = scores_of(one_source(batch, row))
        best = (None, -np.inf)
        for length in range(LENGTH + 1):
            for text in itertools.product(free, repeat=length):
                whole = (*text, TOKENS.end) if length < LENGTH else text
                total = sum(logs(whole[:index])[token] for index, token in enumerate(whole))
                best = max(best, (whole, total / len(whole)), key=lambda found: found[1])
        assert as_prefix(outputs["tokens"][row]) == best[0]
        assert outputs["scores"][row] == pytest.approx(best[1], abs=1e-5)


@pytest.mark.trains
def test_greedy_takes_the_likeliest(model):
    batch = make_batch()
    outputs = write([model], batch, beams=1)
    scores_of = step_by_step([model])
    for row in range(6):
        logs, prefix = scores_of(one_source(batch, row)), ()
        while len(prefix) < LENGTH and TOKENS.end not in prefix:
            prefix = (*prefix, int(np.argmax(logs(prefix))))
        assert as_prefix(outputs["tokens"][row]) == prefix


@pytest.mark.further
@pytest.mark.trains
def test_an_ensemble_averages_probabilities():
    """Of different models, too."""
    models = [make_model("unilm", 1), make_model("encoder_decoder", 2)]
    batch = make_batch()
    outputs = write(models, batch, beams=3)
    alone = [write([model], batch, beams=3)["tokens"] for model in models]
    scores_of = step_by_step(models)
    for row in range(6):
        logs = scores_of(one_source(batch, row))
        tokens, score = beam_search_by_hand(logs, 3)
        assert as_prefix(outputs["tokens"][row]) == tokens
        assert outputs["scores"][row] == pytest.approx(score, abs=1e-5)
    assert any(not np.array_equal(outputs["tokens"], tokens) for tokens in alone)


@pytest.mark.shown("unilm")
@pytest.mark.trains
def test_what_no_text_holds_is_never_written(model):
    for name in ("beams", "sample"):
        tokens = write([model], make_batch(records=16), **SEARCHES[name])["tokens"]
        for row in tokens:
            assert not set(as_prefix(row)) & set(TOKENS.never)


def test_blocked_ngrams():
    random = np.random.default_rng(0)
    for size in (1, 2, 3):
        for index in range(8):
            written = random.integers(0, 3, (4, 2, 8)).astype(np.int32)
            logs = random.normal(size=(4, 2, 3)).astype(np.float32)
            found = block_ngrams(tf.constant(logs), tf.constant(written), tf.constant(index), size)
            for row, beam, token in np.ndindex(4, 2, 3):
                prefix = tuple(written[row, beam, :index].tolist())
                value = found.numpy()[row, beam, token]
                if repeats(prefix, token, size):
                    assert value < -1e8
                else:
                    assert value == logs[row, beam, token]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.4, 0.3, 0.2, 0.1]),
        ({"top_k": 2}, [4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.65}, [4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.75}, [4 / 9, 3 / 9, 2 / 9, 0]),
        ({"top_p": 0.01}, [1, 0, 0, 0]),
        ({"temperature": 0.5}, np.array([16, 9, 4, 1]) / 30),
    ],
)
def test_sampling_has_the_right_shares(settings, expected):
    """Evenly spaced numbers meet every token as often as its probability says."""
    order = [2, 0, 3, 1]
    logs = np.full(4, 0.0, np.float32)
    logs[order] = np.log([0.4, 0.3, 0.2, 0.1])
    numbers = (np.arange(9000) + 0.5) / 9000
    tokens = draw(
        tf.constant(np.tile(logs, (9000, 1))),
        tf.constant(numbers, tf.float32),
        GenerationTable(decoding="sample", **settings),
    )
    shares = np.bincount(tokens.numpy(), minlength=4)[order] / 9000
    np.testing.assert_allclose(shares, expected, atol=2e-4)


@pytest.mark.trains
def test_sampling_follows_its_numbers(model):
    batch = make_batch()
    written = make_writer([model], decoding="sample")
    first, again = written(batch)["tokens"], written(batch)["tokens"]
    other = written({**batch, "draws": 1 - batch["draws"]})["tokens"]
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.shown("unilm")
@pytest.mark.trains
@pytest.mark.parametrize("cache", [True, False])
def test_several_samples_are_those_of_their_numbers(model, cache):
    """Each is the text that a single sample with its numbers is, and the first stays the first."""
    batch = make_batch()
    others = np.random.default_rng(8).random((6, 2 * LENGTH)).astype(np.float32)
    draws = np.concatenate([batch["draws"].numpy(), others], axis=1)
    options = {**SEARCHES["sample"], "cache": cache}
    three = write([model], {**batch, "draws": tf.constant(draws)}, n_best=3, **options)
    assert three["tokens"].shape == (6, 3, LENGTH) and three["scores"].shape == (6, 3)
    for place in range(3):
        own = tf.constant(draws[:, place * LENGTH : (place + 1) * LENGTH])
        alone = write([model], {**batch, "draws": own}, **options)
        assert np.array_equal(alone["tokens"], three["tokens"][:, place])
        np.testing.assert_allclose(alone["scores"], three["scores"][:, place], atol=1e-5)
    assert any(len(np.unique(texts, axis=0)) > 1 for texts in three["tokens"])


# By transformers 5.24: `RepetitionPenaltyLogitsProcessor(1.3)(written, logits)` for the two first
# tokens of WRITTEN, and `MinNewTokensLengthLogitsProcessor(0, 3, [3, 4])` after two and after three
# tokens, for logits `np.linspace(-2, 2, 7)[[5, 1, 6, 0, 3, 2, 4]]`.
WRITTEN = [5, 2, 0]
LOGITS = [4 / 3, -4 / 3, 2.0, -2.0, 0.0, -2 / 3, 2 / 3]
PENALIZED = [1.3333333730697632, -1.3333333730697632, 1.5384615659713745, -2.0, 0.0]
PENALIZED += [-0.8666667342185974, 0.6666666865348816]
ENDS = [3, 4]


def test_repeats_cost_what_they_cost_in_transformers():
    logits = np.tile(np.float32(LOGITS), (2, 2, 1))
    written = np.zeros((2, 2, LENGTH), np.int32)
    written[1, 0, :3] = WRITTEN
    found = penalize_repeats(tf.constant(logits), tf.constant(written), tf.constant(2), 1.3)
    np.testing.assert_allclose(found[1, 0], PENALIZED, rtol=0, atol=1e-7)
    nothing = penalize_repeats(tf.constant(logits), tf.constant(written), tf.constant(0), 1.3)
    np.testing.assert_array_equal(nothing, logits)


def test_no_end_before_the_minimum(model):
    table = GenerationTable(min_length=3)
    tokens = dataclasses.replace(TOKENS, never=(), other_ends=(4,))
    writer = Writer([model], writing_layers, tokens, table, LENGTH)
    logs, written = tf.constant([[LOGITS]]), tf.zeros((1, 1, LENGTH), tf.int32)
    for index, ends in ((2, ENDS), (3, [])):  # in transformers these are -inf
        found = writer.forbid(logs, written, tf.constant(index)).numpy()[0, 0]
        assert np.flatnonzero(found <= IMPOSSIBLE / 2).tolist() == ends
        others = [token for token in range(7) if token not in ends]
        np.testing.assert_array_equal(found[others], np.float32(LOGITS)[others])


@pytest.mark.shown("unilm-greedy", "encoder_decoder-beams")
@pytest.mark.trains
@pytest.mark.parametrize("name", ["greedy", "beams", "sample"])
def test_texts_have_the_minimum_and_repeat_less(model, name):
    batch = make_batch(records=16)
    plain = write([model], batch, **SEARCHES[name])["tokens"]
    lengths = [len(as_prefix(row)) for row in plain]
    assert min(lengths) < 4
    longer = write([model], batch, min_length=3, **SEARCHES[name])["tokens"]
    assert min(len(as_prefix(row)) for row in longer) >= 4

    def repeated(rows) -> int:
        return sum(len(as_prefix(row)) - len(set(as_prefix(row))) for row in rows)

    if name == "sample":  # a written token becomes about as likely as others
        return
    fewer = write([model], batch, repetition_penalty=1e6, **SEARCHES[name])["tokens"]
    assert repeated(plain) > 0 and repeated(fewer) < repeated(plain)


def make_pairs(tokenizer, settings: Settings) -> PairGenerator:
    """Return targets of different lengths, several of one record, and one that is cut."""
    texts = [("the", ("a cat",)), ("cat the", ("the", "cat a the cat a cat the"))]
    examples = [Example(str(n), source, own, n) for n, (source, own) in enumerate(texts)]
    names = ("token_ids", "segment_ids", "padding_mask")
    return PairGenerator(examples, TOKENS, tokenizer, names, settings, 2)


def test_perplexity_is_that_of_each_token_by_hand(word_tokenizer):
    """Of one model, and of the mean of the probabilities of two."""
    made = [make_model("unilm", seed, word_tokenizer.get_vocab_size()) for seed in (1, 2)]
    settings = Settings.model_construct(target_length=LENGTH, max_length=12, buckets=2, seed=1)
    pairs = make_pairs(word_tokenizer, settings)
    assert len(pairs.targets) == 3 and len({*map(len, pairs.targets)}) > 1
    for models in (made[:1], made):
        logs = []
        for source, target in zip(pairs.sources, pairs.targets, strict=True):
            arrays = {"token_ids": source, "segment_ids": 0 * source}
            arrays["padding_mask"] = 0 * source + 1
            arrays["target_ids"] = np.array([TOKENS.begin, *target[:-1]])
            batch = {name: tf.constant(array[None], tf.int32) for name, array in arrays.items()}
            logits = [model(batch)["logits"][0].numpy().astype(float) for model in models]
            shares = np.mean([special.softmax(own, axis=-1) for own in logits], axis=0)
            logs += np.log(shares[np.arange(len(target)), target]).tolist()
        scorer = PerplexityScorer(models, tf.distribute.get_strategy())
        assert scorer.score(pairs) == pytest.approx(np.exp(-np.mean(logs)), rel=1e-5)


def test_a_model_without_an_opinion_is_as_surprised_as_the_vocabulary_is_large(word_tokenizer):
    model = make_model("unilm", 1, word_tokenizer.get_vocab_size())
    model.set_weights([0 * array for array in model.get_weights()])
    settings = Settings.model_construct(target_length=LENGTH, max_length=12, buckets=1, seed=1)
    scorer = PerplexityScorer([model], tf.distribute.get_strategy())
    found = scorer.score(make_pairs(word_tokenizer, settings))
    assert found == pytest.approx(word_tokenizer.get_vocab_size(), rel=1e-5)

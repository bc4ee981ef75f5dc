"""What is hidden: rates on a large sample, whole words, splits; the batches of a corpus."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import use_template
from scipy import stats

PROJECT = use_template("pretraining")

from corpus.encode import Example  # noqa: E402
from corpus.shards import content_hash, shard_path  # noqa: E402
from corpus.special_tokens import SpecialTokens  # noqa: E402
from corpus.texts import from_examples, join_parts  # noqa: E402
from corpus.tfrecord import write_examples  # noqa: E402
from task import data  # noqa: E402
from task.data import HeldOutGenerator, ShardGenerator  # noqa: E402
from task.masking import (  # noqa: E402
    NO_TOKEN,
    collect,
    count_slots,
    draw_splits,
    draw_words,
    lay_out,
    shorten,
)
from task.settings import Settings  # noqa: E402

VOCABULARY, SPECIAL = 200, 5
IS_SPECIAL = np.arange(VOCABULARY) < SPECIAL
# [PAD], [UNK], [CLS], [SEP], [MASK]
TOKENS = SpecialTokens(0, 2, 3, 4, IS_SPECIAL, np.arange(SPECIAL, VOCABULARY))
SURE = 1e-6  # how rarely a right program fails: the draws are fixed, so in fact never


def make_settings(**values) -> Settings:
    return Settings.model_construct(**values)


def make_texts(sizes, longest_word=3, seed=0, special=0.0):
    """Return texts of random tokens, in words of up to so many."""
    random = np.random.default_rng(seed)
    examples = []
    for size in sizes:
        ids = random.integers(SPECIAL, VOCABULARY, size).astype(np.int32)
        ids[random.random(size) < special] = 1
        starts = [0]
        while starts[-1] < size:
            starts.append(starts[-1] + int(random.integers(1, longest_word + 1)))
        examples.append(Example(ids, np.array(starts[:-1], np.int32)))
    return from_examples(examples)


def within(count: float, total: float, share: float) -> bool:
    """Tell whether a count is one that a binomial distribution gives."""
    low, high = stats.binom.ppf([SURE / 2, 1 - SURE / 2], int(total), share)
    return low <= count <= high


@pytest.fixture(scope="module")
def sample():
    """A large sample, and its layout."""
    sizes = np.random.default_rng(1).integers(20, 127, 4000)
    block = make_texts(sizes, special=0.05).pad(np.arange(4000), 128, TOKENS)
    random = np.random.default_rng(2)
    return block, lay_out(block, make_settings(), TOKENS, random)


def hidden_of(batch, length) -> np.ndarray:
    """Return which tokens a layout predicts, from its slots."""
    used = batch["masked_labels"] != NO_TOKEN
    hidden = np.zeros((len(used), length), bool)
    hidden[np.nonzero(used)[0], batch["masked_positions"][used]] = True
    assert hidden.sum() == used.sum(), "a place is predicted once"
    return hidden


def test_fifteen_percent_are_predicted(sample):
    block, batch = sample
    ordinary = (block.padding_mask > 0) & ~IS_SPECIAL[block.token_ids]
    hidden = hidden_of(batch, 128)
    assert not (hidden & ~ordinary).any(), "special tokens are never hidden"
    most = np.ceil(0.15 * ordinary.sum(axis=1))
    assert (hidden.sum(axis=1) <= most).all()
    # Rounded at random, so the budget itself is right on average; words fill nearly all of it.
    assert 0.148 < hidden.sum() / ordinary.sum() <= 0.1502


def test_single_tokens_are_hidden_at_exactly_that_rate():
    block = make_texts([40] * 5000, longest_word=1).pad(np.arange(5000), 42, TOKENS)
    hidden = draw_words(block, TOKENS, 0.15, np.random.default_rng(3))
    assert set(hidden.sum(axis=1)) == {6}  # 15 % of 40
    counts = hidden.sum(axis=0)[1:41]
    assert all(within(count, 5000, 0.15) for count in counts), "each place is as likely"
    odd = make_texts([50] * 5000, longest_word=1).pad(np.arange(5000), 52, TOKENS)
    taken = draw_words(odd, TOKENS, 0.15, np.random.default_rng(4)).sum(axis=1)
    assert set(taken) == {7, 8} and within((taken == 8).sum(), 5000, 0.5)  # 7.5


def test_eighty_ten_ten(sample):
    block, batch = sample
    hidden = hidden_of(batch, 128)
    before, after = block.token_ids[hidden], batch["token_ids"][hidden]
    total = len(before)
    assert total > 30_000
    masked, kept = after == TOKENS.mask, after == before
    assert within(masked.sum(), total, 0.8)
    ordinary = VOCABULARY - SPECIAL
    # One random token of so many is the one that stood there.
    assert within(kept.sum(), total, 0.1 + 0.1 / ordinary)
    others = after[~masked & ~kept]
    assert within(len(others), total, 0.1 * (1 - 1 / ordinary))
    assert not IS_SPECIAL[others].any() and len(np.unique(others)) == ordinary
    assert stats.chisquare(np.bincount(others)[SPECIAL:]).pvalue > SURE
    np.testing.assert_array_equal(batch["token_ids"][~hidden], block.token_ids[~hidden])
    labels = batch["masked_labels"]
    np.testing.assert_array_equal(labels[labels != NO_TOKEN], before)


def test_words_are_hidden_whole(sample):
    block, batch = sample
    hidden = hidden_of(batch, 128)
    word = np.cumsum(block.word_starts, axis=1) - 1
    ordinary = (block.padding_mask > 0) & ~IS_SPECIAL[block.token_ids]
    seen = 0
    for row in range(500):
        for number in np.unique(word[row][hidden[row]]):
            members = (word[row] == number) & ordinary[row]
            assert hidden[row][members].all()
            seen += members.sum() > 1
    assert seen > 1000


def test_no_example_of_a_bucket_has_more_than_its_slots(sample):
    block, batch = sample
    assert batch["masked_labels"].shape[1] == count_slots(make_settings(), 128) == 20
    assert (batch["masked_labels"] != NO_TOKEN).sum(axis=1).max() <= 20
    hidden = hidden_of(batch, 128)
    positions, labels = collect(block.token_ids, hidden, 20)
    np.testing.assert_array_equal(positions, batch["masked_positions"])
    np.testing.assert_array_equal(labels, batch["masked_labels"])


@pytest.mark.parametrize("objective", ["masked", "causal", "unilm"])
def test_a_shorter_padding_changes_nothing_else(objective):
    texts, settings = make_texts([5, 9, 12]), make_settings(objective=objective)
    examples, layouts = np.arange(3), []
    for _ in range(2):
        block = texts.pad(examples, 40, TOKENS)
        layouts.append(lay_out(block, settings, TOKENS, np.random.default_rng(5)))
    short = shorten(layouts[0], settings, 14)
    assert short["token_ids"].shape == (3, 14)
    assert short["masked_labels"].shape == (3, count_slots(settings, 14))
    predicted = [(batch["masked_labels"] != NO_TOKEN).sum() for batch in (short, layouts[1])]
    assert predicted[0] == predicted[1]


def test_causal_predicts_every_token_from_those_before():
    block = make_texts([4, 7]).pad(np.arange(2), 10, TOKENS)
    batch = lay_out(block, make_settings(objective="causal"), TOKENS, np.random.default_rng(6))
    assert (batch["segment_ids"] == 0).all()
    np.testing.assert_array_equal(batch["token_ids"], block.token_ids)
    for ids, labels, size in zip(block.token_ids, batch["masked_labels"], (6, 9), strict=True):
        assert labels[: size - 1].tolist() == ids[1:size].tolist()
        assert (labels[size - 1 :] == NO_TOKEN).all()


def test_unilm_predicts_what_follows_a_split():
    texts = make_texts([30] * 3000)
    block = texts.pad(np.arange(3000), 32, TOKENS)
    batch = lay_out(block, make_settings(objective="unilm"), TOKENS, np.random.default_rng(7))
    second = batch["segment_ids"]
    assert (np.diff(second, axis=1) >= 0).all(), "one split"
    # The last token of the first part predicts the first of the second.
    np.testing.assert_array_equal(batch["masked_labels"] != NO_TOKEN, second[:, 1:] > 0)
    np.testing.assert_array_equal(
        batch["masked_labels"][second[:, 1:] > 0], block.token_ids[:, 1:][second[:, 1:] > 0]
    )
    splits = draw_splits(block.padding_mask, np.random.default_rng(8))
    assert stats.chisquare(np.bincount(splits, minlength=31)).pvalue > SURE and len(splits) == 3000


# --- batches of a corpus ---


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Shards on disk, as their manifest would name them, and all their texts."""
    folder, random = tmp_path_factory.mktemp("shards"), np.random.default_rng(9)
    shards, texts = [], []
    for number, size in enumerate([37, 5, 80, 41, 64, 3, 70]):
        part = make_texts(random.integers(3, 60, size), seed=100 + number)
        examples = [
            Example(part.token_ids[first:last], np.flatnonzero(part.word_starts[first:last]))
            for first, last in zip(part.offsets, part.offsets[1:], strict=False)
        ]
        content = write_examples(examples)
        name = f"shard-{number:05}"
        with open(shard_path(str(folder), name), "wb") as file:
            file.write(content)
        shards.append(SimpleNamespace(name=name, examples=size, hash=content_hash(content)))
        texts.append(part)
    whole = join_parts(texts)
    lengths = np.bincount(whole.lengths - 2, minlength=63)
    return SimpleNamespace(folder=str(folder), shards=tuple(shards), lengths=lengths), whole


@pytest.fixture
def generator(corpus, monkeypatch):
    """Make generators of that corpus, and note what they read."""
    read, read_shard = [], data.read_shard
    monkeypatch.setattr(data, "read_manifest", lambda folder: corpus[0])
    monkeypatch.setattr(
        data,
        "read_shard",
        lambda folder, shard: read.append(shard.name) or read_shard(folder, shard),
    )

    def make(**values) -> ShardGenerator:
        settings = make_settings(buckets=4, pool_examples=90, seed=3, **values)
        made = ShardGenerator(corpus[0].folder, TOKENS, settings, 16)
        made.read = read
        return made

    return make


def places_of(batches) -> dict[tuple, list[int]]:
    """Return the tokens of each example that counts, as they were, and which of them are hidden."""
    rows = {}
    for batch in batches:
        token_ids, used = batch["token_ids"].copy(), batch["masked_labels"] != NO_TOKEN
        places = batch["masked_positions"]
        token_ids[np.nonzero(used)[0], places[used]] = batch["masked_labels"][used]
        for row in np.flatnonzero(batch["loss_weight"] > 0):
            tokens = tuple(token_ids[row][batch["padding_mask"][row] > 0].tolist())
            assert tokens not in rows, "twice in an epoch"
            rows[tokens] = places[row][used[row]].tolist()
    return rows


def test_every_example_is_read_once_an_epoch(corpus, generator):
    texts = corpus[1]
    expected = sorted(
        (TOKENS.begin, *texts.token_ids[first:last].tolist(), TOKENS.end)
        for first, last in zip(texts.offsets, texts.offsets[1:], strict=False)
    )
    made = generator()
    for epoch in range(3):
        batches = list(made.batches(epoch))
        assert len(batches) == len(made) == -(-300 // 16)
        assert sorted(places_of(batches)) == expected
        partial = [(batch["loss_weight"] == 0).any() for batch in batches]
        assert partial == [False] * (len(batches) - 1) + [True]
        weights = [
            batch["loss_weight"] @ (batch["masked_labels"] != NO_TOKEN).sum(axis=1)
            for batch in batches
        ]
        np.testing.assert_allclose(weights, 1, rtol=1e-5)


def test_pools_are_bounded_and_hold_whole_batches(generator):
    made = generator()
    for epoch in range(5):
        sizes = [sum(last - first for _, first, last in pool) for pool in made.pools(epoch)]
        assert sum(sizes) == 300 and len(sizes) > 3
        assert all(size % 16 == 0 for size in sizes[:-1])
        assert max(sizes) < 90 + 16
        numbers = [
            (shard, number)
            for pool in made.pools(epoch)
            for shard, first, last in pool
            for number in range(first, last)
        ]
        assert len(set(numbers)) == len(numbers) == 300


def test_order_and_masks_depend_on_seed_and_epoch_alone(generator):
    first, again = (list(generator().batches(1)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    later = list(generator().batches(2))
    assert list(places_of(first)) != list(places_of(later))
    # The same examples lose other words.
    hidden = [places_of(batches) for batches in (first, later)]
    changed = [row for row in hidden[0] if hidden[0][row] != hidden[1][row]]
    assert len(changed) > 50


def test_resuming_reads_only_what_is_left(generator):
    whole = list(generator().batches(0))
    for skip in (1, 7, 13, len(whole) - 1):
        made = generator()
        made.read.clear()
        rest = list(made.batches(0, skip))
        assert len(rest) == len(whole) - skip
        for one, other in zip(rest, whole[skip:], strict=True):
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
        left, batches = [], 0
        for pool in made.pools(0):
            batches += -(-sum(last - first for _, first, last in pool) // 16)
            if batches > skip:
                left += [f"shard-{shard:05}" for shard, _, _ in pool]
        assert made.read == left


def test_signature_is_that_of_the_batches(generator):
    for buckets in (1, 4):
        for objective in ("masked", "causal"):
            made = generator(objective=objective)
            if buckets == 1:
                made.boundaries = made.boundaries[-1:]
            specs = made.to_dataset().element_spec
            for batch in [*made.batches(0), *made.batches_of_each_shape()]:
                assert batch.keys() == specs.keys()
                for name, array in batch.items():
                    assert specs[name].shape.is_compatible_with(array.shape), name
                    assert specs[name].dtype == array.dtype
            assert (specs["token_ids"].shape[1] is None) == (buckets > 1)
            shapes = {batch["token_ids"].shape for batch in made.batches_of_each_shape()}
            assert len(shapes) == len(made.boundaries)


def test_some_texts_are_those_that_were_chosen():
    texts, positions = make_texts([4, 1, 7, 3, 5]), np.array([1, 2, 4])
    some, longest = texts.choose(positions), int(texts.lengths.max())
    whole, own = texts.pad(positions, longest, TOKENS), some.pad(np.arange(3), longest, TOKENS)
    for name, array in vars(own).items():
        np.testing.assert_array_equal(array, getattr(whole, name))


def test_held_out_texts_are_hidden_once_and_for_all(corpus):
    texts = corpus[1]
    found = []
    for batch_size, buckets, seed in ((16, 4, 1), (7, 1, 2)):
        settings = make_settings(buckets=buckets, seed=seed, prediction_batch_size=batch_size)
        made = HeldOutGenerator(texts, TOKENS, settings)
        rows = {}
        for (examples, _), batch in zip(made.plan(None), made.batches(None), strict=True):
            for number, example in enumerate(examples):
                used = batch["masked_labels"][number] != NO_TOKEN
                rows[int(example)] = (
                    batch["masked_positions"][number][used].tolist(),
                    batch["masked_labels"][number][used].tolist(),
                    batch["token_ids"][number][batch["padding_mask"][number] > 0].tolist(),
                )
        found.append(rows)
    assert found[0] == found[1] and len(found[0]) == 300

"""extras/cache: tokens put together of words are those of `encode_batch`, to the last character."""

import pickle
import random
import unicodedata

import numpy as np
import pytest
from tokenizers import (
    AddedToken,
    ByteLevelBPETokenizer,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
)

from core.data.tokens import SPECIAL_TOKENS, split_into_windows, token_rows, train_tokenizer
from extras.cache import words
from extras.cache.words import WordTokenizer, encodes_words

# Every assigned character of the scripts of living languages, and some that are awkward.
CHARACTERS = [chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) != "Cn"]
CHARACTERS += [*"中国ＡﬁİẞΣς\U0001f600\U0001d400\ufeff\ufffd\u2028\u3000\uac00\u1100\u1161\u1175"]
COMMON = [
    *"abcdefghijklmnopqrstuvwxyz" * 3,
    *"   \t\n.,0123456789" * 2,
    "[CLS]",
    "[MASK]",
    "\u0301",
]


def draw_texts(seed: int, count: int) -> list[str]:
    """Return texts, in some of which each second character is rare."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        rare = draw.choice((0.0, 0.03, 0.5))
        size = draw.choice((0, 1, 5, 40, 300))
        pools = (CHARACTERS if draw.random() < rare else COMMON for _ in range(size))
        texts.append("".join(map(draw.choice, pools)))
    return texts


TEXTS = draw_texts(0, 3000)


def make_tokenizer(normalizer=None, pre_tokenizer=None, added=()) -> Tokenizer:
    """Return a tokenizer of the vocabulary of one that was trained."""
    made = train_tokenizer(TEXTS[:1000], 2000)
    if normalizer:
        made.normalizer = normalizer
    if pre_tokenizer:
        made.pre_tokenizer = pre_tokenizer
    made.add_tokens(list(added))
    return made


CLEAN = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
OF_WORDS = {
    "as a project trains it": make_tokenizer(),
    "with case and accents": make_tokenizer(normalizers.NFC(), pre_tokenizers.WhitespaceSplit()),
    "of composed characters": make_tokenizer(CLEAN, pre_tokenizers.Whitespace()),
    "with a token of its own": make_tokenizer(added=[AddedToken("ab", normalized=False)]),
}


@pytest.mark.parametrize("name", OF_WORDS)
@pytest.mark.parametrize("remembered", [words.REMEMBERED, 3000])
def test_tokens_are_those_of_the_whole_text(name, remembered, monkeypatch):
    monkeypatch.setattr(words, "REMEMBERED", remembered)
    whole = OF_WORDS[name]
    assert encodes_words(whole)
    by_words = WordTokenizer(whole)
    for first in range(0, len(TEXTS), 1000):
        some = TEXTS[first : first + 1000]
        both = (token_rows(own, some) for own in (whole, by_words))
        for text, one, two in zip(some, *both, strict=True):
            assert one.dtype == two.dtype and np.array_equal(one, two), text


def test_windows_are_the_same_and_a_copy_begins_anew():
    def windows_by(tokenizer) -> list:
        groups = split_into_windows(tokenizer, TEXTS[:2000], 20, 5)
        found = [window for group in groups for window in group]
        return [(*map(list, (w.token_ids, w.starts, w.ends)), w.reach) for w in found]

    by_words = WordTokenizer(OF_WORDS["as a project trains it"])
    whole = windows_by(by_words.tokenizer)
    assert windows_by(by_words) == whole
    copy = pickle.loads(pickle.dumps(by_words))
    assert by_words.number_of and not copy.number_of
    assert windows_by(copy) == whole


@pytest.mark.parametrize("name", OF_WORDS)
@pytest.mark.parametrize("length", [None, 3, 24])
def test_texts_are_framed_and_cut_as_by_the_tokenizer(name, length):
    whole = Tokenizer.from_str(OF_WORDS[name].to_str())
    if length:
        whole.enable_truncation(length, strategy="longest_first")
    by_words = WordTokenizer(whole)
    for some in (TEXTS[:1000], TEXTS[500:1500]):
        both = (own.encode_batch_fast(some) for own in (whole, by_words))
        for text, one, two in zip(some, *both, strict=True):
            assert (one.ids, one.type_ids) == (two.ids, two.type_ids), text
            assert one.sequence_ids == two.sequence_ids
    few = by_words.encode_batch_fast(TEXTS[:50])
    for one, two in zip(whole.encode_batch(TEXTS[:50]), few, strict=True):
        assert one.attention_mask == two.attention_mask and one.tokens == two.tokens
        assert len(one.overflowing) == len(two.overflowing)


def test_pairs_and_other_frames_are_left_to_the_tokenizer():
    whole = make_tokenizer()
    pairs = [("a b", "c"), ("d", "e f")]
    whole.enable_truncation(5, strategy="longest_first")
    assert [e.ids for e in WordTokenizer(whole).encode_batch_fast(pairs)] == [
        e.ids for e in whole.encode_batch_fast(pairs)
    ]
    whole.enable_truncation(5, direction="left")
    texts = ["a b c d e f g", "a"]
    assert [e.ids for e in WordTokenizer(whole).encode_batch_fast(texts)] == [
        e.ids for e in whole.encode_batch_fast(texts)
    ]


def test_whatever_else_is_asked_is_answered():
    whole = OF_WORDS["as a project trains it"]
    by_words = WordTokenizer(whole)
    assert by_words.token_rows([]) == token_rows(whole, []) == []
    assert by_words.encode("a", "b").type_ids == whole.encode("a", "b").type_ids


def test_a_word_is_encoded_once_until_many_are_known(monkeypatch):
    given: list[str] = []

    class Watched:
        def encode_batch(self, texts: list[str], **options):
            given.extend(texts)
            return OF_WORDS["as a project trains it"].encode_batch(texts, **options)

    by_words = WordTokenizer(Watched())
    for text in ("a b a", "b c", "a  c"):
        by_words.token_rows([text])
    assert sorted(given) == ["", "a", "b", "c"]
    monkeypatch.setattr(words, "REMEMBERED", 2)
    by_words.token_rows(["d a"])
    assert sorted(given) == ["", "a", "a", "b", "c", "d"] and sorted(by_words.number_of) == [
        "a",
        "d",
    ]


def of_bytes() -> Tokenizer:
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS[:100], vocab_size=400, show_progress=False)
    return made._tokenizer


OTHERS = {
    "whose tokens begin with a space": of_bytes(),
    "that cuts at no space": make_tokenizer(pre_tokenizer=pre_tokenizers.Digits()),
    "that replaces spaces": make_tokenizer(normalizers.Replace(" ", "_")),
    "with a token of two words": make_tokenizer(added=[AddedToken("a b", normalized=False)]),
    "with a token that takes spaces": make_tokenizer(
        added=[AddedToken("ab", normalized=False, lstrip=True)]
    ),
    "with a token that is normalized": make_tokenizer(added=[AddedToken("中", normalized=True)]),
    "of another model": Tokenizer(
        models.WordLevel(dict(zip(SPECIAL_TOKENS, range(5), strict=True)))
    ),
    "that is none": object(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tokenizers_encode_whole_texts(name):
    assert not encodes_words(OTHERS[name])

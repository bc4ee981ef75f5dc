"""Tokens: exact character offsets in every script, windows that lose nothing."""

import time
import unicodedata

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, processors

from core.base.errors import InputError
from core.data.tokens import (
    SPECIAL_TOKENS,
    break_words,
    exact_offsets,
    load_tokenizer_file,
    split_into_windows,
    train_tokenizer,
    window_starts,
)

TEXTS = {
    "english": "Marie Curie was born in Warsaw, and won 2 prizes (1903, 1911).",
    "chinese": "北河大学位于海淀区，创建于1898年。",
    "mixed": "腾讯Tencent的CEO是马化腾Pony。",
    "emoji": "I ❤️ Rust 🦀 and 👩\u200d🚀 fly 🇫🇷 now",
    "composed": "René Magritte, Škoda, Ångström, Zoë",
    "decomposed": unicodedata.normalize("NFD", "René Magritte, Škoda, Ångström, Zoë"),
    "full_width": "ＡＢＣ株式会社は１２３",
    "spaces": "  two  spaces\u00a0hard\u3000wide\ttab\nline \u200bzero ",
    "hindi": "नई दिल्ली भारत की राजधानी है",
    "arabic": "مُحَمَّد عَلِي في القاهرة",
    "unseen": "Ωμέγα ∑ ☃ 𝔘𝔫𝔦",
}


def word_piece() -> Tokenizer:
    texts = [text for name, text in TEXTS.items() if name != "unseen"]
    return train_tokenizer([*texts, *texts], 400)


def byte_level() -> Tokenizer:
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
    special = ["<s>", "</s>"]
    tokenizer.train_from_iterator(
        [TEXTS["english"]] * 5, vocab_size=330, special_tokens=special, show_progress=False
    )
    fast = tokenizer._tokenizer
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(token, fast.token_to_id(token)) for token in special]
    )
    return fast


TOKENIZERS = {"word_piece": word_piece(), "byte_level": byte_level()}


def one_window(tokenizer: str, text: str):
    ((window,),) = split_into_windows(TOKENIZERS[tokenizer], [text], 500, 0)
    return window


def words_of(text: str) -> list[tuple[int, int]]:
    """Return the spans of all words and of every pair of neighbours."""
    spans, start = [], None
    for index, character in enumerate([*text, " "]):
        outside = character.isspace() or character in "\u200b,.()，。"
        if outside and start is not None:
            spans.append((start, index))
        start = None if outside else index if start is None else start
    return spans + [(a[0], b[1]) for a, b in zip(spans, spans[1:], strict=False)]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", TEXTS)
def test_spans_go_to_tokens_and_back(tokenizer, name):
    text = TEXTS[name]
    window = one_window(tokenizer, text)
    assert words_of(text)
    for start, end in words_of(text):
        span = window.token_span((start, end))
        assert span is not None, text[start:end]
        back = text[window.starts[span[0]] : window.ends[span[1]]]
        assert back == text[start:end]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", TEXTS)
def test_tokens_cover_all_but_spaces(tokenizer, name):
    text = TEXTS[name]
    window = one_window(tokenizer, text)
    covered = {
        index
        for start, end in zip(window.starts, window.ends, strict=True)
        for index in range(start, end)
    }
    lost = [text[i] for i in range(len(text)) if i not in covered]
    assert all(c.isspace() or unicodedata.category(c) == "Cf" for c in lost), lost
    real = window.starts >= 0
    assert (window.ends[real] >= window.starts[real]).all()
    assert (np.diff(window.starts[real]) >= 0).all()


def test_chinese_is_one_token_a_character():
    window = one_window("word_piece", "北河大学")
    assert window.starts.tolist() == [-1, 0, 1, 2, 3, -1]
    assert window.ends.tolist() == [-1, 1, 2, 3, 4, -1]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_accent_at_the_end_of_a_span(tokenizer):
    """The normalizer drops the accent; the span must not lose it."""
    for text, span in [("Cafe\u0301 noir", (0, 5)), ("le cafe\u0301", (3, 8)), ("e\u0301", (0, 2))]:
        window = one_window(tokenizer, text)
        first, last = window.token_span(span)
        assert (window.starts[first], window.ends[last]) == span


def test_leading_space_of_byte_level_tokens_is_no_part_of_a_span():
    text = TEXTS["english"]
    window = one_window("byte_level", text)
    raw = TOKENIZERS["byte_level"].encode(text, add_special_tokens=False).offsets
    assert any(text[start] == " " for start, _ in raw), "the case that is trimmed occurs"
    trimmed = [(s, e) for s, e in zip(window.starts, window.ends, strict=True) if s >= 0]
    assert all(s == e or not text[s].isspace() for s, e in trimmed)


def test_span_with_spaces_around_is_found():
    window = one_window("word_piece", " Marie Curie ")
    first, last = window.token_span((0, 13))
    assert (window.starts[first], window.ends[last]) == (1, 12)


def test_special_tokens_are_around_every_window():
    for name, (before, after) in {
        "word_piece": ("[CLS]", "[SEP]"),
        "byte_level": ("<s>", "</s>"),
    }.items():
        tokenizer = TOKENIZERS[name]
        (windows,) = split_into_windows(tokenizer, [TEXTS["english"]], 12, 3)
        assert len(windows) > 1
        for window in windows:
            assert window.token_ids[0] == tokenizer.token_to_id(before)
            assert window.token_ids[-1] == tokenizer.token_to_id(after)
            assert (window.starts[[0, -1]] == -1).all() and (window.ends[[0, -1]] == -1).all()
            assert (window.starts[1:-1] >= 0).all()


# --- windows ---


@pytest.mark.parametrize("tokens", [0, 1, 9, 10, 11, 17, 18, 19, 100])
@pytest.mark.parametrize("room,overlap", [(10, 0), (10, 3), (10, 9)])
def test_window_starts(tokens, room, overlap):
    starts = window_starts(tokens, room, overlap)
    covered = sorted({t for start in starts for t in range(start, min(start + room, tokens))})
    assert covered == list(range(tokens))
    assert starts == sorted(set(starts)) and starts[0] == 0
    if tokens > room:
        assert starts[-1] + room == tokens, "the last window is full"
    for first, second in zip(starts, starts[1:], strict=False):
        assert first + room - second >= overlap


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("max_length,overlap", [(12, 0), (12, 5), (20, 8), (400, 8)])
def test_windows_hold_every_token_and_every_short_span(tokenizer, max_length, overlap):
    text = " ".join(TEXTS.values())
    (windows,) = split_into_windows(TOKENIZERS[tokenizer], [text], max_length, overlap)
    ((whole,),) = split_into_windows(TOKENIZERS[tokenizer], [text], 10**6, 0)
    assert all(len(window) <= max_length for window in windows)
    if len(windows) > 1:
        assert all(len(window) == max_length for window in windows)
    real = whole.starts >= 0
    tokens = list(zip(whole.starts[real], whole.ends[real], whole.token_ids[real], strict=True))
    found = set()
    for window in windows:
        inside = window.starts >= 0
        found |= set(
            zip(window.starts[inside], window.ends[inside], window.token_ids[inside], strict=True)
        )
    assert found == set(tokens)
    for first in range(len(tokens)):
        for size in (1, min(overlap, len(tokens) - first)):
            if not size:
                continue
            span = (tokens[first][0], tokens[first + size - 1][1])
            if text[span[0] : span[1]] != text[span[0] : span[1]].strip() or span[0] == span[1]:
                continue  # a byte-level token may be all space: no span begins or ends with it
            spans = [(w, w.token_span(span)) for w in windows]
            spans = [(w, where) for w, where in spans if where is not None]
            assert spans, f"{text[slice(*span)]!r} is in no window"
            for window, where in spans:
                assert (window.starts[where[0]], window.ends[where[1]]) == span


def test_span_across_the_border_is_not_half_in_a_window():
    text = "a b c d e f g h"
    (windows,) = split_into_windows(TOKENIZERS["word_piece"], [text], 6, 0)
    spans = [window.token_span((6, 9)) for window in windows]  # "d e"
    assert len(windows) == 2 and spans == [None, None]


def test_many_texts_keep_their_order():
    texts = [f"number {number}" for number in range(2500)]
    windows = split_into_windows(TOKENIZERS["word_piece"], texts, 50, 10)
    assert [len(group) for group in windows] == [1] * 2500
    for number in (0, 1023, 1024, 2499):
        window = windows[number][0]
        assert window.ends.max() == len(texts[number])


def test_windows_without_a_new_token_are_refused():
    """Settings assume two special tokens, and some tokenizers add three."""
    tokenizer = word_piece()
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP] [SEP]", None, ids)
    text = 9 * TEXTS["english"]
    with pytest.raises(InputError, match="has 3 special tokens: set window_overlap lower"):
        split_into_windows(tokenizer, [text], 20, 17)
    (windows,) = split_into_windows(tokenizer, [text], 20, 16)
    assert windows[-1].ends.max() == len(text)


def test_empty_text_is_one_window_of_special_tokens():
    ((window,),) = split_into_windows(TOKENIZERS["word_piece"], [""], 10, 2)
    assert len(window) == 2 and (window.starts == -1).all()
    assert window.token_span((0, 1)) is None


def test_a_file_neither_pads_nor_cuts(tmp_path):
    """Whatever it says: transformers stores how it padded and cut last."""
    tokenizer = byte_level()
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    read = load_tokenizer_file(tmp_path / "tokenizer.json")
    assert read.encode("").tokens == ["<s>", "</s>"] and len(read.encode("born in").ids) > 3


def test_a_word_of_a_megabyte_trains_in_seconds():
    """Its square would be minutes; a text without spaces that is shorter stays as it is."""
    assert break_words(["a" * 5000, "b c"])[1:] == ["b c"]
    word = "".join(np.random.default_rng(1).choice(list("abcdefgh"), 1_000_000))
    begin = time.process_time()
    tokenizer = train_tokenizer([word, *TEXTS.values()], 400)
    assert time.process_time() - begin < 60 and tokenizer.get_vocab_size() > 100
    chinese = ["北河大学，1898年" * 900]
    assert (
        train_tokenizer(chinese, 400).get_vocab()
        == train_tokenizer(["北河大学，1898年 " * 900], 400).get_vocab()
    )


def test_trained_vocabulary():
    tokenizer = TOKENIZERS["word_piece"]
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    tokens = tokenizer.encode("1903", add_special_tokens=False).tokens
    assert [token.removeprefix("##") for token in tokens] == list("1903")


def offsets_one_by_one(text: str, offsets: list[tuple[int, int]]) -> tuple[list, list]:
    """What `exact_offsets` computes, by a loop over tokens and characters."""
    starts, ends = [], []
    nexts = [start for start, _ in offsets[1:]] + [len(text)]
    for (start, end), following in zip(offsets, nexts, strict=False):
        while start < end and text[start].isspace():
            start += 1
        starts.append(start)
        while end < following and unicodedata.category(text[end]).startswith("M"):
            end += 1
        ends.append(end)
    return starts, ends


@pytest.mark.parametrize("name", TEXTS)
def test_offsets_are_those_of_a_loop_over_tokens(name):
    text = TEXTS[name]
    for tokenizer in TOKENIZERS.values():
        for shown in (text, f" \u3000{text} \u0301 ", ""):
            offsets = tokenizer.encode(shown, add_special_tokens=False).offsets
            starts, ends = exact_offsets(shown, offsets)
            assert (starts.tolist(), ends.tolist()) == offsets_one_by_one(shown, offsets)
            assert starts.dtype == ends.dtype == np.int32
    words = [(0, 1), (0, 2), (1, 1), (len(text), len(text)), (2, len(text))]  # in any order
    starts, ends = exact_offsets(f" {text}", words)
    assert (starts.tolist(), ends.tolist()) == offsets_one_by_one(f" {text}", words)


def test_long_words_are_no_unknown_token():
    """Thai writes a sentence without blanks, and so do some kinds of Japanese text."""
    sentence = "\u0e01\u0e32\u0e23\u0e40\u0e23\u0e35\u0e22\u0e19" * 20
    tokenizer = train_tokenizer([sentence[place : place + 6] for place in range(90)], 40)
    encoding = tokenizer.encode(sentence)
    assert len(sentence) > 100 and "[UNK]" not in encoding.tokens and len(encoding.tokens) > 3

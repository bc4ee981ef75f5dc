"""Whole words: which tokens begin one, in every script, and that examples never cut them.

And the words of the sample: reproducible, in two languages, and no line twice.
"""

import re

import numpy as np
import pytest
from conftest import ROOT, use_template
from tokenizers import BertWordPieceTokenizer

use_template("pretraining")

from corpus.encode import Lengths, Line, encode_lines, make_examples  # noqa: E402
from generator.samples.pretraining import SIZES, write_sample  # noqa: E402

SHIPPED = ROOT / "baselines/pretraining_sample/sample"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LATIN = "abcdefghijklmnopqrstuvwxyz0123456789"
CHINESE = "我们在北京大学学习自然语言处理公司腾讯年，。京都大学的学生"
OTHER = [".", ",", "'", "[", "]", "-", "に", "の", "##に"]
PIECES = [*SPECIAL, *LATIN, *(f"##{c}" for c in LATIN), *dict.fromkeys(CHINESE), *OTHER, "whale"]
TOKENIZER = BertWordPieceTokenizer({piece: n for n, piece in enumerate(PIECES)})._tokenizer
SEP = PIECES.index("[SEP]")


def words_of(text: str, words: str = "auto") -> list[str]:
    """Return the words that the tokens of a text make, as the tokens spell them."""
    [line] = encode_lines([text], TOKENIZER, words)
    assert line.begins[0]
    found = []
    for token_id, begins in zip(line.token_ids, line.begins, strict=True):
        piece = PIECES[token_id].removeprefix("##")
        if begins:
            found.append(piece)
        else:
            found[-1] += piece
    return found


@pytest.mark.parametrize(
    "text,expected",
    [
        ("The whale swam, 1851.", "the whale swam , 1851 ."),
        ("Don't re-read.", "don ' t re - read ."),
        ("Café Cafe\u0301", "cafe cafe"),
        ("我们在北京大学学习。", "我们 在 北京大学 学习 。"),
        ("自然语言处理", "自然语言 处理"),
        ("腾讯Tencent公司", "腾讯 tencent 公司"),
        ("北京 大学", "北京 大学"),  # a space parts what the dictionary would join
        ("1998年，3.14", "1998 年 ， 3 . 14"),  # digits keep to the words of BERT
        ("京都大学の学生", "京 都 大 学 の 学 生"),  # Japanese: not the dictionary's language
        ("[MASK] whale", "[ mask ] whale"),  # text, not the token
    ],
)
def test_words(text, expected):
    assert words_of(text) == expected.split(" ")


def test_fewer_words_on_demand():
    assert words_of("北京大学 swam", "spaces") == [*"北京大学", "swam"]
    assert words_of("北京 swam", "tokens") == [*"北京", *"swam"]


def test_characters_outside_the_vocabulary_keep_the_words_around_them():
    text = "\u200b北京☃大学\U00020000学习\x07我们"
    assert words_of(text) == ["北京", "[UNK]", "大学", "[UNK]", "学习", "我们"]


# --- examples ---

TEN = Lengths(longest=10, short=10, share=0.0)


def random_lines(seed: int) -> list[Line]:
    random = np.random.default_rng(seed)
    lines = []
    for length in random.integers(1, 40, 60):
        begins = random.random(length) < 0.4
        begins[0] = True
        lines.append(Line(random.integers(5, 99, length).astype(np.int32), begins))
    return lines


@pytest.mark.parametrize("separator", [None, SEP])
@pytest.mark.parametrize("max_length", [8, 12, 33, 64])
def test_examples_hold_all_tokens_in_order_and_whole_words(separator, max_length):
    lines, room = random_lines(max_length), max_length - 2
    examples = list(make_examples(lines, Lengths(max_length, 8, 0.0), separator))
    assert max(len(example.token_ids) for example in examples) <= room
    assert all(
        example.token_ids.dtype == example.word_starts.dtype == np.int32 for example in examples
    )
    parts, starts = [], []
    for example in examples:
        assert example.word_starts[0] == 0 and (np.diff(example.word_starts) > 0).all()
        begins = np.isin(np.arange(len(example.token_ids)), example.word_starts)
        cuts = np.flatnonzero(example.token_ids == SEP)
        assert begins[cuts].all(), "a separator is a word of its own"
        assert separator is not None or not len(cuts)
        keep = example.token_ids != SEP
        parts.append(example.token_ids[keep])
        starts.append(begins[keep])
    assert np.array_equal(np.concatenate(parts), np.concatenate([line.token_ids for line in lines]))
    # A word starts where it did, and where a word longer than an example had to be cut.
    more = np.concatenate(starts) ^ np.concatenate([line.begins for line in lines])
    whole = np.concatenate([line.begins for line in lines])
    word_sizes = np.diff(np.append(np.flatnonzero(whole), len(whole)))
    assert more.sum() == sum((size - 1) // room for size in word_sizes)


def test_lines_that_fit_are_never_cut_and_share_examples():
    lines = [Line(np.full(n, n + 10, np.int32), np.ones(n, bool)) for n in (3, 2, 6, 1, 4, 9)]
    packed = [example.token_ids.tolist() for example in make_examples(lines, TEN, SEP)]
    assert packed == [
        [13, 13, 13, SEP, 12, 12],
        [16, 16, 16, 16, 16, 16, SEP, 11],
        [14, 14, 14, 14],
        [19] * 8,
        [19],
    ]
    alone = [example.token_ids.tolist() for example in make_examples(lines, TEN, None)]
    assert [len(ids) for ids in alone] == [3, 2, 6, 1, 4, 8, 1]


@pytest.mark.parametrize("separator", [None, SEP])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_a_share_of_the_lines_is_cut_shorter(share, separator):
    """Each token of a line is its number, so that its examples can be told."""
    lines = [Line(np.full(40, 100 + n, np.int32), np.ones(40, bool)) for n in range(200)]
    examples = list(make_examples(lines, Lengths(32, 12, share), separator))
    longest = np.zeros(200, int)
    for example in examples:
        numbers, counts = np.unique(example.token_ids[example.token_ids != SEP], return_counts=True)
        np.maximum.at(longest, numbers - 100, counts)
    assert set(longest) == ({30, 10} if 0 < share < 1 else {10 if share else 30})
    short = longest == 10
    assert abs(short.sum() - 200 * share) <= 2
    # Evenly: in whatever part of the text.
    assert all(abs(part.sum() - 20 * share) <= 2 for part in np.split(short, 10))
    assert sum((example.token_ids != SEP).sum() for example in examples) == 200 * 40
    for example in examples:
        assert len(example.token_ids) <= 10 or not short[example.token_ids[0] - 100]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    for split in SIZES:
        name = f"{split}.txt"
        assert (folder / name).read_bytes() == (SHIPPED / name).read_bytes()
    return {split: (folder / f"{split}.txt").read_text("utf-8").splitlines() for split in SIZES}


def test_sizes_and_languages(lines):
    assert {split: len(found) for split, found in lines.items()} == SIZES
    every = [line for found in lines.values() for line in found]
    assert len(set(every)) == len(every)
    chinese = sum(bool(re.search("[\u4e00-\u9fff]", line)) for line in every)
    assert 0.35 < chinese / len(every) < 0.45


def test_what_follows_from_what(lines):
    """A pronoun belongs to its name, and the day that comes next to the day before."""
    days = {}
    for line in lines["train"]:
        if found := re.search(r"on (\w+day)\. The next day is (\w+)", line):
            days.setdefault(found[1], set()).add(found[2])
        assert not re.search(r"\b(Mara|Elif|Lena)\b.*\bhe\b", line)
    assert len(days) == 7 and all(len(after) == 1 for after in days.values())


def test_dev_has_no_word_that_train_lacks(lines):
    known = set(re.findall(r"\w", "".join(lines["train"])))
    assert set(re.findall(r"\w", "".join(lines["dev"] + lines["test"]))) <= known

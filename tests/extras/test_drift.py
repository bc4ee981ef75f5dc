"""Texts of another file that a simple model recognises, as check.py finds them."""

import random

import pytest

from extras.doctor.drift import find_drift, split_words, tell_apart

WORDS = [f"word{number}" for number in range(60)]


def make_texts(count: int, seed: int, marked: float = 0.0, mark: str = "marker") -> list[str]:
    """Return texts of random words; a share of them, spread evenly, has one more word."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=8)) for _ in range(count)]
    has_mark = [int((n + 1) * marked) > int(n * marked) for n in range(count)]
    return [f"{text} {mark}" if has else text for text, has in zip(texts, has_mark, strict=True)]


def single(files: dict[str, list[str]]) -> dict[str, list[tuple[str, str]]]:
    return {name: [(text, text) for text in texts] for name, texts in files.items()}


@pytest.mark.parametrize("marked", [0.4, 0.8, 1.0])
def test_the_area_is_that_of_a_word_that_only_one_file_has(marked):
    """Texts with the word are told apart surely, the others by chance: m + (1 - m) / 2."""
    area, words = tell_apart(make_texts(500, 1), make_texts(500, 2, marked))
    assert area == pytest.approx(marked + (1 - marked) / 2, abs=0.04)
    assert words[0] == "+marker"


def test_a_file_of_other_texts_is_named_and_one_of_the_same_is_not():
    train = make_texts(300, 1, 1.0, "old")
    files = {"train": train, "dev": make_texts(300, 2, 1.0, "old"), "test": make_texts(300, 3)}
    [finding] = find_drift(single(files))
    assert finding.level == "note" and "train from test" in finding.what
    assert "-old" in finding.where and "area under the curve 1.00" in finding.what


def test_few_texts_and_shared_ones_are_no_drift():
    train = make_texts(300, 1, 1.0, "old")
    assert not [*find_drift(single({"train": train, "few": make_texts(50, 2)}))]
    assert not [*find_drift(single({"train": train, "same": train, "empty": []}))]
    no_words = {"train": [f"{n}a" for n in range(200)], "dev": [f"{n}b" for n in range(200)]}
    assert not [*find_drift(single(no_words))]


def test_a_passage_of_many_questions_counts_once():
    passages = [f"passage {n % 20} {'x' * 20}" for n in range(400)]
    others = [f"section {n % 20} {'y' * 20}" for n in range(400)]
    files = {
        "train": [(text, f"who?\n{text}") for text in passages],
        "dev": [(text, f"why?\n{text}") for text in others],
    }
    assert not [*find_drift(files)]


def test_neighbours_of_one_article_are_not_recognised():
    """20 articles of 10 paragraphs each, whose names no other article has."""
    draw = random.Random(4)
    articles = {
        name: [" ".join([*draw.choices(WORDS, k=8), f"{name}{n // 10}"]) for n in range(200)]
        for name in ("train", "dev")
    }
    assert not [*find_drift(single(articles))]


def test_words_of_two_scripts():
    assert split_words("Zoë's BOAT: 小船在 x2") == ["zoë", "s", "boat", "小船", "船在", "x2"]

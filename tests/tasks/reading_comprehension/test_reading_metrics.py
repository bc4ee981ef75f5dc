"""EM, F1 and the threshold: against computations of their own, and the official scripts if any."""

import importlib.util
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import use_template

use_template("reading_comprehension")

from library.segments import split_words  # noqa: E402
from task import metrics  # noqa: E402
from task.records import Example  # noqa: E402

ENGLISH = (
    "The Ash Mill", "the ash-mill!", "ash mill", "An old mill, in Belmora", "a", "The",
    "3,350 feet", "$3.5 million", "Mara's mill", "Ada and the miller's daughter", "U.S.", "ada",
)  # fmt: skip
CHINESE = (
    "星远科技", "星远科技。", "《星远》科技集团", "1961年3月", "一九六一年", "NBA 总冠军",
    "nba总冠军", "Zoe's 乐队", "约30.5米（高）", "Ada·Quill", "A.C.米兰、国际", "don't stop乐队",
    '"星" 号',
)  # fmt: skip


def question(identity, *golds):
    """Return a question whose gold answers are only texts."""
    return Example(identity, "?", "context", (), golds, 1)


def draw(seed, texts, unanswerable=0.0, size=80):
    """Return questions, and answers to them: some right, some near, some wrong, some none."""
    random = np.random.default_rng(seed)
    examples, answers = [], {}
    for number in range(size):
        golds = [str(text) for text in random.choice(texts, random.integers(1, 4))]
        if random.random() < unanswerable:
            golds = []
        examples.append(question(f"q{number}", *golds))
        pool = golds if golds and random.random() < 0.3 else [*golds, *texts, ""]
        answers[f"q{number}"] = " ".join(map(str, random.choice(pool, random.integers(1, 3))))
    return examples, answers


def squad_words(text):
    """Return what SQuAD compares, character by character instead of by patterns."""
    marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    kept = text.lower().translate({ord(mark): None for mark in marks})
    words, word = [], ""
    for character in kept + " ":
        if character.isalnum() or character == "_":
            word += character
            continue
        words.append("" if word in ("a", "an", "the") else word)
        word = ""
        if not character.isspace():
            words.append(character)
    return [word for word in words if word]


def squad_f1(gold, text):
    """Return F1 of two bags of words, from precision and recall."""
    gold, text = squad_words(gold), squad_words(text)
    shared = sum(min(count, text.count(word)) for word, count in Counter(gold).items())
    if not shared:
        return 0.0
    precision, recall = shared / len(text), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(5))
def test_squad_1(seed):
    examples, answers = draw(seed, ENGLISH)
    exact = [
        max(squad_words(g) == squad_words(answers[e.id]) for g in e.gold_texts) for e in examples
    ]
    f1 = [max(squad_f1(gold, answers[e.id]) for gold in e.gold_texts) for e in examples]
    result = metrics.score(examples, answers, "squad")
    assert result["definition"] == "SQuAD 1.1"
    assert result["exact_match"] == pytest.approx(np.mean(exact), abs=1e-12)
    assert result["f1"] == pytest.approx(np.mean(f1), abs=1e-12)
    assert 0.1 < result["exact_match"] < result["f1"] < 0.9


@pytest.mark.parametrize("seed", range(5))
def test_squad_2(seed):
    """Nothing left to compare agrees with nothing left to compare, and with nothing else."""
    examples, answers = draw(seed, ENGLISH, unanswerable=0.3)
    exact, f1 = [], []
    for example in examples:
        golds = [gold for gold in example.gold_texts if squad_words(gold)] or [""]
        words = squad_words(answers[example.id])
        exact.append(max(squad_words(gold) == words for gold in golds))
        empty = [squad_words(gold) == [] or words == [] for gold in golds]
        f1.append(
            max(
                float(squad_words(gold) == words)
                if nothing
                else squad_f1(gold, answers[example.id])
                for gold, nothing in zip(golds, empty, strict=True)
            )
        )
    result = metrics.score(examples, answers, "squad")
    assert result["definition"] == "SQuAD 2.0"
    assert result["exact_match"] == pytest.approx(np.mean(exact), abs=1e-12)
    assert result["f1"] == pytest.approx(np.mean(f1), abs=1e-12)


def test_the_two_squads_differ_where_nothing_is_left_to_compare():
    the, none = question("a", "the"), question("b")
    assert metrics.score([the], {"a": "A"}, "squad")["f1"] == 0
    assert metrics.score([the], {"a": "A"}, "squad")["exact_match"] == 1
    assert metrics.score([the, none], {"a": "A"}, "squad")["f1"] == 1
    assert (
        metrics.score([the, none], {"a": "A", "b": "x"}, "squad")["per_answer"]["none"]["f1"] == 0
    )


def test_one_right_gold_is_enough_and_repeats_count_as_often_as_both_have_them():
    assert metrics.score_squad1(["x", "New New York"], "new york") == (0.0, 0.8)
    assert metrics.score_squad1(["x", "York, New"], "new york") == (0.0, 1.0)
    assert metrics.score_squad1(["x", "the York-mill."], "yorkmill") == (1.0, 1.0)


def longest_common_run(first, second):
    """Return the length of the longest run of both, by trying every one."""
    return max(
        (
            end - start
            for start in range(len(first))
            for end in range(start + 1, len(first) + 1)
            if any(second[at : at + end - start] == first[start:end] for at in range(len(second)))
        ),
        default=0,
    )


@pytest.mark.parametrize("seed", range(4))
def test_cmrc(seed):
    nltk = pytest.importorskip("nltk", reason="CMRC2018 has NLTK split what is not Chinese")
    words = nltk.tokenize.NLTKWordTokenizer().tokenize

    def segment(text):
        """Return segments as the official script makes them: one character after the other."""
        segments, latin = [], ""
        for character in text.lower().strip():
            if character in "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』":
                continue
            if "\u4e00" <= character <= "\u9fa5":
                segments += [*words(latin), character]
                latin = ""
            else:
                latin += character
        return segments + words(latin)

    examples, answers = draw(seed, CHINESE)
    f1 = []
    for example in examples:
        found, best = segment(answers[example.id]), 0.0
        for gold in map(segment, example.gold_texts):
            common = longest_common_run(gold, found)
            if common:
                precision, recall = common / len(found), common / len(gold)
                best = max(best, 2 * precision * recall / (precision + recall))
        f1.append(best)
    result = metrics.score(examples, answers, "cmrc2018")
    assert result["definition"] == "CMRC2018"
    assert result["f1"] == pytest.approx(np.mean(f1), abs=1e-12)
    assert 0.1 < result["exact_match"] < result["f1"] < 0.9


def test_words_are_split_as_the_treebank_does():
    nltk = pytest.importorskip("nltk", reason="a tokenizer to compare with")
    words = nltk.tokenize.NLTKWordTokenizer().tokenize
    random = np.random.default_rng(1)
    pieces = [
        *("don't", "he's", "they'll", "cannot", "gonna", "'tis", "'twas", "u.s.", "etc.", "3,350"),
        *("a,b", ",", ",,", "...", "(x)", "[1]", '"so"', "'quoted'", "$5", "50%", "r&b", "what?"),
        *(
            "end.",
            "«so»",
            "‘so",
            "1.5",
            "o'neil",
            "lemme",
            "x;y",
            "–",
            "a'",
            "''",
            '"',
            "{",
            "no.1",
        ),
    ]
    for _ in range(3000):
        chosen = random.choice(pieces, random.integers(1, 6))
        text = " ".join(chosen)
        if not any(len(word.rstrip(".")) > 3 and word.endswith(".") for word in text.split()[:-1]):
            assert split_words(text) == words(text), text


def test_a_sentence_ends_at_the_period_of_a_word_and_not_of_an_abbreviation():
    assert split_words("the mill. the dam.") == ["the", "mill", ".", "the", "dam", "."]
    assert split_words("st. john j. quill") == ["st.", "john", "j.", "quill"]


def test_cmrc_punctuation_joins_what_it_stands_between():
    assert metrics.score_cmrc(["A-B：星"], "ab星") == (1.0, 1.0)
    assert metrics.score_cmrc(["星…"], "星") == (0.0, pytest.approx(2 / 3))  # it knows "……" only


def test_kinds_of_questions():
    examples = [question("a"), question("b", "mill"), question("c", "longer than five", "mill")]
    examples += [question("d", 41 * "x"), question("e", 16 * "x")]
    result = metrics.score(examples, {"b": "mill", "e": ""}, "squad")
    assert {kind: row["gold"] for kind, row in result["per_answer"].items()} == {
        "none": 1,
        "1 to 5 characters": 2,
        "16 to 40 characters": 1,
        "longer": 1,
    }
    assert result["per_answer"]["none"]["f1"] == 1 and result["per_answer"]["longer"]["f1"] == 0
    assert (result["answered"], result["unanswerable"], result["exact_match"]) == (1, 1, 0.4)


def best_of(examples, answers):
    """Return the threshold that is tuned."""
    return metrics.best_threshold(examples, answers, "squad")["threshold"]


def f1_above(examples, answers, threshold, metric="squad"):
    """Return F1 when answers of at least this score are given."""
    texts = {name: text for name, (text, value) in answers.items() if value >= threshold}
    return metrics.score(examples, texts, metric)["f1"]


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_best_of_all(seed):
    random = np.random.default_rng(seed)
    examples, texts = draw(seed, ENGLISH, unanswerable=0.4, size=25)
    digits = 1 if seed % 2 else 6  # one digit makes many ties
    answers = {
        name: (text, float(np.round(random.random(), digits)))
        for name, text in texts.items()
        if random.random() < 0.9
    }
    if seed % 5 == 0:
        answers["q0"] = ("wrong", 1.0)
    found = f1_above(examples, answers, best_of(examples, answers))
    tried = {value for _, value in answers.values()} | {0.0, math.inf}
    assert found == pytest.approx(max(f1_above(examples, answers, value) for value in tried))


def test_threshold_lies_in_the_middle_of_the_gap_nearest_to_a_half():
    examples = [question("a", "mill"), question("b")]
    answers = {"a": ("mill", 0.9), "b": ("mill", 0.3)}
    assert best_of(examples, answers) == pytest.approx(0.6)


def test_everything_is_answered_where_no_question_is_unanswerable():
    answers = {"a": ("mill", 1e-300)}
    assert best_of([question("a", "dam")], answers) == 0


def test_nothing_is_answered_where_all_answers_are_wrong():
    examples, answers = [question("a"), question("b")], {"a": ("x", 1.0), "b": ("y", 0.7)}
    assert f1_above(examples, answers, best_of(examples, answers)) == 1


def test_threshold_between_neighbouring_floats():
    high, low = float(np.nextafter(0.3, 1)), 0.3
    examples, answers = [question("a", "x"), question("b")], {"a": ("x", high), "b": ("y", low)}
    assert f1_above(examples, answers, best_of(examples, answers)) == 1


OFFICIAL = Path(os.environ.get("OFFICIAL_SCORERS", "/nonexistent"))


def load_official(name):
    """Return an official script as a module."""
    if not (OFFICIAL / name).is_file():
        pytest.skip(f"OFFICIAL_SCORERS names no folder that holds {name}")
    spec = importlib.util.spec_from_file_location("official", OFFICIAL / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def official_data(examples):
    """Return questions as SQuAD's files hold them."""
    rows = [{"id": e.id, "answers": [{"text": text} for text in e.gold_texts]} for e in examples]
    return [{"paragraphs": [{"qas": rows}]}]


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE])
def test_official_squad_1(texts):
    official = load_official("evaluate-v1.1.py")
    examples, answers = draw(7, texts, size=400)
    expected = official.evaluate(official_data(examples), answers)
    result = metrics.score(examples, answers, "squad")
    assert 100 * result["exact_match"] == pytest.approx(expected["exact_match"], abs=1e-9)
    assert 100 * result["f1"] == pytest.approx(expected["f1"], abs=1e-9)


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE])
def test_official_squad_2(texts):
    official = load_official("evaluate-v2.0.py")
    examples, answers = draw(8, texts, unanswerable=0.3, size=400)
    exact, f1 = official.get_raw_scores(official_data(examples), answers)
    records = metrics.score_records(examples, answers, "squad")
    np.testing.assert_allclose(records[:, 0], [exact[e.id] for e in examples], atol=1e-9)
    np.testing.assert_allclose(records[:, 1], [f1[e.id] for e in examples], atol=1e-9)


def test_official_cmrc():
    nltk = pytest.importorskip("nltk", reason="the official script needs NLTK")
    official = load_official("cmrc2018_evaluate.py")
    # NLTK's own sentences need a download; within an answer there is one at the most.
    official.nltk.word_tokenize = nltk.tokenize.NLTKWordTokenizer().tokenize
    examples, answers = draw(9, CHINESE, size=400)
    f1, exact, total, skipped = official.evaluate({"data": official_data(examples)}, answers)
    result = metrics.score(examples, answers, "cmrc2018")
    assert (total, skipped) == (400, 0)
    assert 100 * result["exact_match"] == pytest.approx(exact, abs=1e-9)
    assert 100 * result["f1"] == pytest.approx(f1, abs=1e-9)

"""BLEU, chrF, ROUGE-L and exact match: sacrebleu's command line, and definitions written anew."""

import json
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from conftest import use_template

use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from extras.comparison.comparison import compare_columns  # noqa: E402
from generation.text_metrics import WordsAndIdeographs, bleu_score  # noqa: E402
from inspection.comparison import check_same_scores, compare_lengths  # noqa: E402
from task.metrics import score, score_records  # noqa: E402
from task.records import Example  # noqa: E402
from task.settings import Settings  # noqa: E402

ENGLISH = "the a Fox river bank is at on near 3.5 £20-25 family-friendly , . ! Zenby's".split()
CHINESE = list("在星期一举行音乐会由王文华主持，票价元。") + ["12", "A"]


def settings(**values) -> Settings:
    return Settings.model_construct(**values)


def draw_texts(seed: int, records: int = 40, most: int = 3, chinese: bool = False):
    """Return examples with one to `most` targets, and predictions that resemble them."""
    random = np.random.default_rng(seed)
    words, join = (CHINESE, "".join) if chinese else (ENGLISH, " ".join)

    def text(length):
        return join(random.choice(words, length))

    examples, predictions = [], {}
    for number in range(records):
        targets = [text(random.integers(4, 15)) for _ in range(random.integers(1, most + 1))]
        examples.append(Example(f"r{number}", "source", tuple(targets), number + 1))
        kept = targets[-1] if random.random() < 0.3 else targets[-1][: random.integers(3, 40)]
        if random.random() < 0.5:
            kept = join([kept, text(random.integers(1, 5))])
        predictions[f"r{number}"] = kept.upper() if random.random() < 0.2 else kept
    return examples, predictions


def evaluate(examples, predictions, **values):
    records = score_records(examples, predictions, settings(**values))
    return score(examples, predictions, records, settings(**values))


@pytest.mark.parametrize(
    ("chinese", "values", "arguments"),
    [
        (False, {}, ()),
        (False, {"lowercase_scores": True}, ("-lc",)),
        (False, {"bleu_tokenizer": "intl"}, ("-tok", "intl")),
        (True, {"bleu_tokenizer": "zh"}, ("-tok", "zh")),
        (True, {"bleu_tokenizer": "char"}, ("-tok", "char")),
    ],
)
def test_agrees_with_the_command_line_of_sacrebleu(tmp_path, chinese, values, arguments):
    examples, predictions = draw_texts(1, most=1, chinese=chinese)
    others, _ = draw_texts(2, most=1, chinese=chinese)
    # The command line takes files, so every record has as many targets.
    examples = [
        Example(one.id, one.source, one.targets + two.targets, one.line)
        for one, two in zip(examples, others, strict=True)
    ]
    files = {"out": [predictions[e.id] for e in examples]}
    files |= {f"gold{n}": [e.targets[n] for e in examples] for n in range(2)}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "gold0", "gold1", "-i", "out", "-w", "6"]
    command += ["-m", "bleu", "chrf", *arguments]
    if "lowercase_scores" in values:
        command.append("--chrf-lowercase")
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True
    )
    bleu, chrf = (row["score"] for row in json.loads(done.stdout))
    found = evaluate(examples, predictions, **values)
    assert found["bleu"] == pytest.approx(bleu, abs=2e-6) and 5 < bleu < 95
    assert found["chrf"] == pytest.approx(chrf, abs=2e-6)


def ngrams(words, order):
    return [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]


def bleu_by_hand(examples, predictions):
    """BLEU of words between spaces, from the paper, for texts with matches of every order."""
    correct, total, length, nearest = [0] * 4, [0] * 4, 0, 0
    for example in examples:
        words = predictions[example.id].split()
        golds = [target.split() for target in example.targets]
        length += len(words)
        nearest += min((abs(len(gold) - len(words)), len(gold)) for gold in golds)[1]
        for order in range(1, 5):
            grams = ngrams(words, order)
            total[order - 1] += len(grams)
            for gram in set(grams):
                most = max(ngrams(gold, order).count(gram) for gold in golds)
                correct[order - 1] += min(grams.count(gram), most)
    precision = np.exp(np.mean(np.log(np.array(correct) / total)))
    return 100 * precision * min(1, np.exp(1 - nearest / length))


def test_bleu_with_any_number_of_targets_is_that_of_the_paper():
    examples, predictions = draw_texts(3)
    assert len({len(example.targets) for example in examples}) > 1
    found = evaluate(examples, predictions, bleu_tokenizer="none")["bleu"]
    assert found == pytest.approx(bleu_by_hand(examples, predictions), abs=1e-9)


def test_sums_of_statistics_give_the_bleu_of_these_records():
    from sacrebleu.metrics import BLEU

    examples, predictions = draw_texts(4)
    records = score_records(examples, predictions, settings())
    statistics = np.array([record.statistics for record in records])
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(examples), (50, len(examples)))
    # Few records: some have no match of four words, where smoothing counts.
    for rows in [*drawn, *drawn[:, :2], *drawn[:, :1]]:
        sums = statistics[rows].sum(axis=0).tolist()
        expected = BLEU.compute_bleu(sums[2:6], sums[6:], sums[0], sums[1], "exp").score
        assert bleu_score(*statistics[rows].T) == pytest.approx(expected, abs=1e-9)
    many = bleu_score(*(column[drawn] for column in statistics.T), axis=-1)
    assert many == pytest.approx([bleu_score(*statistics[rows].T) for rows in drawn])


def test_right_texts_of_three_words_are_right_in_the_table_of_groups():
    """BLEU of all records is 0 without a sequence of four words, as the command line prints it."""
    from sacrebleu.metrics import BLEU

    texts = ["a b c", "b c", "a a a", "a long text of words", "another text of some words"] * 2
    examples = [
        Example(str(number), "x" * number, (text,), number) for number, text in enumerate(texts, 1)
    ]
    golds = {example.id: example.targets[0] for example in examples}
    predictions = golds | {examples[1].id: "b"}
    both = [score_records(examples, found, settings()) for found in (golds, predictions)]
    columns = [np.array([record.statistics for record in records]) for records in both]
    for rows in ([0, 1, 2], [1], [3, 4], range(10)):
        sums = columns[1][rows].sum(axis=0).tolist()
        own = (sums[2:6], sums[6:], sums[0], sums[1], "exp")
        expected = BLEU.compute_bleu(*own, effective_order=True).score
        found = bleu_score(*columns[1][rows].T, effective_order=True)
        assert found == pytest.approx(expected, abs=1e-9)
    matches = [np.array([record.exact_match for record in records]) for records in both]
    table = compare_lengths(examples, "bleu", columns, matches)
    short = next(row for name, row in table.items() if name.startswith("short"))
    assert short["run_score"] == pytest.approx(100) and short["run_correct"] == 3
    assert 0 < short["other_score"] < 100 and short["other_correct"] == 2


def test_bootstrap_of_bleu():
    examples, predictions = draw_texts(5)
    worse = {name: " ".join(text.split()[::-1]) for name, text in predictions.items()}
    columns = [
        np.array([r.statistics for r in score_records(examples, texts, settings())])
        for texts in (predictions, worse)
    ]
    found = compare_columns(*columns, bleu_score, resamples=500).difference()
    assert found.first == pytest.approx(evaluate(examples, predictions)["bleu"])
    assert found.verdict == "better" and found.low < found.difference < found.high


def test_an_empty_prediction_scores_nothing():
    examples = [Example("a", "s", ("one two three four five",), 1)]
    assert set(evaluate(examples, {"a": ""}).values()) == {0.0}


def longest_common(one, two):
    table = np.zeros((len(one) + 1, len(two) + 1), int)
    for i, j in np.ndindex(len(one), len(two)):
        same = one[i] == two[j]
        table[i + 1, j + 1] = table[i, j] + 1 if same else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


@pytest.mark.parametrize("chinese", [False, True])
def test_rouge_l_is_the_best_longest_common_subsequence(chinese):
    examples, predictions = draw_texts(6, chinese=chinese)
    expected = []
    for example in examples:
        values = []
        for target in example.targets:
            one, two = (
                re.findall(r"[一-鿿]|[a-z0-9]+", text.lower())
                for text in (target, predictions[example.id])
            )
            common = longest_common(one, two)
            values.append(2 * common / (len(one) + len(two)) if common else 0.0)
        expected.append(max(values))
    assert evaluate(examples, predictions)["rouge_l"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert 0.1 < np.mean(expected) < 0.95


def test_exact_match_is_any_of_the_targets():
    examples = [Example("a", "s", ("Ja.", "Yes  it is"), 1), Example("b", "s", ("no",), 2)]
    assert evaluate(examples, {"a": "Yes it is", "b": "No"})["exact_match"] == 0.5
    found = evaluate(examples, {"a": "yes it is", "b": "No"}, lowercase_scores=True)
    assert found["exact_match"] == 1.0


@pytest.mark.parametrize(
    "text", ["किताब अच्छी है", "আমার সোনার বাংলা", "தமிழ் மொழி", "كِتَابٌ جَمِيلٌ", "cafe\u0301 ol\u00e9"]
)
def test_signs_on_letters_belong_to_their_words(text):
    """Vowels of Indic scripts, those of vocalised Arabic, and accents apart from their letters."""
    assert WordsAndIdeographs().tokenize(text) == text.split()
    mixed = f"{text}, x_1 汉字！"
    assert WordsAndIdeographs().tokenize(mixed) == [*text.split(), "x", "1", "汉", "字"]


def test_each_ideograph_is_a_token_also_after_a_letter():
    """Those of the basic plane, of its compatibility block, and of the planes beyond."""
    assert WordsAndIdeographs().tokenize("abc汉\uf900x\U00020bb7\U0002f800y字") == [
        *("abc", "汉", "\uf900", "x", "\U00020bb7", "\U0002f800", "y", "字")
    ]


def test_a_score_of_ones_own_that_cannot_be_compared_is_refused(tmp_path):
    (tmp_path / "scores.json").write_text('{"monitor": "neg_ter", "dev": {}}', encoding="utf-8")
    run = types.SimpleNamespace(name="mine", folder=tmp_path)
    with pytest.raises(InputError, match="mine was chosen by neg_ter, and compare.py does not"):
        check_same_scores(run, run)

"""Repeats, leaks, labels without examples, and bars of text."""

from collections import Counter

from rich.cells import cell_len

from core.data import data_checks

TEXTS = {
    "train.jsonl": [("1", "A b", 1), ("2", "a  B", 2), ("4", "other", 3)],
    "dev.jsonl": [("1", "ａ b", 1), ("3", "z", 2)],
    "test.jsonl": [("9", "Z", 4)],
}
CLEAN = {"train.jsonl": [("1", "a", 1)], "dev.jsonl": [("1", "b", 1)]}


def test_repeats_and_leaks_are_found_with_their_lines():
    (duplicate,) = data_checks.find_duplicates(TEXTS)
    assert duplicate.level == "warning" and "lines 1, 2" in duplicate.where
    leak, lesser = data_checks.find_leaks(TEXTS)
    assert (leak.level, leak.where) == (
        "error",
        "dev.jsonl, line 1, is train.jsonl, line 1, for one",
    )
    assert (lesser.level, "test.jsonl, line 4" in lesser.where) == ("warning", True)


def test_clean_data_has_no_findings():
    for find in (data_checks.find_duplicates, data_checks.find_leaks):
        assert find(CLEAN) == []
    assert data_checks.find_unseen_labels({"train": Counter(a=1), "dev": Counter(a=3)}) == []


def test_labels_that_train_never_shows():
    labels = {"train": Counter(a=1), "dev": Counter(a=1, b=2, c=5)}
    (finding,) = data_checks.find_unseen_labels(labels)
    assert finding.where == "dev: c (5), b (2)" and "2, of 7 items" in finding.what
    assert str(finding).startswith("warning: labels never seen in train")


def test_length_histogram_counts_everything_once():
    lengths = [3, 3, 4, 17, 250]
    lines = data_checks.length_histogram(lengths, "tokens").splitlines()
    assert lines[0].startswith("tokens: shortest 3, median 4") and len(lines) <= 11
    assert all(" to " in line for line in lines[1:])
    assert sum(int(line.split()[0]) for line in lines[1:]) == len(lengths)
    assert data_checks.length_histogram([], "tokens") == "tokens: no record"
    [_, line] = data_checks.length_histogram([7], "tokens").splitlines()
    assert line.split()[0] == "1" and line.split()[-1] == "7"


def test_label_bars_line_up_for_chinese_names():
    counts = Counter({"总部位于": 30, "born_in": 3, "x" * 80: 1, "a\nb": 1})
    lines = data_checks.label_histogram(counts, "predicates").splitlines()
    assert lines[0] == "predicates: 4 kinds, 35 in all" and len(lines) == 5
    names = ("总部位于", "born_in", r"'a\nb'", "x" * 80)
    assert [int(line.split()[0]) for line in lines[1:]] == [30, 3, 1, 1]
    assert all(line.endswith(name) for line, name in zip(lines[1:], names, strict=True))
    pairs = zip(lines[1:], names, strict=True)
    assert len({cell_len(line.removesuffix(name)) for line, name in pairs}) == 1
    short = data_checks.label_histogram(counts, most=1)
    assert short.endswith("and 3 more, 5 in all")

"""The pre-training sample: reproducible, in two languages, and no line twice."""

import re

import pytest
from conftest import ROOT

from generator.samples.pretraining import SIZES, write_sample

SHIPPED = ROOT / "baselines/pretraining_sample/sample"


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

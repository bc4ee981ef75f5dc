"""The seq2seq sample: reproducible, sound, and as hard as it is meant to be."""

import json
import re
from itertools import combinations

import pytest
from conftest import ROOT

from generator.samples.seq2seq import SIZES, write_sample

SHIPPED = ROOT / "baselines/seq2seq_sample/sample"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    return folder


@pytest.fixture(scope="module")
def records(folder):
    return {
        split: [json.loads(line) for line in (folder / f"{split}.jsonl").open(encoding="utf-8")]
        for split in SIZES
    }


def test_shipped_files_are_what_the_script_writes(folder):
    for split in SIZES:
        name = f"{split}.jsonl"
        assert (folder / name).read_bytes() == (SHIPPED / name).read_bytes()
        assert b"\r" not in (folder / name).read_bytes()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 500_000


def test_no_text_and_no_id_is_shared(records):
    for texts_of in (lambda r: [r["id"]], lambda r: [r["source"]], lambda r: r["targets"]):
        values = {
            split: {text for record in found for text in texts_of(record)}
            for split, found in records.items()
        }
        for first, second in combinations(values.values(), 2):
            assert not first & second
    assert {split: len(found) for split, found in records.items()} == SIZES


@pytest.mark.parametrize("split", SIZES)
def test_every_difficulty_occurs(records, split):
    found = records[split]
    texts = [record["targets"][0] for record in found]
    assert any(len(record["targets"]) > 1 for record in found)
    assert any("一" <= character <= "鿿" for text in texts for character in text)
    assert any(text.isascii() for text in texts)
    assert any(ord(character) > 0xFFFF for text in texts for character in text)
    assert any("\u0301" in text or "\u0308" in text for text in texts)
    # Fields stand in any order, and are left away.
    names = {tuple(re.findall(r"(\w+)[:：] ?[^;；]+", record["source"])) for record in found}
    assert any(
        one != two and set(one) == set(two) and one for one, two in combinations(sorted(names), 2)
    )
    assert any(set(one) < set(two) for one in names for two in names)


def test_every_value_is_said(records):
    """A target holds each number and each name of its source."""
    for record in (record for found in records.values() for record in found):
        values = re.findall(r"[:：] ?([^;；]+)", record["source"])
        for target in record["targets"]:
            for value in values:
                said = value in target or not any(c.isdigit() for c in value) or value == "0"
                assert said, record
            for name in re.findall(r"(?:to|town|home|name|host): ([^;]+)", record["source"]):
                assert name in target


def test_dev_and_test_have_names_that_train_never_shows(records):
    pattern = r"(?:to|town|home|name|host|终点|地点|城市|家乡|姓名|主持)[:：] ?([^;；]+)"

    def names(split):
        return {n for r in records[split] for n in re.findall(pattern, r["source"])}

    seen = names("train")
    for split in ("dev", "test"):
        share = len(names(split) - seen) / len(names(split))
        assert 0.3 < share < 0.9
        # What is new is the combination: every character of it is known.
        assert set("".join(names(split))) <= set("".join(seen))

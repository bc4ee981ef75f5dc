"""The sample of named entities: reproducible, sound, and as hard as it is meant to be."""

import json
from collections import Counter
from itertools import combinations

import pytest
from conftest import ROOT

from generator.samples.named_entity_recognition import SIZES, TYPES, write_sample

SHIPPED = ROOT / "baselines/named_entity_recognition_sample/sample"


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
    assert sum(path.stat().st_size for path in folder.iterdir()) < 600_000


def test_spans_hold_whole_names(records):
    for record in (record for split in records.values() for record in split):
        text = record["text"]
        for entity in record["entities"]:
            start, end = entity["span"]
            assert 0 <= start < end <= len(text) and entity["type"] in TYPES
            name = text[start:end]
            assert name == name.strip() and not set(name) & set(".,;。，；！、")
            # No letter is left outside: Latin words end at a word's end.
            for inside, outside in ((name[-1], text[end : end + 1]), (name[0], text[:start])):
                if inside.isascii() and inside.isalpha():
                    assert not outside[-1:].isalpha() or outside[-1:] > "\u2e80"


def test_no_text_and_no_id_is_shared(records):
    for part in ("text", "id"):
        values = {split: {record[part] for record in found} for split, found in records.items()}
        assert {split: len(found) for split, found in values.items()} == SIZES
        for first, second in combinations(values.values(), 2):
            assert not first & second


@pytest.mark.parametrize("split", SIZES)
def test_every_difficulty_occurs(records, split):
    found, forms = Counter(), {}
    for record in records[split]:
        text, entities = record["text"], record["entities"]
        found["no entity"] += not entities
        found["Chinese"] += any("一" <= character <= "鿿" for character in text)
        found["English"] += text.isascii()
        found["beyond 16 bits"] += any(ord(character) > 0xFFFF for character in text)
        found["combining"] += "\u0301" in text
        for entity in entities:
            found[entity["type"]] += 1
            form = text[slice(*entity["span"])]
            forms.setdefault(form, set()).add(entity["type"])
            found["hyphens"] += "-on-" in form
        for one, two in combinations([entity["span"] for entity in entities], 2):
            found["nested"] += one[0] < two[1] and two[0] < one[1]
            found["nested, with one beginning"] += one[0] == two[0]
    found["several types"] = sum(len(types) > 1 for types in forms.values())
    wanted = ("no entity", "Chinese", "English", "beyond 16 bits", "combining", "nested")
    wanted += ("nested, with one beginning", "several types", "hyphens", *TYPES)
    assert not [name for name in wanted if not found[name]], found


def test_dev_and_test_have_names_that_train_never_shows(records):
    def names(split):
        return {
            record["text"][slice(*entity["span"])]
            for record in records[split]
            for entity in record["entities"]
            if entity["type"] != "date"
        }

    seen = names("train")
    for split in ("dev", "test"):
        share = len(names(split) - seen) / len(names(split))
        assert 0.05 < share < 0.7

"""The relation-extraction sample: reproducible, sound, and as hard as it is meant to be."""

import json
from collections import Counter
from itertools import combinations, product

import pytest
from conftest import ROOT

from generator.samples.relation_extraction import PREDICATES, SIZES, write_sample

SHIPPED = ROOT / "baselines/relation_extraction_sample/sample"


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
    assert sum(path.stat().st_size for path in folder.iterdir()) < 350_000


def test_spans_hold_whole_names(records):
    for record in (record for split in records.values() for record in split):
        text = record["text"]
        for triple in record["triples"]:
            for start, end in (triple["subject"], triple["object"]):
                assert 0 <= start < end <= len(text)
                name = text[start:end]
                assert name == name.strip() and not set(name) & set(".,;。，；！!…")
                # No letter is left outside: Latin names end at a word's end.
                if name[-1].isascii() and name[-1].isalpha():
                    assert not text[end : end + 1].isalpha() or text[end] > "\u2e80"
            assert triple["predicate"] in record.get("annotated_predicates", PREDICATES)


def test_no_text_and_no_id_is_shared(records):
    for part in ("text", "id"):
        values = {split: {record[part] for record in found} for split, found in records.items()}
        assert {split: len(found) for split, found in values.items()} == SIZES
        for first, second in combinations(values.values(), 2):
            assert not first & second


@pytest.mark.parametrize("split", SIZES)
def test_every_difficulty_occurs(records, split):
    found = Counter()
    for record in records[split]:
        text, triples = record["text"], record["triples"]
        found["no triple"] += not triples
        found["Chinese"] += any("一" <= character <= "鿿" for character in text)
        found["English"] += text.isascii()
        found["annotated"] += "annotated_predicates" in record
        found["beyond 16 bits"] += any(ord(character) > 0xFFFF for character in text)
        found["combining"] += "\u0301" in text or "\u0308" in text
        found["full width"] += any("０" <= character <= "９" for character in text)
        for triple in triples:
            (s, e), (a, b) = triple["subject"], triple["object"]
            found["nested"] += s <= a and b <= e
            taken = {tuple(t[role]) for t in triples for role in ("subject", "object")}
            found["name elsewhere too"] += any(
                text.startswith(text[s:e], start) and (start, start + e - s) not in taken
                for start in range(len(text))
            )
        for one, two in combinations(triples, 2):
            found["two objects"] += all(one[key] == two[key] for key in ("subject", "predicate"))
            found["two subjects"] += all(one[key] == two[key] for key in ("object", "predicate"))
            found["two predicates"] += all(one[key] == two[key] for key in ("subject", "object"))
            found["chain"] += one["object"] == two["subject"] or two["object"] == one["subject"]
        found.update(triple["predicate"] for triple in triples)
    wanted = (
        "no triple", "Chinese", "English", "annotated", "beyond 16 bits", "combining", "full width",
        "nested", "name elsewhere too", "two objects", "two subjects", "two predicates", "chain",
    )  # fmt: skip
    assert not [name for name in (*wanted, *PREDICATES) if not found[name]], found


def test_dev_and_test_have_names_that_train_never_shows(records):
    def names(split):
        return {
            record["text"][slice(*triple[role])]
            for record, role in product(records[split], ("subject", "object"))
            for triple in record["triples"]
        }

    seen = names("train")
    for split in ("dev", "test"):
        share = len(names(split) - seen) / len(names(split))
        assert 0.05 < share < 0.7

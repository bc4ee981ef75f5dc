"""The reading-comprehension sample: reproducible, sound, and as hard as it is meant to be."""

import json
from collections import Counter
from itertools import combinations

import pytest
from conftest import ROOT

from generator.samples.reading_comprehension import CHINESE, ENGLISH, SIZES, write_sample

SHIPPED = ROOT / "baselines/reading_comprehension_sample/sample"


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


def answer_of(record):
    """Return the text of the answer; None: there is none."""
    return record["context"][slice(*record["answers"][0])] if record["answers"] else None


def is_chinese(record):
    return any("一" <= character <= "鿿" for character in record["question"])


def test_the_same_bytes_each_time(folder, tmp_path):
    write_sample(tmp_path)
    for split in SIZES:
        name = f"{split}.jsonl"
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
        assert b"\r" not in (folder / name).read_bytes()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 720_000


def test_shipped_files_are_what_the_script_writes(folder):
    if not SHIPPED.is_dir():
        pytest.skip("the sample has not been built into the template yet")
    for split in SIZES:
        assert (folder / f"{split}.jsonl").read_bytes() == (SHIPPED / f"{split}.jsonl").read_bytes()


def test_answers_are_whole_names(records):
    for record in (record for split in records.values() for record in split):
        context = record["context"]
        for start, end in record["answers"]:
            assert 0 <= start < end <= len(context)
            text = context[start:end]
            assert text == text.strip() and not set(text) & set(".,。，？！")
            if text[-1].isascii():
                assert not context[end : end + 1].isalnum() and not context[start - 1].isalnum()


def test_no_passage_and_no_id_is_shared(records):
    assert {split: len(found) for split, found in records.items()} == SIZES
    for part in ("context", "id"):
        values = [{record[part] for record in found} for found in records.values()]
        for first, second in combinations(values, 2):
            assert not first & second
    questions = Counter(
        (record["question"], record["context"]) for found in records.values() for record in found
    )
    assert set(questions.values()) == {1}


@pytest.mark.parametrize("split", SIZES)
def test_every_difficulty_occurs(records, split):
    found = Counter()
    for record in records[split]:
        context, answer = record["context"], answer_of(record)
        chinese = is_chinese(record)
        found["Chinese" if chinese else "English"] += 1
        found["unanswerable"] += answer is None
        found["beyond 16 bits"] += any(ord(character) > 0xFFFF for character in context)
        found["combining"] += "\u0301" in context or "\u0308" in context
        found["full width"] += "Ｑ" in context
        kinds = (CHINESE if chinese else ENGLISH).values()
        found["pronoun"] += any(
            f" {kind.pronoun.capitalize()} " in context or f"。{kind.pronoun}" in context
            for kind in kinds
        )
        if answer is not None:
            found["answer elsewhere too"] += context.count(answer) > 1
            found["first of them"] += context.find(answer) < record["answers"][0][0]
    wanted = (
        "Chinese", "English", "unanswerable", "beyond 16 bits", "combining", "full width",
        "pronoun", "answer elsewhere too", "first of them",
    )  # fmt: skip
    assert not [name for name in wanted if not found[name]], found
    assert 0.05 < found["unanswerable"] / SIZES[split] < 0.17
    assert 0.35 < found["Chinese"] / SIZES[split] < 0.65


def test_every_relation_is_asked_in_training(records):
    asked = Counter()
    for kinds in (ENGLISH, CHINESE):
        for kind in kinds.values():
            for relation, questions in kind.questions.items():
                for question in questions:
                    before, after = question.split("{s}")
                    asked[relation, question] = sum(
                        record["question"].startswith(before) and record["question"].endswith(after)
                        for record in records["train"]
                    )
    assert min(asked.values()) >= 8, asked


def test_dev_and_test_have_names_that_train_never_shows(records):
    seen = " ".join(record["context"] for record in records["train"])
    for split in ("dev", "test"):
        answers = [answer for record in records[split] if (answer := answer_of(record))]
        share = sum(answer not in seen for answer in answers) / len(answers)
        assert 0.1 < share < 0.6

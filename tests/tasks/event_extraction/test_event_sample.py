"""The event-extraction sample: reproducible, sound, and as hard as it is meant to be."""

import json
from collections import Counter
from itertools import combinations

import pytest
from conftest import ROOT

from generator.samples.event_extraction import SIZES, TYPES, write_sample

SHIPPED = ROOT / "baselines/event_extraction_sample/sample"


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


def spans_of(event):
    triggers = [("trigger", tuple(event["trigger"]))] if event["trigger"] else []
    return triggers + [(a["role"], tuple(a["span"])) for a in event["arguments"]]


def test_shipped_files_are_what_the_script_writes(folder):
    for split in SIZES:
        name = f"{split}.jsonl"
        assert (folder / name).read_bytes() == (SHIPPED / name).read_bytes()
        assert b"\r" not in (folder / name).read_bytes()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 500_000


def test_spans_hold_whole_names(records):
    for record in (record for split in records.values() for record in split):
        text = record["text"]
        for event in record["events"]:
            for _, (start, end) in spans_of(event):
                assert 0 <= start < end <= len(text)
                name = text[start:end]
                assert name == name.strip() and not set(name) & set(".,;-。，；！、")
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
    found = Counter()
    for record in records[split]:
        text, events = record["text"], record["events"]
        found["no event"] += not events
        found["Chinese"] += any("一" <= character <= "鿿" for character in text)
        found["English"] += text.isascii()
        found["beyond 16 bits"] += any(ord(character) > 0xFFFF for character in text)
        found["combining"] += "\u0301" in text
        for event in events:
            roles = Counter(role for role, _ in spans_of(event))
            spans = Counter(span for _, span in spans_of(event))
            found["a role filled twice"] += max(roles.values()) > 1
            found["two roles of one span"] += max(spans.values()) > 1
            found[f"{event['type']}, {'trigger' if event['trigger'] else 'none'}"] += 1
        for one, two in combinations(events, 2):
            shared = {s for _, s in spans_of(one)[1:]} & {s for _, s in spans_of(two)[1:]}
            found["an argument shared"] += bool(shared)
            if one["type"] == two["type"]:
                found["two of one type"] += 1
                found["one trigger, two events"] += bool(
                    one["trigger"] and one["trigger"] == two["trigger"]
                )
                found["equal but for the trigger"] += (
                    one["arguments"] == two["arguments"] and one["trigger"] != two["trigger"]
                )
                roles = [{s: role for role, s in spans_of(event)} for event in (one, two)]
                found["another role in another event"] += any(
                    roles[0][s] != roles[1][s] for s in roles[0].keys() & roles[1].keys()
                )
    wanted = (
        "no event", "Chinese", "English", "beyond 16 bits", "combining", "a role filled twice",
        "two roles of one span", "an argument shared", "two of one type",
        "one trigger, two events", "equal but for the trigger", "another role in another event",
    )  # fmt: skip
    assert not [name for name in wanted if not found[name]], found
    for kind in TYPES:
        # One type has no trigger, all others always have one.
        assert found[f"{kind}, {'none' if kind == 'result' else 'trigger'}"]
        assert not found[f"{kind}, {'trigger' if kind == 'result' else 'none'}"]


def test_dev_and_test_have_names_that_train_never_shows(records):
    def names(split):
        return {
            record["text"][slice(*argument["span"])]
            for record in records[split]
            for event in record["events"]
            for argument in event["arguments"]
            if not argument["role"].endswith(("goals", "post", "amount"))
        }

    seen = names("train")
    for split in ("dev", "test"):
        share = len(names(split) - seen) / len(names(split))
        assert 0.05 < share < 0.7

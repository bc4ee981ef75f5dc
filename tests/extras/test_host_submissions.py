"""A participant's way: files of a host become records, a run and a submission that it takes."""

import json
import random
from pathlib import Path

import pytest
from project_process import ProjectProcess
from projects import bake_project, flags
from test_host_formats import accepts_duee, accepts_duie

pytestmark = pytest.mark.trains

TASKS = {
    "duie": "relation_extraction",
    "duee": "event_extraction",
    "cmeee": "named_entity_recognition",
}
PEOPLE = ["王 扶林", "李安", "Ada Quill", "张“三”"]
WORKS = ["红楼梦", "Zen\tco", "卧虎藏龙", "星河😀"]
SPLITS = {"train": 24, "dev": 12, "test": 8}


def draw_line(draw: random.Random, name: str, number: int) -> dict:
    """Return a labelled line as the host publishes it."""
    person, work = draw.choice(PEOPLE), draw.choice(WORKS)
    text = f"{draw.choice(['', '昨天，', '😀 '])}{person}导演了{work}。第{number}次"
    start, end = text.index(person), text.index(work)
    if name == "duie":
        triple = {
            "predicate": "导演",
            "subject": work,
            "subject_type": "影视作品",
            "object": {"@value": person},
            "object_type": {"@value": "人物"},
        }
        return {"text": text, "spo_list": [triple]}
    if name == "duee":
        parts = [
            {"role": role, "argument": words, "argument_start_index": at, "alias": []}
            for role, words, at in (("导演者", person, start), ("作品", work, end))
        ]
        event = {"event_type": "导演", "trigger": "导演", "arguments": parts}
        event["trigger_start_index"] = text.index("导演了")
        return {"id": f"{number:032x}", "text": text, "event_list": [event]}
    entities = [
        {"start_idx": at, "end_idx": at + len(words) - 1, "type": kind, "entity": words}
        for kind, words, at in (("人物", person, start), ("作品", work, end))
    ]
    return {"text": text, "entities": entities}


def publish(path: Path, name: str, lines: list[dict]) -> None:
    """Write a file as the host does: CMeEE is one list, DuIE here has line ends of Windows."""
    if name == "cmeee":
        content = json.dumps(lines, ensure_ascii=False, indent=2)
    else:
        end = "\r\n" if name == "duie" else "\n"
        content = "".join(json.dumps(line, ensure_ascii=False) + end for line in lines)
    path.write_bytes(content.encode())


def read_lines(path: Path) -> list[dict]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def accepts(name: str, path: Path, blind: list[dict]) -> int:
    """Return the answers of a submission, after checking it by the rules of its host."""
    if name == "duie":
        return sum(map(len, accepts_duie(path, [line["text"] for line in blind])))
    if name == "duee":
        return sum(map(len, accepts_duee(path, [line["id"] for line in blind])))
    items = json.loads(path.read_text("utf-8"))
    assert [item["text"] for item in items] == [line["text"] for line in blind]
    for item in items:
        assert item.keys() == {"text", "entities"}
        for entity in item["entities"]:
            words = item["text"][entity["start_idx"] : entity["end_idx"] + 1]
            assert entity["entity"] == words and entity["type"]
    return sum(len(item["entities"]) for item in items)


@pytest.mark.parametrize("name", TASKS)
def test_a_host_file_becomes_a_submission(name: str, tmp_path: Path) -> None:
    project = bake_project(TASKS[name], tmp_path, "comparison,host_formats")
    draw = random.Random(name)
    lines = {
        split: [draw_line(draw, name, number) for number in range(count)]
        for split, count in SPLITS.items()
    }
    blind = [{key: line[key] for key in ("id", "text") if key in line} for line in lines["test"]]
    process = ProjectProcess(project)

    def start(script: str, *words: object) -> str:
        done = process.run(script, *map(str, words))
        assert done.code == 0, f"{done.out}\n{done.err}"
        return done.out

    try:
        read, write = (f"extras/host_formats/{one}.py" for one in ("read", "write"))
        for split, own in {**lines, "test": blind}.items():
            publish(tmp_path / f"{split}.json", name, own)
            start(read, name, tmp_path / f"{split}.json", project / f"{split}.jsonl")
        start("train.py", *flags(project, train_file="train.jsonl", dev_file="dev.jsonl", steps=2))
        predictions, out = tmp_path / "predictions.jsonl", tmp_path / "submission.json"
        start("predict.py", "default", project / "test.jsonl", predictions)
        schema = ["--schema", tmp_path / "train.json"] if name == "duie" else []
        start(write, name, predictions, out, "--texts", tmp_path / "test.json", *schema)
        assert accepts(name, out, blind) >= 0

        # The same numbers from the predictions as from the run.
        start("evaluate.py", "default", project / "train.jsonl")
        start("predict.py", "default", project / "train.jsonl", predictions)
        start("score.py", predictions, project / "train.jsonl", "--out", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text("utf-8"))
        known = json.loads((project / "runs/default/scores.json").read_text("utf-8"))
        assert {key: known["files"]["train"][key] for key in scores} == scores

        # What is right in the records is right in the submission, and read back from there.
        start(write, name, project / "dev.jsonl", out, "--texts", tmp_path / "dev.json", *schema)
        assert accepts(name, out, lines["dev"]) > SPLITS["dev"] - 1
        given = read_lines(out) if name == "duee" else None
        if given is not None:  # its submission has no texts
            both = zip(given, lines["dev"], strict=True)
            publish(out, name, [{**line, "text": own["text"]} for line, own in both])
        start(read, name, out, tmp_path / "again.jsonl")
        start("score.py", tmp_path / "again.jsonl", project / "dev.jsonl", "--out", out)
        scores = json.loads(out.read_text("utf-8"))
        assert scores.get("f1", scores.get("argument_classification_f1")) == 1
    finally:
        process.stop()

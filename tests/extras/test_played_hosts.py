"""Competitions of four hosts, from the host's files to a submission that its own rule scores.

Files are made up in the shape of the originals. Each score is computed a second time, by
scikit-learn or by code of this module that follows the rule as the host writes it.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from project_process import ProjectProcess
from projects import bake_project, flags
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support
from test_host_formats import accepts, publish, read_lines

READ, WRITE, SCORE = (f"extras/host_formats/{name}.py" for name in ("read", "write", "score"))
TRAIN, PREDICT = "train.py", "predict.py"
SPLITS = {"train": 32, "dev": 16, "test": 24}
ANSWERS = {"label", "label_desc", "entities", "event_list"}


class Player:
    """A project with the host's files next to it.

    Args:
        task: the template.
        name: the format.
        draw_line: makes a labelled line of the host from its split and number.
        folder: gets project and files.
        extras: of the project.
    """

    def __init__(
        self,
        task: str,
        name: str,
        draw_line: Callable[[random.Random, int], dict],
        folder: Path,
        extras: str,
    ) -> None:
        self.name, self.folder, self.draw = name, folder, random.Random(name)
        self.project = bake_project(task, folder, extras)
        self.process = ProjectProcess(self.project)
        self.lines = {
            split: [draw_line(self.draw, 1000 * n + number) for number in range(count)]
            for n, (split, count) in enumerate(SPLITS.items())
        }
        self.blind = [
            {key: value for key, value in line.items() if key not in ANSWERS}
            for line in self.lines["test"]
        ]
        for split, lines in {**self.lines, "test": self.blind, "gold": self.lines["test"]}.items():
            publish(folder / f"{split}.json", name, lines)

    def start(self, *words: object) -> str:
        """Run a command of the project; return what it printed."""
        done = self.process.run(*map(str, words))
        assert done.code == 0, f"{done.out}\n{done.err}"
        return done.out

    def convert(self) -> None:
        """Make records of all files."""
        for split in (*SPLITS, "gold"):
            self.start(READ, self.name, self.folder / f"{split}.json", self.records(split))

    def records(self, split: str) -> Path:
        """Return the path of the records of a split."""
        return self.project / f"{split}.jsonl"

    def train(self, **settings: object) -> Path:
        """Train two steps and predict the test file; return the predictions."""
        files = {f"{split}_file": self.records(split) for split in ("train", "dev")}
        self.start(TRAIN, *flags(self.project, steps=2, **{**files, **settings}))
        self.start(PREDICT, "default", self.records("test"), self.folder / "predictions.jsonl")
        return self.folder / "predictions.jsonl"

    def submit(self, predictions: Path, *words: object) -> Path:
        """Write the submission of the test file; return its path."""
        out, texts = self.folder / "submission.json", self.folder / "test.json"
        ends = ("--ends", "inclusive") if self.name == "cmeee" else ()
        self.start(WRITE, self.name, predictions, out, "--texts", texts, *ends, *words)
        return out

    def scores(self, script: str, *words: object) -> dict:
        """Return the scores that a script of the project computes, with all digits."""
        self.start(script, *words, "--out", self.folder / "scores.json")
        return json.loads((self.folder / "scores.json").read_text("utf-8"))


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., Player]]:
    """Make players, whose processes end with the test."""
    players = []

    def make(*words: object, extras: str = "comparison,host_formats") -> Player:
        players.append(Player(*words, tmp_path, extras))
        return players[-1]

    yield make
    for player in players:
        player.process.stop()


def save(path: Path, records: list[dict]) -> Path:
    """Write records as predictions."""
    path.write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records), "utf-8")
    return path


# ------------------------------------------------------------------------------------------- CLUE

TNEWS = {"102": ("news_entertainment", "明星"), "103": ("news_sports", "球队"), "115": ("农", "田")}


def tnews_line(draw: random.Random, number: int) -> dict:
    """Return a line of TNEWS; only its test file has ids."""
    label, (name, word) = draw.choice([*TNEWS.items()])
    line = {"label": label, "label_desc": name, "sentence": f'{word}"{number}",\t第{number}次'}
    numbered = {"id": number - 2000, **line} if number >= 2000 else line
    return {**numbered, "keywords": f"{word},第" if number % 2 else ""}


def afqmc_line(draw: random.Random, number: int) -> dict:
    """Return a line of AFQMC: two questions, 1 where they ask the same."""
    words = [draw.choice(["还款", "借呗"]) for _ in range(2)]
    line = {"sentence1": f"{words[0]}{number}吗", "sentence2": f"怎么{words[1]}"}
    line["label"] = str(int(words[0] == words[1]))
    return {"id": number - 2000, **line} if number >= 2000 else line


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("draw_line", [tnews_line, afqmc_line])
def test_labels_of_clue_are_scored_by_accuracy(play, draw_line) -> None:
    player = play(
        "text_classification", "clue", draw_line, extras="comparison,competition,host_formats"
    )
    files = {f"{split}_file": player.folder / f"{split}.json" for split in ("train", "dev")}
    predictions = player.folder / "predictions.jsonl"
    player.start(TRAIN, *flags(player.project, steps=2, floor="false", metric="accuracy", **files))
    player.start(PREDICT, "default", player.folder / "test.json", predictions)
    out = player.submit(predictions)

    # The host's rules: an object for each line of the test file, with its id and a label of train.
    submission, gold = read_lines(out), player.lines["test"]
    assert [line["id"] for line in submission] == [line["id"] for line in player.blind]
    assert all(line.keys() == {"id", "label"} for line in submission)
    known = {line["label"] for line in player.lines["train"]}
    assert {line["label"] for line in submission} <= known

    expected = accuracy_score(*([line["label"] for line in own] for own in (gold, submission)))
    assert 0 < expected < 1
    player.start("evaluate.py", "default", player.folder / "gold.json")
    kept = json.loads((player.project / "runs/default/scores.json").read_text("utf-8"))
    assert kept["files"]["gold"]["accuracy"] == pytest.approx(expected, abs=1e-9)
    for own in (predictions, out):  # the file that the host gets, too
        scores = player.scores("score.py", own, player.folder / "gold.json")
        assert scores["accuracy"] == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------------------------------ CMeEE

MEDICAL = {"dis": ["肺炎", "糖尿病😀", "ⅠA型"], "sym": ["发热", "头痛"], "bod": ["肺", "头"]}


def cmeee_line(draw: random.Random, number: int) -> dict:
    """Return an item of CMeEE, with a body part within a symptom or a disease."""
    kinds = draw.choices([*MEDICAL], k=3)
    text, entities = f"({number})患者", []
    for kind in kinds:
        words = draw.choice(MEDICAL[kind])
        first = len(text)
        text += f"{words}，"
        found = {(first, first + len(words) - 1, kind)}
        if kind != "bod" and words[0] in MEDICAL["bod"]:
            found.add((first, first, "bod"))
        entities += [
            {"start_idx": a, "end_idx": b, "type": one, "entity": text[a : b + 1]}
            for a, b, one in sorted(found)
        ]
    return {"text": text, "entities": entities}


def with_wrong_entities(draw: random.Random, record: dict) -> dict:
    """Return a record whose entities are partly lost, longer, of another type or new."""
    entities = set()
    for entity in record["entities"]:
        (start, end), kind, luck = entity["span"], entity["type"], draw.random()
        if luck < 0.2:
            continue
        entities.add((start, end + (0.2 < luck < 0.4), "dis" if 0.4 < luck < 0.5 else kind))
    entities.add((0, draw.randint(1, 3), "sym"))
    items = [{"type": kind, "span": [start, end]} for start, end, kind in sorted(entities)]
    return {**record, "entities": items}


def cmeee_items(path: Path) -> set[tuple]:
    """Return `(item, first, last, type)` of each entity of a host's file."""
    return {
        (number, entity["start_idx"], entity["end_idx"], entity["type"])
        for number, item in enumerate(json.loads(path.read_text("utf-8")))
        for entity in item["entities"]
    }


@pytest.mark.trains
def test_entities_of_cmeee_are_scored_by_exact_matches(play) -> None:
    player = play("named_entity_recognition", "cmeee", cmeee_line)
    player.convert()
    assert accepts("cmeee", player.submit(player.train()), player.blind) >= 0

    gold = read_lines(player.records("gold"))
    wrong = [with_wrong_entities(player.draw, record) for record in gold]
    predictions = save(player.folder / "wrong.jsonl", wrong)
    out = player.submit(predictions)
    assert accepts("cmeee", out, player.blind) > 20
    found, true = cmeee_items(out), cmeee_items(player.folder / "gold.json")
    every = [*(found | true)]
    both = ([int(one in own) for one in every] for own in (true, found))
    precision, recall, f1, _ = precision_recall_fscore_support(*both, average="binary")
    assert 0.2 < f1 < 0.9
    scores = player.scores("score.py", predictions, player.records("gold"))
    names = ("precision", "recall", "f1")
    assert [scores[name] for name in names] == pytest.approx([precision, recall, f1], abs=1e-9)
    # The submission of anybody, read back.
    player.start(READ, "cmeee", out, player.folder / "again.jsonl")
    again = player.scores("score.py", player.folder / "again.jsonl", player.records("gold"))
    assert {name: again[name] for name in names} == {name: scores[name] for name in names}


# ------------------------------------------------------------------------------------------- DuEE

BUYERS = ["Zen集团", "星河😀", "云海公司公司"]
GOODS = ["云海", "ABC Bank", "红楼酒店"]


def duee_line(draw: random.Random, number: int) -> dict:
    """Return a line of DuEE 1.0 with one event or two; some arguments have aliases."""
    text, events = f"{number}讯：", []
    for _ in range(draw.randint(1, 2)):
        kind, trigger = draw.choice([("财经/交易-出售/收购", "收购"), ("组织关系-裁员", "裁员")])
        parts = []
        for role, names in (("收购方", BUYERS), ("标的", GOODS)):
            words = draw.choice(names)
            alias = [words.removesuffix("公司"), words[:2]] if draw.random() < 0.3 else []
            start = len(text) + len(trigger) * (role == "标的")
            parts.append(
                {"argument_start_index": start, "role": role, "argument": words, "alias": alias}
            )
            text += words if role == "收购方" else f"{trigger}{words}，"
        start = parts[1]["argument_start_index"] - len(trigger)
        event = {"event_type": kind, "trigger": trigger, "trigger_start_index": start}
        events.append({**event, "arguments": parts, "class": kind.split("-")[0]})
    return {"text": text, "id": f"{number:032x}", "event_list": events}


def with_wrong_events(draw: random.Random, record: dict) -> dict:
    """Return a record whose arguments are partly lost, shorter, or of another role or type."""
    events = []
    for event in record["events"]:
        arguments = []
        for part in event["arguments"]:
            (start, end), role, luck = part["span"], part["role"], draw.random()
            if luck < 0.2:
                continue
            start += 0.2 < luck < 0.3
            end -= (0.3 < luck < 0.6) * (2 if end - start > 3 else 1)  # which may be an alias
            wrong = "标的" if 0.6 < luck < 0.7 else role
            arguments.append({"role": wrong, "span": [start, end]})
        kind = "组织关系-裁员" if draw.random() < 0.2 else event["type"]
        events.append({**event, "type": kind, "arguments": arguments})
    return {**record, "events": events}


def duee_f1(submission: list[dict], gold: list[dict]) -> dict[str, float]:
    """Compute the score as DuEE's task description writes it, one character after the other."""
    total, predicted, annotated = 0.0, 0, 0
    answers = {line["id"]: line["event_list"] for line in submission}
    for line in gold:
        true: dict[tuple, set[str]] = {}
        for event in line["event_list"]:
            for part in event["arguments"]:
                key = (event["event_type"], part["role"], part["argument"].lower())
                true.setdefault(key, set()).update([key[2], *map(str.lower, part["alias"])])
        found = {
            (event["event_type"], part["role"], part["argument"].lower())
            for event in answers[line["id"]]
            for part in event["arguments"]
        }
        annotated, predicted = annotated + len(true), predicted + len(found)
        for kind, role, words in found:
            best = 0.0
            for key, forms in true.items():
                for form in forms if key[:2] == (kind, role) else ():
                    left, shared = list(form), 0
                    for character in words:
                        if character in left:
                            left.remove(character)
                            shared += 1
                    if shared:
                        p, r = shared / len(words), shared / len(form)
                        best = max(best, 2 * p * r / (p + r))
            total += best
    p, r = total / predicted, total / annotated
    return {"precision": p, "recall": r, "f1": 2 * p * r / (p + r)}


@pytest.mark.further
@pytest.mark.trains
def test_arguments_of_duee_are_scored_by_shared_characters(play) -> None:
    player = play("event_extraction", "duee", duee_line)
    player.convert()
    assert accepts("duee", player.submit(player.train()), player.blind) >= 0

    gold = read_lines(player.records("gold"))
    wrong = [with_wrong_events(player.draw, record) for record in gold]
    predictions = save(player.folder / "wrong.jsonl", wrong)
    out = player.submit(predictions)
    assert accepts("duee", out, player.blind) > 20
    expected = duee_f1(read_lines(out), player.lines["test"])
    assert 0.3 < expected["f1"] < 0.9
    scores = player.scores(SCORE, "duee", out, player.folder / "gold.json")
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-9)

    # Records have no aliases: without them the project's own score is the host's.
    plain = json.loads(json.dumps(player.lines["test"]))
    for line in plain:
        for event in line["event_list"]:
            for part in event["arguments"]:
                part["alias"] = []
    without = duee_f1(read_lines(out), plain)["f1"]
    own = player.scores("score.py", predictions, player.records("gold"))
    assert own["duee_f1"] == pytest.approx(without, abs=1e-9) and without < expected["f1"]


# ------------------------------------------------------------------------------ SemEval-2010 task 8

TOPICS = ["Message-Topic(e1,e2)", "Message-Topic(e2,e1)", "Cause-Effect(e2,e1)", "Other"]


def semeval_line(draw: random.Random, number: int) -> dict:
    """Return a sentence with its relation, which one of its words tells."""
    label = draw.choice(TOPICS)
    about = ["about", "that tells", "from", "near"][TOPICS.index(label)]
    sentence = f'Some "quoted" <e1>words {number}</e1> {about} the <e2>rain</e2>.'
    return {"id": number + 1, "sentence": sentence, "label": label}


def publish_semeval(path: Path, lines: list[dict]) -> None:
    """Write a file as the task has it; without labels it has one line for each sentence."""
    blocks = [
        f'{line["id"]}\t"{line["sentence"]}"\r\n'
        + (f"{line['label']}\r\nComment: \r\n\r\n" if "label" in line else "")
        for line in lines
    ]
    path.write_bytes("".join(blocks).encode())


@pytest.mark.further
@pytest.mark.trains
def test_relations_of_given_pairs_are_scored_as_semeval_does(play) -> None:
    player = play("text_classification", "semeval", semeval_line)
    for split, lines in {**player.lines, "gold": player.lines["test"]}.items():
        publish_semeval(player.folder / f"{split}.json", player.blind if split == "test" else lines)
    player.convert()
    out = player.submit(player.train(floor="false", epochs=1, learning_rate=0.01))
    answers = [line.split("\t") for line in out.read_text("utf-8").splitlines()]
    assert [name for name, _ in answers] == [str(line["id"]) for line in player.blind]
    assert {label for _, label in answers} <= {*TOPICS}
    # Some are right and some are wrong, in their direction too.
    found = [label for _, label in answers]
    found[::2] = [line["label"] for line in player.lines["test"][::2]]
    found[1] = TOPICS[1 - TOPICS.index(player.lines["test"][1]["label"])]
    gold = [line["label"] for line in player.lines["test"]]
    out.write_text("".join(f"{a}\t{b}\n" for (a, _), b in zip(answers, found, strict=True)))
    counts = confusion_matrix(gold, found, labels=TOPICS)
    f1 = [
        2 * np.trace(counts[own, own]) / (counts[own].sum() + counts[:, own].sum())
        for own in (slice(0, 2), slice(2, 3))
    ]
    scores = player.scores(SCORE, "semeval", out, player.folder / "gold.json")
    assert scores["macro_f1"] == pytest.approx(np.mean(f1), abs=1e-9) and 0.2 < np.mean(f1) < 1
    assert scores["accuracy"] == pytest.approx(accuracy_score(gold, found), abs=1e-9)

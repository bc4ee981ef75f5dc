"""Competitions played from the host's files to the submission, and scored by scikit-learn.

Files are made up, and have the header, the quotes and the sample of the originals.
"""

import csv
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from project_process import ProjectProcess
from projects import bake_project, check_records, flags, run
from sklearn.metrics import (
    cohen_kappa_score,
    f1_score,
    log_loss,
    mean_squared_error,
    roc_auc_score,
)

TRAIN = "train.py"
WORDS = "amber basil cedar delta ember fjord grove heath".split()
TOXIC = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]
ENGLISH = ["cohesion", "syntax", "vocabulary", "phraseology", "grammar", "conventions"]
WINNERS = ["winner_model_a", "winner_model_b", "winner_tie"]
SPLITS = {"train": 40, "valid": 16, "test": 9}


def say(draw: random.Random, count: int) -> str:
    """Return words."""
    return " ".join(draw.choice(WORDS) for _ in range(count))


def toxic_row(draw: random.Random, number: int) -> list:
    """Return a row of Jigsaw's toxic comments: six labels, none of them in most rows."""
    labels = [int(draw.random() < 0.3) for _ in TOXIC]
    found = " ".join(name for name, label in zip(TOXIC, labels, strict=True) if label)
    return [f"{number:016x}", f'{number} {say(draw, 4)}\n\n"quoted, text" {found}', *labels]


def insincere_row(draw: random.Random, number: int) -> list:
    """Return a row of Quora's questions, few of which are positive."""
    label = int(number % 8 == 3)
    return [
        f"{number:020x}",
        f"{'Why so heath' if label else 'How'} {say(draw, 4)} {number}?",
        label,
    ]


def essay_row(draw: random.Random, number: int) -> list:
    """Return a row of Feedback Prize ELL: six grades in halves."""
    text = f"{number} {say(draw, draw.randint(2, 20))}\r\n{say(draw, 2)}"
    return [f"{number:012X}", text, *(draw.randint(2, 10) / 2 for _ in ENGLISH)]


def battle_row(draw: random.Random, number: int) -> list:
    """Return a row of LMSYS: cells are lists of turns, one of which may be null."""
    best = draw.randrange(3)
    turns = [[f'Wh\u00e4t "is" {number}?\nSay'], [say(draw, 3)], [say(draw, 3)]]
    turns[2] += [None] if number % 5 == 0 else []
    cells = [json.dumps(turn, separators=(",", ":")) for turn in turns]
    return [30192 + number, "gpt-4", "vicuna", *cells, *(int(best == n) for n in range(3))]


def long_essay_row(draw: random.Random, number: int) -> list:
    """Return a row of Automated Essay Scoring 2.0, but shorter: 160 words, and a grade from 1 to 6.

    What tells the grade is at the end, far behind the first window.
    """
    grade = 1 + number % 6
    words = f'{number} {say(draw, 80)},\n\n"he said" {say(draw, 80)}. '
    return [f"{number:07x}", words + " ".join(["therefore"] * 4 * (grade - 1)), grade]


def toxic_score(gold: np.ndarray, cells: np.ndarray) -> float:
    """Return the mean ROC AUC of the labels that some records have, and some have not."""
    kept = [n for n in range(len(TOXIC)) if 0 < gold[:, n].sum() < len(gold)]
    return roc_auc_score(gold[:, kept], cells[:, kept])


@dataclass(frozen=True)
class Competition:
    """The files of a competition, and what a participant sets."""

    row: Callable[[random.Random, int], list]
    header: list[str]
    gold: list[str]  # columns that the test file lacks
    sample: list[str]
    metric: str
    score: Callable[[np.ndarray, np.ndarray], float]
    settings: dict[str, str] = field(default_factory=dict)
    quoting: int = csv.QUOTE_MINIMAL
    absent: tuple[str, ...] = ()  # other columns that the test file lacks
    digits: float = 2e-6  # of the score: cells are rounded, but for whole numbers


COMPETITIONS = {
    "jigsaw": Competition(
        toxic_row,
        ["id", "comment_text", *TOXIC],
        TOXIC,
        ["id", *TOXIC],
        "roc_auc",
        toxic_score,
        quoting=csv.QUOTE_NONNUMERIC,
    ),
    "quora": Competition(
        insincere_row,
        ["qid", "question_text", "target"],
        ["target"],
        ["qid", "prediction"],
        "f1",
        lambda gold, cells: f1_score(gold[:, 0], cells[:, 0]),
        {"positive_label": "1"},
    ),
    "feedback": Competition(
        essay_row,
        ["text_id", "full_text", *ENGLISH],
        ENGLISH,
        ["text_id", *ENGLISH],
        "mcrmse",
        lambda gold, cells: np.mean(
            np.sqrt(mean_squared_error(gold, cells, multioutput="raw_values"))
        ),
        {"output": "number"},
    ),
    "essays": Competition(
        long_essay_row,
        ["essay_id", "full_text", "score"],
        ["score"],
        ["essay_id", "score"],
        "qwk",
        lambda gold, cells: cohen_kappa_score(gold[:, 0], cells[:, 0], weights="quadratic"),
        {
            "output": "number",
            "max_length": "256",
            "long_documents.window": "64",
            "long_documents.overlap": "16",
            "learning_rate": "0.01",
            "steps": "20",
        },
        digits=1e-9,
    ),
    "lmsys": Competition(
        battle_row,
        ["id", "model_a", "model_b", "prompt", "response_a", "response_b", *WINNERS],
        WINNERS,
        ["id", *WINNERS],
        "log_loss",
        lambda gold, cells: log_loss(gold.argmax(1), cells),
        {
            "competition.text_columns": '["prompt", "response_a", "response_b"]',
            "competition.turn_separator": "\\n",
            "competition.swap_training": "true",
            "competition.swap_prediction": "true",
            "competition.swap_labels": '{ winner_model_a = "winner_model_b" }',
        },
        quoting=csv.QUOTE_NONNUMERIC,
        absent=("model_a", "model_b"),
    ),
}


def publish(path: Path, header: list[str], rows: list[list], quoting: int) -> None:
    """Write a table as a host does."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting).writerows([header, *rows])


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with open(path, newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    project = bake_project("text_classification", tmp_path_factory.mktemp("played"))
    process = ProjectProcess(project)
    yield process
    process.stop()


@pytest.mark.shown("jigsaw")
@pytest.mark.trains
@pytest.mark.parametrize("name", COMPETITIONS)
def test_a_competition_from_its_files_to_a_submission(process, tmp_path, name):
    played, draw, project = COMPETITIONS[name], random.Random(name), process.project
    rows = {
        split: [played.row(draw, 1000 * number + n) for n in range(count)]
        for number, (split, count) in enumerate(SPLITS.items())
    }
    left_out = {*played.gold, *played.absent}
    kept = [n for n, column in enumerate(played.header) if column not in left_out]
    for split, own in rows.items():
        blind = split == "test"
        header = [played.header[n] for n in kept] if blind else played.header
        cells = [[row[n] for n in kept] for row in own] if blind else own
        publish(tmp_path / f"{split}.csv", header, cells, played.quoting)
        empty = [[row[0], *(0 for _ in played.sample[1:])] for row in own[::-1]]
        publish(tmp_path / f"{split}_sample.csv", played.sample, empty, csv.QUOTE_MINIMAL)
    settings = {f"{split}_file": tmp_path / f"{split}.csv" for split in ("train", "test")}
    settings["dev_file"] = tmp_path / "valid.csv"
    settings |= {"metric": played.metric, "steps": 2, "batch_size": 8, "floor": "false"}
    settings |= {"run_name": name, "distillation.files": "[]", **played.settings}
    settings["competition.sample_submission"] = tmp_path / "test_sample.csv"

    def start(*command: object, **own: object) -> str:
        asked = flags(project, **{**settings, **own}) if command[0] in ("check.py", TRAIN) else []
        done = process.run(*map(str, command), *asked)
        assert done.code == 0, f"{done.out}\n{done.err}"
        return done.out

    if name == "lmsys":  # what is augmented; the model of all is the same
        said = start("check.py")
    else:
        said = run(check_records(project), *flags(project, **settings), cwd=project).stdout
    assert "test_sample.csv: cells: " in said
    start(TRAIN)
    sample = tmp_path / "test_sample.csv"
    before = sample.read_bytes()
    done = process.run("predict.py", name, str(tmp_path / "test.csv"), str(sample))
    assert done.code == 1 and "test_sample.csv is the file that is read" in done.err
    assert sample.read_bytes() == before
    submissions = {}
    for split in ("valid", "test"):
        out = tmp_path / f"{split}_out.csv"
        sample = tmp_path / f"{split}_sample.csv"
        start("predict.py", name, tmp_path / f"{split}.csv", out, "--sample", sample)
        submissions[split] = read(out)
        assert [*submissions[split][0]] == played.sample
        asked = [row[played.sample[0]] for row in read(sample)]
        assert [row[played.sample[0]] for row in submissions[split]] == asked
    gold = {row[played.header[0]]: row for row in read(tmp_path / "valid.csv")}
    own = submissions["valid"]
    true = [[float(gold[row[played.sample[0]]][c]) for c in played.gold] for row in own]
    cells = [[float(row[column]) for column in played.sample[1:]] for row in own]
    start("evaluate.py", name, tmp_path / "valid.csv")
    scores = json.loads((project / "runs" / name / "scores.json").read_text("utf-8"))
    expected = played.score(np.array(true), np.array(cells))
    assert scores["files"]["valid"][played.metric] == pytest.approx(expected, abs=played.digits)
    if name == "essays":  # more than one grade, or any kappa is 0
        assert len(np.unique(cells)) > 1 and {*np.unique(cells)} <= {*range(1, 7)}
    if name == "lmsys":  # a tie is one of three labels, whose probabilities sum to 1
        assert np.allclose(np.sum(cells, axis=1), 1, atol=1e-5)

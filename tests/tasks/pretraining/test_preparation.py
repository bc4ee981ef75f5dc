"""The commands of pre-training: from text to a folder that a project of another task takes."""

import json
import shutil

import pytest
from project_process import ProjectProcess
from projects import bake_project, flags, run, shorten

from generator.bake import CACHES

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A project with shards, a trained run, and a folder `encoder` that was exported."""
    project = bake_project("pretraining", tmp_path_factory.mktemp("project"))
    process = ProjectProcess(project)
    refused = process.run("train.py", *flags(project))
    assert refused.code == 1 and "holds no shards: run python prepare.py first" in refused.err
    assert not (project / "runs").exists()
    shorten(project, {"train": 40, "dev": 8, "test": 8})
    (project / "blank.txt").write_text("\n\n \n", encoding="utf-8")
    for command in (
        ["train.py", *flags(project, epochs=1, shown_examples=1)],
        ["evaluate.py", "default", str(project / "sample/test.txt")],
        ["evaluate.py", "default", str(project / "sample/dev.txt")],
        ["export.py", "default", str(project / "encoder"), "--preset", str(project / "preset")],
        ["compare.py", "default", "default"],
    ):
        done = process.run(*command)
        assert done.code == 0, done.err
    yield process
    process.stop()


def test_scores_and_report(process):
    folder = process.project / "runs/default"
    scores = json.loads((folder / "scores.json").read_text("utf-8"))
    for part in (scores["dev"], scores["files"]["test"]):
        assert part["records"] == 8 and part["perplexity"] > 1
    assert scores["dev"]["data_hash"].startswith("sha256:")
    # The same texts from their file, beside those of the shards.
    assert scores["dev"]["file"] == "shards/dev/manifest.json"
    file = scores["files"]["sample_dev"]
    assert file["perplexity"] == pytest.approx(scores["dev"]["perplexity"], rel=1e-5)
    lines = (folder / "predictions/dev.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    predicted = sum(row["statistics"][1] for row in rows)
    assert predicted == scores["dev"]["predicted_tokens"]
    hidden = [(row["text"], hidden) for row in rows for hidden in row["hidden"]]
    assert len(hidden) == predicted and all(len(one["predicted"]) == 3 for _, one in hidden)
    page = (folder / "report.html").read_text("utf-8")
    text, one = hidden[0]
    assert text[one["span"][0] : one["span"][1]] in page and one["predicted"][0] in page


def test_a_project_of_a_task_takes_the_folder(process, tmp_path):
    other = bake_project("text_classification", tmp_path)
    shorten(other, {"train": 12, "dev": 6})
    asked = flags(other, encoder=str(process.project / "encoder"), steps=1, max_length=32)
    done = run("train.py", *asked, cwd=other)
    assert "best dev" in done.stdout


BAD_COMMANDS = {
    "longer than the shards": (
        ("train.py", {"max_length": 32, "run_name": "new"}),
        ("shards/train was prepared with max_length = 64, not 32", "set it as it was"),
    ),
    "more than all": (
        ("train.py", {"mask_share": 0.9, "random_share": 0.2}),
        ("mask_share + random_share = 1.1 is more than all hidden tokens",),
    ),
    "unknown objective": (
        ("train.py", {"objective": "gpt"}),
        ("'masked', 'causal', 'unilm', 'denoising' or 'replaced'",),
    ),
    "finished": (("train.py", {}), ("runs/default is a finished run",)),
    "no file": (("evaluate.py", "default", "no.txt"), ("no.txt' names no file",)),
    "no run": (("export.py", "none", "out"), ("none is not a run: runs/ has default",)),
    "folder is there": (("export.py", "default", "sample"), ("sample exists already",)),
    "folder in a file": (("export.py", "default", "config.toml/x"), ("can't be made in",)),
    "two in one folder": (
        ("export.py", "default", "one", "--preset", "one"),
        ("--preset one would hold one, too: name two folders",),
    ),
    "no text": (("evaluate.py", "default", "blank.txt"), ("of 3 lines 3 empty (the first: blank",)),
    "only a folder": (("evaluate.py", "default", "task"), ("names no file: name its files, ",)),
    "other texts": (("compare.py", "default"), ("which differ in texts or vocabulary",)),
    "other tokens": (
        ("train.py", {"encoder": "strange", "run_name": "new"}),
        ("the shards were prepared with other tokens than strange has", "prepare.py"),
    ),
}


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_bad_commands(process, name):
    project = process.project
    if name == "other texts" and not (project / "reference/scores.json").is_file():
        pytest.skip("the reference has not been scored yet")
    if name == "other tokens" and not (project / "strange").exists():
        strange = project / "strange"
        strange.mkdir()
        for path in (project / "encoder").iterdir():
            (strange / path.name).write_bytes(path.read_bytes())
        words = json.loads((strange / "tokenizer.json").read_text("utf-8"))
        vocabulary = words["model"]["vocab"]
        vocabulary["elsewhere"] = vocabulary.pop(max(vocabulary, key=vocabulary.get))
        (strange / "tokenizer.json").write_text(json.dumps(words), encoding="utf-8")
    (script, *arguments), words = BAD_COMMANDS[name]
    if script == "train.py":
        arguments = flags(project, **{"epochs": 1, "shown_examples": 1, **arguments[0]})
    before = contents(project)
    done = process.run(script, *arguments)
    assert done.code == 1 and "Traceback" not in done.err, f"{done.out}\n{done.err}"
    sentence = done.err.strip().splitlines()[-1]
    assert sentence.startswith("error: ")
    for word in words:
        assert word in sentence
    assert contents(project) == before


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("best.weights.h5", "is missing, damaged or swapped: restore it, or train again"),
        ("tokenizer.json", "is missing, damaged or swapped"),
        ("scores.json", "holds no JSON object, or an empty one"),
        ("config.json", "holds no JSON object, or an empty one"),
    ],
)
def test_a_damaged_run_is_refused(process, file, words):
    runs = process.project / "runs"
    shutil.copytree(runs / "default", runs / "broken")
    content = bytearray((runs / "broken" / file).read_bytes())
    content[len(content) // 2] ^= 1
    (runs / "broken" / file).write_bytes(b"[]" if "JSON" in words else content)
    before = contents(process.project)
    done = process.run("evaluate.py", "broken", str(process.project / "sample/test.txt"))
    try:
        assert contents(process.project) == before
    finally:
        shutil.rmtree(runs / "broken")
    assert done.code == 1 and "Traceback" not in done.err, f"{done.out}\n{done.err}"
    sentence = done.err.strip().splitlines()[-1]
    assert sentence.startswith("error: ") and f"{file} {words}" in sentence


def contents(project) -> dict[str, bytes]:
    """Return every file of a project with its bytes, but for what only Python leaves."""
    return {
        str(path): path.read_bytes()
        for path in project.rglob("*")
        if path.is_file() and not set(path.parts) & set(CACHES)
    }


def refuse_shards(process, path, content: bytes, words: str) -> None:
    """Train on a folder of shards in which a file is another one: one sentence, no traceback."""
    before = path.read_bytes()
    try:
        path.write_bytes(content)
        asked = flags(process.project, epochs=1, shown_examples=0, run_name="torn")
        done = process.run("train.py", *asked)
    finally:
        path.write_bytes(before)
    assert done.code == 1 and "Traceback" not in done.err, done.err
    sentence = done.err.strip().splitlines()[-1]
    assert sentence.startswith("error: ") and words in sentence and path.name in sentence


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_flipped_byte_in_a_shard_is_found(process, split):
    """That of train is read in mid-training, within TensorFlow."""
    [path] = (process.project / "shards" / split).glob("*.tfrecord")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    refuse_shards(process, path, bytes(content), "is missing or torn: run python prepare.py again")


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_swapped_tokenizer_of_shards_is_found(process, split):
    path = process.project / "shards" / split / "tokenizer.json"
    other = json.loads(path.read_text("utf-8"))
    vocabulary = other["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    words = "is missing, or not the one of these shards"
    refuse_shards(process, path, json.dumps(other).encode(), words)

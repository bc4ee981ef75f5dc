"""From the tables of a competition to an adapted encoder in a project of another task."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from encoder_peer import seeded
from projects import bake_project, flags, run, shorten
from run_weights import largest_difference, weights
from safetensors.numpy import load_file, save_file
from tokenizers import ByteLevelBPETokenizer, processors

pytestmark = pytest.mark.trains

WORKER = ROOT / "tests/replica_worker.py"
NUMBERS = json.loads((Path(__file__).parent / "masked_numbers.json").read_text(encoding="utf-8"))
TRAINING = {
    "encoder": "roberta",
    "max_length": 40,
    "epochs": 2,
    "batch_size": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "checkpoint_steps": 3,
}
REPLICAS = {
    "strategy": "mirrored",
    "devices.logical_devices": 2,
    "accumulation": 2,
    "recompute.enabled": True,
}


def write_roberta(folder: Path, texts: list[str]) -> None:
    """Write a small RoBERTa with a tokenizer of bytes, which was learned from texts."""
    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(texts, 400, special_tokens=special, show_progress=False)
    inner = tokenizer._tokenizer
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made, rows = NUMBERS["roberta"], inner.get_vocab_size()
    folder.mkdir()
    config = json.dumps({**made["config"], "vocab_size": rows})
    (folder / "config.json").write_text(config, encoding="utf-8")
    shapes = {
        name: [rows if size == 60 else size for size in s] for name, s in made["shapes"].items()
    }
    state = {name: 0.3 * seeded(name, tuple(shape)) for name, shape in shapes.items()}
    save_file(state, folder / "model.safetensors")
    inner.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with a RoBERTa, shards of its tokens, and a training that nothing disturbed."""
    project = bake_project("pretraining", tmp_path_factory.mktemp("p"), "encoders, recompute")
    lines = (project / "sample/train.txt").read_text(encoding="utf-8").splitlines()
    write_roberta(project / "roberta", lines)
    for part, count in (("train", 40), ("dev", 9)):
        path = project / f"sample/{part}.txt"
        kept = path.read_text(encoding="utf-8").splitlines()[:count]
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    asked = {name: TRAINING[name] for name in ("encoder", "max_length")}
    run("prepare.py", *flags(project, **asked), cwd=project)
    run("train.py", *flags(project, run_name="whole", **TRAINING), cwd=project)
    return project


@pytest.mark.further
def test_two_replicas_micro_batches_and_recomputed_layers(project):
    asked = {**TRAINING, **REPLICAS, "run_name": "two"}
    run("train.py", *flags(project, **asked), cwd=project)
    one, other = (weights(project / "runs" / name) for name in ("whole", "two"))
    largest = largest_difference(one, other)
    print(f"largest difference {largest:.1e}")
    assert len(one) > 30 and largest < 1e-5


@pytest.mark.further
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_last_bit(project, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 5}), encoding="utf-8")
    asked = flags(project, run_name="killed", **TRAINING)
    result = run(WORKER, project, plan, *asked, cwd=tmp_path, check=False)
    assert result.returncode == -signal.SIGKILL, f"{result.stdout}\n{result.stderr}"
    run("train.py", *asked, cwd=project)
    one, other = (weights(project / "runs" / name) for name in ("whole", "killed"))
    assert largest_difference(one, other) == 0


def test_an_adapted_encoder_classifies(project, tmp_path):
    said = run("evaluate.py", "whole", "sample/dev.txt", cwd=project).stdout
    assert re.search(r"[Pp]erplexity +\d", said)
    run("export.py", "whole", tmp_path / "adapted", cwd=project)
    written = load_file(tmp_path / "adapted/model.safetensors")
    read = load_file(project / "roberta/model.safetensors")
    table = "embeddings.word_embeddings.weight"
    difference = np.abs(written[f"roberta.{table}"] - read[f"roberta.{table}"]).max()
    assert 0 < difference < 0.1, "trained from the weights of the folder"
    other = bake_project("text_classification", tmp_path, "encoders")
    shorten(other, {"train": 12, "dev": 4})
    asked = {"encoder": tmp_path / "adapted", "max_length": 40, "steps": 2}
    run("train.py", *flags(other, **asked), cwd=other)
    tokens = json.loads((other / "runs/default/tokenizer.json").read_text(encoding="utf-8"))
    own = json.loads((project / "roberta/tokenizer.json").read_text(encoding="utf-8"))
    assert tokens["model"]["vocab"] == own["model"]["vocab"]


def test_shards_of_other_tokens_are_refused(project):
    asked = {**TRAINING, "encoder": "tiny", "shards": "others", "max_length": 40}
    run(
        "prepare.py",
        *flags(project, **{n: asked[n] for n in ("shards", "max_length")}),
        cwd=project,
    )
    asked["encoder"] = "roberta"
    result = run("train.py", *flags(project, run_name="x", **asked), cwd=project, check=False)
    assert result.returncode == 1 and "--encoder roberta --overwrite true" in result.stderr
    assert not (project / "runs/x").exists()


# --- tables ---


def collect(project: Path, folder: Path, *arguments, check: bool = True):
    asked = (*arguments, "--to", folder, "--dev_share", "0.35")
    return run("collect_texts.py", *asked, cwd=project, check=check)


def read_texts(folder: Path, part: str) -> list[str]:
    lines = (folder / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_the_cells_of_tables_become_texts(project, tmp_path):
    table, records = tmp_path / "a.csv", tmp_path / "b.jsonl"
    rows = "".join(f'{n},"line {n},\nand ""more""",title {n % 20}\n' for n in range(60))
    table.write_text("\ufeffid,essay,title\n" + rows + '60,"",title 1\n', encoding="utf-8")
    texts = ["title 1", "only here"]
    lines = [json.dumps({"title": text, "score": 1}) + "\n" for text in texts]
    records.write_text("".join(lines), encoding="utf-8")
    said = collect(project, tmp_path / "t", table, "--columns", "essay,title").stdout
    found = [read_texts(tmp_path / "t", part) for part in ("train", "dev")]
    together = [*found[0], *found[1]]
    assert 'line 7,\nand "more"' in together
    assert len(together) == len(set(together)) == 60 + 20
    assert 0 < len(found[1]) < 60 and "python prepare.py --train_text" in said
    # More files move no text from one part to the other.
    collect(project, tmp_path / "more", table, records, "--columns", "title")
    more = [read_texts(tmp_path / "more", part) for part in ("train", "dev")]
    assert set(more[0]) & set(found[1]) == set() == set(more[1]) & set(found[0])
    assert "only here" in {*more[0], *more[1]}
    refused = collect(project, tmp_path / "t", table, "--columns", "essay", check=False)
    assert refused.returncode == 1 and "exists already" in refused.stderr
    # `prepare.py` reads a comma as the end of a name.
    refused = collect(project, tmp_path / "a, b", table, "--columns", "essay", check=False)
    assert refused.returncode == 1 and "has a ','" in refused.stderr
    said = collect(project, tmp_path / "two words", table, "--columns", "essay").stdout
    assert "--train_text '" in said


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "id,text\n1,a\n", "essay", "line 1: no column 'essay': choose from id, text"),
        ("a.csv", "id,text\n1,a\n", "", "is a table: name its columns"),
        ("a.tsv", "id\ttext\n1\n", "text", "line 2: fewer cells than the header"),
        ("a.jsonl", '{"a": "b"}\n[1]\n', "a", "line 2: not a JSON object"),
        ("a.jsonl", '{"a": "b"}\n{"a": 3}\n', "a", "line 2: a is 3, not a text"),
        ("a.txt", "one\n", "", "no text is left for"),
        ("a.tsv", 'text\na\n"b\nc\n', "text", "line 3: unexpected end of data: check the quotes"),
        ("a.tsv", 'text\n"b" ends\n', "text", "check the quotes of this row"),
        ("a.csv", "id,text\n1,a, b\n", "text", "line 2: more cells than the header has"),
        ("a.csv", "text,text\na,b\n", "text", "line 1: two columns 'text': rename one"),
        ("a.jsonl", '{"a": "b", "a": "c"}\n', "a", "line 1: the field 'a' occurs twice"),
        ("a.jsonl", '{"a": "half \\ud800 pair"}\n', "a", "line 1: \\ud800 is half of a character"),
        ("a.txt", "one\n\ud8ff\n", "", "a.txt, line 2: not UTF-8"),
    ],
)
def test_what_is_no_table_of_texts(name, content, columns, message, project, tmp_path):
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    asked = ("--columns", columns) if columns else ()
    result = collect(project, tmp_path / "t", tmp_path / name, *asked, check=False)
    assert result.returncode == 1 and message in " ".join(result.stderr.split()), result.stderr
    assert "Traceback" not in result.stderr and not (tmp_path / "t").exists()


# --- a decoder ---


@pytest.mark.further
def test_what_export_says_of_a_causal_model_works(tmp_path):
    """Text classification and text generation read it; any other task refuses it."""
    project = bake_project("pretraining", tmp_path, "writers")
    shorten(project, {"train": 30, "dev": 6})
    asked = {"objective": "causal", "max_length": 64, "steps": 3}
    run("prepare.py", *flags(project, max_length=64), "--overwrite", "true", cwd=project)
    run("train.py", *flags(project, **asked), cwd=project)
    said = run("export.py", "default", tmp_path / "decoder", cwd=project).stdout
    assert "text classification" in said and 'model = "pretrained"' in said
    small = {"encoder": tmp_path / "decoder", "max_length": 24, "steps": 2, "run_name": "causal"}
    for template, more in (
        ("text_classification", {}),
        ("seq2seq", {"model": "pretrained", "target_length": 16}),
    ):
        other = bake_project(template, tmp_path, "writers, encoders")
        shorten(other, {"train": 8, "dev": 3})
        run("train.py", *flags(other, **{**small, **more}), cwd=other)
        encoder = json.loads((other / "runs/causal/encoder.json").read_text(encoding="utf-8"))
        assert encoder["class_name"] == "BertDecoder"
    other = bake_project("named_entity_recognition", tmp_path, "encoders")
    result = run("train.py", *flags(other, **small), cwd=other, check=False)
    assert result.returncode == 1 and "is_decoder = True" in result.stderr

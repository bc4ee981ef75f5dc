"""A decoder is adapted to texts of one's own, and read by the tasks that read decoders."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import writer_peer
from conftest import ROOT
from projects import bake_project, flags, run, shorten
from run_weights import largest_difference, weights
from safetensors.numpy import load_file
from tokenizers import ByteLevelBPETokenizer, processors

pytestmark = pytest.mark.trains

WORKER = ROOT / "tests/replica_worker.py"
NUMBERS = json.loads((ROOT / "tests/tasks/seq2seq/writer_numbers.json").read_text(encoding="utf-8"))
TRAINING = {
    "encoder": "qwen3",
    "objective": "causal",
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


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with a Qwen3, shards of its tokens, and a training that nothing disturbed."""
    project = bake_project("pretraining", tmp_path_factory.mktemp("p"), "writers, recompute, lora")
    lines = (project / "sample/train.txt").read_text(encoding="utf-8").splitlines()
    for part, count in (("train", 40), ("dev", 9)):
        path = project / f"sample/{part}.txt"
        kept = path.read_text(encoding="utf-8").splitlines()[:count]
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines, 400, special_tokens=["<b>", "<e>"], show_progress=False)
    tokenizer._tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    fields = {"vocab_size": tokenizer.get_vocab_size(), "eos_token_id": 1}
    writer_peer.write_folder(project / "qwen3", NUMBERS["qwen3"], **fields)
    tokenizer._tokenizer.save(str(project / "qwen3/tokenizer.json"))
    asked = {name: TRAINING[name] for name in ("encoder", "objective", "max_length")}
    run("prepare.py", *flags(project, **asked), cwd=project)
    run("train.py", *flags(project, run_name="whole", **TRAINING), cwd=project)
    return project


@pytest.mark.further
@pytest.mark.parametrize("more", [{}, {"lora.rank": 2}], ids=["all", "lora"])
def test_two_replicas_micro_batches_and_recomputed_layers(project, more):
    one = {**TRAINING, **more, "run_name": "whole"}
    if more:
        one["run_name"] = "low"
        run("train.py", *flags(project, **one), cwd=project)
    two = {**one, **REPLICAS, "run_name": f"two_{one['run_name']}"}
    run("train.py", *flags(project, **two), cwd=project)
    found = [weights(project / "runs" / each["run_name"]) for each in (one, two)]
    largest = largest_difference(*found)
    print(f"largest difference {largest:.1e}")
    assert len(found[0]) > 20 and largest < 1e-5


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


@pytest.mark.further
def test_an_adapted_decoder_writes_classifies_and_goes_on(project, tmp_path):
    said = run("evaluate.py", "whole", "sample/dev.txt", cwd=project).stdout
    assert re.search(r"[Pp]erplexity +\d", said)
    said = run("export.py", "whole", tmp_path / "adapted", cwd=project).stdout
    assert "text classification" in said and 'model = "pretrained"' in said
    written, read = (
        load_file(folder / "model.safetensors")
        for folder in (tmp_path / "adapted", project / "qwen3")
    )
    assert written.keys() == read.keys()
    change = max(np.abs(written[name] - read[name]).max() for name in read)
    assert 0 < change < 0.1, "trained from the weights of the folder"
    for name in ("model", "pre_tokenizer", "post_processor"):
        one, other = (
            json.loads((folder / "tokenizer.json").read_text("utf-8"))[name]
            for folder in (tmp_path / "adapted", project / "qwen3")
        )
        assert one == other
    small = {"encoder": tmp_path / "adapted", "max_length": 24, "steps": 2, "run_name": "adapted"}
    for template, more in (
        ("text_classification", {}),
        ("seq2seq", {"model": "pretrained", "target_length": 16}),
    ):
        other = bake_project(template, tmp_path, "writers")
        shorten(other, {"train": 8, "dev": 3})
        run("train.py", *flags(other, **{**small, **more}), cwd=other)
        encoder = json.loads((other / "runs/adapted/encoder.json").read_text(encoding="utf-8"))
        assert encoder["class_name"] == "Decoder"
    asked = {**TRAINING, "encoder": tmp_path / "adapted", "steps": 2, "run_name": "again"}
    run("train.py", *flags(project, **asked), cwd=project)


@pytest.mark.further
def test_updates_of_low_rank_are_exported_merged(project, tmp_path):
    run("export.py", "low", tmp_path / "low", cwd=project)
    written, read = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "low", project / "qwen3")
    )
    moved = [name for name in read if not (written[name] == read[name]).all()]
    assert moved == [name for name in read if name.endswith("_proj.weight")]
    for name in moved:
        values = np.linalg.svd(written[name] - read[name], compute_uv=False)
        assert values[0] > 0 and values[2] < 1e-2 * values[0], name


@pytest.mark.further
def test_our_own_causal_bert_goes_on(project, tmp_path):
    """Its export is a decoder again, of the same layers."""
    tiny = {"objective": "causal", "max_length": 40, "shards": "tiny", "steps": 3}
    prepared = {name: tiny[name] for name in ("objective", "max_length", "shards")}
    run("prepare.py", *flags(project, **prepared), cwd=project)
    run("train.py", *flags(project, **tiny, run_name="tiny"), cwd=project)
    run("export.py", "tiny", tmp_path / "own", cwd=project)
    asked = {**tiny, "encoder": tmp_path / "own", "run_name": "more"}
    run("train.py", *flags(project, **asked), cwd=project)
    run("export.py", "more", tmp_path / "more", cwd=project)
    one, other = (
        load_file(tmp_path / name / "model.safetensors").keys() for name in ("own", "more")
    )
    assert other - one == set() and all("pooler" in name for name in one - other)


def test_other_objectives_are_refused_in_one_sentence(project):
    for script in ("prepare.py", "train.py"):
        asked = {"encoder": "qwen3", "objective": "masked", "max_length": 40, "run_name": "x"}
        asked |= {"shards": "masked"} if script == "prepare.py" else {}
        result = run(script, *flags(project, **asked), cwd=project, check=False)
        assert result.returncode == 1 and 'set objective = "causal"' in " ".join(
            result.stderr.split()
        )
        assert "Traceback" not in result.stderr and not (project / "runs/x").exists()

"""A run is exported: as a SavedModel that serves without the project, and whole or not at all."""

import importlib.util
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from projects import bake_project, flags, run, shorten

from core.base.errors import InputError
from core.layers.global_pointer import EfficientGlobalPointer
from extras.export import export
from extras.export.export import (
    Serving,
    check_free,
    compare,
    copy_example,
    sample_batch,
    write_folder,
)

NAMES = ["token_ids", "padding_mask"]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with a run of two steps."""
    project = bake_project(
        "text_classification", tmp_path_factory.mktemp("export"), "encoders, export"
    )
    shorten(project, {"train": 24, "dev": 4, "test": 4})
    run("train.py", *flags(project, steps=2, batch_size=8), cwd=project)
    return project


@pytest.mark.trains
def test_an_exported_run_serves_without_the_project(project, tmp_path):
    run("predict.py", "default", "sample/test.jsonl", "out.jsonl", cwd=project)
    done = run("extras/export/export.py", "default", tmp_path / "made", cwd=project)
    assert "saved_model: largest difference of an output" in done.stdout
    # Elsewhere, and without the project.
    folder = shutil.copytree(tmp_path / "made", tmp_path / "elsewhere")
    records = [json.loads(line) for line in open(project / "sample/test.jsonl", encoding="utf-8")]
    texts = ["\t".join(filter(None, (r["text_a"], r.get("text_b")))) for r in records]
    served = run(folder / "serve.py", *texts, cwd=tmp_path, anew=True).stdout.splitlines()
    predicted = [json.loads(line) for line in open(project / "out.jsonl", encoding="utf-8")]
    for line, record in zip(served, predicted, strict=True):
        label, probability = line.split("\t")[:2]
        assert float(probability) == pytest.approx(max(record["probabilities"].values()), abs=1e-4)
        assert record["probabilities"][label] == pytest.approx(float(probability), abs=1e-4)
    config = json.loads((folder / "encoder/config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "bert" and (folder / "encoder/model.safetensors").is_file()
    again = run("extras/export/export.py", "default", folder, cwd=project, check=False)
    assert again.returncode == 1 and f"{folder} exists already: name a new" in again.stderr


@pytest.mark.trains
@pytest.mark.skipif(importlib.util.find_spec("tf2onnx") is not None, reason="it is there")
def test_onnx_wants_its_package(project, tmp_path):
    done = run(
        "extras/export/export.py", "default", tmp_path / "made", "--onnx", cwd=project, check=False
    )
    assert done.returncode == 1 and "--onnx needs the package tf2onnx: pip install" in done.stderr
    assert not (tmp_path / "made").exists()


def test_parts_of_a_pointer_are_outputs_by_name(tmp_path):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in NAMES}
    hidden = keras.layers.Embedding(20, 8)(inputs["token_ids"])
    mask = inputs["padding_mask"]
    parts = EfficientGlobalPointer(3, 4)(hidden)
    model = Serving(keras.Model(inputs, {"entity": parts, "mask": mask}))
    expected = model(sample_batch(NAMES))
    assert list(expected) == [
        *(f"entity_{name}" for name in ("queries", "keys", "starts", "ends")),
        "mask",
    ]
    signature = [
        {name: keras.InputSpec(shape=(None, None), dtype="int32", name=name) for name in NAMES}
    ]
    model.export(str(tmp_path), input_signature=signature, verbose=False)
    compare(tmp_path, NAMES, expected)
    wrong = {name: value + tf.cast(1, value.dtype) for name, value in expected.items()}
    with pytest.raises(InputError, match="the SavedModel differs by 1"):
        compare(tmp_path, NAMES, wrong)
    ids = np.zeros((3, 11), "int32")
    loaded = tf.saved_model.load(str(tmp_path))
    served = loaded.serve({"token_ids": ids, "padding_mask": ids + 1})
    assert served["entity_starts"].shape == (3, 3, 11)


def test_an_example_that_can_not_encode_the_inputs_is_left_out(tmp_path, capsys):
    copy_example(tmp_path, "serve_labels.py", ["text_a_token_ids", "text_b_token_ids"], None)
    assert not [*tmp_path.iterdir()]
    assert "serve.py is left out: it encodes a pair as one text" in capsys.readouterr().out
    copy_example(tmp_path, "serve_labels.py", NAMES, None)
    assert (tmp_path / "serve.py").is_file()


def test_runs_of_one_name_are_several(tmp_path, monkeypatch):
    """As trials of two searches are that are blended."""
    script = "from pathlib import Path\nfrom types import SimpleNamespace\n"
    script += "def load_runs(names):\n    return SimpleNamespace(folders=map(Path, names))\n"
    (tmp_path / "predict.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(export, "PROJECT", tmp_path)
    monkeypatch.setattr(export, "members", lambda run: [tmp_path / "a/1", tmp_path / "b/1"])
    with pytest.raises(InputError, match="both means several runs: name one of .*a.1, .*b.1"):
        export.load_run("both")


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def fail(target: Path) -> None:
        (target / "half").write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "made", fail)
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "made", lambda target: (target / "whole").touch())
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["whole"]
    with pytest.raises(InputError, match="exists already"):
        check_free(tmp_path / "made")

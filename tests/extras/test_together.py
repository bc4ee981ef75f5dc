"""Many extras in one training: the same weights on one device, on two replicas and after a kill.

Most of these extras have such a training of their own, which only `make whole` runs.
"""

import json
import signal

import pytest
from projects import bake_project, shorten
from run_weights import largest_difference
from test_last_layers import TWO, train

EXTRAS = "averaging, cache, competition, distillation, encoders, optimizers, recompute, "
EXTRAS += "regularization, used_rows"
ASKED = {
    "averaging.ema": 0.9,
    "cache.enabled": True,
    "distillation.files": '["sample/more.jsonl"]',
    "distillation.weights": "[0.5]",
    "encoders.last_layers": 2,
    "optimizers.layer_decay": 0.9,
    "optimizers.lookahead": 2,
    "optimizers.schedule": "cosine",
    "pooling": "attention",
    "regularization.focal_gamma": 1.0,
    "used_rows.enabled": True,
}
SMALL = {"epochs": 2, "batch_size": 4, "checkpoint_steps": 1, "clip_norm": 0.05, "tiny_layers": 2}
SMALL |= {"buckets": 1, "dropout": 0.1, "attention_dropout": 0.1}


@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_weights_are_the_same_on_replicas_and_after_a_kill(tmp_path):
    """With dropout, micro-batches and recomputed layers; killed in mid-epoch."""
    project = bake_project("text_classification", tmp_path, EXTRAS)
    shorten(project, {"train": 19, "dev": 4, "test": 4})
    records = (project / "sample/train.jsonl").read_text(encoding="utf-8").splitlines()
    more = [{**json.loads(line), "id": f"more {n}"} for n, line in enumerate(records[:6])]
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in more)
    (project / "sample/more.jsonl").write_text(lines, encoding="utf-8")
    one = train(project, {}, **SMALL, **ASKED, run_name="one")
    two = {**SMALL, **ASKED, **TWO, "recompute.enabled": True, "run_name": "two"}
    train(project, {"kill_at": 9}, **two)
    assert largest_difference(one, train(project, {}, **two)) < 1e-5

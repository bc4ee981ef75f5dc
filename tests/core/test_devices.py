"""What a training asks of the machine before it begins."""

import json
import os
import platform
import runpy
import sys

import pytest
from conftest import ROOT
from projects import run
from small_models import bert_encoder, make_settings, plan_steps, with_head

from core.base.errors import InputError
from core.devices.strategy import global_batch_size, refuse_unknown_cluster
from core.optimizer import make_optimizer

# Each array is larger than what glibc keeps, and is allocated by a thread, as TensorFlow's are.
COUNT_FAULTS = """
import resource, sys, threading
sys.path.insert(0, sys.argv[1])
from core.devices.strategy import keep_freed_memory

if sys.argv[2] == "keep":
    keep_freed_memory()

def allocate():
    for _ in range(20):
        bytearray(b"x") * 100_000_000

allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=allocate)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_used_again(tmp_path):
    script = tmp_path / "count_faults.py"
    script.write_text(COUNT_FAULTS, encoding="utf-8")
    faults = {
        how: int(run(script, ROOT / "templates", how, cwd=tmp_path).stdout)
        for how in ("leave", "keep")
    }
    pages = 100_000_000 // 4096
    assert faults["leave"] > 15 * pages and faults["keep"] < 2 * pages


@pytest.mark.parametrize(
    ("driver", "visible", "level"),
    [(True, None, "2"), (True, "0,1", "2"), (True, "", "3"), (True, "-1", "3"), (False, None, "3")],
)
def test_that_no_card_may_be_used_is_not_told_as_an_error(monkeypatch, driver, visible, level):
    monkeypatch.setattr(os.path, "exists", lambda path: driver)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    runpy.run_path(str(ROOT / "templates/core/__init__.py"))
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == level


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {}}), True),
        (json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {}}), True),
        (json.dumps({"cluster": {"worker": ["a:1"]}, "task": {}}), False),
        (json.dumps({"cluster": {"worker": "localhost:1"}, "task": {}}), False),
        ("not JSON", False),
        ("[]", False),
        ("", False),
    ],
)
def test_workers_that_nobody_can_join_are_refused(monkeypatch, text, refused):
    """Without the extra each worker would train by itself, and write over the others' run."""
    monkeypatch.setenv("TF_CONFIG", text)
    if not refused:
        refuse_unknown_cluster()
        return
    with pytest.raises(InputError) as caught:
        refuse_unknown_cluster()
    assert "TF_CONFIG names 2 workers" in str(caught.value)
    assert "add it with `baselines add cluster --to" in str(caught.value)


class Strategy:
    """Says how many replicas it has."""

    num_replicas_in_sync = 4


@pytest.mark.parametrize(
    ("counts", "scales", "expected"),
    [
        ("all_replicas", False, (32, 1.0)),
        ("all_replicas", True, (32, 4.0)),
        ("one_replica", False, (128, 1.0)),
        ("one_replica", True, (128, 4.0)),
    ],
)
def test_batch_and_rate_on_several_replicas(counts, scales, expected):
    devices = {"batch_size_counts": counts, "scale_learning_rate": scales}
    settings = make_settings(batch_size=32, accumulation=2, devices=devices)
    training = plan_steps(settings, with_head(bert_encoder(num_layers=1)), 10)
    training.strategy = Strategy()
    factor = make_optimizer(training)._learning_rate.peak / settings.learning_rate
    assert (global_batch_size(settings, Strategy()), factor) == expected
    uneven = settings.model_copy(update={"accumulation": 16, "batch_size": 30})
    with pytest.raises(InputError, match="a multiple of 64"):
        global_batch_size(uneven, Strategy())

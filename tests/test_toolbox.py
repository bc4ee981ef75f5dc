"""Every optimizer and regularisation: one device, two replicas, two processes: the same weights."""

import numpy as np
import pytest
from conftest import ROOT
from projects import run, run_workers

WORKER = ROOT / "tests" / "toolbox_worker.py"
DEVICES = {
    "two_replicas": ["strategy=mirrored", "logical_devices=2", "accumulation=2"],
    "two_workers": ["strategy=multi_worker"],
}
VARIANTS = (
    *("adamw", "lamb", "adafactor", "lion", "muon"),
    *("fgm", "pgd", "gradient_penalty", "r_drop"),
)


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """The weights of each variant by the devices that trained it."""
    folder = tmp_path_factory.mktemp("toolbox")
    run(WORKER, folder / "one.npz", "strategy=single", cwd=folder)
    for name, flags in DEVICES.items():
        workers = 2 if name == "two_workers" else 1
        run_workers(workers, WORKER, folder / f"{name}.npz", *flags, cwd=folder)
    records = {}
    for name in ("one", *DEVICES):
        with np.load(folder / f"{name}.npz") as arrays:
            records[name] = dict(arrays)
    return records


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("devices", DEVICES)
def test_weights_are_those_of_one_device(records, devices, variant):
    one, other = records["one"], records[devices]
    assert one["replicas"] == 1 and other["replicas"] == 2
    names = [name for name in one if name.startswith(f"{variant}/")]
    largest = max(np.abs(one[name] - other[name]).max() for name in names)
    print(f"{variant} on {devices}: {largest:.1e}")
    assert largest < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_is_another_training(records, variant):
    """And where there are averages, these are not the weights."""
    one = records["one"]
    other = VARIANTS[VARIANTS.index(variant) - 1]
    pairs = [
        (one[name], one[name.replace(variant, other, 1)])
        for name in one
        if name.startswith(f"{variant}/") and "average" not in name
    ]
    assert max(np.abs(a - b).max() for a, b in pairs) > 1e-4
    averages = [
        np.abs(one[name] - one[name.replace("average/", "")]).max()
        for name in one
        if name.startswith(f"{variant}/average/")
    ]
    has_averages = variant in ("adamw", "lamb", "adafactor", "lion", "muon")
    assert (max(averages) > 1e-4) is has_averages

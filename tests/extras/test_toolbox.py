"""Every optimizer and regularisation: the same weights from one device, replicas and processes."""

import numpy as np
import pytest
from conftest import ROOT
from projects import run, run_workers

WORKER = ROOT / "tests" / "toolbox_worker.py"
DEVICES = {
    "two_replicas": ["--strategy=mirrored", "--devices.logical_devices=2", "--accumulation=2"],
    "two_workers": ["--strategy=multi_worker"],
}
VARIANTS = ("adamw", "lamb", "adafactor", "lion", "muon")

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """The weights of each variant by the devices that trained it."""
    folder = tmp_path_factory.mktemp("toolbox")
    run(WORKER, folder / "one.npz", "--strategy=single", cwd=folder)
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


def test_averages_are_not_the_weights(records):
    one = records["one"]
    for variant in VARIANTS:
        differences = [
            np.abs(one[name] - one[name.replace("average/", "")]).max()
            for name in one
            if name.startswith(f"{variant}/average/")
        ]
        assert max(differences) > 5e-5  # Lion takes four steps of 1e-4 at the most

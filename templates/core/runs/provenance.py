"""Where a score comes from: seed, command, versions, hardware, code."""

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import joblib
import keras
import tensorflow as tf

from core.base.files import PROJECT
from core.base.settings import CoreSettings
from core.base.workers import all_workers
from core.runs.code_hash import code_hash


def provenance(settings: CoreSettings) -> dict:
    """Return the facts kept with a score: seed, command, versions, hardware, code."""
    packages = ("tensorflow", "keras", "keras-hub", "tokenizers", "numpy")
    return {
        "seed": settings.seed,
        "encoder": settings.encoder,
        "dtype_policy": keras.config.dtype_policy().name,
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "hardware": describe_hardware(),
        "code_hash": code_hash(PROJECT),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_hardware() -> str:
    """Return the CPU, its cores and the GPUs, in words."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    accelerators = [
        tf.config.experimental.get_device_details(device).get("device_name", device.name)
        for device in tf.config.list_physical_devices("GPU")
    ]
    usable = joblib.cpu_count()  # schedulers and containers may give this process fewer cores
    cores = "1 core" if usable == 1 else f"{usable} cores"
    others = [f"{count} workers"] if (count := all_workers().count) > 1 else []
    return ", ".join([f"{processor}, {cores}", *accelerators, *others])

"""The precision of a training: bfloat16 if the device multiplies it faster than float32."""

import os
from pathlib import Path

import keras
import tensorflow as tf

from core.base.settings import CoreSettings
from core.base.workers import broadcast

WIDE, NARROW = "float32", "mixed_bfloat16"
AMPERE = (8, 0)  # compute capability of the first NVIDIA GPUs that multiply bfloat16
CPU_INFO = Path("/proc/cpuinfo")
FEATURE = "amx_bf16"  # matrix products of bfloat16: Intel CPUs since Sapphire Rapids
# Names of oneDNN for instruction sets with AMX; an environment variable may allow less.
WITH_AMX = ("AMX", "AVX10_2_512", "ALL", "DEFAULT")


def set_seed_and_precision(settings: CoreSettings) -> None:
    """Seed Python, NumPy and Keras, and set the precision to `devices.precision`."""
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(find_precision(settings))


def find_precision(settings: CoreSettings) -> str:
    """Return `devices.precision`; `auto` becomes the fastest one here, and a line says why."""
    if settings.devices.precision == "auto":
        # All workers use the chief's choice.
        settings.devices.precision, reason = broadcast(fastest_precision(settings))
        print(
            f"precision: {settings.devices.precision}, because {reason} (devices.precision = auto)"
        )
    return settings.devices.precision


def fastest_precision(settings: CoreSettings) -> tuple[str, str]:
    """Return the fastest precision of the devices that train, and why."""
    cards = [
        # Only NVIDIA GPUs report it.
        tf.config.experimental.get_device_details(card).get("compute_capability", (0, 0))
        for card in tf.config.get_visible_devices("GPU")
    ]
    if settings.strategy == "tpu":
        return NARROW, "a TPU multiplies bfloat16"
    if cards:
        able = min(cards) >= AMPERE
        name = NARROW if able else WIDE
        return name, f"the GPU is {'' if able else 'not '}known to multiply bfloat16"
    if not has_feature():
        return WIDE, "the CPU has no AMX, which would multiply bfloat16"
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        return WIDE, "TF_ENABLE_ONEDNN_OPTS keeps TensorFlow from using the CPU's AMX"
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        if not any(part in os.environ.get(name, "ALL").upper() for part in WITH_AMX):
            return WIDE, f"{name} keeps oneDNN from using the CPU's AMX"
    return NARROW, "the CPU multiplies bfloat16 with AMX"


def has_feature() -> bool:
    """Return whether all cores of this machine have AMX for bfloat16; only Linux reports it."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = [line.partition(":")[2].split() for line in lines if line.startswith("flags")]
    return bool(flags) and all(FEATURE in names for names in flags)

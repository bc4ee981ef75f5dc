"""The precision of a training, and what XLA compiles: what is fastest here."""

import os
from pathlib import Path

import keras
import tensorflow as tf

from core.base.settings import CoreSettings
from core.base.workers import broadcast
from core.devices.gpu import capabilities

WIDE, NARROW, HALF = "float32", "mixed_bfloat16", "mixed_float16"
# Compute capability of the first NVIDIA GPUs that multiply bfloat16 and float16 faster.
AMPERE, VOLTA = (8, 0), (7, 0)
BLACKWELL = (10, 0)  # XLA of this TensorFlow does not know these cards
# On an H100 with 16 cores the programs of one length took 6 s to compile, and a step gained 10 ms.
STEPS_FOR_EACH_LENGTH = 600
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
    devices = settings.devices
    if devices.precision == "auto":
        # All workers use the chief's choice.
        devices.precision, reason = broadcast(fastest_precision(settings))
        print(f"precision: {devices.precision}, because {reason} (devices.precision = auto)")
    tf.config.experimental.enable_tensor_float_32_execution(devices.tf32)
    return devices.precision


def choose_programs(settings: CoreSettings, steps: int, lengths: int) -> None:
    """Set `devices.xla` to what XLA compiles, if it is `auto`.

    The optimizer's step is one program for all lengths. Those of the layers are compiled for each
    length, which pays in long trainings only.

    Args:
        settings: of the project.
        steps: of the training.
        lengths: of its batches.
    """
    if settings.devices.xla != "auto":
        return
    cards = capabilities(settings)
    can = bool(cards) and VOLTA <= min(cards) and max(cards) < BLACKWELL
    is_long = steps >= STEPS_FOR_EACH_LENGTH * lengths
    settings.devices.xla = broadcast((is_long or "optimizer") if can else False)


def fastest_precision(settings: CoreSettings) -> tuple[str, str]:
    """Return the fastest precision of the devices that train, and why."""
    if settings.strategy == "tpu":
        return NARROW, "a TPU multiplies bfloat16"
    if cards := capabilities(settings):
        if min(cards) >= AMPERE:
            return NARROW, "the GPU multiplies bfloat16"
        if min(cards) >= VOLTA:
            return HALF, "the GPU multiplies float16"
        return WIDE, "the GPU is not known to multiply a narrower one faster"
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

"""bfloat16: which devices multiply it faster than float32, and what lies between the products."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from core.base.settings import CoreSettings

WIDE, NARROW = "float32", "mixed_bfloat16"
AMPERE = (8, 0)  # the compute capability of the first cards of NVIDIA that multiply bfloat16
CPU_INFO = Path("/proc/cpuinfo")
FEATURE = "amx_bf16"  # products of bfloat16 in tiles: Intel's since Sapphire Rapids
# Names that oneDNN has for instruction sets with AMX; it may be told to use no more than one.
WITH_AMX = ("AMX", "AVX10_2_512", "ALL", "DEFAULT")


def find_precision(settings: CoreSettings) -> tuple[str, str]:
    """Return the fastest precision of the devices that train, and why."""
    cards = [
        # Cards of other makers than NVIDIA don't say.
        tf.config.experimental.get_device_details(card).get("compute_capability", (0, 0))
        for card in tf.config.get_visible_devices("GPU")
    ]
    if settings.strategy == "tpu":
        return NARROW, "a TPU multiplies bfloat16"
    if cards:
        able = min(cards) >= AMPERE
        name = NARROW if able else WIDE
        return name, f"the graphics card is {'' if able else 'not '}known to multiply bfloat16"
    if not has_feature():
        return WIDE, "the processor has no AMX, which would multiply bfloat16"
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        return WIDE, "TF_ENABLE_ONEDNN_OPTS keeps TensorFlow from the processor's AMX"
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        if not any(part in os.environ.get(name, "ALL").upper() for part in WITH_AMX):
            return WIDE, f"{name} keeps oneDNN from the processor's AMX"
    return NARROW, "the processor multiplies bfloat16 by AMX"


def has_feature() -> bool:
    """Tell whether all cores of this machine have AMX for bfloat16; only Linux says so."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = [line.partition(":")[2].split() for line in lines if line.startswith("flags")]
    return bool(flags) and all(FEATURE in names for names in flags)


def compute_in_one_pass(parts: Callable, inputs: tf.Tensor) -> tuple[tf.Tensor, Callable] | None:
    """Return an activation of bfloat16 and its gradient; None: graphics cards need no help.

    Operation by operation a processor computes bfloat16 slower than float32: GELU and its gradient
    took longer than the products before and after. Compiled, each is one pass over memory.

    Args:
        parts: from inputs in float32 to the value and the slope.
        inputs: of the activation.
    """
    if tf.config.get_visible_devices("GPU"):
        return None
    value, gradient = compiled(parts)
    return value(inputs), lambda upstream: gradient(inputs, upstream)


@functools.cache
def compiled(parts: Callable) -> tuple[Callable, Callable]:
    """Return value and gradient of an activation, which are compiled once for each shape."""
    options = {"jit_compile": True, "autograph": False, "reduce_retracing": True}

    @tf.function(**options)
    def value(inputs) -> tf.Tensor:
        return tf.cast(parts(tf.cast(inputs, "float32"))[0], inputs.dtype)

    @tf.function(**options)
    def gradient(inputs, upstream) -> tf.Tensor:
        slope = parts(tf.cast(inputs, "float32"))[1]
        return tf.cast(slope * tf.cast(upstream, "float32"), inputs.dtype)

    return value, gradient

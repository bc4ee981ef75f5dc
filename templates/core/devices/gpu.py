"""GPUs: how their memory is used, what they can do, and a warning if TensorFlow can't use one."""

import contextlib
import os
import shutil

import tensorflow as tf

from core.base.settings import CoreSettings

# What NVIDIA's driver makes on Linux, and in the Linux of Windows (WSL2).
DRIVER_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1")


def use_gpus(settings: CoreSettings) -> None:
    """Let TensorFlow take only the memory of a GPU that it needs, so that others can use it too.

    Call this before anything is computed. A line says if the GPU of this machine can't be used.
    """
    split = settings.devices.logical_devices  # each of them has a fixed share
    for card in [] if split else tf.config.get_visible_devices("GPU"):
        with contextlib.suppress(RuntimeError):  # TensorFlow has started already
            tf.config.experimental.set_memory_growth(card, True)
    if complaint := find_unused_gpu():
        print(f"warning: {complaint}")


def find_unused_gpu() -> str:
    """Return why a GPU of this machine is not used and what to do; empty: all is well."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")  # somebody wants it so
    if hidden or tf.config.list_physical_devices("GPU") or not has_driver():
        return ""
    if not tf.test.is_built_with_cuda():
        return (
            "this machine has an NVIDIA GPU, but this TensorFlow is built for CPUs: install the "
            f"package tensorflow instead: pip install 'tensorflow[and-cuda]=={tf.__version__}'."
        )
    return (
        "this machine has an NVIDIA GPU, but TensorFlow can't load CUDA's libraries and uses the "
        f"CPU: pip install 'tensorflow[and-cuda]=={tf.__version__}', or, to use the CPU without "
        "this warning, set CUDA_VISIBLE_DEVICES=-1."
    )


def has_driver() -> bool:
    """Return whether NVIDIA's driver is installed on this machine."""
    return any(map(os.path.exists, DRIVER_FILES)) or shutil.which("nvidia-smi") is not None


def capabilities(settings: CoreSettings) -> list[tuple[int, int]]:
    """Return the compute capability of each GPU that trains; (0, 0) where none is reported."""
    if settings.strategy == "tpu":
        return []
    return [
        tf.config.experimental.get_device_details(card).get("compute_capability", (0, 0))
        for card in tf.config.get_visible_devices("GPU")
    ]


def describe_devices(settings: CoreSettings, replicas: int) -> str:
    """Return the devices of a training, their precision, and what XLA compiles."""
    cards = tf.config.get_visible_devices("GPU") if settings.strategy != "tpu" else []
    name = "TPU" if settings.strategy == "tpu" else "CPU"
    if cards:
        name = tf.config.experimental.get_device_details(cards[0]).get("device_name", "GPU")
    precision: str = settings.devices.precision
    if cards and precision == "float32" and settings.devices.tf32:
        precision += ", multiplied as TF32"
    several = f"{replicas} x " if replicas > 1 else ""
    compiled = {True: "layers and optimizer", "optimizer": "the optimizer", False: "nothing"}
    return f"device: {several}{name}, {precision}, XLA compiles {compiled[settings.devices.xla]}"

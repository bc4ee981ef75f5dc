"""Choose the devices: the same project runs on one CPU, several GPUs or a TPU."""

import ctypes
import json
import os

import tensorflow as tf

from core.base.errors import InputError
from core.base.extras import ask, how_to_get, present
from core.base.settings import CoreSettings
from core.devices.gpu import use_gpus

# Options of glibc's mallopt(3) and their values: freed blocks stay in the process, and all threads
# share one heap, because the heap of a thread ends at 64 MB.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**31 - 1, -8: 1}  # trim, mmap thresholds in bytes; arenas
# For scripts, which must not import TensorFlow before core/__init__.py has set it up.
Strategy = tf.distribute.Strategy


def make_strategy(settings: CoreSettings) -> tf.distribute.Strategy:
    """Return the strategy in whose scope the model is built.

    Call this before anything else uses a device. Afterwards no logical devices can be made, and
    this process can't join a cluster.

    The setting `strategy` is `single`, `mirrored` (all GPUs of this machine), `tpu`, one of an
    extra (`multi_worker`, `parameter_server`), or `auto`: the cluster that this process belongs to,
    else `mirrored` if there are several GPUs, else `single`.

    Raises:
        InputError: the machine has no such device, or there is no cluster.
    """
    keep_freed_memory()
    use_gpus(settings)
    if settings.strategy == "tpu":
        return connect_to_tpu(settings.devices.tpu)
    if strategy := ask("make_strategy", settings):
        return strategy
    if settings.strategy == "auto" and "cluster" not in present():
        refuse_unknown_cluster()
    kind = split_first_device(settings.devices.logical_devices)
    return make_local_strategy(settings.strategy, tf.config.list_logical_devices(kind))


def keep_freed_memory() -> None:
    """Reuse the memory that a step frees in the next step, if the C library is glibc.

    By default glibc returns large arrays to the system, which clears them and hands them out again
    page by page. That takes a fifth of the time of a training on a CPU.
    """
    if mallopt := getattr(ctypes.pythonapi, "mallopt", None):
        for option, value in MALLOC_OPTIONS.items():
            mallopt(option, value)


def refuse_unknown_cluster() -> None:
    """Refuse to train if TF_CONFIG names other workers: each would train and write the same run."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", ""))["cluster"]
        roles = [cluster[role] for role in ("chief", "master", "worker") if role in cluster]
        workers = sum(len(own) for own in roles if isinstance(own, list))
    except (ValueError, KeyError, TypeError, RecursionError):
        workers = 1
    if workers > 1:
        raise InputError(
            f"TF_CONFIG names {workers} workers, and extras/cluster, which joins them, is absent: "
            f"{how_to_get('cluster')}, or unset TF_CONFIG to train only on this machine."
        )


def make_local_strategy(name: str, devices: list) -> tf.distribute.Strategy:
    """Return the strategy for devices of this machine, by name: `single`, `mirrored`, `auto`."""
    if name == "mirrored" or name == "auto" and len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def split_first_device(count: int) -> str:
    """Split the training device into `count` logical devices (0: don't); return `GPU` or `CPU`.

    Raises:
        InputError: TensorFlow has started already.
    """
    device = (tf.config.get_visible_devices("GPU") or tf.config.get_visible_devices("CPU"))[0]
    if count and device.device_type == "GPU":
        # By default the first one takes all memory; a fixed share leaves room for the others.
        memory = tf.config.experimental.get_device_details(device).get("memory_limit", 4 << 30)
        share = tf.config.LogicalDeviceConfiguration(memory_limit=(memory >> 20) // count)
    else:
        share = tf.config.LogicalDeviceConfiguration()
    try:
        if count:
            tf.config.set_logical_device_configuration(device, [share] * count)
    except RuntimeError as error:
        raise InputError(
            "logical_devices can't be set once TensorFlow has started: make the strategy first."
        ) from error
    return device.device_type


def connect_to_tpu(name: str) -> tf.distribute.Strategy:
    """Connect to a TPU by name, by address, or to `local`; empty: as the environment says."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name or None)
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise InputError(
            f"strategy = tpu, but no TPU {name or 'of this machine'} was found "
            f"({(str(error).splitlines() or ['no reason given'])[0].rstrip('.')}): start one, name "
            "it in devices.tpu, or set strategy = auto."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def global_batch_size(settings: CoreSettings, strategy: tf.distribute.Strategy) -> int:
    """Return the number of examples in one step over all replicas.

    Raises:
        InputError: they can't be split evenly.
    """
    replicas = strategy.num_replicas_in_sync
    each = settings.devices.batch_size_counts == "one_replica"
    batch_size = settings.batch_size * (replicas if each else 1)
    if batch_size % (replicas * settings.accumulation):
        raise InputError(
            f"a batch of {batch_size} examples can't be split evenly over {replicas} replicas x "
            f"{settings.accumulation} micro-batches: make batch_size a multiple of "
            f"{replicas * settings.accumulation}."
        )
    return batch_size

"""Choose the devices: the same project runs on one CPU, several GPUs or a TPU."""

import tensorflow as tf

from common.errors import InputError
from common.settings import CommonSettings


def make_strategy(name: str, logical_devices: int = 0) -> tf.distribute.Strategy:
    """Return the strategy under whose scope the model is built.

    Call this before anything else touches a device: logical devices can't be made afterwards.

    Args:
        name: `single`, `mirrored` (all GPUs), `tpu`, or `auto`: `mirrored` where there are several
            GPUs, else `single`.
        logical_devices: split the first GPU, or else the CPU, into so many devices, to try several
            replicas on one. 0: leave the devices as they are.

    Raises:
        InputError: the machine has no such device.
    """
    if name == "tpu":
        return connect_to_tpu()
    devices = tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("CPU")
    if logical_devices:
        devices = split_device(devices[0], logical_devices)
    elif devices[0].device_type == "GPU":
        devices = tf.config.list_logical_devices("GPU")
    else:
        devices = tf.config.list_logical_devices("CPU")
    if name == "auto":
        name = "mirrored" if len(devices) > 1 else "single"
    if name == "mirrored":
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def split_device(device, count: int) -> list:
    """Present one physical device as `count` logical ones."""
    if device.device_type == "GPU":
        # The default takes all the memory for the first one; a fixed share leaves room for each.
        memory = tf.config.experimental.get_device_details(device).get("memory_limit", 4 << 30)
        share = tf.config.LogicalDeviceConfiguration(memory_limit=(memory >> 20) // count)
    else:
        share = tf.config.LogicalDeviceConfiguration()
    try:
        tf.config.set_logical_device_configuration(device, [share] * count)
    except RuntimeError as error:
        raise InputError(
            "logical_devices can't be set once TensorFlow has started: make the strategy first."
        ) from error
    return tf.config.list_logical_devices(device.device_type)


def connect_to_tpu() -> tf.distribute.Strategy:
    """Connect to the TPU that the environment names (Colab, Kaggle, a TPU VM)."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    except (ValueError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            "strategy = tpu, but no TPU was found: start a TPU machine, or set strategy = auto."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def scale_to_replicas(
    settings: CommonSettings, strategy: tf.distribute.Strategy
) -> tuple[int, float]:
    """Return the batch size over all replicas, and the factor of the learning rates.

    Args:
        settings: `batch_size`, `batch_size_counts`, `accumulation`, `scale_learning_rate`.
        strategy: knows the number of replicas.

    Raises:
        InputError: the batch can't be split evenly.
    """
    replicas = strategy.num_replicas_in_sync
    each = settings.batch_size_counts == "one_replica"
    batch_size = settings.batch_size * (replicas if each else 1)
    if batch_size % (replicas * settings.accumulation):
        raise InputError(
            f"a batch of {batch_size} examples can't be split evenly over {replicas} replicas x "
            f"{settings.accumulation} micro-batches: make batch_size a multiple of "
            f"{replicas * settings.accumulation}."
        )
    return batch_size, float(replicas) if settings.scale_learning_rate else 1.0

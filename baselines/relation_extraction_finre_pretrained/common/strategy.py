"""Choose the devices: the same project runs on one CPU, several GPUs or a TPU."""

import ctypes
import json
import os
from typing import NoReturn

import tensorflow as tf

from common.cluster import find_cluster, join
from common.errors import InputError
from common.settings import CommonSettings

# Scripts name it without TensorFlow, which common/__init__.py must set up before it is imported.
Strategy = tf.distribute.Strategy

SERVER_ROLES = ("chief", "worker", "ps")  # as TF_CONFIG calls them
# Options of glibc's mallopt(3) and their values: no block goes back to the system while another may
# be asked for, and threads share one heap, for those of threads end at 64 MB.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**31 - 1, -8: 1}  # trim, mmap thresholds in bytes; arenas


def make_strategy(settings: CommonSettings) -> tf.distribute.Strategy:
    """Return the strategy under whose scope the model is built.

    Call this before anything else touches a device: logical devices can't be made afterwards, and
    the workers of a cluster can't be joined.

    Args:
        settings: `strategy`: `single`, `mirrored` (the GPUs of one machine), `multi_worker` (those
            of several), `tpu`, `parameter_server`, or `auto`: `multi_worker` in a cluster,
            `mirrored` where there are several GPUs, else `single`; with `gpus`, `tpu`, `port`,
            `logical_devices`.

    Raises:
        InputError: the machine has no such device, or there is no cluster.
    """
    keep_freed_memory()
    if settings.strategy == "tpu":
        return connect_to_tpu(settings.tpu)
    if settings.strategy == "parameter_server":
        return join_servers()
    in_cluster = settings.strategy in ("auto", "multi_worker")
    cluster = find_cluster(settings.port) if in_cluster else None
    if settings.strategy == "multi_worker" and cluster is None:
        raise InputError(
            "strategy = multi_worker, but neither TF_CONFIG nor SLURM nor Kubernetes names several "
            "workers: start with launch.py, or as the files in launch/ do."
        )
    if cluster is not None and settings.trainings > 1:
        raise InputError(
            f"folds = {settings.trainings} trains one fold after another on one machine: leave the "
            "cluster, or train each worker's own runs with strategy = single."
        )
    choose_gpus(settings.gpus)
    kind = split_first_device(settings.logical_devices)
    if cluster is not None:
        return join(cluster, settings.logical_devices)
    return make_local_strategy(settings.strategy, tf.config.list_logical_devices(kind))


def keep_freed_memory() -> None:
    """Let the memory that a step frees serve the next one, where the C library is glibc.

    By default it returns large arrays to the system, which hands them out again page by page and
    cleared: a fifth of the time of a training on processors.
    """
    mallopt = getattr(ctypes.pythonapi, "mallopt", None)
    for option, value in MALLOC_OPTIONS.items() if mallopt else ():
        mallopt(option, value)


def for_prediction(settings: CommonSettings) -> CommonSettings:
    """Return settings that predict on what this machine has, wherever the run was trained."""
    name = "single" if settings.strategy == "single" else "auto"
    return settings.model_copy(update={"strategy": name, "gpus": ""})


def make_local_strategy(name: str, devices: list) -> tf.distribute.Strategy:
    """Return the strategy for devices of this machine: `single`, `mirrored` or `auto`."""
    if name == "mirrored" or name == "auto" and len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def choose_gpus(numbers: str) -> None:
    """Hide all graphics cards but those of a list such as `0,1`; empty: hide none.

    Raises:
        InputError: the machine has fewer.
    """
    cards = tf.config.list_physical_devices("GPU")
    chosen = [int(number) for number in numbers.split(",") if number]
    if chosen and max(chosen) >= len(cards):
        raise InputError(f"gpus = {numbers}, but this machine has {len(cards)}: count from 0.")
    if chosen:
        tf.config.set_visible_devices([cards[number] for number in chosen], "GPU")


def split_first_device(count: int) -> str:
    """Present the device that trains, a graphics card or else the processor, as several.

    Args:
        count: logical devices; 0: leave all devices as they are.

    Returns:
        `GPU` or `CPU`.

    Raises:
        InputError: TensorFlow has started already.
    """
    device = (tf.config.get_visible_devices("GPU") or tf.config.get_visible_devices("CPU"))[0]
    if count and device.device_type == "GPU":
        # The default takes all the memory for the first one; a fixed share leaves room for each.
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
    """Connect to a TPU.

    Args:
        name: of the TPU in its zone, its address, or `local` on a TPU VM; empty: what the
            environment names (Colab, Kaggle).

    Raises:
        InputError: there is none.
    """
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name or None)
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise InputError(
            f"strategy = tpu, but no TPU {name or 'of this machine'} was found "
            f"({(str(error).splitlines() or ['no reason given'])[0].rstrip('.')}): start one, name "
            "it in tpu, or set strategy = auto."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def join_servers() -> tf.distribute.Strategy:
    """Return the strategy if this process is the chief; serve, and never return, if it is not.

    Raises:
        InputError: TF_CONFIG names no such cluster.
    """
    try:
        config = json.loads(os.environ.get("TF_CONFIG", ""))
        cluster, task = config["cluster"], config["task"]
        known = task["type"] in SERVER_ROLES and cluster[task["type"]][task["index"]]
        complete = all(cluster[role] for role in SERVER_ROLES)
    except (ValueError, KeyError, TypeError, IndexError):
        known = complete = False
    if not known or not complete:
        raise InputError(
            "strategy = parameter_server, but TF_CONFIG names no chief, workers and ps with this "
            "process among them: use launch.py --servers 1, or set TF_CONFIG on each machine."
        )
    if task["type"] != "chief":
        serve(cluster, task["type"], task["index"])
    # The chief computes nothing: a graphics card is the workers'.
    tf.config.set_visible_devices([], "GPU")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    return tf.distribute.ParameterServerStrategy(resolver)


def serve(cluster: dict, role: str, index: int) -> NoReturn:
    """Do what the chief says, until this process is ended."""
    # A thread waits for what another process sends: on a machine of one core all would wait.
    threads = max(os.cpu_count() or 1, len(cluster["worker"]) + 1)
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster),
        job_name=role,
        task_index=index,
        protocol="grpc",
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads),
    )
    print(f"{role} {index} is process {os.getpid()} and waits for the chief", flush=True)
    server.join()
    raise SystemExit


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

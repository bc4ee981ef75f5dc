"""The workers of one training on several machines: discovery and communication.

TF_CONFIG names a cluster in TensorFlow's format; SLURM (`srun`) and an indexed Job of Kubernetes
name it too. Every worker runs the same program on the same data. Only the first, the chief, writes.
"""

import functools
import hashlib
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError, gist
from core.base.files import PROJECT, file_hash, project_path
from core.base.settings import CoreSettings, flatten
from core.base.workers import OneProcess, all_workers, is_chief, join_workers
from core.encoders.encoder import download
from core.runs.code_hash import code_hashes
from core.runs.opening import FREE_SETTINGS

# TensorFlow raises these if another worker is gone.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
SECONDS_BETWEEN_LOOKS = 0.2  # for missing workers
SECONDS_BETWEEN_WORDS = 5.0  # between messages about missing workers
# A resumed training may change these, but all workers must share them.
TOGETHER = {"run_name", "checkpoint_steps", "orbit.job", "orbit.steps_per_loop"}
TOGETHER |= {"prediction_batch_size", "strategy", "devices.logical_devices", "devices.xla"}


def find_cluster(port: int) -> dict | None:
    """Return the TF_CONFIG for this process; None: it is not in a cluster.

    Args:
        port: of the workers, if SLURM or Kubernetes only name the machines.

    Raises:
        InputError: the cluster's environment variables are invalid.
    """
    found = read_tf_config() or read_slurm(port) or read_kubernetes(port)
    if found and len(found["cluster"]["worker"]) > 1:
        return found
    return None


LARGEST_PORT = 65535
# How a message about a cluster ends that this process can't join.
OR_ALONE = "; or set strategy = single, which trains on this machine only"


def read_tf_config() -> dict | None:
    """Return the cluster of the variable TF_CONFIG; a chief becomes the first worker.

    Raises:
        InputError: it is not JSON, lacks the workers or the task, or names servers.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        kind, index = str(task["type"]), int(task["index"])
        chiefs, workers = (list(map(str, cluster.get(role, []))) for role in ("chief", "worker"))
        ports = [int(address.rpartition(":")[2]) for address in (*chiefs, *workers)]
        if "master" not in cluster and not ports:
            raise KeyError("worker")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"TF_CONFIG is broken, because it {find_missing_part(text)}: it must hold "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
            f"{OR_ALONE}."
        ) from error
    if "master" in cluster:
        raise InputError(
            "TF_CONFIG names a master, which TensorFlow 2 does not have: name it chief, or make it "
            f"the first worker{OR_ALONE}."
        )
    if wrong := [port for port in ports if not 0 < port <= LARGEST_PORT]:
        raise InputError(
            f"TF_CONFIG has the port {wrong[0]}: ports are 1 to {LARGEST_PORT}{OR_ALONE}."
        )
    if "ps" in cluster:
        raise InputError(
            "TF_CONFIG names servers (ps), which only strategy = parameter_server has: choose that "
            "strategy, or leave ps out."
        )
    if not 0 <= index < len({"chief": chiefs, "worker": workers}.get(kind, [])):
        raise InputError(
            f"TF_CONFIG calls this process {kind} {index}, but the cluster has "
            f"{len(workers)} workers: number them from 0{OR_ALONE}."
        )
    # TensorFlow separates a chief from the workers; here the first worker is the chief.
    place = index if kind == "chief" else len(chiefs) + index
    return {
        "cluster": {"worker": chiefs + workers},
        "task": {"type": "worker", "index": place},
    }


def find_missing_part(text: str) -> str:
    """Return what a TF_CONFIG lacks, or has in another form, such as `has no "task"`."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return "is not valid JSON"
    for name in ("cluster", "task"):
        if not isinstance(config, dict) or not isinstance(config.get(name), dict):
            return f'has no "{name}", or not as an object'
    for role in ("chief", "worker"):
        addresses = config["cluster"].get(role, [])
        if not isinstance(addresses, list):
            return f'has no list of addresses for "{role}"'
        for address in addresses:
            if not re.fullmatch(r".+:\d+", str(address)):
                return f"has the address {address!r} without a port"
    if {"type", "index"} - config["task"].keys():
        return 'has no "type" and "index" of the task'
    return "names no worker, or an index that is no whole number"


def read_slurm(port: int) -> dict | None:
    """Return the cluster of a SLURM job step: one worker per task of `srun`.

    Raises:
        InputError: a machine has more workers than GPUs, or SLURM's variables are incomplete.
    """
    tasks = read_number("SLURM_STEP_NUM_TASKS")
    if tasks < 2:
        return None
    try:
        # "2(x3),1" means three machines with two tasks and one with one.
        counts = re.findall(r"(?:^|,)(\d+)", os.environ.get("SLURM_STEP_TASKS_PER_NODE", "1"))
        most = max(map(int, counts))
        cards = count_cards() if most > 1 else 0
        if 0 < cards < most:
            raise InputError(
                f"SLURM starts {most} workers on a machine with {cards} GPUs: start one worker per "
                "machine (--ntasks-per-node=1), which uses all GPUs."
            )
        # TensorFlow's resolver divides by the GPUs of a task: without GPUs it gets one for each,
        # and assigns none. A worker with its own machine keeps the GPUs that SLURM gave it.
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            jobs={"worker": tasks},
            port_base=port,
            gpus_per_node=cards or most,
            gpus_per_task=cards // most or 1,
            auto_set_gpu=bool(cards),
        )
        workers = resolver.cluster_spec().as_dict()["worker"]
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"SLURM's variables name no cluster ({gist(error)}): start the workers with srun, as "
            "extras/cluster/slurm.sbatch does."
        ) from error
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": resolver.task_id}}


def count_cards() -> int:
    """Return the number of GPUs of this machine without starting their driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([card for card in visible.split(",") if card.strip() not in ("", "-1")])
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def read_kubernetes(port: int) -> dict | None:
    """Return the cluster of an indexed Job; a headless service names its pods."""
    index = os.environ.get("JOB_COMPLETION_INDEX")
    if index is None or "WORKERS" not in os.environ:
        return None
    job, service = (os.environ.get(name) for name in ("JOB_NAME", "SERVICE_NAME"))
    if not job or not service:
        raise InputError(
            "WORKERS is set without JOB_NAME and SERVICE_NAME: see extras/cluster/kubernetes.yaml."
        )
    place, count = read_number("JOB_COMPLETION_INDEX"), read_number("WORKERS")
    if place >= count:
        raise InputError(
            f"JOB_COMPLETION_INDEX is {place}, but WORKERS is {count}: set it to the completions "
            f"of the Job, as extras/cluster/kubernetes.yaml does{OR_ALONE}."
        )
    workers = [f"{job}-{n}.{service}:{port}" for n in range(count)]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": place}}


def read_number(name: str) -> int:
    """Return the number in a variable of the environment; 1: it is not set.

    Raises:
        InputError: it is no number.
    """
    value = os.environ.get(name, "1")
    if not value.strip().isdecimal():
        raise InputError(
            f"{name} is {value!r} instead of a whole number: correct it, or unset it{OR_ALONE}."
        )
    return int(value)


def join(cluster: dict, logical_devices: int = 0) -> tf.distribute.Strategy:
    """Join a cluster; wait until all workers have joined.

    Args:
        cluster: from `find_cluster`.
        logical_devices: replicas on this worker's CPU, to try several on one machine. 0: one per
            GPU, or one.

    Raises:
        InputError: the port of this worker is in use, or another worker has left.
    """
    wait_for_all(cluster["cluster"]["worker"], cluster["task"]["index"])
    os.environ["TF_CONFIG"] = json.dumps(cluster)
    extended = tf.distribute.MultiWorkerMirroredStrategy.__init__.__globals__[
        "CollectiveAllReduceExtended"
    ]
    if logical_devices and not tf.config.get_visible_devices("GPU"):
        # TensorFlow uses one replica per CPU, even if the CPU was split.
        extended._initialize_local_devices = functools.partialmethod(
            split_processor, logical_devices
        )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.TFConfigClusterResolver()
        )
    except (*LOST, tf.errors.UnknownError) as error:
        raise InputError(
            f"the workers can't join ({gist(error)}): look for the first error among the logs of "
            "all, then start them all again."
        ) from error
    join_workers(ClusterWorkers(strategy))
    if not is_chief():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return strategy


def wait_for_all(addresses: Sequence[str], own: int) -> None:
    """Wait until all workers of a cluster can be reached; print the missing ones.

    TensorFlow would wait too, but silently, and without handling signals.

    Args:
        addresses: `host:port` of the workers, the chief's first.
        own: the position of this process.

    Raises:
        InputError: another process has the port of this one.
    """
    port = int(addresses[own].rpartition(":")[2])
    try:
        door = socket.create_server(("", port), backlog=len(addresses) + 8)
    except OSError as error:
        raise InputError(
            f"worker {own} can't listen on port {port} ({(error.strerror or str(error)).lower()}): "
            "end the process that uses it, or choose another port, the same on all workers."
        ) from error
    missing, said = [a for n, a in enumerate(addresses) if n != own], time.monotonic()
    with door:  # TensorFlow's server listens there afterwards
        while missing := [address for address in missing if not is_reached(address)]:
            if time.monotonic() - said >= SECONDS_BETWEEN_WORDS:
                named = ", ".join(f"worker {addresses.index(a)} at {a}" for a in missing)
                print(
                    f"waiting for {len(missing)} of {len(addresses)} workers: {named}", flush=True
                )
                said = time.monotonic()
            time.sleep(SECONDS_BETWEEN_LOOKS)


def is_reached(address: str) -> bool:
    """Return whether a process listens at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2) as line:
            # A local connection may get the searched port itself and find itself.
            return line.getsockname() != line.getpeername()
    except OSError:
        return False


class Part(NamedTuple):
    """Something that all workers must share.

    Attributes:
        value: in words.
        content: the hash of a file or folder; it decides if both workers have one.
    """

    value: str
    content: str = ""


def refuse_differences(settings: CoreSettings) -> None:
    """Compare settings, data and code of all workers before training.

    Raises:
        InputError: they differ; raised on all workers.
    """
    try:
        chief, *others = all_workers().gather(describe_training(settings))
    except tf.errors.OpError as error:
        if isinstance(error, LOST):
            raise
        raise InputError(
            f"the workers can't talk to each other ({gist(error)}): give all the same number of "
            "GPUs, and the same devices.logical_devices."
        ) from error
    sentence = next(filter(None, (compare(chief, *other) for other in enumerate(others, 1))), None)
    if sentence:
        all_workers().close()  # a worker that left now would leave the others without a reason
        raise InputError(f"{sentence}: all workers need the same settings, data and code.")


def compare(chief: dict[str, Part], number: int, worker: dict[str, Part]) -> str | None:
    """Describe how a worker differs from the chief; None: not at all."""
    absent = Part("absent")
    for name in {**chief, **worker}:
        one, other = chief.get(name, absent), worker.get(name, absent)
        if one.content and other.content:
            if one.content != other.content:
                return (
                    f"worker {number} has another content of {name} ({other.value}) than worker 0"
                )
        elif one.value != other.value:
            return f"worker {number} has {name} = {other.value}, and worker 0 has {one.value}"
    return None


def describe_training(settings: CoreSettings) -> dict[str, Part]:
    """Return the versions, code, settings and named files of this worker."""
    parts = {"TensorFlow": Part(tf.__version__), "Keras": Part(keras.__version__)}
    parts |= {
        name: Part(repr(value), "" if name == "run_name" else content_of(value))
        for name, value in flatten(settings.model_dump()).items()
        if name not in FREE_SETTINGS - TOGETHER
    }
    return parts | {path: Part("code", known) for path, known in code_hashes(PROJECT).items()}


def content_of(value: object) -> str:
    """Return the hash of the file, folder or model in a setting; empty if it names none."""
    if not isinstance(value, str) or not value:
        return ""
    if value.startswith("hf://"):
        return download(value.removeprefix("hf://")).name  # for a snapshot, the hash of its commit
    path = project_path(value)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{file.relative_to(path).as_posix()} {file_hash(file)}\n" for file in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    return file_hash(path) if path.is_file() else ""


def split_processor(extended, count: int, cluster_resolver, worker_device: str) -> tuple:
    """Return the logical devices of a worker's CPU, and their kind."""
    return tuple(f"{worker_device}/device:CPU:{n}" for n in range(count)), "CPU"


class ClusterWorkers(OneProcess):
    """The workers of a cluster; they communicate by collectives.

    Args:
        strategy: of the joined cluster.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        resolver = strategy.cluster_resolver
        self.strategy = strategy
        self.count = len(resolver.cluster_spec().as_dict()["worker"])
        self.number = resolver.task_id
        self.gather_replicas = tf.function(
            functools.partial(strategy.gather, axis=0), reduce_retracing=True
        )

    def gather(self, value: Any) -> list:
        content = np.frombuffer(pickle.dumps(value), np.uint8)
        # Collectives don't support bytes, so four bytes become one integer.
        words = np.zeros(-(-len(content) // 4), np.int32)
        words.view(np.uint8)[: len(content)] = content
        counts = self.gather_integers(np.array([len(words)], np.int32))
        ends = np.cumsum(counts)
        everything = self.gather_integers(words)
        return [
            pickle.loads(everything[end - count : end].tobytes())
            for count, end in zip(counts, ends, strict=True)
        ]

    def gather_integers(self, array: np.ndarray) -> np.ndarray:
        """Return the arrays `[n]` of all workers, concatenated; `n` may differ."""
        local = self.strategy.num_replicas_in_sync // self.count

        def of_replica(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            first = context.replica_id_in_sync_group % local == 0
            return tf.constant(array if first else array[:0])

        values = self.strategy.experimental_distribute_values_from_function(of_replica)
        return self.gather_replicas(values).numpy()

    def close(self) -> None:
        self.gather(None)
        try:
            self.gather(None)
        except LOST:
            pass  # it has left: all had finished before any began to gather again

    def explain(self, error: Exception) -> str | None:
        if not isinstance(error, LOST):
            return None
        return (
            f"worker {self.number} lost another one: look for the first error among the logs of "
            "all, then start them all again; the training goes on from its last checkpoint."
        )

    def leave(self, sentence: str) -> NoReturn:
        print(sentence, file=sys.stderr, flush=True)
        os._exit(1)  # otherwise TensorFlow and the other workers would wait for each other

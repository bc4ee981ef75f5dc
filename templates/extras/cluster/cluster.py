"""The workers of one training on several machines: who they are, and what they tell each other.

A cluster is named by TF_CONFIG, as TensorFlow reads it, by SLURM (`srun`), or by an indexed Job of
Kubernetes. Every worker runs the same program on the same data; the first, the chief, alone writes.
"""

import functools
import json
import os
import pickle
import sys
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.files import write_nothing
from core.base.workers import Alone, is_chief, join_workers

# What TensorFlow raises where another worker is gone.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def find_cluster(port: int) -> dict | None:
    """Return what TF_CONFIG would hold for this process; None: it stands alone.

    Args:
        port: on which workers talk, where SLURM or Kubernetes name the machines only.

    Raises:
        InputError: the cluster's environment is broken.
    """
    found = read_tf_config() or read_slurm(port) or read_kubernetes(port)
    if found and len(found["cluster"]["worker"]) > 1:
        return found
    return None


def read_tf_config() -> dict | None:
    """Return the cluster that the variable TF_CONFIG names.

    Raises:
        InputError: it is no JSON, or lacks the workers or the task.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        kind, index = str(config["task"]["type"]), int(config["task"]["index"])
        workers = [str(address) for address in config["cluster"]["worker"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"TF_CONFIG is broken ({type(error).__name__}: {error}): it must hold "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}.'
        ) from error
    if kind != "worker" or not 0 <= index < len(workers):
        raise InputError(
            f"TF_CONFIG calls this process {kind} {index}, but the cluster has {len(workers)} "
            "workers: number them from 0."
        )
    return {"cluster": {"worker": workers}, "task": {"type": kind, "index": index}}


def read_slurm(port: int) -> dict | None:
    """Return the cluster of a job step of SLURM: one worker for each task of `srun`."""
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) < 2:
        return None
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        jobs={"worker": tasks}, port_base=port, auto_set_gpu=True
    )
    return {
        "cluster": resolver.cluster_spec().as_dict(),
        "task": {"type": "worker", "index": resolver.task_id},
    }


def read_kubernetes(port: int) -> dict | None:
    """Return the cluster of an indexed Job, whose headless service gives each pod its name."""
    index = os.environ.get("JOB_COMPLETION_INDEX")
    if index is None or "WORKERS" not in os.environ:
        return None
    job, service = (os.environ.get(name) for name in ("JOB_NAME", "SERVICE_NAME"))
    if not job or not service:
        raise InputError(
            "WORKERS is set without JOB_NAME and SERVICE_NAME: see extras/cluster/kubernetes.yaml."
        )
    workers = [f"{job}-{n}.{service}:{port}" for n in range(int(os.environ["WORKERS"]))]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": int(index)}}


def join(cluster: dict, logical_devices: int = 0) -> tf.distribute.Strategy:
    """Join a cluster; wait until all of its workers are there.

    Args:
        cluster: from `find_cluster`.
        logical_devices: replicas on this worker's processor, to try several on one. 0: as many as
            it has graphics cards, or one.
    """
    os.environ["TF_CONFIG"] = json.dumps(cluster)
    extended = tf.distribute.MultiWorkerMirroredStrategy.__init__.__globals__[
        "CollectiveAllReduceExtended"
    ]
    if logical_devices and not tf.config.get_visible_devices("GPU"):
        # TensorFlow takes one replica for a processor, however often it was split.
        extended._initialize_local_devices = functools.partialmethod(
            split_processor, logical_devices
        )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    join_workers(ClusterWorkers(strategy))
    if not is_chief():
        write_nothing()
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return strategy


def split_processor(extended, count: int, cluster_resolver, worker_device: str) -> tuple:
    """Return the logical devices of a worker's processor, and their kind."""
    return tuple(f"{worker_device}/device:CPU:{n}" for n in range(count)), "CPU"


class ClusterWorkers(Alone):
    """The workers of a cluster, which talk by collectives.

    Args:
        strategy: that this process has joined.
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
        # Collectives take no bytes: four of them are one integer.
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
        """Return the arrays `[n]` of all workers, one after the other; `n` may differ."""
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
            pass  # it has left: all had come to their end before any began to gather again

    def explain(self, error: Exception) -> str | None:
        if not isinstance(error, LOST):
            return None
        return (
            f"worker {self.number} lost another one: look for the first error among the logs of "
            "all, then start them all again; the training goes on from its last checkpoint."
        )

    def leave(self, sentence: str) -> NoReturn:
        print(sentence, file=sys.stderr, flush=True)
        os._exit(1)  # TensorFlow would wait for the other workers, which wait for this one

"""Join the servers, workers and chief that TF_CONFIG names."""

import json
import os
from typing import NoReturn

import tensorflow as tf

from core.base.errors import InputError

SERVER_ROLES = ("chief", "worker", "ps")  # names in TF_CONFIG


def join_servers() -> tf.distribute.Strategy:
    """Return the strategy on the chief; on others serve, and never return.

    Raises:
        InputError: TF_CONFIG names no such cluster.
    """
    try:
        config = json.loads(os.environ.get("TF_CONFIG", ""))
        cluster, task = config["cluster"], config["task"]
        known = task["type"] in SERVER_ROLES and cluster[task["type"]][task["index"]]
        complete = all(cluster[role] for role in SERVER_ROLES)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        known = complete = False
    if not known or not complete:
        raise InputError(
            "strategy = parameter_server, but TF_CONFIG names no chief, workers and ps with this "
            "process among them: set TF_CONFIG on each machine, or use --servers 1 of "
            "extras/cluster/launch.py."
        )
    if task["type"] != "chief":
        serve(cluster, task["type"], task["index"])
    # The chief computes nothing, so the workers get the GPUs.
    tf.config.set_visible_devices([], "GPU")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    return tf.distribute.ParameterServerStrategy(resolver)


def serve(cluster: dict, role: str, index: int) -> NoReturn:
    """Execute the chief's requests until this process is ended."""
    # A thread waits for another process; with one core all threads would wait.
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

"""Several machines train as one: the strategy of a cluster."""

import tensorflow as tf

from core.base.errors import InputError
from core.devices.strategy import split_first_device
from extras.cluster.cluster import find_cluster, join, refuse_differences
from extras.cluster.settings import Settings


def make_strategy(settings: Settings) -> tf.distribute.Strategy | None:
    """Return the strategy of the cluster of this process; None: it is not in a cluster.

    Args:
        settings: `strategy`, `devices`, and `port` of the table `cluster`.

    Raises:
        InputError: `multi_worker` without a cluster, a worker that can't join, or one with other
            settings, data or code.
    """
    if settings.strategy not in ("auto", "multi_worker"):
        return None
    cluster = find_cluster(settings.cluster.port)
    if cluster is None and settings.strategy == "multi_worker":
        raise InputError(
            "strategy = multi_worker, but neither TF_CONFIG nor SLURM nor Kubernetes names several "
            "workers: start with extras/cluster/launch.py, or as the files beside it do."
        )
    if cluster is None:
        return None
    split_first_device(settings.devices.logical_devices)
    strategy = join(cluster, settings.devices.logical_devices)
    refuse_differences(settings)
    return strategy

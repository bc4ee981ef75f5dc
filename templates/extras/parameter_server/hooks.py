"""Servers hold the weights, and workers train at their own pace: the strategy and its loop."""

import tensorflow as tf

from core.base.settings import CoreSettings
from core.training import Training
from extras.parameter_server.server_loop import fit_with_servers
from extras.parameter_server.servers import join_servers


def make_strategy(settings: CoreSettings) -> tf.distribute.Strategy | None:
    """Return the chief's strategy where `strategy` asks for it; serve, in any other process."""
    return join_servers() if settings.strategy == "parameter_server" else None


def prepare(training: Training) -> None:
    """Let the loop train that hands batches out to the workers, where `strategy` asks for it."""
    if training.settings.strategy == "parameter_server":
        training.loop = fit_with_servers

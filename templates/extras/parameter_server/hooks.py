"""Servers hold the weights, and workers train at their own pace: the strategy and its loop."""

from collections.abc import Callable

import tensorflow as tf

from core.base.settings import CoreSettings
from extras.parameter_server.server_loop import fit_with_servers
from extras.parameter_server.servers import join_servers


def make_strategy(settings: CoreSettings) -> tf.distribute.Strategy | None:
    """Return the chief's strategy where `strategy` asks for it; serve, in any other process."""
    return join_servers() if settings.strategy == "parameter_server" else None


def choose_loop(settings: CoreSettings) -> Callable[..., None] | None:
    """Return the loop that hands batches out to the workers, where `strategy` asks for it."""
    return fit_with_servers if settings.strategy == "parameter_server" else None

"""What config.toml may say with parameter servers: strategy = "parameter_server"."""

from core.base.settings import CoreSettings

STRATEGIES = ("parameter_server",)


def complain(settings: CoreSettings) -> str | None:
    """Refuse several trainings: servers have a loop of their own, for one."""
    if settings.strategy == "parameter_server" and getattr(settings, "folds", False):
        return "strategy = parameter_server has a loop of its own, for one training: set folds = 0"
    return None

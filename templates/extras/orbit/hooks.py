"""Orbit's loop, where the table asks for it."""

from core.training import Training


def prepare(training: Training) -> None:
    """Let Orbit's loop train, or score next to the process that trains."""
    if not training.settings.orbit.enabled:
        return
    from extras.orbit.orbit_loop import train_with_orbit  # needs the package orbit

    training.loop = train_with_orbit
    if training.settings.orbit.job == "evaluate":
        training.run.lock = ".evaluating.lock"

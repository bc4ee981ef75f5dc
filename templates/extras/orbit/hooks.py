"""Orbit's loop, where the table asks for it."""

from collections.abc import Callable

from extras.orbit.settings import Settings


def name_lock(settings: Settings) -> str | None:
    """Return the lock of the job that scores beside the one that trains; None: this one trains."""
    return ".evaluating.lock" if settings.orbit.job == "evaluate" else None


def choose_loop(settings: Settings) -> Callable[..., None] | None:
    """Return Orbit's loop; None: Keras's."""
    if not settings.orbit.enabled:
        return None
    from extras.orbit.orbit_loop import train_with_orbit  # needs the package orbit

    return train_with_orbit

"""Orbit's loop, where the table asks for it."""

from collections.abc import Callable

from extras.orbit.settings import Settings


def choose_loop(settings: Settings) -> Callable[..., None] | None:
    """Return Orbit's loop; None: Keras's."""
    if not settings.orbit.enabled:
        return None
    from extras.orbit.orbit_loop import train_with_orbit  # needs the package orbit

    return train_with_orbit

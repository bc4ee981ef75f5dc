"""The tool that builds, checks, reproduces and compares the baselines of this repository."""

__version__ = "0.2.0"


class InputError(Exception):
    """An error that the user can fix: one sentence says what, where and how, without traceback."""

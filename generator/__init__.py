"""The tool that builds, checks, reproduces and compares the baselines of this repository."""

__version__ = "0.2.0"

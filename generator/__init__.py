"""The tool that builds, checks, reproduces and compares the baselines of this repository."""

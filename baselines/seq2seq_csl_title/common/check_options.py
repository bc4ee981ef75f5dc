"""The flags of check.py that are no settings of a training."""

import argparse


def read_check_options(flags: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the flags that are left for the settings.

    Args:
        flags: of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--tpu", default="", metavar="TOPOLOGY")
    return parser.parse_known_args(flags)

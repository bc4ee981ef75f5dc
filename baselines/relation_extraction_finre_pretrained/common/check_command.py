"""What check.py takes besides the settings, and how it ends."""

import argparse
import sys
from collections.abc import Sequence

from common.data_checks import Finding


def read_check_options(flags: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options that are no settings, and the flags that are left for the settings.

    Args:
        flags: of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--tpu", default="", metavar="TOPOLOGY")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--memory_trial", action="store_true")  # what --memory runs for each row
    return parser.parse_known_args(flags)


def stop_at_errors(findings: Sequence[Finding]) -> None:
    """Conclude at once where the data has errors: a model would be tried on what must change."""
    if any(finding.level == "error" for finding in findings):
        conclude(findings)


def conclude(findings: Sequence[Finding]) -> None:
    """Print what was found, and exit: 1 where something must be mended first, else 0."""
    print()
    for finding in findings:
        print(finding)
    errors = sum(finding.level == "error" for finding in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings" if findings else "sound")
    sys.exit(1 if errors else 0)

"""Another Python with torch and transformers, whose numbers ours are compared with.

It is this one, or the one that the environment variable PEER_PYTHON names.
"""

import functools
import os
import subprocess
import sys

import pytest

FIND = (
    "import importlib.util as i, sys; "
    "sys.exit(not (i.find_spec('torch') and i.find_spec('transformers')))"
)


@functools.cache
def peer_python() -> str | None:
    """Return a Python with torch and transformers; None: there is none."""
    for python in filter(None, [os.environ.get("PEER_PYTHON"), sys.executable]):
        if subprocess.run([python, "-c", FIND]).returncode == 0:
            return python
    return None


needs_peer = pytest.mark.skipif(
    peer_python() is None,
    reason="no torch and transformers: install them, or name a Python that has them in PEER_PYTHON",
)


def run_peer(*arguments) -> None:
    """Run a program, given as text, with its arguments."""
    result = subprocess.run(
        [peer_python(), "-c", *map(str, arguments)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr

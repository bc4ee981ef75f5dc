"""Data sets: where they come from, how they are fetched, and how they become JSON Lines."""

import sys
from pathlib import Path

# Here is `extras`, whose host_formats reads files of hosts: in a project, and for these data sets.
TEMPLATES = str(Path(__file__).resolve().parents[2] / "templates")
if TEMPLATES not in sys.path:
    sys.path.insert(0, TEMPLATES)

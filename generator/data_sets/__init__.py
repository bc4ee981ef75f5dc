"""Data sets: where they come from, how they are fetched, and how they become JSON Lines."""

import sys

from generator.files import find_repository

# Here is `extras`, whose host_formats reads files of hosts: in a project, and for these data sets.
TEMPLATES = str(find_repository() / "templates")
if TEMPLATES not in sys.path:
    sys.path.insert(0, TEMPLATES)

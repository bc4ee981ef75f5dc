"""What every test shares: the repository's root."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests also run where the package is not installed.
sys.path.insert(0, str(ROOT))
# Templates are imported in place: nothing may be left in them that would be baked.
sys.dont_write_bytecode = True

"""What check.py says of shapes and of XLA, where the doctor asks."""

from extras.tpu.compile_checks import check_compilation
from extras.tpu.static_checks import find_dynamic_shapes

__all__ = ["check_compilation", "find_dynamic_shapes"]

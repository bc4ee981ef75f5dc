"""check.py looks for shapes that a TPU has not, and compiles for XLA and for a TPU."""

from typing import Any

from extras.tpu.compile_checks import check_compilation
from extras.tpu.static_checks import find_dynamic_shapes


def begin_checks(checks: Any) -> None:
    """Add `--tpu TOPOLOGY` to the flags of check.py."""
    checks.parser.add_argument("--tpu", default="", metavar="TOPOLOGY")


def check_training(checks: Any) -> None:
    """Look for dynamic shapes before the first gradient; compile at the end.

    A warning of TPUs is an error for somebody who asks for a TPU.
    """
    topology = checks.options.tpu
    checks.strict |= bool(topology)
    checks.before_gradient.append(find_dynamic_shapes)
    checks.at_end.append(
        lambda: check_compilation(checks.compiled_model, checks.batches, checks.settings, topology)
    )

"""Compile a training step for a TPU that is not there."""

from collections.abc import Callable

from extras.tpu.tpu_compile import TpuProgram, compile_for_tpu_cores, count_cores


def compile_for_tpu(topology: str, lowered: Callable[[int], bytes]) -> str:
    """Print the memory that a step takes on one core; return why it does not compile, or "".

    Args:
        topology: kind and shape, as `v5e:2x2`.
        lowered: from a number of cores to the serialized HLO of the step of one of them.

    Raises:
        InputError: jax or libtpu is not installed, or there is no such topology.
    """
    program = compile_for_tpu_cores(lowered(count_cores(topology)), topology)
    if isinstance(program, TpuProgram):
        print(f"TPU {topology}, one core: {program}")
        return ""
    return program

"""Compile a program ahead of time for a TPU, with Google's compiler in the package libtpu.

jax only calls the compiler here; the program is TensorFlow's.
"""

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.base.errors import InputError

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class TpuProgram:
    """The memory of one core according to the compiler, in bytes.

    Attributes:
        arguments: weights, moments of the optimizer, the batch.
        temporary: activations and gradients.
        code: the program itself.
    """

    arguments: int
    temporary: int
    code: int

    def __str__(self) -> str:
        return (
            f"{self.arguments / MEBIBYTE:.0f} MiB for weights, optimizer and batch, "
            f"{self.temporary / MEBIBYTE:.0f} MiB for activations and gradients, "
            f"{self.code / MEBIBYTE:.0f} MiB for the program"
        )


def count_cores(topology: str) -> int:
    """Return the number of cores of a TPU such as `v5e:2x2`."""
    return len(find_cores(topology))


def find_cores(topology: str) -> list:
    """Return jax's devices for the cores of a TPU that need not exist.

    Raises:
        InputError: jax or libtpu is not installed, or there is no such topology.
    """
    missing = [name for name in ("jax", "libtpu") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"--tpu needs {' and '.join(missing)}: pip install -r extras/tpu/requirements.txt."
        )
    # Otherwise libtpu asks a cloud's metadata server about this machine.
    os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost"}
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(topology_name=topology, platform="tpu").devices
    except Exception as error:  # raised by jax or libtpu
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"--tpu {topology} is not a topology that libtpu knows ({reason}): try v5e:2x2, "
            "v4:2x2x1 or v6e:2x2."
        ) from error


def compile_for_tpu_cores(hlo: bytes, topology: str) -> TpuProgram | str:
    """Return the compiled program's memory, or the compiler's reason to refuse it.

    Args:
        hlo: serialized HLO of one replica.
        topology: kind and shape, such as `v5e:2x2`, `v4:2x2x1`, `v6e:2x2`.

    Raises:
        InputError: jax or libtpu is not installed, or there is no such topology.
    """
    core = find_cores(topology)[0]
    import jax
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    options = compiler.get_compile_options(1, 1, device_assignment=np.array([[core.id]]))
    with mlir.make_ir_context():
        module = ir.Module.parse(xla_client._xla.mlir.hlo_to_stablehlo(hlo))
        remove_copies(module)
        try:
            program = core.client.compile(module, xla_client.DeviceList((core,)), options)
        except jax.errors.JaxRuntimeError as error:
            return " ".join(str(error).split())[:300].rstrip(".")
    memory = program.get_compiled_memory_stats()
    return TpuProgram(
        memory.argument_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
    )


def remove_copies(module) -> None:
    """Remove copies: TensorFlow copies its results, and StableHLO has no copy operation."""
    from jax._src.lib.mlir import ir

    copies = []

    def collect(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()

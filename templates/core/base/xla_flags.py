"""Flags of XLA for GPUs; they are read when TensorFlow is loaded, so they stand in no setting."""

import hashlib
import os
from pathlib import Path

# For each shape XLA would try dozens of kernels for each matrix product, and take a minute. Those
# that cuBLAS chooses by itself are as fast for the shapes of a Transformer.
FLAGS = ("--xla_gpu_enable_triton_gemm=false", "--xla_gpu_autotune_level=0")
CARDS = Path("/proc/driver/nvidia/gpus")
CACHE = Path(__file__).resolve().parents[2] / "runs" / ".xla"


def set_xla_flags() -> None:
    """Compile fast, and keep what is compiled for the next start; the user's own flags win."""
    add_flags("XLA_FLAGS", FLAGS)
    # A program fits one kind of card.
    cards = sorted(path.read_text("utf-8", "replace") for path in CARDS.glob("*/information"))
    models = [line for card in cards for line in card.splitlines() if line.startswith("Model")]
    folder = CACHE / hashlib.blake2b(repr(models).encode(), digest_size=4).hexdigest()
    # Quoted: a path may hold blanks, and quotes. In double quotes TensorFlow reads backslashes.
    quoted = str(folder).replace("\\", r"\\").replace('"', r"\"")
    add_flags("TF_XLA_FLAGS", (f'--tf_xla_persistent_cache_directory="{quoted}"',))


def add_flags(variable: str, flags: tuple[str, ...]) -> None:
    """Add the flags that an environment variable does not have yet."""
    given = os.environ.get(variable, "")
    added = (flag for flag in flags if flag.partition("=")[0] not in given)
    os.environ[variable] = " ".join([given, *added]).strip()

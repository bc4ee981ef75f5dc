"""The part that every project shares: from a file on disk to a trained model that is scored."""

import importlib.util
import os
import sys
import tempfile
from typing import Any


class QuietTensorFlow:
    """Keeps back the notes of TensorFlow's libraries: no log level does while they are loaded."""

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return how TensorFlow is loaded; None: another module is asked for."""
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        if spec:
            self.load, spec.loader.exec_module = spec.loader.exec_module, self.load_quietly
        return spec

    def load_quietly(self, module: Any) -> None:
        """Load TensorFlow; whatever else it writes on the error output comes after it."""
        error_output = os.dup(2)
        with tempfile.TemporaryFile() as written:
            os.dup2(written.fileno(), 2)
            try:
                self.load(module)
            finally:
                os.dup2(error_output, 2)
                written.seek(0)
                notes = (b"I0000 ", b"WARNING: All log messages before absl")
                os.write(2, b"".join(line for line in written if not line.startswith(notes)))


if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0" and sys.stderr is not None:
    sys.meta_path.insert(0, QuietTensorFlow())

# TensorFlow's notes on its own build fill a screen before the first line that matters. Where there
# is no NVIDIA card, or none that may be used, it also reports that as an error.
hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
has_card = os.path.exists("/proc/driver/nvidia") and not hidden
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if has_card else "3")

# oneDNN multiplies small matrices, as those of attention, in a third of the time; by default
# TensorFlow uses it on CPUs with AVX-512 only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# On a CPU TensorFlow hands the memory of every tensor back to the system, which spends a third of a
# training step on clearing it for the next one. The allocator that graphics cards have keeps it.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(1 << 20))  # no limit but the machine's

"""Hide the notes that TensorFlow's C++ libraries print while they are loaded.

No log level hides them: they come before TensorFlow has read any. So the error output is caught
while the module `tensorflow` is loaded, whatever imports it first: many commands never need it.
"""

import importlib.util
import os
import sys
import tempfile
from typing import Any

NOTES = (b"I0000 ", b"WARNING: All log messages before absl")


class QuietTensorFlow:
    """A finder that answers once, for `tensorflow`, with a loader that hides notes."""

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
        """Load TensorFlow; print what it wrote on the error output, without the notes."""
        error_output = os.dup(2)
        with tempfile.TemporaryFile() as written:
            os.dup2(written.fileno(), 2)
            try:
                self.load(module)
            finally:
                os.dup2(error_output, 2)
                os.close(error_output)
                written.seek(0)
                os.write(2, b"".join(line for line in written if not line.startswith(NOTES)))


def hide_notes() -> None:
    """Hide the notes, unless the user asks for all of TensorFlow's log."""
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0" and sys.stderr is not None:
        sys.meta_path.insert(0, QuietTensorFlow())

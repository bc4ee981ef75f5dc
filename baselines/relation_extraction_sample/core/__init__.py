"""The library of every project: from a file on disk to a trained model that is scored."""

import os

from core.base.quiet_tensorflow import hide_notes
from core.base.xla_flags import set_xla_flags

hide_notes()

# Ignore this machine's keras.json, which may set float16: the tests use Keras's own defaults. Keras
# reads no file if KERAS_HOME is no folder.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["KERAS_HOME"] = os.devnull

# TensorFlow's notes on its own build fill a screen before the first line that matters. Where there
# is no NVIDIA GPU, or none that may be used, it also reports that as an error.
hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
drivers = ("/proc/driver/nvidia", "/usr/lib/wsl/lib/libcuda.so.1")  # of Linux, and of WSL2
has_gpu = any(map(os.path.exists, drivers)) and not hidden
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if has_gpu else "3")

# oneDNN multiplies small matrices, such as those of attention, in a third of the time; by default
# TensorFlow uses it only on CPUs with AVX-512.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# On a CPU TensorFlow returns the memory of every tensor to the system, which spends a third of a
# training step on clearing it for the next one. The allocator that GPUs use keeps it.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(1 << 20))  # no limit but the machine's

if has_gpu:
    set_xla_flags()

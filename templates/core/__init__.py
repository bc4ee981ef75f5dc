"""The part that every project shares: from a file on disk to a trained model that is scored."""

import os

# TensorFlow's notes on its own build fill a screen before the first line that matters. Where there
# is no NVIDIA driver it also reports, as an error, that it found none.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/proc/driver/nvidia") else "3")

# oneDNN multiplies small matrices, as those of attention, in a third of the time; by default
# TensorFlow uses it on CPUs with AVX-512 only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# On a CPU TensorFlow hands the memory of every tensor back to the system, which spends a third of a
# training step on clearing it for the next one. The allocator that graphics cards have keeps it.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(1 << 20))  # no limit but the machine's

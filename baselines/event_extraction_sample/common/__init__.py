"""The part that every project shares: from a file on disk to a trained model that is scored."""

import os

# TensorFlow's notes on its own build fill a screen before the first line that matters. Where there
# is no NVIDIA driver it also reports, as an error, that it found none.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/proc/driver/nvidia") else "3")

"""What a project may do without: each folder can be deleted. core/base/extras.py opens them."""

import core  # noqa: F401  it sets TensorFlow up, which must come after it

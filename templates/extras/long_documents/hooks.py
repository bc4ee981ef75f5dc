"""Windows in which the encoder reads long texts."""

from typing import Any

from extras.long_documents.windows import Windows


def encoder_windows(settings: Any) -> Windows | None:
    """Return the windows of the table; None: the encoder reads whole texts."""
    table = getattr(settings, "long_documents", None)  # not all tasks have it
    return Windows(table.window, table.overlap) if table and table.window else None

"""The memory of a training step for its windows: a warning before it fails."""

from pathlib import Path

import keras

from core.base.settings import CoreSettings
from core.exact.dropout import named_layers
from core.fast.one_pass import AT_ONCE, pays
from core.step import Models

GIBIBYTE = 1 << 30
# How many copies of all token-pair scores a step holds, measured on a CPU: for a pointer with its
# loss, for attention, and for attention with dropout masks.
POINTER, ATTENTION, DROPPED = 6, 2, 3
MEMINFO = Path("/proc/meminfo")


def warn_of_memory(settings: CoreSettings, models: Models) -> None:
    """Warn if a batch of windows of `max_length` tokens would not fit into memory."""
    free = free_memory()
    needed = pair_memory(settings, models)
    if free is not None and needed > free:
        print(
            f"warning: windows of max_length = {settings.max_length} tokens need "
            f"{needed / GIBIBYTE:.1f} GiB a step for the scores of all pairs of tokens, and "
            f"{free / GIBIBYTE:.1f} GiB are free: lower max_length or batch_size, or set "
            "accumulation, if the texts are that long."
        )


def pair_memory(settings: CoreSettings, models: Models) -> int:
    """Return the bytes of all token-pair scores in a step.

    They belong to pointers and to the attention of Transformer layers. With `recompute` only one
    layer counts, because the others are computed again. Of many heads a CPU holds those of a few.
    """
    pointers = sum(
        AT_ONCE if hasattr(layer, "types") and pays(layer.heads) else layer.heads
        for _, layer in named_layers(models.training)
        if hasattr(layer, "heads") and hasattr(layer, "head_size")
    )
    layers = getattr(models.encoder, "num_layers", 0)
    if getattr(getattr(settings, "recompute", None), "enabled", False):
        layers = min(layers, 1)
    heads = layers * getattr(models.encoder, "num_heads", 0)
    copies = DROPPED if settings.attention_dropout else ATTENTION
    longest = getattr(models.encoder, "max_sequence_length", None) or settings.max_length
    read = min(longest, settings.max_length)  # tokens that attend to each other
    tokens = -(-settings.batch_size // settings.accumulation) * settings.max_length
    size = 2 if settings.devices.precision == "mixed_bfloat16" else 4
    # Pointer scores are always float32.
    return tokens * (4 * POINTER * pointers * settings.max_length + size * copies * heads * read)


def free_memory() -> int | None:
    """Return the free bytes of main memory; None: another device's memory counts."""
    if keras.distribution.list_devices("gpu") or not MEMINFO.is_file():
        return None
    rows = (line.split() for line in MEMINFO.read_text(encoding="utf-8").splitlines())
    return next((1024 * int(row[1]) for row in rows if row[0] == "MemAvailable:"), None)

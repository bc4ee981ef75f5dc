"""Triples and events in the place of texts, where the table asks for them."""

from core.base.errors import InputError
from extras.extraction.extractor import Extractor
from extras.extraction.settings import Settings


def open_extraction(settings: Settings) -> Extractor | None:
    """Return what reads and scores records with triples or events; None: they are texts.

    Raises:
        InputError: several texts of a record are asked for.
    """
    table = getattr(settings, "extraction", None)  # None: whoever asks has no use for extras
    if table is None or not table.kind:
        return None
    if settings.generation.n_best > 1:
        raise InputError(
            f"n_best = {settings.generation.n_best} asks for several texts of a record, and "
            f"extraction.kind = {table.kind} reads one: set n_best = 1."
        )
    return Extractor(table)

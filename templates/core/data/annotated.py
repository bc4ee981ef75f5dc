"""The predicates that a record is annotated for, where it is not annotated for all."""

from collections.abc import Sequence

from core.base.errors import InputError

FIELD = "annotated_predicates"


def read_annotated(record: dict, predicates: Sequence[str]) -> tuple[str, ...] | None:
    """Return the predicates that a record is annotated for, each once; None: all.

    Args:
        record: a record with triples.
        predicates: of its triples.

    Raises:
        InputError: they are no list of names, or lack the predicate of a triple.
    """
    names = record.get(FIELD)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f'"{FIELD}" must be a list of strings, or absent.')
    for predicate in predicates:
        if predicate not in names:
            raise InputError(
                f'the triple with predicate {predicate!r} is not among "{FIELD}": add the '
                "predicate there, or drop the triple."
            )
    return tuple(dict.fromkeys(names))

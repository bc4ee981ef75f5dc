"""The triples of relation extraction in one fixed order."""

Triple = tuple[int, int, str, int, int]


def triple_records(triples: set[Triple]) -> list[dict]:
    """Return the triples as JSON objects, sorted, so that the order of a source plays no part."""
    return [
        {"subject": [start, end], "predicate": predicate, "object": [object_start, object_end]}
        for start, end, predicate, object_start, object_end in sorted(triples)
    ]

"""Sources with their reference texts: one record a source."""

from collections.abc import Iterable

from generator.data_sets.reading import Records, text_id


def reference_records(pairs: Iterable[tuple[str, str]]) -> Records:
    """Group pairs of source and target by source: all its targets, in the order of the file."""
    records: Records = {}
    for source, target in pairs:
        name = text_id(source)
        record = records.setdefault(name, {"id": name, "source": source, "targets": []})
        record["targets"].append(target)
    return records

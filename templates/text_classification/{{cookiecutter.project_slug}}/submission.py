"""What predict.py writes: JSON Lines, or a table, of which extras/competition writes any kind."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from core.base.files import write_json_lines, write_text

TABLES = {".tsv": "\t", ".csv": ","}


def write_submission(path: Path, records: Sequence[dict], ranked: bool) -> None:
    """Write predictions as JSON Lines, or as a table where the file is called .tsv or .csv.

    A table has the columns `id` and `label`, several labels with | between them, and for a ranking
    also `score`.

    Args:
        path: the file to write.
        records: from `prediction_records`.
        ranked: the examples have groups.
    """
    if path.suffix not in TABLES:
        write_json_lines(path, records)
        return
    columns = ["id", "label", *(["score"] if ranked else [])]
    table = io.StringIO()
    writer = csv.writer(table, delimiter=TABLES[path.suffix], lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        row = {**record, "label": record.get("label", "|".join(record.get("labels", [])))}
        writer.writerow([row[column] for column in columns])
    write_text(path, table.getvalue())

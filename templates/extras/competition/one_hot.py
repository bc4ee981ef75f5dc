"""Columns of 0 and 1 of which exactly one is 1 in each row: they are one label, not several."""

import itertools

from core.base.files import project_path
from core.base.workers import is_chief
from extras.competition.number_cells import read_number
from extras.competition.records import read_truth, show, stripped
from extras.competition.rows import read_any_rows
from extras.competition.settings import Settings
from extras.competition.tables import FIRST_ROWS, find_columns, has_own_columns


def find_one_label(settings: Settings) -> bool | None:
    """Return whether each row of the training file has exactly one label; None: that is not asked.

    It is asked of columns of 0 and 1, of which there are two at least. One row with another number
    of labels is enough to say no, so the file is read to its end only if the answer is yes.

    Raises:
        InputError: the training file is broken.
    """
    name: str = settings.train_file  # type: ignore[attr-defined]
    path, table = project_path(name), settings.competition
    if not path.is_file() or not has_own_columns(path, settings):
        return None
    rows = read_any_rows(path, table.dialect)
    first_rows = [*itertools.islice(rows, FIRST_ROWS)]
    targets = find_columns(path, first_rows, settings, True).targets
    if len(targets) < 2:
        return None
    count = 0
    for _, row in itertools.chain(first_rows, rows):
        cells = (row.get(target) for target in targets)
        numbers = [
            read_number(name, read_truth(stripped(cell)), table)
            for name, cell in zip(targets, cells, strict=True)
        ]
        if sorted(numbers) != [*[0] * (len(targets) - 1), 1]:
            return False
        count += 1
    if is_chief():
        print(
            f"{path.name}: exactly one of {show(targets)} is 1 in each of {count} rows, so they "
            "are one label, whose probabilities sum to 1; set competition.one_label = false if a "
            "record may have several."
        )
    return True

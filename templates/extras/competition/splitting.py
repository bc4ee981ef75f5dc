"""Split a file: records that share texts or groups stay together, kinds keep their shares."""

import csv
import functools
import io
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.files import write_whole
from core.data.checks import normalise
from extras.competition.rows import (
    Dialect,
    encoding_of,
    find_format,
    header_cells,
    is_table,
    read_rows,
)


def check_share(share: float) -> None:
    """Refuse a share that leaves nothing to train on or nothing to score.

    Raises:
        InputError: not between 0 and 1.
    """
    if not 0 < share < 1:
        raise InputError(f"--share {share:g}: hold out more than 0 and less than 1, such as 0.1.")


def hold_out(
    keys: Sequence[tuple[tuple[str, ...], Hashable]], share: float, seed: int
) -> np.ndarray:
    """Return whether each record is held out.

    Records that share a text or a group go together. About the same share of each kind is held out:
    groups are dealt out in random order, each to the part that lacks its kinds.

    Args:
        keys: the links of each record to others, and its kind.
        share: of held-out records.
        seed: of the order of the groups.
    """
    groups = tie(keys)
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    order = np.random.default_rng(seed).permutation(len(members))
    rows = list(members.values())
    wanted: dict[Hashable, float] = {}
    for _, kind in keys:
        wanted[kind] = wanted.get(kind, 0.0) + share
    held = np.zeros(len(keys), bool)
    for group in order:
        kinds = [keys[row][1] for row in rows[group]]
        if sum(wanted[kind] for kind in set(kinds)) >= len(kinds) / 2 and len(kinds) < len(keys):
            held[rows[group]] = True
            for kind in kinds:
                wanted[kind] -= 1
    if not held.any():
        smallest = min((own for own in rows), key=len)
        held[smallest] = len(smallest) < len(keys)
    if not held.any():
        raise InputError("texts or groups tie all records together: no part can be held out.")
    return held


def find_uneven_parts(examples: Sequence[Any], held: np.ndarray, share: float) -> list[str]:
    """Return in what two parts are unlike what was asked for: the share, and labels of only one.

    Args:
        examples: of the file.
        held: True for the records of the second part.
        share: of these that was asked for.
    """
    found = []
    if not share / 2 <= held.mean() <= 2 * share:
        found.append(
            f"{held.mean():.0%} of the records are held out, not {share:.0%}, since those that "
            "share texts or groups stay together."
        )
    if hasattr(examples[0], "numbers"):
        return found
    pairs = zip(examples, held, strict=True)
    kinds: tuple[set, set] = (set(), set())
    for example, own in pairs:
        kinds[int(own)].update(example.labels)
    if new := sorted(kinds[1] - kinds[0]):
        found.append(
            f"labels that only held-out records have: {len(new)}, {new[0]!r} for one: no model "
            "can learn them there."
        )
    return found


def tie(keys: Sequence[tuple[tuple[str, ...], Hashable]]) -> list[int]:
    """Return the group number of each record; records that share a text share a group."""
    parents = list(range(len(keys)))

    def top(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    first: dict[str, int] = {}
    for row, (texts, _) in enumerate(keys):
        for text in map(normalise, texts):
            parents[top(row)] = top(first.setdefault(text, row))
    return [top(row) for row in range(len(keys))]


def write_parts(
    path: Path, examples: Sequence[Any], held: np.ndarray, dialect: Dialect
) -> list[tuple[Path, int]]:
    """Write the records of both parts next to a file; return the paths and how many rows each has.

    Their names begin with that of the file, and what is there already is never replaced.

    Args:
        path: of the file.
        examples: of the file.
        held: True for the records of the second part.
        dialect: of a table; JSON Lines are UTF-8.

    Raises:
        InputError: a file of such a name is there and holds something else.
    """
    encoding = encoding_of(path, dialect) if is_table(path) else "utf-8"
    contents, counts = {}, []
    for name, chosen in (("part", ~held), ("dev_part", held)):
        part = path.with_name(f"{path.stem}_{name}{path.suffix}")
        lines = {example.line for example, own in zip(examples, chosen, strict=True) if own}
        contents[part] = part_text(path, lines, dialect).encode(encoding)
        # A question with its choices is one row, and an example for each choice.
        counts.append((part, len(lines)))
    for part, content in contents.items():
        if part.exists() and (not part.is_file() or part.read_bytes() != content):
            raise InputError(
                f"{part} is there already and holds something else, such as another share: move or "
                "delete it first."
            )
    for part, content in contents.items():
        write_whole(part, functools.partial(Path.write_bytes, data=content))
    return counts


def part_text(path: Path, lines: set[int], dialect: Dialect) -> str:
    """Return the unchanged records of a file that begin on the given lines."""
    if not is_table(path):
        every = enumerate(path.read_text("utf-8-sig").split("\n"), start=1)
        return "".join(f"{text}\n" for line, text in every if line in lines)
    rows = list(read_rows(path, dialect))
    table = io.StringIO()
    delimiter, quoting = find_format(path, dialect)
    writer = csv.writer(
        table,
        delimiter=delimiter,
        lineterminator="\n",
        # All cells: Python leaves one with a lone carriage return without quotes.
        quoting=csv.QUOTE_ALL if quoting != csv.QUOTE_NONE else quoting,
        quotechar=None if quoting == csv.QUOTE_NONE else '"',
    )
    if rows[0][0] > 1:  # else the first line is a row
        writer.writerow(header_cells([*rows[0][1]]))
    writer.writerows(row.values() for line, row in rows if line in lines)
    return table.getvalue()

"""Score any predictions file: what score.py of every task shares.

A predictions file has the records that predict.py writes, for exactly the records of a file with
gold. No run is needed.
"""

import argparse
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import check_destination, read_json_lines, write_json
from core.base.words import excerpt
from core.data.records import Id, whole_number

# Of the ids that differ, so many are named.
SHOWN_IDS = 3


def read_arguments(description: str, settings: bool = False) -> argparse.Namespace:
    """Return PREDICTIONS, GOLD and --out of the command line, and `flags`: settings of the project.

    Args:
        description: of the script, in its first line.
        settings: whether the task reads settings, which may be flags, as in training.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("predictions", metavar="PREDICTIONS", type=Path, help="the file to score")
    parser.add_argument("gold", metavar="GOLD", type=Path, help="the same records with gold")
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write the scores, as JSON")
    arguments, flags = parser.parse_known_args()
    if flags and not settings:
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    arguments.flags = flags
    if arguments.out:
        check_destination(arguments.out, arguments.predictions)
        check_destination(arguments.out, arguments.gold)
    return arguments


def read_answers(
    path: Path, golds: Sequence[Any], read_one: Callable[[str, dict, Any], Any]
) -> dict[Id, Any]:
    """Return id -> answer for the records of a predictions file.

    Args:
        path: a JSON Lines file.
        golds: the records with gold.
        read_one: from a place, a record and its gold to the answer.

    Raises:
        InputError: the ids are not those of the gold, or a record is no prediction.
    """
    if path.suffix.lower() in (".csv", ".tsv"):
        raise InputError(f"{path} is a table to submit: score predictions that end in .jsonl.")
    rows = [*read_json_lines(path, refuse_twice)]
    rows = [(line, {**record, "id": whole_number(record.get("id"))}) for line, record in rows]
    match_ids(path, [record["id"] for _, record in rows], golds)
    by_id = {str(gold.id): gold for gold in golds}
    answers = {}
    for line, record in rows:
        place, gold = f"{path}, line {line}", by_id[str(record["id"])]
        try:
            answers[gold.id] = read_one(place, record, gold)
        except InputError as error:
            named = str(error) if str(error).startswith(place) else f"{place}: {error}"
            raise InputError(named) from error
    return answers


def refuse_twice(place: str, pairs: list[tuple[str, Any]]) -> dict:
    """Return a JSON object.

    Raises:
        InputError: a key comes twice, and the last value would count.
    """
    counts = Counter(name for name, _ in pairs)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f"{place}: the key {twice[0]!r} comes twice: write it once.")
    return dict(pairs)


def read_object(path: Path) -> dict:
    """Return the one JSON object of a file to score.

    Raises:
        InputError: it is another file, or a key comes twice.
    """
    try:
        text = read_text(path)
        found = json.loads(text, object_pairs_hook=functools.partial(refuse_twice, str(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}): correct it.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} is not one JSON object: correct it.")
    return found


def read_text(path: Path) -> str:
    """Return the text of a file to score.

    Raises:
        InputError: it is absent, or a line is not UTF-8.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path.")
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what = f"not UTF-8 ({error.reason}): save the file as UTF-8, unpacked."
        raise InputError(f"{path}, line {line}: {what}") from error


def match_ids(path: Path, given: Iterable[Any], golds: Sequence[Any]) -> None:
    """Check that a predictions file has each record of the gold once, and no other.

    Raises:
        InputError: counts and names what is missing, unknown and repeated, in one sentence.
    """
    counts = Counter(str(whole_number(name)) for name in given)
    wanted = [str(gold.id) for gold in golds]
    known = {*wanted}
    faults = {
        f"lacks {{}} of {len(wanted)} records": [name for name in wanted if name not in counts],
        "has {} that the gold lacks": [name for name in counts if name not in known],
        "repeats {}": [name for name, count in counts.items() if count > 1],
    }
    said = []
    for what, own in faults.items():
        names = ", ".join(excerpt(repr(name), most=60) for name in own[:SHOWN_IDS])
        names += ", ..." * (len(own) > SHOWN_IDS)
        said += [f"{what.format(len(own))} ({names})"] if own else []
    if said:
        raise InputError(f"{path} {', '.join(said)}: write one record for each id of the gold.")


def with_text(record: dict, gold: Any) -> dict:
    """Return a record with the text of the gold, which a prediction may leave out.

    Raises:
        InputError: it has another text.
    """
    if record.get("text", gold.text) != gold.text:
        raise InputError("the text differs from that of the gold: predict the same file.")
    return {**record, "id": gold.id, "text": gold.text}


def check_words(items: Iterable[dict], fields: dict[str, str], text: str) -> None:
    """Check that the words given with spans are those of the text at these spans.

    Args:
        items: of a prediction, checked by the task.
        fields: field with a span `[start, end]` -> field with its words, which may be left out.
        text: of the gold.

    Raises:
        InputError: they differ, as with offsets that count bytes or UTF-16 units.
    """
    for item, (name, words) in itertools.product(items, fields.items()):
        if isinstance(item.get(words), str) and item.get(name):
            there = text[slice(*item[name])]
            if there != item[words]:
                raise InputError(
                    f"{words!r} is {item[words]!r}, but the text at {item[name]} is {there!r}: "
                    "count characters from 0, the end exclusive."
                )


def finish(arguments: argparse.Namespace, scores: dict) -> None:
    """Write the scores of a file, if that is asked for."""
    if arguments.out:
        write_json(arguments.out, scores)

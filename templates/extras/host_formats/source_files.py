"""Files of hosts as text, lines, fields and JSON; one clear sentence where one is broken.

The command `baselines` reads its data sets with these functions too, without `core`.
"""

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SHOWN = 80
ZIP = ".zip"
KINDS = {str: "a string", list: "a list", dict: "an object", int: "a whole number"}


class SourceError(Exception):
    """A file that is not of its format: place and fault, without the full stop.

    Args:
        fault: names the place.
        fix: what to do about it; empty: the command that converts the file says it.
    """

    def __init__(self, fault: str, fix: str = "") -> None:
        super().__init__(fault)
        self.fix = fix


# ------------------------------------------------------------------------- text


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file, or of the only file in a zip.

    Raises:
        SourceError: the file cannot be read or is not UTF-8, or a zip has several files.
    """
    try:
        content = read_zipped(path) if path.suffix.lower() == ZIP else path.read_bytes()
        content = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        fault = f"{path}, line {line}: not UTF-8 ({error.reason})"
        raise SourceError(fault, "save the file as UTF-8") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise SourceError(f"{path}: not a gzip that can be read ({error})") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror})", "check the path") from error


def read_zipped(path: Path) -> bytes:
    """Return the content of the only file in a zip.

    Raises:
        SourceError: it is no zip, or has no file or several.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            files = [entry for entry in entries if not is_of_system(Path(entry.filename))]
            if len(files) == 1:
                return archive.read(files[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise SourceError(f"{path}: not a zip that can be read ({error})") from error
    raise SourceError(f"{path} has {len(files)} files instead of one", "name the file itself")


def is_of_system(path: Path) -> bool:
    """Return whether macOS has put a file among others: it has their names, and no text."""
    return path.name.startswith("._") or "__MACOSX" in path.parts


def zipped(name: str, content: str) -> bytes:
    """Return a zip with one file; the same content is the same bytes, whenever it is written."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        # An entry without a time is of 1980, the first year that a zip can hold.
        archive.writestr(zipfile.ZipInfo(name), content.encode(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield `(line number, line)` of a UTF-8 file, without line ends and without empty lines."""
    # Lines end at "\n" alone: other separators of Unicode are part of the text.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if line.strip():
            yield number, line


def read_fields(
    path: Path, names: tuple[str, ...], optional: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield `(place, fields)` of each line of a file whose fields are separated by tabs.

    Args:
        path: the file.
        names: what the fields of a line are.
        optional: the one that a file without gold may lack in all of its lines.

    Raises:
        SourceError: a line has more or fewer fields.
    """
    lines = [(f"{path}, line {number}", line.split("\t")) for number, line in read_lines(path)]
    if lines and all(len(fields) == len(names) - 1 for _, fields in lines):
        names = tuple(name for name in names if name != optional)
    for where, fields in lines:
        if len(fields) != len(names):
            raise SourceError(
                f"{where}: {len(fields)} fields instead of {', '.join(names[:-1])} and {names[-1]}"
            )
        yield where, {optional: "", **dict(zip(names, fields, strict=True))}


# ------------------------------------------------------------------------- JSON


def parse_json(text: str, where: str) -> Any:
    """Return what a JSON text holds.

    Raises:
        SourceError: it is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=distinct_keys)
    except RecursionError as error:
        raise SourceError(f"{where}: not JSON of a data set (too many nested brackets)") from error
    except ValueError as error:
        raise SourceError(f"{where}: not JSON ({error})") from error


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; of a key that comes twice Python would keep the second value only.

    Raises:
        ValueError: one does.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"the key {shown(twice)} comes twice in one object")
    return found


def read_objects(files: Iterable[Path]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, object)` of each line of files that have a JSON object on each."""
    for path in files:
        for number, line in read_lines(path):
            where = f"{path}, line {number}"
            yield where, check_kind(parse_json(line, where), dict, "the line", where)


def read_json_objects(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield `(place, object)` of a file: a JSON list of objects, or an object on each line."""
    text = read_text(path)
    if not text.lstrip().startswith("["):
        yield from read_objects([path])
        return
    items = check_kind(parse_json(text, str(path)), list, "the file", str(path))
    for number, item in enumerate(items, start=1):
        where = f"{path}, item {number}"
        yield where, check_kind(item, dict, "the item", where)


def field(holder: dict, name: str, kind: type, where: str) -> Any:
    """Return a field of a JSON object.

    Args:
        holder: the object.
        name: of the field.
        kind: str, int, list or dict.
        where: its place, for the error.

    Raises:
        SourceError: the field is missing or of another kind.
    """
    if name not in holder:
        raise SourceError(f"{where}: the field {name!r} is missing")
    return check_kind(holder[name], kind, f"the field {name!r}", where)


def objects(holder: dict, name: str, where: str) -> list[dict]:
    """Return a field that is a list of objects; raises as `field` does."""
    return [
        check_kind(item, dict, f"an item of {name!r}", where)
        for item in field(holder, name, list, where)
    ]


def check_kind(value: Any, kind: type, what: str, where: str) -> Any:
    """Return a value after checking that it is of a kind, which true and false are never."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SourceError(f"{where}: {what} is {shown(value)} instead of {KINDS[kind]}")
    return value


def shown(value: Any) -> str:
    """Return a value as a short piece of JSON on one line, to be quoted in an error."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def named(value: str | int) -> str:
    """Return an id as it is, or as `shown` does where it is long or not all of it can be seen."""
    text = str(value)
    return text if len(text) <= SHOWN and text.isprintable() else shown(value)

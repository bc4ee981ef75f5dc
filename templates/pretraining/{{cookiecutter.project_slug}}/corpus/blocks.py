"""Find the files of a corpus, cut them into blocks of bytes, and read the texts of a block.

A block owns the lines that start in it. So every line has one owner, no pass over a file is needed
to find out where lines start, and the blocks are the same however many processes read them.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from core.base.errors import InputError
from corpus import storage

JSON_ENDINGS = (".jsonl", ".json")
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how such a file begins

# Why a line is skipped, and what the participant is told.
REASONS = {
    "not_utf8": "not UTF-8",
    "empty": "empty",
    "too_long": "longer than longest_line",
    "not_json": "no JSON object",
    "no_text": "without text in text_field",
}


@dataclass(frozen=True)
class TextFile:
    """A file of a corpus: its place, the name it is known by, and its bytes."""

    path: str
    name: str
    size: int

    @property
    def has_records(self) -> bool:
        """Whether its lines are JSON records."""
        return self.path.lower().endswith(JSON_ENDINGS)


@dataclass(frozen=True)
class Block:
    """The lines of a file that start at the bytes `[start, end)`."""

    file: TextFile
    start: int
    end: int


@dataclass
class Reading:
    """What was met while a block was read.

    Attributes:
        lines: all that start in the block.
        skipped: how many of them were skipped, by a key of `REASONS`.
        first_skipped: the first of each kind, counted from 1 in the block.
        hash: over the lines, as they are in the file.
    """

    lines: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    first_skipped: dict[str, int] = field(default_factory=dict)
    hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def skip(self, reason: str) -> None:
        """Count the present line as skipped."""
        self.skipped[reason] += 1
        self.first_skipped.setdefault(reason, self.lines)


class SkippedLine(Exception):
    """A line that is not text: the message is a key of `REASONS`."""


def find_files(patterns: str, setting: str) -> list[TextFile]:
    """Return the files of a corpus in the order of the patterns, each once.

    Args:
        patterns: paths, globs or URLs, with commas between; relative to the project's folder.
        setting: that holds them, to name in complaints.

    Raises:
        InputError: a pattern names no file, a file is compressed, or all are empty.
    """
    paths = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        found = storage.find(storage.place(pattern))
        if not found:
            is_folder = bool(storage.list_folder(storage.place(pattern)))
            wanted = f"name its files, {pattern}/*.txt" if is_folder else "check the path"
            raise InputError(f"{setting} = {pattern!r} names no file: {wanted}.")
        paths += found
    for path in paths:
        if path.lower().endswith(COMPRESSED_ENDINGS):
            raise InputError(
                f"{path} is compressed, and can't be read from the middle: unpack it first."
            )
    files = [
        TextFile(path, path.replace("\\", "/").rpartition("/")[2], storage.size_of(path))
        for path in dict.fromkeys(paths)
    ]
    if not any(file.size for file in files):
        raise InputError(f"{setting} = {patterns!r} holds no text: put one line or more there.")
    return files


def cut_into_blocks(files: list[TextFile], size: int) -> list[Block]:
    """Return blocks of `size` bytes, the last one of each file smaller."""
    return [
        Block(file, start, min(start + size, file.size))
        for file in files
        for start in range(0, file.size, size)
    ]


def read_texts(block: Block, text_field: str, longest_line: int, reading: Reading) -> Iterator[str]:
    """Yield the texts of a block; bad lines are skipped and counted.

    Args:
        block: of a file of plain text, one text a line, or of JSON records.
        text_field: of a record.
        longest_line: bytes, without the end of the line.
        reading: is filled while the texts are read.

    Raises:
        InputError: the file is gone.
    """
    with open_block(block) as stream:
        for line in read_lines(stream, block, longest_line):
            reading.lines += 1
            reading.hash.update(line)
            if block.start == 0 and reading.lines == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            try:
                yield read_text(line, text_field if block.file.has_records else None, longest_line)
            except SkippedLine as skipped:
                reading.skip(str(skipped))


def open_block(block: Block) -> BinaryIO:
    """Open the file of a block."""
    try:
        return storage.open_stream(block.file.path)
    except FileNotFoundError as error:
        raise InputError(
            f"{block.file.path} is gone: put it back, and run the same command again to go on."
        ) from error


def read_lines(stream: BinaryIO, block: Block, longest: int) -> Iterator[bytes]:
    """Yield the lines that start in a block, with their ends; only the start of over-long ones.

    Never more than a line is in memory, and never more than `longest` bytes of it.
    """
    # From the byte before: if it ends a line, all of the first line is in this block.
    position = stream.seek(max(0, block.start - 1))
    if block.start:
        position += pass_over(stream, block.end - position)
    while position < block.end:
        # Room for a byte order mark, "\r\n", and one byte by which it is too long.
        line = stream.readline(longest + 6)
        if not line:
            return
        position += len(line)
        if not line.endswith(b"\n"):
            position += pass_over(stream, block.end - position)
        yield line


def pass_over(stream: BinaryIO, room: int) -> int:
    """Skip the rest of the line, at most `room` bytes; return how many bytes were skipped."""
    passed = 0
    while passed < room:
        part = stream.readline(min(room - passed, storage.BUFFER))
        passed += len(part)
        if not part or part.endswith(b"\n"):
            break
    return passed


def read_text(line: bytes, text_field: str | None, longest_line: int) -> str:
    """Return the text of a line.

    Args:
        line: with its end.
        text_field: of a JSON record; None: the line itself is the text.
        longest_line: bytes, without the end of the line.

    Raises:
        SkippedLine: it holds none.
    """
    line = re.sub(rb"\r?\n\Z", b"", line)
    if len(line) > longest_line:
        raise SkippedLine("too_long")
    try:
        text = line.decode("utf-8")
        if text_field is not None and text.strip():
            text = read_field(text, text_field)
            text.encode("utf-8")  # half a surrogate pair is legal in JSON, and in no text
    except UnicodeError:
        raise SkippedLine("not_utf8") from None
    # The normalizer drops characters that can't be printed: of such a text nothing would be left.
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise SkippedLine("empty")
    return text


def read_field(line: str, text_field: str) -> str:
    """Return a string of a JSON record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise SkippedLine("not_json") from None
    if not isinstance(record, dict):
        raise SkippedLine("not_json")
    if not isinstance(record.get(text_field), str):
        raise SkippedLine("no_text")
    return record[text_field]


def check_first_records(files: list[TextFile], text_field: str, longest_line: int) -> None:
    """Check that each file is UTF-8, and its first record has the text field, before hours of work.

    Raises:
        InputError: a file is UTF-16, or a first record lacks the field, or is no JSON object.
    """
    for file in files:
        if not file.size:
            continue
        with storage.open_stream(file.path) as stream:
            line = next(read_lines(stream, Block(file, 0, 1), longest_line))
        if line.startswith(UTF_16):
            raise InputError(f"{file.path}, line 1: not UTF-8 but UTF-16: save it as UTF-8.")
        if not file.has_records:
            continue
        line = line.removeprefix(BYTE_ORDER_MARK)
        try:
            read_text(line, text_field, longest_line)
        except SkippedLine as skipped:
            if str(skipped) == "no_text":
                names = ", ".join(map(repr, json.loads(line)))
                raise InputError(
                    f"{file.path}, line 1: no text in the field {text_field!r}; the record has "
                    f"{names or 'no field'}: set text_field."
                ) from None
            if str(skipped) == "not_json":
                raise InputError(
                    f"{file.path}, line 1: no JSON object, as the name of the file promises: write "
                    "one record on each line, or call plain text .txt."
                ) from None


# --- afterwards ---


def find_skipped(blocks: Sequence[Block], readings: Sequence) -> dict[str, dict]:
    """Return how many lines were skipped, by reason, and the place of the first one.

    Args:
        blocks: of all files, in order.
        readings: of these blocks; what has the `lines`, `skipped` and `first_skipped` of `Reading`.
    """
    skipped: dict[str, dict] = {}
    lines_before: Counter[TextFile] = Counter()
    for block, reading in zip(blocks, readings, strict=True):
        for reason, count in reading.skipped.items():
            line = lines_before[block.file] + reading.first_skipped[reason]
            first = {"lines": 0, "file": block.file.name, "line": line}
            skipped.setdefault(reason, first)["lines"] += count
        lines_before[block.file] += reading.lines
    return skipped


def describe_skipped(lines: int, skipped: dict[str, dict]) -> str:
    """Say how many of so many lines were skipped."""
    count = sum(about["lines"] for about in skipped.values())
    return f"skipped {count:,} of {lines:,} lines: {list_reasons(skipped)}"


def explain_no_text(lines: int, skipped: dict[str, dict]) -> str:
    """Say why nothing is left of so many lines, and what to do about it."""
    reasons = list_reasons(skipped) or "none holds a token"
    return (
        f"of {lines:,} lines {reasons}: look at that line, at the name of its file (.jsonl for "
        "records) and at text_field."
    )


def list_reasons(skipped: dict[str, dict]) -> str:
    """Return `2 empty (the first: train.txt, line 3)` and so on."""
    return ", ".join(
        f"{about['lines']:,} {REASONS[reason]} (the first: {about['file']}, line {about['line']})"
        for reason, about in skipped.items()
    )

"""Collect the texts of a competition's files in train.jsonl and dev.jsonl, for prepare.py.

python collect_texts.py FILE [FILE ...] --columns NAME,NAME --to FOLDER [--dev_share 0.05]

FILE is a .csv, .tsv or .jsonl file with these columns, or plain text. Each cell becomes a text. A
text that occurs several times is kept once, so that dev holds none of train.
"""

import argparse
import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from core.base.errors import InputError, command
from core.base.files import write_text
from corpus.tables import read_cells


@command
def main() -> None:
    """Read, choose train or dev for each text, write both files whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="table or plain text")
    parser.add_argument("--columns", default="", help="of tables, with commas between")
    parser.add_argument("--to", required=True, type=Path, metavar="FOLDER", help="for both files")
    parser.add_argument("--dev_share", type=float, default=0.05, help="of the texts; more than 0")
    arguments = parser.parse_args()
    if not 0 < arguments.dev_share < 1:
        raise InputError(f"--dev_share {arguments.dev_share:g} is no share: choose 0.05, or less.")

    paths = new_paths(arguments.to)
    names = [name for name in map(str.strip, arguments.columns.split(",")) if name]
    texts: dict[bytes, str] = {}
    for file in arguments.files:
        for text in tqdm(read_cells(file, names), desc=file.name, unit=" texts", disable=None):
            texts.setdefault(hashlib.sha256(text.encode("utf-8")).digest(), text)
    split: dict[str, list[str]] = {"train": [], "dev": []}
    for digest, text in texts.items():
        # By its own hash: a text stays in its part when more files are added.
        is_dev = int.from_bytes(digest[:8]) < arguments.dev_share * 2**64
        split["dev" if is_dev else "train"].append(text)
    write_splits(paths, split)


def new_paths(folder: Path) -> dict[str, Path]:
    """Return the file of each part in a folder.

    Raises:
        InputError: one exists, or `prepare.py` would read the folder's name as a pattern.
    """
    paths = {part: folder / f"{part}.jsonl" for part in ("train", "dev")}
    if marks := {*",*?["} & {*str(folder.resolve())}:
        raise InputError(
            f"{folder.resolve()} has a {min(marks)!r}, which prepare.py would read as a part of a "
            "pattern: name another folder."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder.")
    for path in paths.values():
        if path.exists():
            raise InputError(f"{path} exists already: name another folder, or delete that file.")
    return paths


def write_splits(paths: dict[str, Path], split: dict[str, list[str]]) -> None:
    """Write the texts of train and dev, and print the settings that name them.

    Raises:
        InputError: a part is empty.
    """
    for part in paths:
        if not split[part]:
            raise InputError(f"no text is left for {part}: collect more, or change --dev_share.")
    paths["train"].parent.mkdir(parents=True, exist_ok=True)
    for part, path in paths.items():
        write_text(path, "".join(lines_of(split[part])))
        print(f"{path}: {len(split[part]):,} texts")
    named = {part: shlex.quote(str(path.resolve())) for part, path in paths.items()}
    shown = " ".join(f"--{part}_text {path}" for part, path in named.items())
    print(f"python prepare.py {shown} --preparation.text_field text")


def lines_of(texts: list[str]) -> Iterator[str]:
    """Yield the line of each text: a record with the field `text`."""
    for text in texts:
        yield json.dumps({"text": text}, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()

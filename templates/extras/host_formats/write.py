"""Write a submission in the format of a host, from a predictions file of predict.py.

python extras/host_formats/write.py FORMAT PREDICTIONS OUT --texts FILE
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import (  # noqa: E402
    TEMPORARY,
    check_destination,
    read_json_lines,
    write_text,
    write_whole,
)
from extras.host_formats.formats import FORMATS, read_types, write_sources  # noqa: E402
from extras.host_formats.options import add_flags, choose_objects, read_ends, read_flags  # noqa: E402
from extras.host_formats.records import Conversion  # noqa: E402
from extras.host_formats.source_files import ZIP, SourceError, zipped  # noqa: E402
from task.settings import Settings  # noqa: E402


@command
def main() -> None:
    """Read the predictions, bring them into the host's order and format, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_flags(parser, FORMATS)
    parser.add_argument("predictions", metavar="PREDICTIONS", type=Path, help="of predict.py")
    parser.add_argument(
        "out", metavar="OUT", type=Path, help="file or zip to write; of brat, a folder"
    )
    parser.add_argument("--texts", metavar="FILE", type=Path, help="the host's file to predict")
    parser.add_argument("--schema", metavar="FILE", type=Path, help="labelled: names the types")
    parser.add_argument("--objects", choices=("words", "values"), help="of duie")
    parser.add_argument("--ends", choices=("inclusive", "exclusive"), help="of cmeee")
    arguments = parser.parse_args()

    if arguments.format == "brat":
        check_new_folder(arguments.out)
    else:
        for path in (arguments.predictions, arguments.texts, arguments.schema):
            check_destination(arguments.out, path or arguments.predictions)
    conversion = Conversion()
    try:
        options = read_flags(arguments, Settings.task)
        options.exclusive_ends = read_ends(arguments.format, arguments.ends)
        if arguments.schema:
            options.types = read_types(arguments.format, arguments.schema, options, Conversion())
        choose_objects(arguments.format, options.types, arguments.objects)
        path = arguments.predictions
        predictions = [(f"{path}, line {line}", one) for line, one in read_json_lines(path)]
        sources = write_sources(arguments.format, predictions, arguments.texts, options, conversion)
        content = FORMATS[arguments.format].encode(sources)
    except SourceError as error:
        raise InputError(f"{error}: {error.fix or 'correct the file'}.") from error
    if isinstance(content, str):
        write_file(arguments.out, content)
    else:
        write_folder(arguments.out, content)
    print(f"{arguments.out}: {len(sources)} records", *conversion.sentences(), sep="\n")


def write_file(path: Path, content: str) -> None:
    """Write a file, or a zip with the file of the same name that ends in .json."""
    if path.suffix.lower() != ZIP:
        write_text(path, content)
        return
    packed = zipped(f"{path.stem}.json", content)
    write_whole(path, lambda temporary: temporary.write_bytes(packed))


def check_new_folder(folder: Path) -> None:
    """Check that a folder can be made.

    Raises:
        InputError: it is a file or has files, or nothing can be written there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is a file, or a folder with files: name a new folder.")
    if not folder.resolve().parent.is_dir():
        raise InputError(f"{folder} can't be made: {folder.resolve().parent} is not a folder.")


def write_folder(folder: Path, files: dict[str, str]) -> None:
    """Write files into a new folder, which appears when all of them are there.

    Args:
        folder: absent or empty.
        files: path in the folder -> content.
    """
    parent = folder.resolve().parent
    with tempfile.TemporaryDirectory(dir=parent, prefix=TEMPORARY) as temporary:
        made = Path(temporary, folder.name)
        for name, content in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(content.encode("utf-8"))
        made.replace(folder.resolve())


if __name__ == "__main__":
    main()

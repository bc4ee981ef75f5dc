"""Convert a file of a host, or of an annotation tool, to the records of this project.

python extras/host_formats/read.py FORMAT IN OUT
"""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import check_destination, write_json_lines  # noqa: E402
from extras.host_formats.formats import FORMATS, read_sources  # noqa: E402
from extras.host_formats.options import add_flags, read_flags  # noqa: E402
from extras.host_formats.records import Conversion  # noqa: E402
from extras.host_formats.source_files import SourceError  # noqa: E402
from task.settings import Settings  # noqa: E402


@command
def main() -> None:
    """Read, write, and say what was left out or read otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_flags(parser, FORMATS)
    parser.add_argument("source", metavar="IN", type=Path, help="the file; of brat, the folder")
    parser.add_argument("out", metavar="OUT", type=Path, help="file to write, JSON Lines")
    arguments = parser.parse_args()

    check_destination(arguments.out, arguments.source)
    if arguments.out.suffix.lower() in (".csv", ".tsv"):
        raise InputError(f"{arguments.out} is to hold records: let its name end in .jsonl.")
    conversion = Conversion()
    try:
        options = read_flags(arguments, Settings.task)
        _, records = read_sources(arguments.format, arguments.source, options, conversion)
    except SourceError as error:
        raise InputError(f"{error}: {error.fix or 'correct the file'}.") from error
    write_json_lines(arguments.out, records)
    print(f"{arguments.out}: {len(records)} records", *conversion.sentences(), sep="\n")


if __name__ == "__main__":
    main()

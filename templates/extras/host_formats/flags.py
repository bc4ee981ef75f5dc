"""The options of read.py and write.py on the command line."""

import argparse

from extras.host_formats.formats import FORMATS
from extras.host_formats.options import SCHEMES, Options


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the format, and what it must be told."""
    parser.add_argument("format", metavar="FORMAT", choices=FORMATS, help=", ".join(FORMATS))
    parser.add_argument("--text-field", default="", help="Label Studio: the field with the text")
    parser.add_argument("--token-column", type=int, default=1, help="conll: from 1")
    parser.add_argument("--tag-column", type=int, default=-1, help="conll: from 1; -1 is the last")
    parser.add_argument("--join", choices=("auto", "space", "none"), default="auto")
    parser.add_argument("--scheme", choices=SCHEMES, default="bio2", help="conll: tags to write")


def read_flags(arguments: argparse.Namespace, task: str) -> Options:
    """Return the options of a command for the task of the project, such as "Event extraction"."""
    names = ("text_field", "token_column", "tag_column", "join", "scheme")
    name_of_task = task.lower().replace(" ", "_").replace("-", "_")
    return Options(name_of_task, **{name: getattr(arguments, name) for name in names})

"""Split a file with labels into one to learn from and one to score; no record is changed.

python split.py FILE [--share 0.1] [--KEY VALUE ...]  writes FILE_part and FILE_dev_part next to it
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from core.base.errors import command
from core.base.extras import need
from core.base.settings import read_settings
from inspection.folds import fold_keys
from task.records import read_examples
from task.settings import Settings


@command
def main() -> None:
    """Read, split, write both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="JSON Lines file or table with labels")
    parser.add_argument("--share", type=float, default=0.1, help="of records to be scored")
    arguments, flags = parser.parse_known_args(sys.argv[1:])
    settings: Any = read_settings(Settings, flags)
    splitting = need("competition", "splitting")
    splitting.check_share(arguments.share)
    examples = read_examples(arguments.file, settings=settings)
    held = splitting.hold_out([*fold_keys(examples)], arguments.share, settings.seed)
    for sentence in splitting.find_uneven_parts(examples, held, arguments.share):
        print(f"warning: {sentence}")
    dialect = settings.competition.dialect
    for path, count in splitting.write_parts(arguments.file, examples, held, dialect):
        print(f"{path}: {count} records")


if __name__ == "__main__":
    main()

"""Score a submission by the rules of its host, on a labelled file of the host.

python extras/host_formats/score.py FORMAT SUBMISSION GOLD
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project, whose code this needs

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import check_destination, write_json  # noqa: E402
from extras.host_formats.formats import FORMATS  # noqa: E402
from extras.host_formats.host_scores import SCORERS  # noqa: E402
from extras.host_formats.source_files import SourceError  # noqa: E402

Opener = Callable[[Path], Iterator[tuple[str, Any]]]


@command
def main() -> None:
    """Read the files, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", metavar="FORMAT", choices=SCORERS, help=", ".join(SCORERS))
    parser.add_argument("submission", metavar="SUBMISSION", type=Path, help="of write.py")
    parser.add_argument("gold", metavar="GOLD", type=Path, help="the host's file, labelled")
    parser.add_argument("--train", metavar="FILE", type=Path, help="docred: for ign_f1")
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write the scores, as JSON")
    arguments = parser.parse_args()

    if arguments.train and arguments.format != "docred":
        raise InputError(f"--train is for docred, and not for {arguments.format}: leave it out.")
    for path in (arguments.submission, arguments.gold, arguments.train):
        if arguments.out and path:
            check_destination(arguments.out, path)
    try:
        opened = FORMATS[arguments.format].open
        known = read_all(opened, arguments.train) if arguments.train else []
        golds = read_all(opened, arguments.gold)
        submission = opened(arguments.submission)
        scores = SCORERS[arguments.format](submission, golds, known)
    except SourceError as error:
        raise InputError(f"{error}: {error.fix or 'correct the file'}.") from error
    if arguments.out:
        write_json(arguments.out, scores)
    for name, value in scores.items():
        print(f"{name:<10}{value:>10.4f}" if isinstance(value, float) else f"{name:<10}{value:>10}")


def read_all(opened: Opener, path: Path) -> list[tuple[str, dict]]:
    """Return the records of a labelled file with their places.

    Args:
        opened: opens a file of the format.
        path: the file.

    Raises:
        SourceError: there is none.
    """
    records = list(opened(path))
    if not records:
        raise SourceError(f"{path} holds no record", "name the labelled file of the host")
    return records


if __name__ == "__main__":
    main()

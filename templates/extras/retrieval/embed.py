"""Write the vectors of texts: python extras/retrieval/embed.py RUN IN OUT

IN is a JSON Lines file of records {"id", "text"}, OUT a .npy file; the ids go into another file.
The same command continues an interrupted one.
"""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the project with the needed code

from core.base.errors import InputError, command  # noqa: E402
from core.base.files import check_destination  # noqa: E402
from extras.retrieval.vectors import BiEncoder, sibling, write_vectors  # noqa: E402


@command
def main() -> None:
    """Read, encode, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN", help="folder of a bi-encoder's run, or name in runs/")
    parser.add_argument("file", metavar="IN", type=Path, help="records with id and text")
    parser.add_argument("out", metavar="OUT", type=Path, help="file to write, ending in .npy")
    arguments = parser.parse_args()
    for out in (arguments.out, sibling(arguments.out, "ids.jsonl")):
        check_destination(out, arguments.file)
    if arguments.out.suffix != ".npy":
        raise InputError(f"{arguments.out} is to hold vectors: let its name end in .npy.")
    encoder = BiEncoder(arguments.run)
    count = write_vectors(encoder, arguments.file, arguments.out)
    ids = sibling(arguments.out, "ids.jsonl")
    print(f"{arguments.out}: {count} vectors of {encoder.dimension} numbers; their ids: {ids}")


if __name__ == "__main__":
    main()

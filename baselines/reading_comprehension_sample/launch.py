"""Try a cluster out: run a script of this project in several processes of this machine.

python launch.py --workers 2 train.py [--KEY VALUE ...]
"""

import argparse
import sys

from common.launching import find_script, launch


def main() -> None:
    """Start the workers, wait for them, and end with the exit code of the first that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("script", help="train.py, evaluate.py or predict.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what follows the script")
    asked = parser.parse_args()
    if asked.workers < 1:
        parser.error("--workers must be 1 or more.")
    sys.exit(launch([find_script(asked.script), *asked.arguments], asked.workers))


if __name__ == "__main__":
    main()

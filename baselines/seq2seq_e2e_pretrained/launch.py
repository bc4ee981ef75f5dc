"""Try a cluster out: run a script of this project in several processes of this machine.

python launch.py --workers 2 train.py [--KEY VALUE ...]
python launch.py --workers 2 --servers 1 train.py --strategy parameter_server
"""

import argparse
import sys

from common.launching import find_script, launch


def main() -> None:
    """Start the workers, wait for them, and end with the exit code of the first that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--servers", type=int, default=0, help="parameter servers, and a chief")
    parser.add_argument("script", help="train.py, evaluate.py or predict.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what follows the script")
    asked = parser.parse_args()
    if asked.workers < 1 or asked.servers < 0:
        parser.error("--workers must be 1 or more, --servers 0 or more.")
    command = [find_script(asked.script), *asked.arguments]
    sys.exit(launch(command, asked.workers, asked.servers))


if __name__ == "__main__":
    main()

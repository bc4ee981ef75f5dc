"""Score a run on a file with targets.

python evaluate.py RUN FILE [--beams 8 ...]        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from common.callbacks import keep_scores
from common.errors import command
from common.report import name_score
from common.run_folder import circumstances
from task.data import read_examples
from task.evaluation import evaluate
from task.loading import load_runs
from task.settings import add_generation_flags, generation_changes


@command
def main() -> None:
    """Read, write, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/; all folds count as one")
    parser.add_argument("file", type=Path, help="JSON Lines file with targets")
    add_generation_flags(parser)
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    model = load_runs([arguments.run], changes=generation_changes(arguments))
    evaluation = evaluate(examples, model.predict(examples), arguments.file, model.settings)
    keep_scores(arguments.run, arguments.file.stem, evaluation, circumstances(model.settings))
    for name, value in evaluation.scores.items():
        if isinstance(value, float):
            print(f"{name_score(name):<14}{value:>10.4f}")


if __name__ == "__main__":
    main()

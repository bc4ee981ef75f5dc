"""Score a run on a file with targets.

python evaluate.py RUN FILE [--beams 8 ...]        adds the scores to RUN/scores.json
python evaluate.py RUN RUN [RUN ...] FILE          their scores together, as predict.py writes
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.report.report import name_score
from core.scores.keep import keep_scores
from generation.settings import add_generation_flags, read_generation_flags
from task.evaluation import evaluate
from task.prediction import find_perplexity, load_runs, predict
from task.records import read_examples


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file with targets")
    add_generation_flags(parser)
    arguments = parser.parse_args()

    changes = read_generation_flags(arguments)
    runs = load_runs(arguments.runs, changes=changes)
    examples = read_examples(arguments.file, settings=runs.settings)
    evaluation = evaluate(examples, predict(runs, examples), arguments.file, runs.settings)
    if runs.settings.generation.perplexity and not runs.blend:  # its runs have different tokens
        evaluation.scores["perplexity"] = find_perplexity(runs, examples)
    keep_scores(arguments.runs, arguments.file, evaluation, runs)
    if runs.settings.extractor:
        print(runs.settings.extractor.describe_scores(evaluation.scores))
        return
    for name, value in evaluation.scores.items():
        if isinstance(value, float):
            print(f"{name_score(name):<14}{value:>10.4f}")


if __name__ == "__main__":
    main()

"""Score a run on a file of unseen text.

python evaluate.py RUN FILE        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from core.base.errors import command
from core.data.records import name_file
from core.report.report import name_score
from core.scores.keep import keep_scores
from corpus.special_tokens import find_special_tokens
from corpus.texts import encode_file
from task.data import HeldOutGenerator
from task.evaluation import evaluate, predict
from task.prediction import load_run


@command
def main() -> None:
    """Read, hide, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("file", type=Path, help="plain text, or .jsonl with records")
    arguments = parser.parse_args()

    run = load_run(arguments.run)
    texts = encode_file(arguments.file, run.tokenizer, run.settings)
    special = find_special_tokens(run.tokenizer, run.settings.objective)
    batches = HeldOutGenerator(texts, special, run.settings)
    predictions = predict(run.predictor, batches, "predict")
    evaluation = evaluate(batches, predictions, run.tokenizer, name_file(arguments.file))
    keep_scores([arguments.run], arguments.file, evaluation, run)
    for score, value in evaluation.scores.items():
        if isinstance(value, float):
            print(f"{name_score(score):<14}{value:>10.4f}")


if __name__ == "__main__":
    main()

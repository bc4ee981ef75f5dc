"""Score a run on a file of text that it has not seen.

python evaluate.py RUN FILE        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from common.callbacks import keep_scores
from common.errors import command
from common.records import name_file
from common.report import name_score
from common.run_folder import circumstances
from task.data import HeldOutGenerator, encode_file
from task.evaluation import evaluate, predict
from task.loading import load_run
from task.tokens import find_special_tokens


@command
def main() -> None:
    """Read, hide, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("file", type=Path, help="plain text, or .jsonl with records")
    arguments = parser.parse_args()

    trained = load_run(arguments.run)
    settings, tokenizer = trained.settings, trained.tokenizer
    texts = encode_file(arguments.file, tokenizer, settings)
    generator = HeldOutGenerator(
        texts, find_special_tokens(tokenizer), settings, settings.prediction_batch_size
    )
    predictions = predict(trained.predictor, generator, "predict")
    evaluation = evaluate(generator, predictions, tokenizer, name_file(arguments.file))
    # Not in the place of the scores on the shards of dev, which runs are compared by.
    name = arguments.file.name if arguments.file.stem == "dev" else arguments.file.stem
    keep_scores(arguments.run, name, evaluation, circumstances(settings))
    for name, value in evaluation.scores.items():
        if isinstance(value, float):
            print(f"{name_score(name):<14}{value:>10.4f}")


if __name__ == "__main__":
    main()

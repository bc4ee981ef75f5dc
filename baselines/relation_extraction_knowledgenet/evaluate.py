"""Score a run on a file with gold triples.

python evaluate.py RUN FILE        adds the scores to RUN/scores.json
"""

import argparse
from pathlib import Path

from common.errors import command
from common.files import write_json, write_json_lines
from common.run_folder import circumstances, read_scores
from task.data import read_examples
from task.evaluation import evaluate
from task.loading import load_run


@command
def main() -> None:
    """Read, predict, score, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of a run, or its name in runs/")
    parser.add_argument("file", type=Path, help="JSON Lines file with gold triples")
    arguments = parser.parse_args()

    examples = read_examples(arguments.file)
    model = load_run(arguments.run)
    evaluation = evaluate(
        model.predictor,
        model.generator(examples),
        arguments.file,
        threshold=model.threshold,
        progress="predict",
    )
    scores = evaluation.scores
    write_json_lines(
        model.folder / "predictions" / f"{arguments.file.stem}.jsonl", evaluation.predictions
    )
    write_json(
        model.folder / "scores.json",
        {
            **read_scores(model.folder),
            arguments.file.stem: {**scores, **circumstances(model.settings)},
        },
    )
    print(f"{'predicate':<32}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for predicate, row in [*sorted(scores["per_predicate"].items()), ("all", scores)]:
        print(
            f"{predicate:<32}{row['precision']:>10.4f}{row['recall']:>10.4f}{row['f1']:>10.4f}"
            f"{row['gold']:>8}"
        )


if __name__ == "__main__":
    main()

"""Train a classifier on train_file, score dev_file each epoch, keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is also a flag
"""

from collections.abc import Sequence
from dataclasses import asdict

from core.base.errors import command
from core.base.files import project_path
from core.base.settings import read_settings
from core.devices.precision import set_seed_and_precision
from core.devices.strategy import Strategy, global_batch_size, make_strategy
from core.encoders.encoder import load_encoder, load_tokenizer
from core.optimizer import make_optimizer
from core.prediction.predictor import Predictor
from core.report.report import write_report
from core.runs.callbacks import Checkpoint
from core.runs.finishing import end_training, finish_run
from core.runs.opening import open_run
from core.runs.run import Run
from core.runs.scores import read_scores
from core.scores.evaluation import Evaluation
from core.scores.evaluator import Evaluator
from core.training import Training
from floor import report_floor, score_floor
from inspection.errors import find_errors
from task.data import ExampleGenerator
from task.evaluation import LabelScorer
from task.metrics import choose_metric
from task.model import build_models
from task.records import Example, check_kind, collect_targets, read_examples, tokenizer_texts
from task.settings import Settings


@command
def main() -> None:
    """Read settings and examples, train the classical and the neural model, write the report."""
    settings = read_settings(Settings)
    examples, dev_examples = read_files(settings)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    floor = score_floor(settings, examples, dev_examples) if settings.floor else {}  # trains it
    # `examples` is passed twice; extras/folds passes only some of them as `train_examples`.
    train(settings, strategy, run, examples, train_examples=examples, dev_examples=dev_examples)
    report(settings, run, dev_examples, floor)


def read_files(settings: Settings) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the examples of train_file and of dev_file."""
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    examples = read_examples(train_path, settings=settings)
    dev_examples = read_examples(dev_path, settings=settings)
    check_kind(dev_examples, collect_targets(examples, settings), dev_path)
    return examples, dev_examples


def train(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    examples: Sequence[Example],
    train_examples: Sequence[Example],
    dev_examples: Sequence[Example],
) -> None:
    """Train one model, and keep the weights with the best score on dev.

    Args:
        settings: the project's.
        strategy: the devices.
        run: its folder, and where to continue.
        examples: the training file, from which all folds take the vocabulary and the labels.
        train_examples: the part to learn from: all of them, or all but one fold.
        dev_examples: choose the best epoch and the threshold.
    """
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    labels = collect_targets(examples, settings)
    tokenizer = load_tokenizer(settings, examples, tokenizer_texts)
    with strategy.scope():
        encoder = load_encoder(settings, tokenizer)
        models = build_models(encoder, labels, settings)

    input_names = [tensor.name for tensor in models.inference.inputs]  # all but the targets
    shared = (tokenizer, labels, input_names, settings)
    size = settings.prediction_batch_size
    # `of` (core/fast/batch_plan.py) calls the constructor, and adds the `weight` of each record.
    batches = ExampleGenerator.of(train_examples, *shared, batch_size)
    # False: without labels. The scorer reads them from `dev_batches.examples`.
    dev_batches = ExampleGenerator.of(dev_examples, *shared, size, False)
    scorer = LabelScorer(Predictor([models.inference], strategy), dev_batches, settings)
    monitor = choose_metric(settings.metric, labels, dev_examples)

    training = Training(settings, strategy, run, models, batches, scorer, monitor)
    with strategy.scope():
        training.prepare()  # checks the batches, seeds dropout, calls `prepare` of each extra
        # No `loss`: this model's outputs are losses. `compile_options` sets micro-batches and XLA.
        models.training.compile(make_optimizer(training), **training.compile_options)
    # Makes the run's folder; restores the checkpoint, if the run was interrupted.
    training.begin(tokenizer, asdict(labels))
    evaluator = Evaluator(training)
    # Keras's `fit`, called by core/training.py from the position where the run stopped. After each
    # epoch the evaluator calls `scorer.score`, and keeps the best weights.
    training.fit([evaluator, Checkpoint(run, settings)])
    evaluator.finish()  # scores averaged weights, if an extra keeps them


def report(
    settings: Settings,
    run: Run,
    dev_examples: Sequence[Example],
    floor: dict[str, Evaluation] | None = None,
) -> None:
    """Write the report and the scores of the classical model, and mark the run as finished.

    Args:
        settings: the project's.
        run: trained.
        dev_examples: the examples that it was scored on.
        floor: from `score_floor`, by file; empty or None: the classical model was not trained.
    """
    predictions = end_training(run)  # those of dev, with the best weights
    scores = read_scores(run.folder)
    metric = scores["monitor"].removeprefix("neg_")  # "neg_rmse" is shown as rmse
    errors = find_errors(dev_examples, predictions, scores["dev"])
    floor_scores, floor_errors = report_floor(settings, floor, dev_examples, scores["monitor"])
    write_report(run.folder, settings.task, errors, (floor_scores, floor_errors))
    finish_run(run)
    compared = f", the floor's {floor_scores[metric]:.4f}" if floor else ""
    print(f"best dev {metric} {scores['dev'][metric]:.4f}{compared}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

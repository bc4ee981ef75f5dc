"""Train GPLinker on train_file, score dev_file after each epoch, keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is also a flag
"""

from collections.abc import Sequence

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
from core.scores.evaluator import Evaluator
from core.training import Training
from inspection.errors import find_errors
from task.data import TripleGenerator
from task.decode import select_triples
from task.evaluation import TripleScorer
from task.model import build_models
from task.records import Example, collect_predicates, read_examples
from task.settings import Settings

MONITOR = "f1"  # the weights with the highest score of this name on dev are kept


@command
def main() -> None:
    """Read the settings and the examples, train, write the report."""
    settings = read_settings(Settings)
    examples, dev_examples = read_files(settings)
    run = open_run(settings)
    print(settings.describe())
    strategy = make_strategy(settings)
    # `examples` is passed twice; extras/folds passes only some of them as `train_examples`.
    train(settings, strategy, run, examples, train_examples=examples, dev_examples=dev_examples)
    report(settings, run, dev_examples)


def read_files(settings: Settings) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training and the dev examples."""
    train_path, dev_path = project_path(settings.train_file), project_path(settings.dev_file)
    return read_examples(train_path), read_examples(dev_path)


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
        examples: the training file, from which all folds take the vocabulary and the predicates.
        train_examples: the part to learn from: all of them, or all but one fold.
        dev_examples: choose the best epoch and the threshold.
    """
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    predicates = collect_predicates(examples)
    tokenizer = load_tokenizer(settings, examples)
    with strategy.scope():
        encoder = load_encoder(settings, tokenizer)
        models = build_models(encoder, len(predicates), settings)

    shared = (tokenizer, predicates, models.encoder_inputs, settings)
    # `of` (core/fast/batch_plan.py) calls the constructor, and adds the `weight` of each record.
    batches = TripleGenerator.of(train_examples, *shared, batch_size)
    # False: without labels. The scorer reads them from `dev_batches.examples`.
    dev_batches = TripleGenerator.of(dev_examples, *shared, settings.prediction_batch_size, False)
    predictor = Predictor([models.inference], strategy, select_triples)
    scorer = TripleScorer(predictor, dev_batches, settings)

    training = Training(settings, strategy, run, models, batches, scorer, MONITOR)
    with strategy.scope():
        training.prepare()  # checks the batches, seeds dropout, calls `prepare` of each extra
        # No `loss`: this model's outputs are losses. `compile_options` sets micro-batches and XLA.
        models.training.compile(make_optimizer(training), **training.compile_options)
    training.begin(tokenizer, {"predicates": predicates})  # makes the run's folder, or resumes it
    evaluator = Evaluator(training)
    # Keras's `fit`, called by core/training.py from the position where the run stopped. After each
    # epoch the evaluator scores dev, and keeps the best weights.
    training.fit([evaluator, Checkpoint(run, settings)])
    evaluator.finish()  # scores averaged weights, if an extra keeps them


def report(settings: Settings, run: Run, dev_examples: Sequence[Example]) -> None:
    """Write the report of a trained run, and mark the run as finished."""
    predictions = end_training(run)  # those of dev, with the best weights
    write_report(run.folder, settings.task, find_errors(dev_examples, predictions))
    finish_run(run)
    print(f"best dev {MONITOR} {run.best_score():.4f}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

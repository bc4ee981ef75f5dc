"""Train a model on train_file, score dev_file after each epoch, keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is also a flag
"""

from collections.abc import Sequence
from dataclasses import asdict

from core.base.errors import command
from core.base.files import project_path
from core.base.settings import read_settings
from core.devices.precision import set_seed_and_precision
from core.devices.strategy import Strategy, global_batch_size, make_strategy
from core.optimizer import make_optimizer
from core.prediction.predictor import Predictor
from core.report.report import name_score, write_report
from core.runs.callbacks import Checkpoint
from core.runs.finishing import end_training, finish_run
from core.runs.opening import open_run
from core.runs.run import Run
from core.scores.evaluator import Evaluator
from core.training import Training
from generation.tokenizers import find_target_tokens
from inspection.errors import find_errors
from task.data import PairGenerator, SourceGenerator, pack_pairs
from task.evaluation import TextScorer
from task.loading import load_tokenizer_and_encoder
from task.model import build_models
from task.prediction import make_writer
from task.records import Example, read_examples
from task.settings import Settings


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
    return read_examples(train_path, settings=settings), read_examples(dev_path, settings=settings)


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
        examples: the training file, from which all folds take the vocabulary.
        train_examples: the part to learn from: all of them, or all but one fold.
        dev_examples: their score chooses the best epoch.
    """
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    with strategy.scope():
        tokenizer, encoder = load_tokenizer_and_encoder(settings, examples)
        models = build_models(encoder, settings)

    tokens = find_target_tokens(tokenizer, encoder)
    input_names = models.encoder_inputs
    # `of` (core/fast/batch_plan.py) calls the constructor, and adds the `weight` of each record.
    pairs = PairGenerator.of(train_examples, tokens, tokenizer, input_names, settings, batch_size)
    batches = pack_pairs(pairs, settings)
    # In training, dev texts are written with `evaluate_beams`, by default 1: greedy, which is fast.
    beams = settings.generation.evaluate_beams
    dev_settings = settings.with_generation(decoding="beam", beams=beams)
    dev_batches = SourceGenerator.of(
        dev_examples, tokenizer, input_names, dev_settings, settings.prediction_batch_size
    )
    # A `Writer` searches for texts with a model; the predictor runs it as it would run a model.
    writer = make_writer([models.inference], tokenizer, tokens, dev_settings)
    scorer = TextScorer(Predictor([writer], strategy), dev_batches, dev_settings, tokenizer)

    training = Training(settings, strategy, run, models, batches, scorer, settings.monitor)
    with strategy.scope():
        training.prepare()  # checks the batches, seeds dropout, calls `prepare` of each extra
        # No `loss`: this model's outputs are losses. `compile_options` sets micro-batches and XLA.
        models.training.compile(make_optimizer(training), **training.compile_options)
    # Makes the run's folder; restores the checkpoint, if the run was interrupted. `tokens`, which
    # begin and end a target, are kept for prediction.
    training.begin(tokenizer, asdict(tokens))
    evaluator = Evaluator(training)
    # Keras's `fit`, called by core/training.py from the position where the run stopped. After each
    # epoch the evaluator scores dev, and keeps the best weights.
    training.fit([evaluator, Checkpoint(run, settings)])
    evaluator.finish()  # scores averaged weights, if an extra keeps them


def report(settings: Settings, run: Run, dev_examples: Sequence[Example]) -> None:
    """Write the report of a trained run, and mark the run as finished."""
    predictions = end_training(run)  # those of dev, with the best weights
    errors = find_errors(settings, dev_examples, predictions)
    write_report(run.folder, settings.task, errors)
    finish_run(run)
    metric = name_score(settings.monitor)
    print(f"best dev {metric} {run.best_score():.4f}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

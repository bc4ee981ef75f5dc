"""Train GPLinker on train_file, score dev_file after each epoch, keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is a flag
"""

import functools

import keras

from common.callbacks import Checkpoint, Evaluator, PositionCounter
from common.encoder import load_encoder, load_tokenizer, save_encoder
from common.errors import command
from common.files import write_json
from common.optimizers import make_optimizer
from common.prediction import Predictor
from common.report import write_report
from common.run_folder import circumstances, finish_run, open_run
from common.settings import project_path, read_settings
from common.strategy import make_strategy, scale_to_replicas
from common.training import fit
from task.data import collect_predicates, make_generator, read_examples
from task.evaluation import evaluate, find_errors
from task.model import build_models
from task.settings import Settings


@command
def main() -> None:
    """Read, encode, build, train, score, report."""
    settings = read_settings(Settings)
    dev_path = project_path(settings.dev_file)
    train_examples = read_examples(project_path(settings.train_file))
    dev_examples = read_examples(dev_path)
    predicates = collect_predicates(train_examples)
    run = open_run(settings)
    print(settings.describe())

    strategy = make_strategy(settings.strategy, settings.logical_devices)
    batch_size, rate_factor = scale_to_replicas(settings, strategy)
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.precision)
    tokenizer = load_tokenizer(settings, [example.text for example in train_examples])
    with strategy.scope():
        encoder = load_encoder(settings, tokenizer)
        training_model, inference_model = build_models(encoder, len(predicates), settings)
    inputs = [tensor.name for tensor in encoder.inputs]
    encoding = (settings, tokenizer, predicates, inputs)
    train = make_generator(train_examples, *encoding, batch_size=batch_size, seed=settings.seed)
    dev = make_generator(
        dev_examples, *encoding, batch_size=settings.prediction_batch_size, labels=False
    )
    train.check_keys(training_model)

    with strategy.scope():
        optimizer = make_optimizer(settings, encoder, settings.epochs * len(train), rate_factor)
        training_model.compile(optimizer, settings.accumulation, compile_gradients=settings.xla)
    run.begin()
    save_encoder(run.folder, encoder, tokenizer)
    write_json(run.folder / "labels.json", {"predicates": predicates})
    run.restore(training_model)
    predictor = Predictor(inference_model, strategy)
    score_dev = functools.partial(evaluate, predictor, dev, dev_path, shown=settings.shown_examples)
    facts = circumstances(settings)
    callbacks = [
        PositionCounter(run, settings.steps),
        Evaluator(run, score_dev, inference_model, "f1", facts, train, settings),
        Checkpoint(run, settings.checkpoint_steps),
    ]
    fit(training_model, train, run.position, settings.epochs, callbacks)

    predictions = finish_run(run)
    write_report(run.folder, "Relation extraction", find_errors(dev_examples, predictions))
    print(f"best dev F1 {run.position.best:.4f}; see {run.name}/report.html")


if __name__ == "__main__":
    main()

"""Pre-train an encoder on the shards that prepare.py wrote; keep the best in runs/<run_name>.

python train.py [--KEY VALUE ...]        every key of config.toml is also a flag
"""

from core.base.errors import command
from core.base.settings import read_settings
from core.devices.precision import set_seed_and_precision
from core.devices.strategy import Strategy, global_batch_size, make_strategy
from core.optimizer import make_optimizer
from core.prediction.predictor import Predictor
from core.report.report import write_report
from core.runs.callbacks import Checkpoint
from core.runs.finishing import end_training, finish_run
from core.runs.opening import open_run
from core.runs.run import Run
from core.scores.evaluator import Evaluator
from core.training import Training
from corpus.shards import hash_shards, name_shards, read_shard_tokenizer, shard_folder
from corpus.special_tokens import find_special_tokens
from corpus.texts import read_all_shards
from export_formats.hugging_face import load_head
from inspection.errors import find_errors
from task.data import HeldOutGenerator, ShardGenerator
from task.evaluation import TokenScorer
from task.model import build_models, language_model, load_backbone
from task.settings import METRIC, Settings


@command
def main() -> None:
    """Read the settings, train, write the report."""
    settings = read_settings(Settings)
    run = open_run(settings, hash_shards(settings))
    print(settings.describe())
    train(settings, make_strategy(settings), run)
    report(settings, run)


def train(settings: Settings, strategy: Strategy, run: Run) -> None:
    """Train one model, and keep the weights with the best score on dev.

    Args:
        settings: of the project; `shards` names the folder of the texts, those of dev included.
        strategy: the devices.
        run: its folder, and where to continue.
    """
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    tokenizer = read_shard_tokenizer(settings)
    with strategy.scope():
        models = build_models(load_backbone(settings, tokenizer), settings)
        if settings.objective != "denoising":
            load_head(language_model(models.training), settings.encoder)

    special = find_special_tokens(tokenizer, settings.objective)
    batches = ShardGenerator(shard_folder(settings, "train"), special, settings, batch_size)
    dev_texts = read_all_shards(shard_folder(settings, "dev"))
    dev_batches = HeldOutGenerator.of(dev_texts, special, settings)
    predictor = Predictor([models.inference], strategy)
    dev_name = name_shards(settings, "dev")
    scorer = TokenScorer(predictor, dev_batches, settings, tokenizer, dev_name)

    training = Training(settings, strategy, run, models, batches, scorer, METRIC)
    with strategy.scope():
        training.prepare()  # checks the batches, seeds dropout, calls `prepare` of each extra
        # No `loss`: this model's outputs are losses. `compile_options` sets micro-batches and XLA.
        models.training.compile(make_optimizer(training), **training.compile_options)
    # Makes the run's folder; restores the checkpoint, if the run was interrupted.
    training.begin(tokenizer, labels=None)
    evaluator = Evaluator(training)
    # Keras's `fit`, called by core/training.py from the position where the run stopped. After each
    # epoch the evaluator scores dev, and keeps the best weights.
    training.fit([evaluator, Checkpoint(run, settings)])
    evaluator.finish()  # scores averaged weights, if an extra keeps them


def report(settings: Settings, run: Run) -> None:
    """Write the report of a trained run, and mark the run as finished."""
    predictions = end_training(run)  # those of dev, with the best weights
    write_report(run.folder, settings.task, find_errors(predictions))
    finish_run(run)
    print(f"best dev {METRIC} {run.best_score():.4f}; see {run.name}/report.html")
    print(f"for other projects: python export.py {settings.run_name} FOLDER")


if __name__ == "__main__":
    main()

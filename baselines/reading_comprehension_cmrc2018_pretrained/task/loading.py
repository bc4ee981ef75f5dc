"""Bring trained runs back: settings, encoders, weights and the lengths of answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from tokenizers import Tokenizer

from common.encoder import restore_encoder
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import check_members, find_runs, load_best
from common.settings import saved_settings
from common.strategy import for_prediction, make_strategy
from task.data import AnswerGenerator, Example, make_generator
from task.decode import Candidate, predict_answers
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and lengths of answers.
SHARED_SETTINGS = ("max_length", "window_overlap", "answer_length", "length_prior")


@dataclass(frozen=True)
class TrainedModel:
    """What prediction needs of one run, or of several whose scores are averaged."""

    folders: list[Path]
    settings: Settings
    predictor: Predictor
    lengths: list[float] | None
    tokenizer: Tokenizer
    encoder_inputs: list[str]

    def generator(self, examples: list[Example]) -> AnswerGenerator:
        """Return batches of examples to predict."""
        return make_generator(
            examples,
            self.settings,
            self.tokenizer,
            self.encoder_inputs,
            batch_size=self.settings.prediction_batch_size,
            labels=False,
        )

    def predict(self, examples: list[Example]) -> dict[str, list[Candidate]]:
        """Return the candidates of every question, best first."""
        generator = self.generator(examples)
        return predict_answers(self.predictor, generator, self.settings, self.lengths, "predict")


def load_runs(
    paths: Sequence[str | Path], strategy: tf.distribute.Strategy | None = None
) -> TrainedModel:
    """Load runs with their best weights.

    Args:
        paths: folders of runs, or their names in runs/; a cross-validation stands for its folds.
        strategy: where to build them; None: what this machine has.

    Raises:
        InputError: no such run, or its files don't fit together, or two runs don't.
    """
    folders = find_runs(paths)
    check_members(folders, SHARED_SETTINGS)
    every = [saved_settings(Settings, read_json(folder / "config.json")) for folder in folders]
    settings = every[0]
    lengths = read_json(folders[0] / "labels.json")["answer_lengths"]
    strategy = strategy or make_strategy(for_prediction(settings))
    models, inputs = [], set()
    with strategy.scope():
        for folder, own in zip(folders, every, strict=True):
            encoder, tokenizer = restore_encoder(folder)
            _, inference_model = build_models(encoder, own)
            load_best(inference_model, folder)
            models.append(inference_model)
            inputs |= {tensor.name for tensor in encoder.inputs}
    return TrainedModel(
        folders=folders,
        settings=settings,
        predictor=Predictor(models, strategy),
        lengths=lengths,
        tokenizer=tokenizer,
        encoder_inputs=sorted(inputs),
    )

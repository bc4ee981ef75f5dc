"""Bring a trained run back: settings, encoder, weights, predicates and threshold."""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from common.encoder import restore_encoder
from common.errors import InputError
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import find_run, load_best, read_scores
from common.settings import saved_settings
from common.strategy import make_strategy
from task.data import Example, TripleGenerator, make_generator
from task.model import build_models
from task.settings import Settings


@dataclass(frozen=True)
class TrainedModel:
    """What prediction needs of a run."""

    folder: Path
    settings: Settings
    predictor: Predictor
    predicates: list[str]
    threshold: float
    tokenizer: Tokenizer
    encoder_inputs: list[str]

    def generator(self, examples: list[Example]) -> TripleGenerator:
        """Return batches of examples to predict."""
        return make_generator(
            examples,
            self.settings,
            self.tokenizer,
            self.predicates,
            self.encoder_inputs,
            batch_size=self.settings.prediction_batch_size,
            labels=False,
        )


def load_run(path: str) -> TrainedModel:
    """Load a run with its best weights.

    Args:
        path: the folder of the run, or its name in runs/.

    Raises:
        InputError: no such run, or its files don't fit together.
    """
    folder = find_run(path)
    settings = saved_settings(Settings, read_json(folder / "config.json"))
    predicates = read_json(folder / "labels.json")["predicates"]
    threshold = read_scores(folder).get("dev", {}).get("threshold")
    if threshold is None:
        raise InputError(
            f"{folder / 'scores.json'} is missing or has no threshold: restore it, or train again."
        )
    strategy = make_strategy(settings.strategy, settings.logical_devices)
    with strategy.scope():
        encoder, tokenizer = restore_encoder(folder)
        _, inference_model = build_models(encoder, len(predicates), settings)
        load_best(inference_model, folder)
    return TrainedModel(
        folder=folder,
        settings=settings,
        predictor=Predictor(inference_model, strategy),
        predicates=predicates,
        threshold=threshold,
        tokenizer=tokenizer,
        encoder_inputs=[tensor.name for tensor in encoder.inputs],
    )

"""Bring a trained run back: settings, encoder, weights, predicates and threshold."""

from dataclasses import dataclass
from pathlib import Path

from common.encoder import restore_encoder
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import find_run, load_best, read_scores
from common.settings import saved_settings
from common.strategy import make_strategy
from task.data import Example, TripleGenerator
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
    tokenizer: object
    encoder_inputs: list[str]

    def generator(self, examples: list[Example]) -> TripleGenerator:
        """Return batches of examples to predict."""
        return TripleGenerator(
            examples,
            self.tokenizer,
            self.predicates,
            self.encoder_inputs,
            self.settings.entity_heads,
            self.settings.max_length,
            self.settings.window_overlap,
            labels=False,
            progress="encode",
            batch_size=self.settings.prediction_batch_size,
            buckets=self.settings.buckets,
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
        threshold=read_scores(folder)["dev"]["threshold"],
        tokenizer=tokenizer,
        encoder_inputs=[tensor.name for tensor in encoder.inputs],
    )

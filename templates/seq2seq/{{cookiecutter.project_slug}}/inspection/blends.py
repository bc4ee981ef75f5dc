"""What a blend of runs (extras/blends) asks of the task: all runs score the texts of all runs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np

from core.base.extras import need
from core.data.records import Id
from core.devices.strategy import Strategy
from core.layers.language_model import TokenLoss
from core.prediction.loading import TrainedRuns
from core.prediction.predictor import Predictor
from core.scores.evaluation import Evaluation
from generation.search import Writer
from generation.settings import TargetTokens
from generation.texts import Written
from task.data import PairGenerator
from task.evaluation import evaluate
from task.prediction import load_runs, predict
from task.records import Example, read_examples
from task.settings import Settings

# Of one record: text -> the mean log-probability of its tokens, its end included.
Scores = dict[str, float]
# Texts that each run writes for a record; the search has as many beams.
TEXTS = 8
# What runs must share to read the same records.
READ_SETTINGS: tuple[str, ...] = ("extraction.kind", "extraction.names")
# Each run scores texts by tokens of its own.
OWN_LABELS = ("begin", "end", "never", "other_ends")
# Texts have no threshold.
TUNES_QUICKLY = True
# Texts of a record are ranked, none is right or wrong: they have weights only.
Stacking: Any = None

# The models that score texts are made once.
_scorers: WeakKeyDictionary[Writer, Predictor] = WeakKeyDictionary()


class Texts(PairGenerator):
    """Batches of sources with texts to score, padded as in training: to buckets of both."""

    def fit_to_batches(self, fits: bool) -> None:
        super().fit_to_batches(False)


def load_part(paths: Sequence[Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load a run of a blend, which writes its `TEXTS` best texts of a record."""
    many = {"decoding": "beam", "beams": TEXTS, "n_best": TEXTS}
    return load_runs(paths, strategy, None if need("blends").find_blend(paths) else many)


def predict_together(
    parts: Sequence[TrainedRuns], examples: Sequence[Example]
) -> list[dict[Id, Scores]]:
    """Return, for each run, record id -> its scores of the texts that any of the runs writes."""
    texts: dict[Id, dict[str, None]] = {example.id: {} for example in examples}
    for part in runs_within(parts):
        for name, written in predict(part, examples).items():
            texts[name] |= dict.fromkeys([written.text, *(text for text, _ in written.others)])
    asked = [replace(example, targets=tuple(texts[example.id])) for example in examples]
    return [score_texts(part, asked) for part in parts]


def runs_within(parts: Sequence[TrainedRuns]) -> list[TrainedRuns]:
    """Return the runs with models: the parts, or those of a part that is a blend itself."""
    return [
        own
        for part in parts
        for own in (runs_within(part.blend.load(load_part)) if part.blend else [part])
    ]


def score_texts(part: TrainedRuns, examples: Sequence[Example]) -> dict[Id, Scores]:
    """Return record id -> the scores of the targets of the examples.

    Those of a blend are the weighted means of its runs.
    """
    if part.blend:
        scores = [score_texts(own, examples) for own in part.blend.load(load_part)]
        shares = [*part.blend.weights.values()]
        return {
            example.id: mean_scores([own[example.id] for own in scores], shares)
            for example in examples
        }
    [writer], settings = part.models, part.settings
    encoding = (part.tokenizer, part.encoder_inputs, settings, settings.prediction_batch_size)
    pairs = Texts(examples, TargetTokens(**part.labels), *encoding)

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list[float]:
        lengths = [len(pairs.targets[position]) for position in positions]
        return (-outputs["loss"] / lengths).tolist()

    found: dict[Id, Scores] = {example.id: {} for example in examples}
    targets = [target for example in examples for target in example.targets]
    for position, value in make_scorer(part, writer).decode(pairs, decode, "score"):
        found[examples[pairs.record_of[position]].id][targets[position]] = value
    return found


def make_scorer(part: TrainedRuns, writer: Writer) -> Predictor:
    """Return what computes the loss of given targets `[batch]`, by the models of a run."""
    if writer not in _scorers:
        scorers = []
        with part.strategy.scope():
            for model in writer.models:
                labels = keras.Input((None,), dtype="int32", name="target_labels")
                loss = TokenLoss(name="text_loss")(model.output["logits"], labels)
                inputs = {tensor.name: tensor for tensor in (*model.inputs, labels)}
                scorers.append(keras.Model(inputs, {"loss": loss}))
        _scorers[writer] = Predictor(scorers, part.strategy)
    return _scorers[writer]


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with targets."""
    return read_examples(path, settings=settings)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: dict[Id, Written],
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score the best texts; there is nothing to tune."""
    return evaluate(examples, candidates, path, runs.settings)


def mean_scores(parts: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Return the weighted mean of the scores of the same texts."""
    pairs = [*zip(parts, weights, strict=True)]
    return {text: sum(weight * part[text] for part, weight in pairs) for text in parts[0]}


def blend_record(parts: Sequence[Scores], weights: Sequence[float]) -> Written:
    """Return the text of a record with the best mean score of several runs, and that score."""
    means = mean_scores(parts, weights)
    best = max(means, key=lambda text: means[text])  # the first one of equal texts
    return Written(best, means[best])

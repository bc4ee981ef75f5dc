"""Score generated texts, and show some of them next to their targets."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tokenizers import Tokenizer

from core.base.files import project_path
from core.base.words import excerpt
from core.data.records import Id, name_file
from core.prediction.predictor import Predictor
from core.scores.evaluation import DevScorer, Evaluation
from generation.perplexity import PerplexityScorer
from generation.texts import Written
from task.data import PairGenerator, SourceGenerator
from task.decode import predict_texts, prediction_records
from task.metrics import score, score_records
from task.records import Example
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    predictions: dict[Id, Written],
    path: Path,
    settings: Settings,
    shown: int = 0,
) -> Evaluation:
    """Score the texts that were generated for the examples of a file.

    Args:
        examples: read from `path`, with their gold.
        predictions: from `predict_texts`.
        path: of the file.
        settings: `bleu_tokenizer`, `lowercase_scores`, `extractor`.
        shown: how many examples to print.
    """
    if settings.extractor:
        return settings.extractor.evaluate(examples, predictions, path, shown)
    texts = {identity: written.text for identity, written in predictions.items()}
    record_scores = score_records(examples, texts, settings)
    rows = zip(prediction_records(examples, predictions), record_scores, strict=True)
    facts = {**name_file(path), "records": len(examples)}
    return Evaluation(
        scores={**facts, **score(examples, texts, record_scores, settings)},
        predictions=[record | asdict(record_score) for record, record_score in rows],
        shown=[describe(example, texts[example.id]) for example in examples[:shown]],
    )


class TextScorer(DevScorer):
    """Scores the texts that are generated with the current weights of a training.

    Args:
        predictor: of a `Writer`.
        batches: of dev.
        settings: `perplexity`, `dev_file`, `shown_examples`, and those of `evaluate`.
        tokenizer: of the targets.
    """

    def __init__(
        self,
        predictor: Predictor,
        batches: SourceGenerator,
        settings: Settings,
        tokenizer: Tokenizer,
    ) -> None:
        super().__init__(predictor, batches, settings)
        self.tokenizer = tokenizer
        self.perplexity = None
        if settings.generation.perplexity:
            self.perplexity = PerplexityScorer(predictor.models[0].models, predictor.strategy)

    def score(self, batches: SourceGenerator, tuned: dict | None = None) -> Evaluation:
        """Write and score the texts of batches; `tuned` is for tasks with a threshold."""
        settings, path = self.settings, project_path(self.settings.dev_file)
        written = predict_texts(self.predictor, batches, self.tokenizer)
        evaluation = evaluate(batches.examples, written, path, settings, settings.shown_examples)
        if self.perplexity:
            [writer] = self.predictor.models
            others = (self.tokenizer, batches.encoder_inputs, settings, batches.batch_size)
            pairs = PairGenerator.of(batches.examples, writer.tokens, *others)
            evaluation.scores["perplexity"] = self.perplexity.score(pairs)
        return evaluation


def describe(example: Example, predicted: str, most: int = 3) -> str:
    """Return a source, at most `most` of its targets, and the prediction."""
    lines = [excerpt(example.source)]
    lines += [f"  gold:      {excerpt(target)}" for target in example.targets[:most]]
    return "\n".join([*lines, f"  predicted: {excerpt(predicted)}\n"])

"""A pointer over question and passage: every pair of passage tokens is an answer, (0, 0) is none.

With `pointer = "efficient"` the score of a span (i, j) is q_i k_j + a(i) + b(j). The last two terms
are the usual classifier of starts and ends; the first one lets a start know its end. One softmax
normalises all pairs of a window together. Source of the pointer: Su 2022, https://kexue.fm/archives/8877.
"""

import keras
from keras import KerasTensor, ops

from core.encoders.encoder import encoder_inputs, hidden_states
from core.fast.transformer import MASKED
from core.layers.global_pointer import POINTERS
from core.layers.pointers import PairScores
from core.step import Logits, Models, TrainingModel
from task.settings import Settings


@keras.saving.register_keras_serializable("task")
class AnswerPairs(keras.layers.Layer):
    """Keep the scores of pairs of passage tokens and that of (0, 0); mask all others.

    Pairs that end before they start are left as they are, since `PairScores` has masked them. So
    (2, 1) counts as possible in this example:

    >>> scores = keras.ops.zeros((1, 1, 3, 3))
    >>> masked = AnswerPairs()(scores, keras.ops.array([[0, 1, 1]]))
    >>> print((masked[0].numpy() == 0).astype(int))  # 1: possible
    [[1 0 0]
     [0 1 1]
     [0 1 1]]
    """

    def call(self, scores, context_mask) -> KerasTensor:
        """Mask scores.

        Args:
            scores: `[batch, 1, length, length]`, from `PairScores`.
            context_mask: `[batch, length]`, 1 for tokens of the passage.

        Returns:
            `[batch, length, length]`; impossible pairs are `MASKED`.
        """
        context = ops.cast(context_mask, "bool")
        first = ops.arange(ops.shape(scores)[-1]) == 0
        answer = context[:, :, None] & context[:, None, :]
        null = first[:, None] & first[None, :]
        return ops.where(answer | null, scores[:, 0], MASKED)


@keras.saving.register_keras_serializable("task")
class MarginalSpanLoss(keras.layers.Layer):
    """-log of the probability of all gold pairs together; its output is the loss `[batch]`.

    The softmax is over all pairs. With one gold pair this is the cross-entropy; with several the
    model may choose which of them it prefers.
    Source: Clark and Gardner 2018, https://arxiv.org/abs/1710.10723.

    Args:
        smoothing: fraction of the loss that is the mean of -log p over all possible pairs.
            Source: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567.

    Example:

    >>> scores = keras.ops.zeros((1, 2, 2))  # four pairs, all equally likely
    >>> answers = keras.ops.array([[[0, 1], [1, 1], [-1, -1]]])  # two of them are gold
    >>> print(MarginalSpanLoss()(scores, answers).numpy())  # -log(2 / 4)
    [0.6931472]
    """

    def __init__(self, smoothing: float = 0.0, **kwargs) -> None:
        super().__init__(**kwargs)
        self.smoothing = smoothing

    def call(self, scores, answers) -> KerasTensor:
        """Return the loss of each window.

        Args:
            scores: `[batch, length, length]`, impossible pairs far below all others.
            answers: `[batch, pairs, 2]` integers (first token, last token), each pair once; -1
                fills unused ones. At least one pair is used.
        """
        scores = ops.cast(scores, "float32")
        length = ops.shape(scores)[-1]
        scores = ops.reshape(scores, (-1, length * length))
        possible = ops.cast(scores > MASKED / 2, "float32")
        # The highest score becomes 0. The loss is the same, but the difference of smaller numbers,
        # which float32 holds more exactly.
        scores -= ops.stop_gradient(ops.max(scores, axis=1, keepdims=True))
        used = answers[..., 0] >= 0
        index = ops.where(used, answers[..., 0] * length + answers[..., 1], 0)
        gold = ops.where(used, ops.take_along_axis(scores, index, axis=1), MASKED)
        total = ops.logsumexp(scores, axis=1)
        loss = total - ops.logsumexp(gold, axis=1)
        if self.smoothing:
            mean = ops.sum(scores * possible, axis=1) / ops.sum(possible, axis=1)
            loss = (1 - self.smoothing) * loss + self.smoothing * (total - mean)
        return loss

    def get_config(self) -> dict:
        return {**super().get_config(), "smoothing": self.smoothing}


def build_models(encoder: keras.Model, settings: Settings) -> Models:
    """Return the training model (output: the loss) and the inference model (output: scores).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        settings: `pointer`, `pointer_size`, `label_smoothing`.
    """
    pointer = POINTERS[settings.pointer](1, settings.pointer_size, name="pointer")
    inputs = encoder_inputs(encoder)
    hidden = hidden_states(encoder, inputs, settings)
    inputs["context_mask"] = keras.Input((None,), dtype="int32", name="context_mask")
    scores = PairScores(name="pair_scores")(pointer(hidden), inputs["padding_mask"])
    scores = AnswerPairs(dtype="float32", name="answer_pairs")(scores, inputs["context_mask"])
    inference = keras.Model(inputs, {"scores": scores}, name="inference")

    answers = keras.Input((None, 2), dtype="int32", name="answers")
    loss = MarginalSpanLoss(settings.label_smoothing, dtype="float32", name="span_loss")(
        scores, answers
    )
    training = TrainingModel({**inputs, "answers": answers}, {"span_loss": loss}, name="training")
    compared = (Logits(scores, "softmax_of_all"),)  # read by R-Drop and the like
    return Models(training, inference, encoder, compared)

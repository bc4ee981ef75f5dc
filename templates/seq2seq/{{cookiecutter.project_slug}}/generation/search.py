"""From sources to targets: greedy search, beam search and sampling, batched.

The searches are independent of the model: they ask `Steps` for the logits of the next token. All
shapes are static except for the length of the sources: `[batch, beams, ...]`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from generation.settings import GenerationTable, TargetTokens
from generation.steps import RecomputedSteps, Steps, WritingLayers, set_position
from generation.texts import IMPOSSIBLE, Constraints, State

POSSIBLE = -1e8  # all sums of real log-probabilities are above

# `(states, written, index) -> (log-probabilities [batch, beams, vocabulary], states)`
NextToken: TypeAlias = Callable[[list, tf.Tensor, tf.Tensor], tuple[tf.Tensor, list]]


class Beams(NamedTuple):
    """A search in progress.

    Attributes:
        index: number of tokens written so far.
        written: the hypotheses `[batch, beams, length]`.
        totals: their log-probabilities `[batch, beams]`, the highest first.
        constraints: the state of each in the automata of `Constraints`.
        best: the best finished hypotheses of each record `[batch, n_best, length]`.
        best_score: their scores `[batch, n_best]`, the highest first.
        states: of the steps.
    """

    index: tf.Tensor
    written: tf.Tensor
    totals: tf.Tensor
    constraints: State
    best: tf.Tensor
    best_score: tf.Tensor
    states: list


class Writer:
    """From a batch of sources to the best targets; a `Predictor` runs it like a model.

    Several models are an ensemble: the search uses the mean of their probabilities of each token.

    Args:
        models: inference models with the same tokens.
        writing_layers: from such a model to the layers that a cache calls.
        tokens: those that begin and end a target.
        table: the settings of the search.
        length: the most tokens of a target.
        constraints: stop strings and allowed texts.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        writing_layers: Callable[[keras.Model], WritingLayers],
        tokens: TargetTokens,
        table: GenerationTable,
        length: int,
        constraints: Constraints | None = None,
    ) -> None:
        self.steps: list[Steps] = [
            writing_layers(model).steps(length) if table.cache else RecomputedSteps(model, length)
            for model in models
        ]
        self.name = "inference"
        self.models = [*models]  # for the extra `export`
        self.tokens = tokens
        self.table = table
        self.length = length
        self.constraints = constraints or Constraints()
        inputs = {tensor.name: tensor for model in models for tensor in model.inputs}
        inputs["draws"] = keras.Input((table.drawn * length,), name="draws")
        self.inputs = [tensor for name, tensor in inputs.items() if name != "target_ids"]

    def __call__(self, batch: dict, training: bool = False) -> dict[str, tf.Tensor]:
        """Return `tokens` `[batch, length]`, 0 after the end, and `scores` `[batch]`.

        With `n_best` above 1, both have an axis of so many after the first; a score of -inf means
        that there is no such text. Samples are in the order of their random numbers.

        Args:
            batch: sources and `draws`, the random numbers `[batch, samples * length]` of sampling.
            training: never.
        """
        sources = {name: array for name, array in batch.items() if name != "draws"}
        if self.table.decoding == "sample":
            tokens, scores = self.write_one(sources, batch["draws"])
        elif self.table.beams == 1:
            tokens, scores = self.write_one(sources, None)
        else:
            tokens, scores = self.search(sources)
        return {"tokens": tokens, "scores": scores}

    def begin(self, sources: dict, beams: int) -> tuple[NextToken, list]:
        """Let all models read the sources; return how to get the next token, and their states."""
        begun = [steps.begin(sources, beams) for steps in self.steps]

        def next_token(
            states: list, written: tf.Tensor, index: tf.Tensor
        ) -> tuple[tf.Tensor, list]:
            last = ops.where(
                index > 0, ops.take(written, ops.maximum(index - 1, 0), axis=2), self.tokens.begin
            )
            probabilities, after = [], []
            for steps, (context, _), state in zip(self.steps, begun, states, strict=True):
                logits, state = steps.step(context, state, last, index)
                if self.table.repetition_penalty != 1.0:
                    penalty = self.table.repetition_penalty
                    logits = penalize_repeats(logits, written, index, penalty)
                probabilities.append(ops.softmax(ops.cast(logits, "float32"), axis=-1))
                after.append(state)
            mean = sum(probabilities) / len(probabilities)
            logs = ops.log(ops.maximum(mean, 1e-30))
            return self.forbid(logs, written, index), after

        return next_token, [state for _, state in begun]

    def forbid(self, logs: tf.Tensor, written: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Return the log-probabilities `[batch, beams, vocabulary]` without forbidden tokens."""
        never = np.zeros(logs.shape[-1], np.float32)
        never[list(self.tokens.never)] = IMPOSSIBLE
        logs = logs + never
        if self.table.min_length:
            ends = np.zeros(logs.shape[-1], np.float32)
            ends[self.tokens.ends] = IMPOSSIBLE
            logs += ops.where(index < self.table.min_length, ends, 0.0)
        if self.table.block_ngrams:
            logs = block_ngrams(logs, written, index, self.table.block_ngrams)
        return logs

    def is_end(self, state: State, tokens: tf.Tensor) -> tf.Tensor:
        """Tell whether texts end with a token, or with a stop string that it completes."""
        ended = tf.reduce_any(tokens[..., None] == self.tokens.ends, axis=-1)
        return ended | self.constraints.is_stopped(state)

    def write_one(self, sources: dict, draws: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Write the likeliest token, or draw one, until all texts have ended.

        Args:
            sources: a batch.
            draws: random numbers `[batch, samples * length]`; None: take the likeliest.
        """
        count = 1 if draws is None else self.table.drawn
        next_token, states = self.begin(sources, count)
        rows = ops.shape(sources["token_ids"])[0]
        numbers = None if draws is None else ops.reshape(draws, (rows * count, self.length))

        def go_on(index, written, total, lengths, held, ended, states) -> tf.Tensor:
            return tf.logical_and(index < self.length, tf.reduce_any(~ended))

        def write(index, written, total, lengths, held, ended, states) -> tuple:
            logs, states = next_token(states, written, index)
            logs = self.constraints.forbid(logs, held)
            if numbers is None:
                token = ops.argmax(logs, axis=-1)
            else:
                flat = ops.reshape(logs, (rows * count, logs.shape[-1]))
                token = draw(flat, ops.take(numbers, index, axis=1), self.table)
            token = ops.reshape(ops.cast(token, "int32"), (rows, count))
            log = ops.take_along_axis(logs, token[..., None], axis=-1)[..., 0]
            token = ops.where(ended, 0, token)
            written = set_position(written, index, token)
            total += ops.where(ended, 0.0, log)
            lengths += ops.cast(~ended, "int32")
            held = self.constraints.advance(held, token)
            ended |= self.is_end(held, token)
            return index + 1, written, total, lengths, held, ended, states

        start = (
            tf.constant(0),
            ops.zeros((rows, count, self.length), "int32"),
            ops.zeros((rows, count)),
            ops.zeros((rows, count), "int32"),
            self.constraints.begin(rows, count),
            ops.zeros((rows, count), "bool"),
            states,
        )
        _, written, total, lengths, *_ = tf.while_loop(go_on, write, start)
        scores = total / self.penalty(lengths)
        return (written[:, 0], scores[:, 0]) if count == 1 else (written, scores)

    def search(self, sources: dict) -> tuple[tf.Tensor, tf.Tensor]:
        """Keep the best `beams` hypotheses of each record until none can beat the best finished.

        A hypothesis is finished by its end token, or by its length; its score is its
        log-probability over the length penalty.
        """
        beams, kept = self.table.beams, min(self.table.n_best, self.table.beams)
        next_token, states = self.begin(sources, beams)
        rows = ops.shape(sources["token_ids"])[0]
        start = Beams(
            index=tf.constant(0),
            written=ops.zeros((rows, beams, self.length), "int32"),
            totals=ops.broadcast_to(
                ops.where(ops.arange(beams) == 0, 0.0, IMPOSSIBLE), (rows, beams)
            ),
            constraints=self.constraints.begin(rows, beams),
            best=ops.zeros((rows, kept, self.length), "int32"),
            best_score=ops.full((rows, kept), -float("inf")),
            states=states,
        )

        def go_on(search: Beams) -> tf.Tensor:
            return tf.logical_and(
                search.index < self.length, tf.reduce_any(self.is_beatable(search))
            )

        grow = functools.partial(self.grow, next_token)
        (end,) = tf.while_loop(go_on, lambda search: [grow(search)], [start])
        # A hypothesis of the full length is finished without an end.
        cut = end.totals / self.penalty(tf.constant(self.length))
        cut = ops.where(end.totals > POSSIBLE, cut, -float("inf"))
        best, score = keep_best(end.best, end.best_score, end.written, cut)
        return (best[:, 0], score[:, 0]) if self.table.n_best == 1 else (best, score)

    def is_beatable(self, search: Beams) -> tf.Tensor:
        """Tell whether a hypothesis may yet be among the best finished ones, `[batch]`.

        A hypothesis loses log-probability with each token, so log-probability / penalty(length) is
        the highest score that it can reach.
        """
        highest = self.penalty(tf.constant(self.length))
        return search.best_score[:, -1] < ops.max(search.totals, axis=1) / highest

    def grow(self, next_token: NextToken, search: Beams) -> Beams:
        """Write one more token of each hypothesis, and keep the best."""
        index, beams = search.index, self.table.beams
        logs, states = next_token(search.states, search.written, index)
        logs = self.constraints.forbid(logs, search.constraints)
        rows, vocabulary = ops.shape(logs)[0], logs.shape[-1]
        candidates = ops.reshape(search.totals[:, :, None] + logs, (rows, beams * vocabulary))
        # Each beam has at most one candidate for each end token, so with that many more candidates
        # enough of them continue. More tokens may complete a stop string: then fewer continue.
        more = len(self.tokens.ends) + (0 if self.constraints.stops is None else 2)
        sums, choices = tf.math.top_k(candidates, k=min((1 + more) * beams, beams * vocabulary))
        parents, tokens = choices // vocabulary, choices % vocabulary
        longer = set_position(tf.gather(search.written, parents, batch_dims=1), index, tokens)
        held = State(*(tf.gather(part, parents, batch_dims=1) for part in search.constraints))
        held = self.constraints.advance(held, tokens)
        ends = self.is_end(held, tokens)

        # A record that is done does not change while others of its batch continue.
        counted = ends & (sums > POSSIBLE) & self.is_beatable(search)[:, None]
        finished = ops.where(counted, sums / self.penalty(index + 1), -float("inf"))
        best, best_score = keep_best(search.best, search.best_score, longer, finished)

        totals, order = tf.math.top_k(ops.where(ends, IMPOSSIBLE, sums), k=beams)
        parents = tf.gather(parents, order, batch_dims=1)
        return Beams(
            index=index + 1,
            written=tf.gather(longer, order, batch_dims=1),
            totals=totals,
            constraints=State(*(tf.gather(part, order, batch_dims=1) for part in held)),
            best=best,
            best_score=best_score,
            states=tf.nest.map_structure(
                lambda state: tf.gather(state, parents, batch_dims=1), states
            ),
        )

    def penalty(self, lengths: tf.Tensor) -> tf.Tensor:
        """Return the divisor of a log-probability; `gnmt`: https://arxiv.org/abs/1609.08144."""
        lengths = tf.cast(lengths, tf.float32)
        if self.table.length_penalty == "gnmt":
            lengths = (5.0 + lengths) / 6.0
        return lengths**self.table.length_power


def keep_best(
    best: tf.Tensor, best_score: tf.Tensor, others: tf.Tensor, scores: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best n hypotheses of each record and their scores.

    Args:
        best: `[batch, n, length]`; of equal scores these stay.
        best_score: `[batch, n]`.
        others: `[batch, m, length]`.
        scores: `[batch, m]`.
    """
    kept, places = tf.math.top_k(tf.concat([best_score, scores], axis=1), k=best.shape[1])
    return tf.gather(tf.concat([best, others], axis=1), places, batch_dims=1), kept


def draw(logs: tf.Tensor, numbers: tf.Tensor, table: GenerationTable) -> tf.Tensor:
    """Return one token for each record, drawn from the most likely ones, `[batch]`.

    The tokens are ordered by probability; the random number is a place in their cumulative sum.
    Source of top-p: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751.

    Args:
        logs: `[batch, vocabulary]`.
        numbers: `[batch]` in [0, 1).
        table: `temperature`, `top_k`, `top_p`.
    """
    size = logs.shape[-1]
    kept, tokens = tf.math.top_k(logs / table.temperature, k=min(table.top_k or size, size))
    shares = ops.softmax(kept, axis=-1)
    # A token is kept if those before it have not reached top_p, so the first one always is.
    before = ops.cumsum(shares, axis=-1) - shares
    shares = ops.where((before < table.top_p) & (kept > POSSIBLE), shares, 0.0)
    sums = ops.cumsum(shares, axis=-1)
    place = ops.sum(ops.cast(sums <= numbers[:, None] * sums[:, -1:], "int32"), axis=-1)
    # A text that has ended may have nothing left to draw from.
    last = ops.maximum(ops.sum(ops.cast(shares > 0, "int32"), axis=-1) - 1, 0)
    return tf.gather(tokens, ops.minimum(place, last), batch_dims=1)


def penalize_repeats(
    logits: tf.Tensor, written: tf.Tensor, index: tf.Tensor, penalty: float
) -> tf.Tensor:
    """Return logits in which each token that was written has a lower one.

    Positive ones are divided by the penalty, negative ones multiplied. The source does not count.
    Source: Keskar et al. 2019, https://arxiv.org/abs/1909.05858.

    Args:
        logits: `[batch, beams, vocabulary]`.
        written: `[batch, beams, length]`.
        index: how many of them are written.
        penalty: above 1 against repetitions.
    """
    logits = ops.cast(logits, "float32")
    real = ops.broadcast_to(ops.arange(written.shape[2]) < index, ops.shape(written))
    places = ops.where(real, written, logits.shape[-1])  # one more column for what is not written
    row, beam, _ = tf.meshgrid(*map(tf.range, tf.unstack(tf.shape(written))), indexing="ij")
    seen = tf.scatter_nd(
        tf.stack([row, beam, places], axis=-1),
        tf.ones_like(places),
        tf.stack([*tf.unstack(tf.shape(logits)[:2]), logits.shape[-1] + 1]),
    )
    lower = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(seen[..., :-1] > 0, lower, logits)


def block_ngrams(logs: tf.Tensor, written: tf.Tensor, index: tf.Tensor, size: int) -> tf.Tensor:
    """Return the log-probabilities without tokens that would repeat an n-gram of the target.

    If the `size - 1` tokens before a place of the target are those written last, the token at this
    place is forbidden.

    Worked example: size 2 and the target 7 8 9 8. The last token is 8, which was followed by 9, so
    9 is forbidden next.

    Args:
        logs: `[batch, beams, vocabulary]`.
        written: `[batch, beams, length]`.
        index: how many of them are written.
        size: n.
    """
    length = written.shape[2]
    places = length - size + 1
    if places < 1:
        return logs
    # There are `size - 1` last tokens as soon as so many are written.
    last = [
        ops.take(written, ops.maximum(index - size + 1 + offset, 0), axis=2)[:, :, None]
        for offset in range(size - 1)
    ]
    same = ops.arange(places) + size - 1 < index
    for offset in range(size - 1):
        same = same & (written[:, :, offset : offset + places] == last[offset])
    same = ops.broadcast_to(same, ops.shape(written[:, :, :places]))
    rows, beams = ops.shape(written)[0], written.shape[1]
    row, beam = tf.meshgrid(tf.range(rows), tf.range(beams), indexing="ij")
    follows = written[:, :, size - 1 :]
    where = tf.stack(
        [
            tf.broadcast_to(row[:, :, None], tf.shape(follows)),
            tf.broadcast_to(beam[:, :, None], tf.shape(follows)),
            follows,
        ],
        axis=-1,
    )
    lowest = ops.where(same, IMPOSSIBLE, float("inf"))
    return tf.tensor_scatter_nd_min(logs, where, lowest)

"""Write targets token by token: greedy, beam search, sampling; batched, with a cache.

A decoder (`CachedUnilm`, `CachedEncoderDecoder`, `Recomputed`) knows a model: `begin` reads the
sources once, `step` gives the logits of the next token. The searches know no model. All shapes are
static but for the length of the sources: `[batch, beams, ...]`, targets of `target_length` tokens.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf
from keras import ops

from task.model import find_positions
from task.settings import Settings
from task.tokens import TargetTokens

IMPOSSIBLE = -1e9  # the log-probability of what must not be written
POSSIBLE = -1e8  # all sums of real log-probabilities are above


class Recomputed:
    """Steps of any model, which reads source and target anew for each token.

    Slow and plain: what the caches are measured by, and what a changed model can use at once.

    Args:
        model: the inference model.
        length: tokens of a target.
    """

    def __init__(self, model: keras.Model, length: int):
        self.model = model
        self.length = length

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        """Return what stays the same, and the state `[batch, beams, ...]` of the first step."""
        rows = ops.shape(sources["token_ids"])[0]
        repeated = {name: ops.repeat(array, beams, axis=0) for name, array in sources.items()}
        return repeated, {"target_ids": ops.zeros((rows, beams, self.length), "int32")}

    def step(self, context: dict, state: dict, tokens, index) -> tuple:
        """Return the logits `[batch, beams, vocabulary]` after `tokens` `[batch, beams]`.

        Args:
            context: from `begin`.
            state: from the step before.
            tokens: the last ones written.
            index: how many were written before these.
        """
        target_ids = set_position(state["target_ids"], index, tokens)
        rows, beams = ops.shape(tokens)[0], tokens.shape[1]
        flat = ops.reshape(target_ids, (-1, self.length))
        logits = self.model({**context, "target_ids": flat}, training=False)["logits"]
        logits = ops.take(logits, index, axis=1)
        return ops.reshape(logits, (rows, beams, logits.shape[-1])), {"target_ids": target_ids}


class CachedUnilm:
    """Steps of the prefix language model, from the keys and values of what was read and written.

    The source is read once for all beams. It sees no target token, so its hidden states stay.

    Args:
        model: the inference model, whose layer `unilm` is a `PrefixLanguageModel`.
        length: tokens of a target.
    """

    def __init__(self, model: keras.Model, length: int):
        self.unilm = model.get_layer("unilm")
        self.layers = self.unilm.encoder.transformer_layers
        self.length = length

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        """Return keys and values of the source, and the empty ones of the target."""
        positions = find_positions(sources["padding_mask"])
        hidden = self.unilm.embed(sources["token_ids"], sources["segment_ids"], positions)
        mask = ops.cast(sources["padding_mask"], "bool")
        keys_and_values = []
        for layer in self.layers:
            attention = layer._self_attention_layer
            keys_and_values.append((attention._key_dense(hidden), attention._value_dense(hidden)))
            hidden = layer(hidden, attention_mask=mask[:, None, :], training=False)
        context = {
            "sources": keys_and_values,
            "mask": mask,
            "source_length": ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True),
        }
        return context, empty_cache(keys_and_values, beams, self.length)

    def step(self, context: dict, state: dict, tokens, index) -> tuple:
        """Return the logits after `tokens` `[batch, beams]`; as `Recomputed.step`."""
        places = ops.broadcast_to(context["source_length"] + index, ops.shape(tokens))
        hidden = self.unilm.embed(tokens, ops.ones_like(tokens), places)
        cache = {"keys": [], "values": []}
        for number, layer in enumerate(self.layers):
            attention = layer._self_attention_layer
            keys, values = update_cache(state, number, attention, hidden, index)
            cache["keys"].append(keys)
            cache["values"].append(values)
            attended = attend(
                attention,
                hidden,
                source=(*context["sources"][number], context["mask"]),
                target=(keys, values, index),
            )
            hidden = layer._self_attention_layer_norm(hidden + attended)
            hidden = feed_forward(layer, hidden)
        return self.unilm.score(hidden), cache


class CachedEncoderDecoder:
    """Steps of the decoder, from the keys and values of the source and of what was written.

    Args:
        model: the inference model, built by `decoder_logits`.
        length: tokens of a target.
    """

    def __init__(self, model: keras.Model, length: int):
        self.model = model
        self.length = length
        names = [layer.name for layer in model.layers]
        count = sum(name.startswith("decoder_layer_") for name in names)
        self.layers = [model.get_layer(f"decoder_layer_{number}") for number in range(count)]
        self.encoder = model.get_layer("encoder")

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        """Return keys and values of the source, and the empty ones of the target."""
        names = [tensor.name for tensor in self.encoder.inputs]
        hidden = self.encoder({name: sources[name] for name in names}, training=False)
        hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden
        keys_and_values = [
            (
                layer._cross_attention_layer._key_dense(hidden),
                layer._cross_attention_layer._value_dense(hidden),
            )
            for layer in self.layers
        ]
        context = {
            "sources": keys_and_values,
            "mask": ops.cast(sources["padding_mask"], "bool"),
        }
        return context, empty_cache(keys_and_values, beams, self.length)

    def step(self, context: dict, state: dict, tokens, index) -> tuple:
        """Return the logits after `tokens` `[batch, beams]`; as `Recomputed.step`."""
        tokens = self.model.get_layer("target_embedding")(tokens)
        places = ops.broadcast_to(index, ops.shape(tokens)[:2])
        places = self.model.get_layer("target_positions")(tokens, positions=places)
        hidden = self.model.get_layer("target_norm")(tokens + places)
        cache = {"keys": [], "values": []}
        for number, layer in enumerate(self.layers):
            attention = layer._self_attention_layer
            keys, values = update_cache(state, number, attention, hidden, index)
            cache["keys"].append(keys)
            cache["values"].append(values)
            attended = attend(attention, hidden, target=(keys, values, index))
            hidden = layer._self_attention_layer_norm(hidden + attended)
            source = (*context["sources"][number], context["mask"])
            attended = attend(layer._cross_attention_layer, hidden, source=source)
            hidden = layer._cross_attention_layer_norm(hidden + attended)
            hidden = feed_forward(layer, hidden)
        for name in ("head_dense", "head_norm"):
            hidden = self.model.get_layer(name)(hidden)
        return self.model.get_layer("target_embedding")(hidden, reverse=True), cache


def empty_cache(keys_and_values: list[tuple], beams: int, length: int) -> dict:
    """Return zeros `[batch, beams, length, heads, size]` for keys and values of each layer."""
    batch, heads, size = ops.shape(keys_and_values[0][0])[0], *keys_and_values[0][0].shape[2:]
    shape, kind = (batch, beams, length, heads, size), keys_and_values[0][0].dtype
    return {name: [ops.zeros(shape, kind) for _ in keys_and_values] for name in ("keys", "values")}


def update_cache(state: dict, number: int, attention, hidden, index) -> tuple:
    """Return keys and values of a layer with those of one more token."""
    start = (0, 0, index, 0, 0)
    return (
        ops.slice_update(state["keys"][number], start, attention._key_dense(hidden)[:, :, None]),
        ops.slice_update(
            state["values"][number], start, attention._value_dense(hidden)[:, :, None]
        ),
    )


def attend(attention, hidden, source: tuple | None = None, target: tuple | None = None):
    """Return what an attention layer finds, by the weights of the layer itself.

    Args:
        attention: a `MultiHeadAttention`.
        hidden: `[batch, beams, width]` asks.
        source: keys and values `[batch, source, heads, size]` that the beams share, and the mask
            `[batch, source]`.
        target: keys and values `[batch, beams, target, heads, size]` of each beam, and the last
            position that is written.
    """
    queries = attention._query_dense(hidden)
    queries = queries * ops.cast(queries.shape[-1] ** -0.5, queries.dtype)
    scores = []
    if source is not None:
        found = ops.einsum("bkhd,bshd->bkhs", queries, source[0])
        scores.append(
            ops.where(source[2][:, None, None, :], ops.cast(found, "float32"), IMPOSSIBLE)
        )
    if target is not None:
        found = ops.einsum("bkhd,bkthd->bkht", queries, target[0])
        written = ops.arange(target[0].shape[2]) <= target[2]
        scores.append(ops.where(written, ops.cast(found, "float32"), IMPOSSIBLE))
    # One softmax over both.
    weights = ops.cast(ops.softmax(ops.concatenate(scores, axis=-1), axis=-1), queries.dtype)
    read = 0 if source is None else ops.shape(source[0])[1]
    mixed = 0.0
    if source is not None:
        mixed += ops.einsum("bkhs,bshd->bkhd", weights[..., :read], source[1])
    if target is not None:
        mixed += ops.einsum("bkht,bkthd->bkhd", weights[..., read:], target[1])
    return attention._output_dense(mixed)


def feed_forward(layer, hidden):
    """Return the second half of a Transformer layer."""
    inner = layer._feedforward_output_dense(layer._feedforward_intermediate_dense(hidden))
    return layer._feedforward_layer_norm(hidden + inner)


class Writer:
    """From a batch of sources to the best targets; stands where a model does in a `Predictor`.

    Several models are an ensemble: the mean of their probabilities is searched, token by token.

    Args:
        models: inference models with the same tokens.
        kinds: `model` of the settings of each.
        tokens: those that frame a target.
        settings: what and how to search.
        beams: hypotheses; 1: greedy. None: as the settings say.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        kinds: Sequence[str],
        tokens: TargetTokens,
        settings: Settings,
        beams: int | None = None,
    ):
        cached = {"unilm": CachedUnilm, "encoder_decoder": CachedEncoderDecoder}
        self.decoders = [
            (cached[kind] if settings.cache else Recomputed)(model, settings.target_length)
            for model, kind in zip(models, kinds, strict=True)
        ]
        self.tokens = tokens
        self.settings = settings
        self.beams = settings.beams if beams is None else beams
        self.inputs = [tensor for tensor in models[0].inputs if tensor.name != "target_ids"]
        self.inputs.append(keras.Input((settings.target_length,), name="draws"))

    def __call__(self, batch: dict, training: bool = False) -> dict:
        """Return `tokens` `[batch, target_length]`, 0 after the end, and `scores` `[batch]`.

        Args:
            batch: sources and `draws`.
            training: never.
        """
        sources = {name: array for name, array in batch.items() if name != "draws"}
        if self.settings.decoding == "sample":
            tokens, scores = self.write_one(sources, batch["draws"])
        elif self.beams == 1:
            tokens, scores = self.write_one(sources, None)
        else:
            tokens, scores = self.search(sources)
        return {"tokens": tokens, "scores": scores}

    def begin(self, sources: dict, beams: int) -> tuple[Callable, list]:
        """Return `step(states, written, index) -> (log-probabilities, states)` and the states."""
        begun = [decoder.begin(sources, beams) for decoder in self.decoders]

        def step(states: list, written, index):
            last = ops.where(
                index > 0, ops.take(written, ops.maximum(index - 1, 0), axis=2), self.tokens.begin
            )
            logits, states = zip(
                *(
                    decoder.step(context, state, last, index)
                    for decoder, (context, _), state in zip(
                        self.decoders, begun, states, strict=True
                    )
                ),
                strict=True,
            )
            probabilities = [ops.softmax(ops.cast(scores, "float32"), axis=-1) for scores in logits]
            mean = sum(probabilities) / len(probabilities)
            logs = ops.log(ops.maximum(mean, 1e-30))
            return self.forbid(logs, written, index), list(states)

        return step, [state for _, state in begun]

    def forbid(self, logs, written, index):
        """Return the log-probabilities `[batch, beams, vocabulary]` without what must not come."""
        never = tf.scatter_nd(
            [[token] for token in self.tokens.never],
            [IMPOSSIBLE] * len(self.tokens.never),
            [logs.shape[-1]],
        )
        logs = logs + never
        if self.settings.block_ngrams:
            logs = block_ngrams(logs, written, index, self.settings.block_ngrams)
        return logs

    def write_one(self, sources: dict, draws) -> tuple:
        """Take the likeliest token, or draw one, until all records have ended.

        Args:
            sources: a batch.
            draws: random numbers `[batch, target_length]`; None: take the likeliest.
        """
        length = self.settings.target_length
        step, states = self.begin(sources, 1)
        rows = ops.shape(sources["token_ids"])[0]

        def go_on(index, written, total, lengths, ended, states):
            return tf.logical_and(index < length, tf.reduce_any(~ended))

        def write(index, written, total, lengths, ended, states):
            logs, states = step(states, written, index)
            logs = logs[:, 0]
            if draws is None:
                token = ops.argmax(logs, axis=-1)
            else:
                token = draw(logs, ops.take(draws, index, axis=1), self.settings)
            token = ops.cast(token, "int32")
            log = ops.take_along_axis(logs, token[:, None], axis=-1)[:, 0]
            token = ops.where(ended, 0, token)
            written = set_position(written, index, token[:, None])
            total += ops.where(ended, 0.0, log)
            lengths += ops.cast(~ended, "int32")
            return index + 1, written, total, lengths, ended | (token == self.tokens.end), states

        start = (
            tf.constant(0),
            ops.zeros((rows, 1, length), "int32"),
            ops.zeros((rows,)),
            ops.zeros((rows,), "int32"),
            ops.zeros((rows,), "bool"),
            states,
        )
        _, written, total, lengths, _, _ = tf.while_loop(go_on, write, start)
        return written[:, 0], total / self.penalty(lengths)

    def search(self, sources: dict) -> tuple:
        """Keep the best `beams` hypotheses of each record until none can beat the best finished.

        A hypothesis is finished by its end token, or by `target_length`; its score is its
        log-probability over the length penalty. One that goes on loses log-probability with each
        token, so log-probability / penalty(target_length) is the most that it can reach.
        """
        length, beams = self.settings.target_length, self.beams
        step, states = self.begin(sources, beams)
        rows = ops.shape(sources["token_ids"])[0]
        highest = self.penalty(tf.constant(length))

        def go_on(index, written, totals, best, best_score, states):
            beatable = best_score < ops.max(totals, axis=1) / highest
            return tf.logical_and(index < length, tf.reduce_any(beatable))

        def write(index, written, totals, best, best_score, states):
            beatable = best_score < ops.max(totals, axis=1) / highest
            logs, states = step(states, written, index)
            vocabulary = logs.shape[-1]
            candidates = ops.reshape(totals[:, :, None] + logs, (rows, beams * vocabulary))
            # One end for each beam at the most: of twice as many, enough go on.
            sums, choices = tf.math.top_k(candidates, k=min(2 * beams, beams * vocabulary))
            parents, tokens = choices // vocabulary, choices % vocabulary
            longer = set_position(tf.gather(written, parents, batch_dims=1), index, tokens)
            ends = tokens == self.tokens.end

            finished = ops.where(
                ends & (sums > POSSIBLE), sums / self.penalty(index + 1), -float("inf")
            )
            first = ops.argmax(finished, axis=1)
            score = ops.max(finished, axis=1)
            # A record that is done stays as it is, whatever the others of its batch still need.
            better = beatable & (score > best_score)
            best = ops.where(better[:, None], tf.gather(longer, first, batch_dims=1), best)
            best_score = ops.where(better, score, best_score)

            totals, order = tf.math.top_k(ops.where(ends, IMPOSSIBLE, sums), k=beams)
            written = tf.gather(longer, order, batch_dims=1)
            parents = tf.gather(parents, order, batch_dims=1)
            states = tf.nest.map_structure(
                lambda state: tf.gather(state, parents, batch_dims=1), states
            )
            return index + 1, written, totals, best, best_score, states

        alone = ops.where(ops.arange(beams) == 0, 0.0, IMPOSSIBLE)
        start = (
            tf.constant(0),
            ops.zeros((rows, beams, length), "int32"),
            ops.broadcast_to(alone, (rows, beams)),
            ops.zeros((rows, length), "int32"),
            ops.full((rows,), -float("inf")),
            states,
        )
        _, written, totals, best, best_score, _ = tf.while_loop(go_on, write, start)
        # What is as long as a target may be is finished without an end.
        cut_score = totals[:, 0] / highest
        better = cut_score > best_score
        return (
            ops.where(better[:, None], written[:, 0], best),
            ops.where(better, cut_score, best_score),
        )

    def penalty(self, lengths):
        """Return what a log-probability is divided by; `gnmt`: https://arxiv.org/abs/1609.08144."""
        lengths = tf.cast(lengths, tf.float32)
        if self.settings.length_penalty == "gnmt":
            lengths = (5.0 + lengths) / 6.0
        return lengths**self.settings.length_power


def set_position(written, index, tokens):
    """Return `written` `[batch, beams, length]` with `tokens` `[batch, beams]` at a position."""
    here = ops.arange(written.shape[2]) == index
    return ops.where(here, tokens[:, :, None], written)


def draw(logs, numbers, settings: Settings):
    """Return a token `[batch]` each, drawn from the surest ones.

    The tokens are lined up, the likeliest first; the random number points at one of them.
    Source of top-p: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751.

    Args:
        logs: `[batch, vocabulary]`.
        numbers: `[batch]` in [0, 1).
        settings: `temperature`, `top_k`, `top_p`.
    """
    size = logs.shape[-1]
    kept, tokens = tf.math.top_k(logs / settings.temperature, k=min(settings.top_k or size, size))
    shares = ops.softmax(kept, axis=-1)
    # A token is kept if those before it have not reached top_p: the first one always is.
    before = ops.cumsum(shares, axis=-1) - shares
    shares = ops.where((before < settings.top_p) & (kept > POSSIBLE), shares, 0.0)
    sums = ops.cumsum(shares, axis=-1)
    place = ops.sum(ops.cast(sums <= numbers[:, None] * sums[:, -1:], "int32"), axis=-1)
    last = ops.sum(ops.cast(shares > 0, "int32"), axis=-1) - 1
    return tf.gather(tokens, ops.minimum(place, last), batch_dims=1)


def block_ngrams(logs, written, index, size: int):
    """Return the log-probabilities without tokens that would repeat an n-gram of the target.

    Every place of the target is looked at: where the `size - 1` tokens before it are those written
    last, the token that stands there must not come again.

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
    # From `size - 1` on there are so many last tokens.
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

"""Models that write: a prefix language model, an encoder with a decoder, a pretrained writer.

`unilm`: the layers of a BERT read source and target as one sequence under a mask. Source tokens see
each other; a target token sees the source and the target up to itself. Only the two layers of the
head are new: the encoder's token embedding also scores the output. Source: Dong et al. 2019,
https://arxiv.org/abs/1905.03197.

`encoder_decoder`: any encoder, and a new Transformer decoder (task/decoder.py).

`pretrained`: the pretrained model that `encoder` names, as it is; needs extras/writers.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from core.base.extras import need
from core.encoders.encoder import BertEncoder, encoder_inputs
from core.layers.language_model import TokenLoss, head_layers, prefix_mask
from core.step import Logits, Models, TrainingModel
from task.decoder import decoder_logits
from task.settings import Settings


def find_positions(mask: tf.Tensor) -> tf.Tensor:
    """Return the position of each token `[batch, length]`; padding is not counted."""
    return ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)


@keras.saving.register_keras_serializable("task")
class PrefixLanguageModel(keras.layers.Layer):
    """The layers of a BERT under the prefix mask: they read a source and write a target.

    The encoder has positions for both: task/loading.py makes sure of it. generation/layers.py and
    generation/steps.py compute the same token by token, for the cache of generation: if you change
    this, change them too, or set `generation.cache = false`.

    Args:
        encoder: the BERT; its token embedding scores the next token, too.
    """

    def __init__(self, encoder: BertEncoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        width = encoder.hidden_dim
        # Two new layers; the encoder's embedding scores their output. Built here: in a functional
        # model Keras calls `compute_output_spec` instead of `call`.
        self.head_dense, self.head_norm = head_layers(width, dtype=self.dtype_policy)
        for layer in (self.head_dense, self.head_norm):
            layer.build((None, None, width))
        self.built = True

    def call(self, token_ids, segment_ids, padding_mask, target_ids, training=None) -> tf.Tensor:
        """Return the logits `[batch, target, vocabulary]` of each target token, given those before.

        Worked example: a source and a target, of which only the target has logits.

            tokens     [CLS]  a  [SEP] [PAD] | [CLS]  x     here [CLS] begins a target
            segments     0    0    0     0   |   1    1
            mask         1    1    1     0   |   1    1
            positions    0    1    2     2   |   3    4

        Args:
            token_ids: of the source `[batch, source]`, as are the next two.
            segment_ids: 0.
            padding_mask: 0 where the source has ended.
            target_ids: `[batch, target]`, shifted by one: the begin token comes first.
            training: whether dropout is on.
        """
        # Targets are segment 1. Their padding comes last, where no real token sees it: no mask.
        ones = ops.ones_like(target_ids)
        mask = ops.concatenate([padding_mask, ones], axis=1)
        segments = ops.concatenate([segment_ids, ones], axis=1)
        hidden = self.embed(
            ops.concatenate([token_ids, target_ids], axis=1), segments, find_positions(mask)
        )
        hidden = self.encoder.embeddings_dropout(hidden, training=training)
        visible = prefix_mask(segments, mask)
        for layer in self.encoder.transformer_layers:
            hidden = layer(hidden, attention_mask=visible, training=training)
        return self.score(hidden[:, ops.shape(token_ids)[1] :])

    def embed(self, token_ids, segment_ids, positions) -> tf.Tensor:
        """Return the normalised sum of the three embeddings."""
        encoder = self.encoder
        tokens = encoder.token_embedding(token_ids)
        places = encoder.position_embedding(tokens, positions=positions)
        summed = encoder.embeddings_add((tokens, places, encoder.segment_embedding(segment_ids)))
        return encoder.embeddings_layer_norm(summed)

    def score(self, hidden) -> tf.Tensor:
        """Return the logits of hidden states `[..., width]`."""
        return self.encoder.token_embedding(self.head_norm(self.head_dense(hidden)), reverse=True)

    def compute_output_spec(self, *, target_ids, **others) -> keras.KerasTensor:
        shape = (*target_ids.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config: dict) -> "PrefixLanguageModel":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


def build_models(encoder: keras.Model, settings: Settings) -> Models:
    """Return the training model (output: the loss) and the inference model (output: logits).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`; with `pretrained` it writes.
        settings: `model`, `packs`, `label_smoothing`, and those of `decoder_logits`.
    """
    inputs = encoder_inputs(encoder)
    inputs["target_ids"] = keras.Input((None,), dtype="int32", name="target_ids")
    if settings.model == "unilm":
        logits = PrefixLanguageModel(encoder, name="unilm")(**inputs)
    elif settings.model == "pretrained":
        logits = encoder.write(inputs)  # a pretrained model of extras/writers returns logits
    else:
        logits = decoder_logits(encoder, inputs, settings)
    inference = keras.Model(inputs, {"logits": logits}, name="inference")
    train_inputs = inputs
    if settings.packs:  # the same layers are trained on rows of several examples
        train_inputs, logits = need("writers", "packing").write_rows(encoder, inputs)

    labels = keras.Input((None,), dtype="int32", name="target_labels")
    loss = TokenLoss(settings.label_smoothing, name="token_loss")(logits, labels)
    training = TrainingModel(
        {**train_inputs, "target_labels": labels}, {"token_loss": loss}, name="training"
    )
    compared = (Logits(logits, "softmax", labels="target_labels"),)  # for extras/regularization
    return Models(training, inference, encoder, compared)

"""A BERT that reads from left to right, as the template pretraining trains it: a `Decoder`.

Its embeddings are normalized instead of its last outputs, and its head is that of BERT: Dense, GELU
and normalization, then the token table and a bias score the vocabulary. Source: Devlin et al. 2019,
https://arxiv.org/abs/1810.04805.
"""

from typing import Any

import keras
import keras_hub

from extras.writers.decoder import Decoder
from extras.writers.layers import ACTIVATIONS, INITIAL_DEVIATION, dense, normalization


@keras.saving.register_keras_serializable("writers")
class HeadedTable(keras_hub.layers.ReversibleEmbedding):
    """A token table that scores hidden states under BERT's head.

    Args:
        norm: options of `normalization`.
        activation: its name in `ACTIVATIONS`.
        **kwargs: as in `keras_hub.layers.ReversibleEmbedding`.
    """

    def __init__(self, *args: Any, norm: dict, activation: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.norm, self.activation = norm, activation
        self.head_dense = dense(self.output_dim, True, "head_dense", self.dtype_policy)
        self.head_norm = normalization(norm, "head_norm", self.dtype_policy)

    def build(self, inputs_shape: Any = None) -> None:
        super().build(inputs_shape)
        for layer in (self.head_dense, self.head_norm):
            layer.build((None, None, self.output_dim))
        self.bias = self.add_weight((self.input_dim,), initializer="zeros", name="vocabulary_bias")

    def call(self, inputs, reverse=False) -> Any:
        """Return embeddings of tokens, or if `reverse` the logits of hidden states."""
        if not reverse:
            return super().call(inputs)
        hidden = self.head_norm(ACTIVATIONS[self.activation](self.head_dense(inputs)))
        logits = super().call(hidden, reverse=True)
        return logits + keras.ops.cast(self.bias, logits.dtype)

    def save_own_variables(self, store: Any) -> None:
        """Save the bias, too, which the table's own way leaves out."""
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Read what `save_own_variables` wrote."""
        keras.layers.Layer.load_own_variables(self, store)

    def get_config(self) -> dict:
        return {**super().get_config(), "norm": self.norm, "activation": self.activation}


@keras.saving.register_keras_serializable("writers")
class BertDecoder(Decoder):
    """A causal BERT; all tokens are in its first segment.

    Args:
        activation: of the head.
        **kwargs: as in `Decoder`; `norm` normalizes the embeddings.
    """

    def __init__(self, *, activation: str = "gelu", **kwargs: Any) -> None:
        self.head_activation = activation
        super().__init__(**kwargs)

    def make_table(self, rows: int, width: int, tied: bool, norm: dict, dtype: Any) -> Any:
        return HeadedTable(
            rows,
            width,
            norm=norm,
            activation=self.head_activation,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=INITIAL_DEVIATION),
            dtype=dtype,
            name="token_embedding",
        )

    def embed(self, token_ids, positions) -> Any:
        return self.final_norm(super().embed(token_ids, positions))

    def finish(self, hidden) -> Any:
        return hidden

    def get_config(self) -> dict:
        return {**super().get_config(), "activation": self.head_activation}

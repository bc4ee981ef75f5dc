"""The new Transformer decoder of `model = "encoder_decoder"`.

Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762.
"""

import keras
import keras_hub

from core.encoders.encoder import hidden_states
from core.fast.transformer import exact_gelu_function
from core.layers.language_model import INITIAL_DEVIATION, head_layers
from task.settings import Settings

ATTENTION_HEAD_SIZE = 64  # the width of one attention head, as in BERT


def decoder_logits(encoder: keras.Model, inputs: dict, settings: Settings) -> keras.KerasTensor:
    """Return the logits of the target, from a decoder that attends to the encoder's output.

    Args:
        encoder: any that has a `token_embedding`.
        inputs: by name: those of the encoder, and `target_ids`.
        settings: `target_length`, `decoder_layers`, `dropout`.
    """
    own = {tensor.name: inputs[tensor.name] for tensor in encoder.inputs}
    source_hidden = hidden_states(encoder, own)
    width = source_hidden.shape[-1]
    # One initializer would draw the same numbers for all; KerasHub clones that of the kernels with
    # new seeds. Their order decides the seeds.
    kernel_initializer = keras.initializers.TruncatedNormal(stddev=INITIAL_DEVIATION)
    token_initializer = keras.initializers.TruncatedNormal(stddev=INITIAL_DEVIATION)
    position_initializer = keras.initializers.TruncatedNormal(stddev=INITIAL_DEVIATION)
    embedding = keras_hub.layers.ReversibleEmbedding(
        encoder.token_embedding.input_dim,
        width,
        embeddings_initializer=token_initializer,
        name="target_embedding",
    )
    tokens = embedding(inputs["target_ids"])
    if encoder.token_embedding.output_dim == width:
        # It starts with the encoder's values, and is trained separately.
        embedding.embeddings.assign(encoder.token_embedding.embeddings)
    places = keras_hub.layers.PositionEmbedding(
        settings.target_length, initializer=position_initializer, name="target_positions"
    )(tokens)
    hidden = keras.layers.Add(name="target_add")((tokens, places))
    hidden = keras.layers.LayerNormalization(epsilon=1e-12, name="target_norm")(hidden)
    hidden = keras.layers.Dropout(settings.dropout, name="target_dropout")(hidden)
    for number in range(settings.decoder_layers):
        hidden = keras_hub.layers.TransformerDecoder(  # its mask is causal
            4 * width,
            num_heads=max(1, width // ATTENTION_HEAD_SIZE),
            dropout=settings.dropout,
            activation=exact_gelu_function,
            layer_norm_epsilon=1e-12,
            kernel_initializer=kernel_initializer,
            name=f"decoder_layer_{number}",
        )(hidden, source_hidden, encoder_padding_mask=inputs["padding_mask"])
    for layer in head_layers(width):
        hidden = layer(hidden)
    return embedding(hidden, reverse=True)

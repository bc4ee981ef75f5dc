"""The hidden states of the last layers of an encoder, joined for the heads."""

import keras

from core.base.errors import InputError


def join_last_layers(encoder: keras.Model, count: int) -> keras.Model:
    """Return an encoder whose hidden states are those of its last layers, side by side.

    It shares all layers with the encoder, so whatever changes these (LoRA, recomputing, freezing)
    changes both. Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 5.3.

    Args:
        encoder: hidden states `[batch, length, width]`.
        count: of the layers; the result has `[batch, length, count x width]`, last layer last.

    Raises:
        InputError: the encoder has fewer layers.
    """
    found = layer_states(encoder)
    if len(found) < count:
        raise InputError(
            f"encoders.last_layers = {count}, but the encoder has {len(found)} layers that can be "
            f"joined: set it to {len(found)} at most, or to 0."
        )
    joined = keras.layers.Concatenate(name="last_layers")(found[-count:])
    return keras.Model(encoder.input, joined, name=encoder.name)


def layer_states(encoder: keras.Model) -> list[keras.KerasTensor]:
    """Return the hidden states after each layer, as the next layer reads them; then the last ones.

    Layers that share weights count each time.
    """
    layers = {id(layer) for layer in getattr(encoder, "transformer_layers", ())}
    by_depth = sorted(encoder._nodes_by_depth.items(), reverse=True)
    nodes = [node for _, own in by_depth for node in own if id(node.operation) in layers]
    # A group of ALBERT may have several layers, and counts once.
    size = max(1, len(nodes) // getattr(encoder, "num_layers", len(nodes) or 1))
    output = encoder.output
    last = output["sequence_output"] if isinstance(output, dict) else output
    return [*(node.input_tensors[0] for node in nodes[size::size]), last]

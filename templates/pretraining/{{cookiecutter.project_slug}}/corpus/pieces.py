"""From the tokens of an example to a text that can be read."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from core.base.extras import need

# What the tokens of sentencepiece and of bytes have instead of a space.
PIECE_SPACE, BYTE_SPACE = "▁", "Ġ"


def join_pieces(pieces: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of tokens, and the characters `[start, end)` of each.

    In WordPiece ## continues a word, and an ideograph has no space around it. In other vocabularies
    a space is part of a token; a character that is cut in the middle of its bytes shows as �.
    """
    has_spaces = any(piece.startswith((PIECE_SPACE, BYTE_SPACE)) for piece in pieces)
    has_bytes = any(piece.startswith(BYTE_SPACE) for piece in pieces)
    text, spans = "", []
    for piece in pieces:
        if has_spaces:
            piece = ByteLevel().decode([piece]) if has_bytes else piece.replace(PIECE_SPACE, " ")
            apart, piece = piece.startswith(" "), piece.strip() or piece
        else:
            inner = piece.startswith("##") and len(piece) > 2
            piece = piece[2:] if inner else piece
            apart = not inner and not (is_ideograph(text[-1:]) or is_ideograph(piece[:1]))
        text += " " if apart and text else ""
        spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, spans


def is_ideograph(character: str) -> bool:
    """Tell whether a character is Chinese, its punctuation included."""
    return "\u3000" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef"


def in_words(
    row: dict[str, np.ndarray], best: np.ndarray, tokenizer: Tokenizer, objective: str
) -> dict:
    """Return a text with its hidden tokens: their spans, and the likeliest tokens there.

    Args:
        row: of one text, laid out for the objective.
        best: the likeliest tokens at each of its places `[slots, best]`.
        tokenizer: of the text.
        objective: of the training.
    """
    if objective == "replaced":
        return need("encoders", "discriminator").in_words(row, best, tokenizer, join_pieces)
    used = row["masked_labels"] >= 0
    if objective == "denoising":  # the input is a damaged copy, so show the target
        token_ids, places = np.append(row["target_ids"], 0), np.flatnonzero(used) + 1
        size = len(places) + 1
    else:
        token_ids, size = row["token_ids"].copy(), row["padding_mask"].sum()
        # All objectives but masked predict the token after the position that they predict from.
        places = row["masked_positions"][used] + int(objective != "masked")
    token_ids[places] = row["masked_labels"][used]
    pieces = [tokenizer.id_to_token(token_id) or "" for token_id in token_ids[:size].tolist()]
    text, spans = join_pieces(pieces)
    shown = best[: len(used)][used[: len(best)]]
    # A model may have more rows than its tokenizer has tokens.
    names = [[tokenizer.id_to_token(int(i)) or "" for i in tokens] for tokens in shown]
    return {
        "text": text,
        "hidden": [
            {"span": spans[place], "predicted": predicted}
            for place, predicted in zip(places, names, strict=True)
        ],
    }

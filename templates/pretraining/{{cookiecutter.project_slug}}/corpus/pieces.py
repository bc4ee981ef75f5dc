"""From the tokens of an example to a text that can be read."""

from collections.abc import Sequence

from tokenizers.decoders import ByteLevel

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

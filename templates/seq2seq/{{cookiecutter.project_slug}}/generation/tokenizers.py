"""Tokenizers for generation: decoding gives back the text that was encoded."""

import json
from collections import Counter
from collections.abc import Sequence

import keras
import numpy as np
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from core.base.errors import InputError
from core.data.tokens import SPECIAL_TOKENS, break_words
from generation.settings import TargetTokens

SPACE = "\u2581"  # a lower block, as SentencePiece writes a space
# A text may hold that character too, and this one: each becomes this one and a digit.
ESCAPE = "\uffff"
# Rarer words are left in pieces: so the pieces are learned that unseen names are made of.
FEWEST = 5
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Scripts without spaces: each character is a token, as in BERT.
IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}]"


def train_text_tokenizer(texts: Sequence[str], vocabulary_size: int) -> Tokenizer:
    """Train byte-pair encoding that decodes every text to the same text.

    Words are split into pieces, with case; a space belongs to the word after it. Each ideograph and
    punctuation mark is a token, so a copied name always has the same tokens. Characters that occur
    once or never in the texts are spelled in the bytes of UTF-8.

    Args:
        texts: sources and targets of the training file.
        vocabulary_size: the most tokens, unless there are more characters.
    """
    counts = Counter(character for text in texts for character in text)
    # A character that occurs once would get an embedding that is never used again.
    rare = {ord(character): " " for character, count in counts.items() if count < 2}
    tokenizer = text_tokenizer(models.BPE())
    tokenizer.train_from_iterator(
        break_words(text.translate(rare) for text in texts),
        trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            min_frequency=FEWEST,
            special_tokens=SPECIAL_TOKENS + BYTES,
            show_progress=False,
        ),
    )
    trained = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in trained["merges"]]
    # A new one, for which bytes are not special tokens.
    model = models.BPE(trained["vocab"], merges, byte_fallback=True, unk_token="[UNK]")
    tokenizer = text_tokenizer(model)
    # They are not registered as special tokens: a text may well hold the characters "[SEP]".
    frame = [(token, trained["vocab"][token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=frame
    )
    return tokenizer


def text_tokenizer(model: models.Model) -> Tokenizer:
    """Return a tokenizer that turns spaces into a visible mark, and back."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(ESCAPE, f"{ESCAPE}0"),
            normalizers.Replace(SPACE, f"{ESCAPE}1"),
            normalizers.Prepend(SPACE),
            normalizers.Replace(" ", SPACE),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(SPACE, "merged_with_next"),
            pre_tokenizers.Split(Regex(IDEOGRAPH), "isolated"),
            pre_tokenizers.Punctuation("isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
            decoders.Replace(f"{ESCAPE}1", SPACE),
            decoders.Replace(f"{ESCAPE}0", ESCAPE),
        ]
    )
    return tokenizer


def find_target_tokens(tokenizer: Tokenizer, encoder: keras.Model) -> TargetTokens:
    """Return the tokens that begin and end a text, whatever the model.

    Args:
        tokenizer: of the encoder.
        encoder: a pretrained writer names its own; rows beyond the tokenizer are not tokens.
    """
    frame = getattr(encoder, "frame", None) or tokenizer.encode("").ids
    if len(frame) < 2:
        raise InputError(
            "the tokenizer of this encoder puts no tokens around a text, so nothing tells where a "
            "target ends: choose an encoder with begin and end tokens, as BERT has."
        )
    special = {
        number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special
    }
    names = map(tokenizer.token_to_id, SPECIAL_TOKENS)
    special |= {number for number in names if number is not None}
    rows = encoder.token_embedding.input_dim
    special |= set(range(tokenizer.get_vocab_size(), rows))
    special &= set(range(rows))  # Gemma 3 has an added token without a row
    begin, *_, end = frame
    others = tuple(getattr(encoder, "other_ends", ()))
    return TargetTokens(begin, end, tuple(sorted(special - {end, *others})), others)


def keep_used_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Tokenizer, np.ndarray]:
    """Return a tokenizer of the tokens that the texts use, and the old number `[kept]` of each.

    WordPiece takes the longest piece that fits, so the texts have the same tokens as before. The
    letters of ASCII stay as well: unseen words can be spelled.

    Args:
        tokenizer: WordPiece.
        texts: sources and targets of the training file.

    Raises:
        InputError: the tokenizer is of another kind.
    """
    description = json.loads(tokenizer.to_str())
    if description["model"]["type"] != "WordPiece":
        raise InputError(
            'keep_tokens = "used" needs an encoder with a WordPiece vocabulary, as BERT has: set '
            'keep_tokens = "all".'
        )
    used = {number for encoding in tokenizer.encode_batch(list(texts)) for number in encoding.ids}
    used |= set(tokenizer.get_added_tokens_decoder())
    vocabulary = description["model"]["vocab"]
    prefix = description["model"]["continuing_subword_prefix"]
    for token, number in vocabulary.items():
        piece = token.removeprefix(prefix)
        if len(piece) == 1 and piece.isascii() or token in SPECIAL_TOKENS:
            used.add(number)
    kept = np.array(sorted(used))
    number_of = {int(old): new for new, old in enumerate(kept)}
    description["model"]["vocab"] = {
        token: number_of[number] for token, number in vocabulary.items() if number in number_of
    }
    for token in description["added_tokens"]:
        token["id"] = number_of[token["id"]]
    renumber_frame(description["post_processor"], number_of)
    return Tokenizer.from_str(json.dumps(description)), kept


def renumber_frame(processor: dict | None, number_of: dict[int, int]) -> None:
    """Give the tokens that a tokenizer puts around a text their new numbers."""
    if processor is None:
        return
    for name in ("sep", "cls"):
        if name in processor:
            processor[name][1] = number_of[processor[name][1]]
    for token in processor.get("special_tokens", {}).values():
        token["ids"] = [number_of[number] for number in token["ids"]]

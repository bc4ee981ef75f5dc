"""Tokenizers for folders without tokenizer.json, with character offsets."""

import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras_hub
from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from core.base.errors import InputError
from core.base.files import read_json
from core.data.tokens import load_tokenizer_file
from core.encoders.encoder import from_preset, split_options
from extras.encoders.google import find_config
from extras.encoders.words import WordTokenizer, holds_words

# Names of the sentencepiece file, by family.
DEBERTA, ALBERT, ROBERTA = "spm.model", "spiece.model", "sentencepiece.bpe.model"
GOOGLE_ALBERT = "30k-clean.model"
ROFORMER, MPNET = "roformer", "mpnet"
# The special tokens of a vocabulary of word pieces that are not BERT's.
OF_MPNET = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
UNIGRAM = 1  # a kind of model; and kinds of tokens:
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
CASED = 0.01  # minimum share of tokens with a capital letter in a cased vocabulary


@dataclass
class SentencePieces:
    """The content of a sentencepiece model.

    Attributes:
        pieces: tokens with their scores, in the order of their ids.
        added: the pieces that are never split: token -> whether it is special.
        unknown: id of the unknown token.
        is_unigram: whether it is a unigram model, the only supported kind.
        characters: the normalization table of characters.
    """

    pieces: list[tuple[str, float]] = field(default_factory=list)
    added: dict[str, bool] = field(default_factory=dict)
    unknown: int = 0
    is_unigram: bool = True
    characters: bytes = b""


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a folder; None: core reads it.

    Args:
        folder: of an encoder, or of a run.

    Raises:
        InputError: its vocabulary is damaged, or of another kind.
    """
    family = model_type(folder)
    fast, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    options = read_json(config) if config.is_file() else {}
    if fast.is_file():
        return with_words(load_tokenizer_file(fast), fast, options) if family == ROFORMER else None
    makers = {DEBERTA: deberta_tokenizer, ALBERT: albert_tokenizer, ROBERTA: roberta_tokenizer}
    makers[GOOGLE_ALBERT] = albert_tokenizer
    for name, make in makers.items():
        # CamemBERT's tokens have other ids, and T5's other normalisation and no [CLS].
        if (folder / name).is_file() and family not in ("camembert", "t5", "mt5"):
            return make(read_pieces(folder / name), options)
    words = folder / "vocab.txt"
    if words.is_file() and (family in (ROFORMER, MPNET) or "do_lower_case" not in options):
        tokenizer = word_pieces(words, options)
        return with_words(tokenizer, words, options) if family == ROFORMER else tokenizer
    return None


def with_words(tokenizer: Tokenizer, path: Path, options: dict) -> Any:
    """Return a tokenizer with whole Chinese words, if its vocabulary has any.

    Args:
        tokenizer: with BERT's splitting.
        path: its file.
        options: of tokenizer_config.json; they may say that it is BERT's.
    """
    is_bert = str(options.get("tokenizer_class", "")).startswith("Bert")
    if is_bert or not holds_words(tokenizer.get_vocab()):
        return tokenizer
    tokenizer.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=False, lowercase=tokenizer.normalizer.lowercase
    )
    return WordTokenizer(tokenizer, path)


def word_pieces(path: Path, options: dict) -> Tokenizer:
    """Return BERT's tokenizer, or MPNet's, for a folder that may not say whether it is cased.

    Only a cased vocabulary has words with capital letters.

    Args:
        path: vocab.txt.
        options: of tokenizer_config.json.
    """
    try:
        tokens = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason}): fetch it again.") from error
    if options.get("do_lower_case") is None:
        capital = sum(token != token.lower() and token[0] != "[" for token in tokens)
        options = {**options, "do_lower_case": capital < CASED * len(tokens)}
    special = OF_MPNET if set(OF_MPNET.values()) <= set(tokens) else {}
    asked = {**split_options(options), **special}
    read = functools.partial(BertWordPieceTokenizer.from_file, **asked)
    tokenizer = load_tokenizer_file(path, read)._tokenizer
    if special:  # two of its separators are between a pair of texts
        first, last = (tokens.index(special[f"{name}_token"]) for name in ("cls", "sep"))
        tokenizer.post_processor = processors.RobertaProcessing(
            (tokens[last], last), (tokens[first], first), add_prefix_space=False
        )
    return tokenizer


def model_type(folder: Path) -> str:
    """Return the family of the encoder of a folder or run; empty if unknown."""
    run = folder / "encoder.json"
    if run.is_file() and "RoFormer" in read_json(run).get("class_name", ""):
        return ROFORMER
    config = find_config(folder)
    family = str(read_json(config).get("model_type", "")) if config else ""
    return ROFORMER if family.startswith(ROFORMER) else family


def read_pieces(path: Path) -> SentencePieces:
    """Read a sentencepiece model.

    Raises:
        InputError: it is damaged, or not a unigram model.
    """
    found = SentencePieces()
    try:
        for number, value in read_message(path.read_bytes()):
            if number == 1:
                add_piece(found, dict(read_message(value)))
            elif number == 2:
                found.is_unigram = dict(read_message(value)).get(3, UNIGRAM) == UNIGRAM
            elif number == 3:
                found.characters = dict(read_message(value)).get(2, b"")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise InputError(f"{path} is damaged: fetch it again.") from error
    if not found.is_unigram or not found.pieces:
        raise InputError(
            f"{path} is not a unigram model of sentencepiece: save tokenizer.json next to it, in "
            "the fast format of Hugging Face."
        )
    return found


def add_piece(found: SentencePieces, piece: dict[int, Any]) -> None:
    """Add a token of the file to the result."""
    token, kind = piece[1].decode("utf-8"), piece.get(3, 1)
    [score] = struct.unpack("<f", piece.get(2, bytes(4)))
    found.pieces.append((token, score))
    if kind == UNKNOWN:
        found.unknown = len(found.pieces) - 1
    elif kind in (CONTROL, USER_DEFINED):
        found.added[token] = kind == CONTROL


def read_message(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield numbers and values of the fields of a protocol buffer message."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = content[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(content):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        if kind not in (1, 2, 5) or place + size > len(content):
            raise ValueError("not a message")
        yield number, content[place : place + size]
        place += size


def unigram(
    found: SentencePieces, cleaning: list, frame: str, special: tuple[str, ...], mask: str = ""
) -> Tokenizer:
    """Return a sentencepiece tokenizer.

    Args:
        found: its tokens.
        cleaning: normalizers of texts.
        frame: a text with its special tokens, as `[CLS] $A [SEP]`.
        special: further special tokens, besides the marked ones.
        mask: the special token that takes the space before it; empty: none.
    """
    model = models.Unigram(found.pieces, unk_id=found.unknown, byte_fallback=False)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(cleaning)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    for token, is_special in {**found.added, **dict.fromkeys(special, True)}.items():
        add = tokenizer.add_special_tokens if is_special else tokenizer.add_tokens
        is_mask = token == mask  # it also takes the space before it
        add([AddedToken(token, normalized=False, special=is_special, lstrip=is_mask)])
    around = [token for token in frame.split() if token != "$A"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=frame,
        pair=f"{frame} $B:1 {around[-1]}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in around],
    )
    return tokenizer


def character_table(found: SentencePieces) -> list:
    """Return the normalizers of single characters; an empty list if there are none."""
    return [normalizers.Precompiled(found.characters)] if found.characters else []


def deberta_tokenizer(found: SentencePieces, options: dict) -> Tokenizer:
    """Return the tokenizer of DeBERTa, with a mask token after its pieces."""
    lower = [normalizers.Lowercase()] if options.get("do_lower_case") else []
    cleaning = [*lower, normalizers.Strip(), *character_table(found)]
    cleaning += [normalizers.Replace(Regex(" {2,}"), " ")]
    special = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
    tokenizer = unigram(found, cleaning, "[CLS] $A [SEP]", special)
    if options.get("split_by_punct"):
        punctuation = pre_tokenizers.Punctuation(behavior="isolated")
        parts = [punctuation, tokenizer.pre_tokenizer]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return tokenizer


def albert_tokenizer(found: SentencePieces, options: dict) -> Tokenizer:
    """Return the tokenizer of ALBERT: one kind of quotes, no case, no accents."""
    cleaning: list = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not options.get("keep_accents", False):
        cleaning += [normalizers.NFKD(), normalizers.StripAccents()]
    if options.get("do_lower_case", True):
        cleaning += [normalizers.Lowercase()]
    cleaning += [*character_table(found), normalizers.Replace(Regex(" {2,}"), " ")]
    # Numbers followed by a comma are split.
    found.pieces = [
        (token, score - 100 if re.search(r"\d,$", token) else score)
        for token, score in found.pieces
    ]
    special = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    return unigram(found, cleaning, "[CLS] $A [SEP]", special, mask="[MASK]")


def roberta_tokenizer(found: SentencePieces, options: dict) -> Tokenizer:
    """Return the tokenizer of XLM-R; its ids begin with four own tokens."""
    own = ("<s>", "<pad>", "</s>", "<unk>")
    found.pieces = [(token, 0.0) for token in own] + found.pieces[3:] + [("<mask>", 0.0)]
    found.unknown = 3
    cleaning = [*character_table(found), normalizers.Strip(left=False, right=True)]
    cleaning += [normalizers.Replace(Regex(" {2,}"), "▁")]
    return unigram(found, cleaning, "<s> $A </s>", (*own, "<mask>"), mask="<mask>")


def preset_tokenizer(preset: str) -> Tokenizer:
    """Return the fast equivalent of a KerasHub preset's tokenizer."""
    tokenizer = from_preset(keras_hub.models.Tokenizer, preset)
    if isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
        vocabulary = {token: index for index, token in enumerate(tokenizer.get_vocabulary())}
        return BertWordPieceTokenizer(
            vocabulary,
            lowercase=tokenizer.lowercase,
            strip_accents=bool(tokenizer.strip_accents),
        )._tokenizer
    if isinstance(tokenizer, keras_hub.tokenizers.BytePairTokenizer):
        vocabulary = {token: tokenizer.token_to_id(token) for token in tokenizer.get_vocabulary()}
        merges = [tuple(merge.split(" ")) for merge in tokenizer.merges]
        fast = ByteLevelBPETokenizer(vocabulary, merges)._tokenizer
        ends = {token: vocabulary[token] for token in (tokenizer.start_token, tokenizer.end_token)}
        fast.post_processor = processors.TemplateProcessing(
            single=f"{tokenizer.start_token} $A {tokenizer.end_token}",
            special_tokens=list(ends.items()),
        )
        return fast
    raise InputError(
        f"encoder = {preset!r}: its tokenizer gives no character offsets; name the same model as "
        "hf://owner/model, whose tokenizer.json does."
    )

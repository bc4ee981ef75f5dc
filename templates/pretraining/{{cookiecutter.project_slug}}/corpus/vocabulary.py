"""Train the vocabulary of BERT on the training text, or on a sample of it."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import BertWordPieceTokenizer, Tokenizer, trainers
from tqdm import tqdm

from core.base.errors import InputError
from core.data.tokens import SPECIAL_TOKENS
from corpus import storage
from corpus.blocks import Block, Reading, cut_into_blocks, find_files, read_texts
from corpus.settings import CorpusSettings
from corpus.shards import write_json
from corpus.special_tokens import find_special_tokens

SAMPLED_BYTES = 1_000_000
# A character or a piece that occurs once would never get a useful embedding.
MIN_FREQUENCY = 2
# The settings that must not differ from those that a vocabulary was trained with; more text may
# have come since.
RECORDED = ("vocabulary_size", "lowercase")


def train_vocabulary(settings: CorpusSettings) -> tuple[Tokenizer, dict]:
    """Return a tokenizer whose vocabulary is trained on `train_text`, and what it covers.

    It is exactly the tokenizer of BERT: from only its vocabulary, vocab.txt, Transformers makes
    the same.

    Args:
        settings: `train_text`, `seed`, and of the table `preparation` `vocabulary_size`,
            `vocabulary_megabytes`, `lowercase`, `text_field`, `longest_line`.

    Raises:
        InputError: there is no text.
    """
    chosen = settings.preparation
    files = find_files(settings.train_text, "train_text")
    blocks = choose_blocks(
        cut_into_blocks(files, SAMPLED_BYTES), chosen.vocabulary_megabytes, settings.seed
    )
    special = {token: number for number, token in enumerate(SPECIAL_TOKENS)}
    tokenizer = bert_tokenizer(special, chosen.lowercase)

    def texts(title: str) -> Iterator[str]:
        for block in tqdm(blocks, desc=title, unit=" MB", disable=None, leave=False):
            yield from read_texts(block, chosen.text_field, chosen.longest_line, Reading())

    counts = count_characters(tokenizer, texts("characters"))
    if not counts:
        raise InputError(
            f"train_text = {settings.train_text!r}: no line holds text: check that it is UTF-8 "
            "and, for JSON records, text_field."
        )
    characters, inner = choose_characters(tokenizer, counts, chosen.vocabulary_size)
    trained = train_pieces(tokenizer, texts("pieces"), characters, inner, chosen.vocabulary_size)
    covered = sum(counts[character] for character in characters) / counts.total()
    return bert_tokenizer(trained.get_vocab(), chosen.lowercase), {
        "settings": {name: getattr(chosen, name) for name in RECORDED},
        "tokens": trained.get_vocab_size(),
        "megabytes": sum(block.end - block.start for block in blocks) / 1e6,
        "characters": len(characters),
        "characters_seen": len(counts),
        "characters_covered": covered,
    }


def choose_blocks(blocks: list[Block], megabytes: float, seed: int) -> list[Block]:
    """Return all blocks, or a random sample of so many megabytes, in the order of the text."""
    wanted = max(1, round(megabytes * 1e6 / SAMPLED_BYTES))
    if len(blocks) <= wanted:
        return blocks
    return [blocks[n] for n in sorted(random.Random(seed).sample(range(len(blocks)), wanted))]


def bert_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    """Return the tokenizer of BERT over a vocabulary."""
    return BertWordPieceTokenizer(vocabulary, lowercase=lowercase)._tokenizer


def count_characters(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter:
    """Return how often each character occurs in what the normalizer makes of the texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.normalizer.normalize_str(text))
    return Counter({c: count for c, count in counts.items() if not c.isspace()})


def choose_characters(
    tokenizer: Tokenizer, counts: Counter, vocabulary_size: int
) -> tuple[list[str], list[str]]:
    """Return the characters of the vocabulary, and the pieces of those inside words.

    The most frequent, as many as there is room for; in an order that depends on nothing else.
    """
    characters: list[str] = []
    inner: list[str] = []
    room = vocabulary_size - len(SPECIAL_TOKENS)
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        # Each punctuation mark and ideograph is a word.
        normalized = tokenizer.normalizer.normalize_str(f"a{character}a")
        is_inner = len(tokenizer.pre_tokenizer.pre_tokenize_str(normalized)) == 1
        if count < MIN_FREQUENCY or len(characters) + len(inner) + 1 + is_inner > room:
            break
        characters.append(character)
        inner += [f"##{character}"] * is_inner
    return characters, inner


def train_pieces(
    tokenizer: Tokenizer,
    texts: Iterable[str],
    characters: list[str],
    inner: list[str],
    vocabulary_size: int,
) -> Tokenizer:
    """Return a tokenizer with the vocabulary of WordPiece that holds these characters.

    The trainer numbers the pieces of characters inside words in the order of a hash table, breaks
    ties by number, and leaves it to chance which of equally rare characters are dropped: two
    trainings on the same text differ. Where all are named beforehand there is one order.
    """
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.train_from_iterator(
        texts,
        trainers.WordPieceTrainer(
            vocab_size=vocabulary_size,
            min_frequency=MIN_FREQUENCY,
            special_tokens=SPECIAL_TOKENS + sorted(inner),
            initial_alphabet=sorted(characters),
            limit_alphabet=len(characters),
            show_progress=False,
        ),
    )
    return tokenizer


def record_path(path: str) -> str:
    """Return the path of the file about a trained tokenizer, next to it."""
    return path.rpartition("/")[0] + "/vocabulary.json"


def read_tokenizer(path: str, objective: str = "masked") -> Tokenizer:
    """Read a tokenizer that a language model can be trained with.

    Args:
        path: of a tokenizer.json.
        objective: of the training.

    Raises:
        InputError: it is none.
    """
    content = storage.read_bytes(path) or b""
    try:
        tokenizer = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # tokenizers raises bare exceptions
        raise InputError(
            f"{path} is not a tokenizer.json ({error}): train it anew with python "
            "train_vocabulary.py --overwrite true, or name another one."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    find_special_tokens(tokenizer, objective, path)
    return tokenizer


def read_own_tokenizer(settings: CorpusSettings) -> Tokenizer:
    """Return the tokenizer of the encoder that a training goes on from.

    `tokenizer` may name the same one; the file of another one is left alone.

    Raises:
        InputError: no words can be hidden with it, or Python code finds its words.
    """
    # It loads Keras, which no process that only prepares text needs.
    from core.encoders.encoder import load_tokenizer

    own = load_tokenizer(settings, [])  # type: ignore[arg-type]
    if not isinstance(own, Tokenizer):
        raise InputError(
            f"{settings.encoder} looks up Chinese words, which shards can't be prepared with: go "
            "on from an encoder whose vocabulary has only characters and pieces."
        )
    objective = getattr(settings, "objective", "masked")
    find_special_tokens(own, objective, settings.encoder)
    path = storage.place(settings.tokenizer)
    if storage.read_bytes(path) is not None:
        named = read_tokenizer(path, objective)
        if named.get_vocab() == own.get_vocab():
            return named
        print(f"tokens: those of {settings.encoder}; {path} has others, and is not used")
    return own


def find_tokenizer(settings: CorpusSettings) -> Tokenizer:
    """Return the encoder's own tokenizer, or for tiny that of the settings; train a missing one.

    Raises:
        InputError: it was trained with other settings, or can't be used.
    """
    if settings.encoder != "tiny":
        return read_own_tokenizer(settings)
    path = storage.place(settings.tokenizer)
    if storage.read_bytes(path) is None:
        keep_vocabulary(path, *train_vocabulary(settings))
    known = storage.read_bytes(record_path(path))
    try:
        trained = dict(json.loads(known)["settings"]) if known else {}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{record_path(path)} is broken ({error}): train the vocabulary anew with python "
            "train_vocabulary.py --overwrite true."
        ) from error
    for name, before in trained.items():
        now = getattr(settings.preparation, name)
        if before != now:
            raise InputError(
                f"{path} was trained with {name} = {before}, not {now}: set it back, or train "
                "another with python train_vocabulary.py --overwrite true."
            )
    return read_tokenizer(path)


def keep_vocabulary(path: str, tokenizer: Tokenizer, coverage: dict) -> None:
    """Write a trained tokenizer, and next to it its training settings and its coverage."""
    write_json(record_path(path), coverage)
    storage.write_bytes(path, (tokenizer.to_str(pretty=True) + "\n").encode("utf-8"))
    print(
        f"{path}: {coverage['tokens']:,} tokens from {coverage['megabytes']:.1f} MB of text, with "
        f"{coverage['characters']:,} characters of {coverage['characters_seen']:,}: "
        f"{coverage['characters_covered']:.3%} of the text"
    )

"""Which texts may be written and where they end; and what was written, as texts.

Stop strings and allowed texts are automata that follow each hypothesis by tables, token by token,
within the graph of a search. A stop string is found whatever tokens it is cut in. Of a list of
allowed texts the tokens are a tree; only its branches are written.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import project_path
from generation.settings import GenerationTable, TargetTokens

IMPOSSIBLE = -1e9  # the log-probability of what must not be written
# Characters of scripts without spaces.
SPACELESS = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class State(NamedTuple):
    """Where hypotheses `[batch]` or `[batch, beams]` are: in a stop string, and in the tree."""

    matched: tf.Tensor
    place: tf.Tensor


class Tree(NamedTuple):
    """Tokens of the texts that may be written.

    Attributes:
        first: of each place, the first of its edges; one more tells where the last one's end.
        tokens: of each edge.
        nexts: the place that it leads to.
    """

    first: np.ndarray
    tokens: np.ndarray
    nexts: np.ndarray

    def edges(self, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return edges `[..., most]` of places, and which of them are there."""
        most = int(np.diff(self.first).max())
        edges = tf.gather(self.first, place)[..., None] + tf.range(most)
        real = edges < tf.gather(self.first, place + 1)[..., None]
        return tf.minimum(edges, len(self.tokens) - 1), real


class Constraints:
    """The automata of a search.

    Args:
        stops: from `find_stops`; None: tokens alone end a text.
        tree: from `grow_tree`; None: any text may be written.
    """

    def __init__(self, stops: np.ndarray | None = None, tree: Tree | None = None) -> None:
        self.stops, self.tree = stops, tree

    def begin(self, *shape: tf.Tensor | int) -> State:
        """Return the state of hypotheses without a token."""
        return State(tf.zeros(shape, tf.int32), tf.zeros(shape, tf.int32))

    def advance(self, state: State, tokens: tf.Tensor) -> State:
        """Return the state after one more token each."""
        matched, place = state
        if self.stops is not None:
            matched = tf.gather_nd(self.stops, tf.stack([matched, tokens], axis=-1))
        if self.tree is not None:
            edges, real = self.tree.edges(place)
            taken = real & (tf.gather(self.tree.tokens, edges) == tokens[..., None])
            place = tf.reduce_sum(tf.where(taken, tf.gather(self.tree.nexts, edges), 0), axis=-1)
        return State(matched, place)

    def is_stopped(self, state: State) -> tf.Tensor:
        """Tell whether a stop string is in texts."""
        if self.stops is None:
            return tf.zeros_like(state.matched, tf.bool)
        return state.matched == len(self.stops) - 1

    def forbid(self, logs: tf.Tensor, state: State) -> tf.Tensor:
        """Return the log-probabilities `[..., vocabulary]` without what is not in the tree."""
        if self.tree is None:
            return logs
        edges, real = self.tree.edges(state.place)
        vocabulary = logs.shape[-1]
        # What is not there goes into a column of its own.
        columns = tf.where(real, tf.gather(self.tree.tokens, edges), vocabulary)
        columns = tf.reshape(columns, (-1, columns.shape[-1]))
        rows = tf.broadcast_to(tf.range(tf.shape(columns)[0])[:, None], tf.shape(columns))
        allowed = tf.tensor_scatter_nd_update(
            tf.zeros((tf.shape(columns)[0], vocabulary + 1), tf.bool),
            tf.stack([rows, columns], axis=-1),
            tf.ones_like(columns, tf.bool),
        )
        return tf.where(tf.reshape(allowed[:, :-1], tf.shape(logs)), logs, IMPOSSIBLE)


def make_constraints(
    tokenizer: Tokenizer, tokens: TargetTokens, table: GenerationTable, vocabulary: int, length: int
) -> Constraints:
    """Return the automata that settings ask for.

    Args:
        tokenizer: of the targets.
        tokens: that frame a target.
        table: `stop` and `allowed`.
        vocabulary: tokens of the model.
        length: tokens of a target at the most, its end included.

    Raises:
        InputError: there is no file of allowed texts, or one does not fit.
    """
    texts = read_allowed(table.allowed) if table.allowed else []
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    for text, ids in zip(texts, encoded, strict=True):
        if len(ids) >= length:
            raise InputError(
                f"{table.allowed}: {text[:60]!r} has {len(ids) + 1} tokens with its end, and "
                f"target_length = {length}: shorten it, or train with a longer target_length."
            )
    tree = grow_tree([[*ids, tokens.end] for ids in encoded]) if texts else None
    return Constraints(find_stops(tokenizer, table.stop, vocabulary), tree)


def read_allowed(name: str) -> list[str]:
    """Return the texts of a file, one a line.

    Raises:
        InputError: it is not there, not UTF-8, or has none.
    """
    path = project_path(name)
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"generation.allowed = {name!r} can't be read as UTF-8 text: give the path of a file "
            "with one text a line."
        ) from error
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not texts:
        raise InputError(f"{path} is empty: write the texts that are allowed, one a line.")
    return texts


def grow_tree(texts: Sequence[Sequence[int]]) -> Tree:
    """Return the tree of texts of tokens, each with its end."""
    places: list[dict[int, int]] = [{}]
    for text in texts:
        place = 0
        for token in text:
            if token not in places[place]:
                places[place][token] = len(places)
                places.append({})
            place = places[place][token]
    first = np.cumsum([0, *map(len, places)]).astype(np.int32)
    edges = [edge for branches in places for edge in sorted(branches.items())]
    tokens, nexts = np.array(edges, np.int32).T
    return Tree(first, tokens, nexts)


def find_stops(tokenizer: Tokenizer, strings: Sequence[str], vocabulary: int) -> np.ndarray | None:
    """Return how matching goes on `[states, vocabulary]`, whatever tokens a stop string is cut in.

    A state is how much of a stop string a text ends with: state 0 is nothing, the last one is that
    a stop string is in the text. None: there are no stop strings.

    Args:
        tokenizer: of the targets.
        strings: that end a text.
        vocabulary: tokens of the model.
    """
    if not strings:
        return None
    heads = sorted({text[:end] for text in strings for end in range(len(text))})
    number_of = {head: number for number, head in enumerate(heads)}  # "" is the first
    table = np.zeros((len(heads) + 1, vocabulary), np.int32)
    table[-1] = len(heads)
    characters = set("".join(strings))
    # After another token: the first one of a text may lose its space.
    anchor = tokenizer.encode("a", add_special_tokens=False).ids
    start = len(tokenizer.decode(anchor))
    tokens = range(min(vocabulary, tokenizer.get_vocab_size()))
    texts = tokenizer.decode_batch([[*anchor, token] for token in tokens])
    for token, text in enumerate(texts):
        if characters.isdisjoint(text[start:]):
            continue
        for number, head in enumerate(heads):
            longer = head + text[start:]
            tails = (longer[at:] for at in range(len(longer) + 1))
            stopped = any(string in longer for string in strings)
            after = next(number_of[tail] for tail in tails if tail in number_of)
            table[number, token] = len(heads) if stopped else after
    return table


class Written(NamedTuple):
    """The best text of a record and its score; `others` are the next best, if they are asked."""

    text: str
    score: float
    others: tuple[tuple[str, float], ...] = ()


def read_texts(
    outputs: dict[str, np.ndarray],
    tokens: TargetTokens,
    table: GenerationTable,
    tokenizer: Tokenizer,
) -> list[Written]:
    """Return what was written for each record of a batch.

    Args:
        outputs: of a `Writer`: `tokens` and `scores`.
        tokens: those that end a text.
        table: `stop`.
        tokenizer: of the texts.
    """
    rows = outputs["tokens"].reshape(-1, outputs["tokens"].shape[-1])
    ended = np.cumsum(np.isin(rows, tokens.ends), axis=1) > 0
    kept = [row[~over].tolist() for row, over in zip(rows, ended, strict=True)]
    texts = decode_texts(tokenizer, kept)
    if table.stop:
        stop = "|".join(map(re.escape, table.stop))
        texts = [re.split(stop, text, maxsplit=1)[0] for text in texts]
    found = list(zip(texts, outputs["scores"].ravel().tolist(), strict=True))
    many = len(found) // len(outputs["scores"])
    records = [found[first : first + many] for first in range(0, len(found), many)]
    return [
        Written(*best, tuple(one for one in others if one[1] > -math.inf))
        for best, *others in records
    ]


def describe_written(written: Written | tuple[str, float]) -> dict:
    """Return the fields of a predictions file for what was written."""
    text, score, *others = written
    record: dict = {"prediction": text, "score": round(score, 4)}
    if any(others):
        record["others"] = [{"prediction": t, "score": round(s, 4)} for t, s in others[0]]
    return record


def decode_texts(tokenizer: Tokenizer, ids: Sequence[Sequence[int]]) -> list[str]:
    """Return the texts that tokens stand for.

    WordPiece has lost spaces (and case, where it is lower-cased): they are put where written
    English and Chinese have them.

    Args:
        tokenizer: of the encoder.
        ids: tokens of each text, without begin and end.
    """
    texts = tokenizer.decode_batch([list(map(int, row)) for row in ids], skip_special_tokens=True)
    if type(tokenizer.model).__name__ == "WordPiece":
        return [close_gaps(text) for text in texts]
    return texts


def close_gaps(text: str) -> str:
    """Take away the spaces that separate tokens where writing has none."""
    text = re.sub(r"\s+([,.;:!?%)\]}\u2019])", r"\1", text)
    text = re.sub(r"([(\[{£$€#])\s+", r"\1", text)
    # a - b, it ' s and 1 . 5 are single words far more often than not.
    text = re.sub(r"(?<=\w)\s*([-'/])\s*(?=\w)", r"\1", text)
    text = re.sub(r"(?<=\d)([.,:])\s+(?=\d)", r"\1", text)
    wide = SPACELESS.pattern
    return re.sub(rf"(?<={wide})\s+|\s+(?={wide})", "", text).strip()

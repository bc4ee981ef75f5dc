"""Constraints on written texts, and the decoding of tokens to texts.

Stop strings and allowed texts are automata that follow each hypothesis by tables, token by token,
within the graph of a search: see generation/stops.py for stop strings. The tokens of allowed texts
form a tree, and only its branches are written.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import project_path
from core.base.workers import is_chief
from generation.settings import GenerationTable, TargetTokens
from generation.spaces import close_gaps
from generation.stops import Stops, find_stops

IMPOSSIBLE = -1e9  # log-probability of a forbidden token
SHOWN_TEXTS = 5


class State(NamedTuple):
    """States of hypotheses `[batch]` or `[batch, beams]`: in a stop string, and in the tree."""

    matched: tf.Tensor
    place: tf.Tensor


class Tree(NamedTuple):
    """Tokens of the allowed texts.

    Attributes:
        first: the number of each place's first edge; a last entry ends the edges of the last place.
        tokens: the token of each edge.
        nexts: the place that each edge leads to.
    """

    first: np.ndarray
    tokens: np.ndarray
    nexts: np.ndarray

    def edges(self, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the edges `[..., most]` of places, and which of them exist."""
        most = int(np.diff(self.first).max())
        edges = tf.gather(self.first, place)[..., None] + tf.range(most)
        real = edges < tf.gather(self.first, place + 1)[..., None]
        return tf.minimum(edges, len(self.tokens) - 1), real


class Constraints:
    """The automata of a search.

    Args:
        stops: from `find_stops`; None: only end tokens end a text.
        tree: from `grow_tree`; None: any text may be written.
        lines: the allowed text of its tokens, without an end.
    """

    def __init__(
        self,
        stops: Stops | None = None,
        tree: Tree | None = None,
        lines: Mapping[tuple[int, ...], str] | None = None,
    ) -> None:
        self.stops, self.tree, self.lines = stops, tree, lines or {}

    def begin(self, *shape: tf.Tensor | int) -> State:
        """Return the state of hypotheses without a token."""
        return State(tf.zeros(shape, tf.int32), tf.zeros(shape, tf.int32))

    def advance(self, state: State, tokens: tf.Tensor) -> State:
        """Return the state after one more token each."""
        matched, place = state
        if self.stops is not None:
            kinds = tf.gather(self.stops.kinds, tokens)
            matched = tf.gather_nd(self.stops.nexts, tf.stack([matched, kinds], axis=-1))
        if self.tree is not None:
            edges, real = self.tree.edges(place)
            taken = real & (tf.gather(self.tree.tokens, edges) == tokens[..., None])
            place = tf.reduce_sum(tf.where(taken, tf.gather(self.tree.nexts, edges), 0), axis=-1)
        return State(matched, place)

    def is_stopped(self, state: State) -> tf.Tensor:
        """Tell whether texts hold a stop string."""
        if self.stops is None:
            return tf.zeros_like(state.matched, tf.bool)
        return state.matched == len(self.stops.nexts) - 1

    def forbid(self, logs: tf.Tensor, state: State) -> tf.Tensor:
        """Return the log-probabilities `[..., vocabulary]`; tokens outside the tree get none."""
        if self.tree is None:
            return logs
        edges, real = self.tree.edges(state.place)
        vocabulary = logs.shape[-1]
        # Edges that don't exist go into an extra column.
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
        InputError: the file of allowed texts is missing, or none of them can be written, or one is
            too long.
    """
    stops = find_stops(tokenizer, table.stop, vocabulary)
    if not table.allowed:
        return Constraints(stops)
    texts = read_allowed(table.allowed)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    forbidden = {*tokens.never, *tokens.ends}
    lines: dict[tuple[int, ...], str] = {}
    unwritable, alike = [], []
    for text, ids in zip(texts, encoded, strict=True):
        if len(ids) >= length:
            raise InputError(
                f"{table.allowed}: {text[:60]!r} has {len(ids) + 1} tokens with its end, and "
                f"target_length = {length}: shorten it, or train with a longer target_length."
            )
        if not ids or not forbidden.isdisjoint(ids):
            unwritable.append(text)
        elif lines.setdefault(tuple(ids), text) != text:
            alike.append(text)
    if not lines:
        raise InputError(
            f"{table.allowed}: none of its {len(texts)} lines can be written, such as "
            f"{texts[0][:60]!r}: the tokenizer lacks their characters: choose another encoder."
        )
    warn_of(table.allowed, len(texts), unwritable, "have characters that the tokenizer lacks")
    warn_of(table.allowed, len(texts), alike, "have the tokens of an earlier line")
    tree = grow_tree([[*ids, tokens.end] for ids in lines])
    return Constraints(stops, tree, lines)


def warn_of(name: str, count: int, texts: Sequence[str], why: str) -> None:
    """Name the allowed texts that are never written, and say why."""
    if texts and is_chief():
        print(
            f"warning: {name}: {len(texts)} of {count} lines are never written, because they "
            f"{why}: {', '.join(repr(text[:60]) for text in texts[:SHOWN_TEXTS])}"
        )


def read_allowed(name: str) -> list[str]:
    """Return the texts of a file, one per line.

    Raises:
        InputError: the file is missing, not UTF-8, or empty.
    """
    path = project_path(name)
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"generation.allowed = {name!r} can't be read as UTF-8 text: give the path of a file "
            "with one text per line."
        ) from error
    # A space before a text stays: it is part of the first token of a writer.
    texts = list(dict.fromkeys(line.rstrip() for line in lines if line.strip()))
    if not texts:
        raise InputError(f"{path} is empty: write the texts that are allowed, one per line.")
    return texts


def grow_tree(texts: Sequence[Sequence[int]]) -> Tree:
    """Return the tree of the tokens of texts, each with its end.

    Worked example: [5, 3] and [5, 6, 3] have the places 0 (nothing written), 1 (5), 2 (5, 3),
    3 (5, 6) and 4 (5, 6, 3). The edges by place are 5 -> 1; 3 -> 2 and 6 -> 3; none; 3 -> 4; none.
    So first = [0, 1, 3, 3, 4, 4], tokens = [5, 3, 6, 3] and nexts = [1, 2, 3, 4].
    """
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


class Written(NamedTuple):
    """The best text of a record and its score; `others` are the next best ones, with `n_best`."""

    text: str
    score: float
    others: tuple[tuple[str, float], ...] = ()


def read_texts(
    outputs: dict[str, np.ndarray],
    tokens: TargetTokens,
    constraints: Constraints,
    tokenizer: Tokenizer,
) -> list[Written]:
    """Return the texts that were written for each record of a batch.

    Args:
        outputs: of a `Writer`: `tokens` and `scores`.
        tokens: those that end a text.
        constraints: of the `Writer`; an allowed text is returned as its file has it.
        tokenizer: of the texts.
    """
    rows = outputs["tokens"].reshape(-1, outputs["tokens"].shape[-1])
    ended = np.cumsum(np.isin(rows, tokens.ends), axis=1) > 0
    lengths = np.sum(~ended, axis=1)
    if constraints.stops is not None:
        lengths = np.minimum(lengths, constraints.stops.lengths(rows))
    kept = [row[:length].tolist() for row, length in zip(rows, lengths, strict=True)]
    texts = [
        constraints.lines.get(tuple(ids), text)
        for ids, text in zip(kept, decode_texts(tokenizer, kept), strict=True)
    ]
    if constraints.stops is not None:
        texts = [constraints.stops.cut(text) for text in texts]
    found = list(zip(texts, outputs["scores"].ravel().tolist(), strict=True))
    many = len(found) // len(outputs["scores"])
    records = [found[first : first + many] for first in range(0, len(found), many)]
    return [
        # JSON has no infinity: of a record for which nothing can be written the score is finite.
        Written(text, max(score, IMPOSSIBLE), tuple(one for one in others if one[1] > -math.inf))
        for (text, score), *others in records
    ]


def describe_written(written: Written | tuple[str, float]) -> dict:
    """Return the fields of a predictions file for the texts of a record."""
    text, score, *others = written
    record: dict = {"prediction": text, "score": round(score, 4)}
    if any(others):
        record["others"] = [{"prediction": t, "score": round(s, 4)} for t, s in others[0]]
    return record


def decode_texts(tokenizer: Tokenizer, ids: Sequence[Sequence[int]]) -> list[str]:
    """Return the texts of tokens.

    WordPiece has lost spaces (and case, if it is lower-cased). They are put where written English
    and Chinese have them.

    Args:
        tokenizer: of the encoder.
        ids: tokens of each text, without begin and end.
    """
    texts = tokenizer.decode_batch([list(map(int, row)) for row in ids], skip_special_tokens=True)
    if type(tokenizer.model).__name__ == "WordPiece":
        return [close_gaps(text) for text in texts]
    return texts

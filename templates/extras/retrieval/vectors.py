"""Vectors of texts: from a file of any size to a file of vectors, and nearest neighbours."""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
from numpy.lib.format import open_memmap
from tqdm import tqdm

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import (
    delete,
    file_hash,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
)
from core.batches import Batch, DataGenerator, pad
from core.data.records import Id, read_field
from core.prediction.loading import TrainedRuns, load_trained
from core.prediction.predictor import Predictor
from core.step import Models
from extras.retrieval.bi_encoder import build_pair_models, order_labels
from extras.retrieval.settings import Settings
from extras.retrieval.text_inputs import text_inputs

TABLES = (".csv", ".tsv")
TEXTS_AT_ONCE = 4096  # encoded and written together: the most that an interruption costs
LENGTHS = 8  # that a TPU pads to, the same for all files: it compiles each once
QUERIES_AT_ONCE = 256
NUMBERS_AT_ONCE = 10_000_000  # cosines in memory


class TextGenerator(DataGenerator):
    """Batches of texts, shortest first.

    Args:
        texts: to encode.
        runs: of one bi-encoder.
    """

    def __init__(self, texts: Sequence[str], runs: TrainedRuns) -> None:
        longest = runs.settings.max_length
        self.arrays = text_inputs(runs.tokenizer, texts, runs.encoder_inputs, longest)
        lengths = [len(ids) for ids in self.arrays["token_ids"]]
        super().__init__(lengths, runs.settings.prediction_batch_size)
        self.boundaries = np.unique(-(-longest * np.arange(1, LENGTHS + 1) // LENGTHS))

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        return {
            name: pad([arrays[position] for position in positions], length)
            for name, arrays in self.arrays.items()
        }


class BiEncoder:
    """A trained bi-encoder that makes vectors of texts.

    Args:
        name: of a run, or its folder.

    Raises:
        InputError: the run is no bi-encoder, or a whole cross-validation.
    """

    def __init__(self, name: str) -> None:
        def build(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
            if settings.retrieval.loss == "none":
                raise InputError(
                    f"{name} is a classifier, which has no vectors of single texts: train one with "
                    "--retrieval.loss negatives."
                )
            return build_pair_models(encoder, SimpleNamespace(**labels), settings)

        self.runs = load_trained([name], Settings, (), build)
        if len(self.runs.models) > 1:
            raise InputError(
                f"{name} is a cross-validation, and vectors are those of one model: name a fold, "
                f"as in {name}/fold_1."
            )
        self.folder = self.runs.folders[0]
        embedder = self.runs.models[0].get_layer("embedder")
        # Names of the encoder's inputs; those of a pair have a prefix for the side.
        names = sorted(tensor.name for tensor in embedder.inputs)
        self.runs = replace(self.runs, models=[embedder], encoder_inputs=names)
        self.predictor = Predictor([embedder], self.runs.strategy)
        self.dimension = embedder.outputs[0].shape[-1]

    @property
    def best_label(self) -> str:
        """The label of pairs that belong together, or the best grade."""
        labels = SimpleNamespace(**self.runs.labels)
        places = order_labels(labels, self.runs.settings)
        return labels.names[int(np.argmax(places))]

    @property
    def weights(self) -> str:
        """The hash of the weights that make the vectors."""
        return file_hash(self.folder / "best.weights.h5")

    def encode(self, texts: Sequence[str], progress: str = "") -> np.ndarray:
        """Return the vectors `[texts, dimension]` of texts; equal texts are encoded once."""
        unique, places = np.unique(np.array(texts, dtype=object), return_inverse=True)
        vectors = np.zeros((len(unique), self.dimension), np.float32)
        generator = TextGenerator(unique.tolist(), self.runs)
        for position, vector in self.predictor.decode(
            generator, lambda _, outputs: list(outputs["vector"]), progress
        ):
            vectors[position] = vector
        return vectors[places]


def read_texts(path: Path) -> Iterator[tuple[Id, str]]:
    """Yield id and text of each record `{"id", "text"}` of a JSON Lines file, or of a table.

    A table with two columns of other names has the ids in the first one.

    Raises:
        InputError: names the line of a record that is wrong, or whose id another one has.
    """
    lines: dict[str, int] = {}
    read = (
        need("competition", "rows").read_rows if path.suffix.lower() in TABLES else read_json_lines
    )
    for line, record in read(path):
        try:
            if (
                path.suffix.lower() in TABLES
                and len(record) == 2
                and not record.keys() & {"id", "text"}
            ):
                if not lines:
                    print("{}: id: {}; text: {}".format(path.name, *record))
                record = dict(zip(("id", "text"), record.values(), strict=True))
            identity, text = read_field(record, "id", Id), read_field(record, "text", str)
            if (first := lines.setdefault(str(identity), line)) != line:
                raise InputError(f"id {identity!r} is on line {first} already: give each its own.")
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
        yield identity, text
    if not lines:
        raise InputError(f"{path} holds no record: write one JSON object on each line.")


def sibling(path: Path, ending: str) -> Path:
    """Return the path of a file that belongs to vectors: `corpus.ids.jsonl` to `corpus.npy`."""
    return path.with_name(f"{path.name.removesuffix('.npy')}.{ending}")


def write_vectors(encoder: BiEncoder, source: Path, out: Path) -> int:
    """Write the vectors of a file, and its ids in another file; return how many.

    An interrupted call is continued. The file of vectors appears when it is complete.

    Args:
        encoder: makes the vectors.
        source: records `{"id", "text"}`.
        out: a .npy file `[records, dimension]`, float32.
    """
    ids, content = [], hashlib.sha256()
    for identity, text in read_texts(source):
        ids.append(identity)
        content.update(text.encode() + b"\0")
    facts = {
        "weights": encoder.weights,
        "texts": file_hash(source),
        "content": content.hexdigest(),
        "records": len(ids),
        "dimension": encoder.dimension,
    }
    partial, state = sibling(out, "unfinished.npy"), sibling(out, "unfinished.json")
    known = read_json(state) if state.is_file() and partial.is_file() else {}
    done = known.get("done", 0) if known == {**facts, "done": known.get("done")} else 0
    if not done:
        open_memmap(partial, "w+", dtype=np.float32, shape=(len(ids), encoder.dimension))
    start = open_memmap(partial, "r").offset
    bar = tqdm(total=len(ids), initial=done, unit="text", leave=False, disable=None)
    # Written as bytes, because a full disk would kill a process that writes to mapped memory.
    with open(partial, "r+b") as file, bar:
        texts = itertools.islice((text for _, text in read_texts(source)), done, None)
        for first in range(done, len(ids), TEXTS_AT_ONCE):
            chunk = list(itertools.islice(texts, TEXTS_AT_ONCE))
            file.seek(start + 4 * encoder.dimension * first)
            file.write(encoder.encode(chunk).tobytes())
            file.flush()
            os.fsync(file.fileno())
            write_json(state, {**facts, "done": first + len(chunk)})
            bar.update(len(chunk))
    # Without meta.json no vectors are read: so those of two calls are never mixed.
    delete(sibling(out, "meta.json"))
    write_json_lines(sibling(out, "ids.jsonl"), ({"id": identity} for identity in ids))
    os.replace(partial, out)
    write_json(sibling(out, "meta.json"), facts)
    delete(state)
    return len(ids)


def open_vectors(path: Path, encoder: BiEncoder, corpus: Sequence[tuple[Id, str]]) -> np.ndarray:
    """Return the vectors of a file as memory-mapped array.

    Args:
        path: from `write_vectors`.
        encoder: of the texts to compare with.
        corpus: expected ids and texts, in order.

    Raises:
        InputError: the file has vectors of another model or of other texts, or none.
    """
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is no file of vectors: write it with embed.py.") from error
    if vectors.ndim != 2 or vectors.shape[1] != encoder.dimension:
        raise InputError(
            f"{path} has vectors of {vectors.shape[-1]} numbers, and {encoder.folder.name} makes "
            f"{encoder.dimension}: write them again with embed.py and this run."
        )
    known = [record["id"] for _, record in read_json_lines(sibling(path, "ids.jsonl"))]
    same = len(vectors) == len(known) and known == [identity for identity, _ in corpus]
    meta = read_json(sibling(path, "meta.json")) if same else {}
    content = hashlib.sha256(b"".join(text.encode() + b"\0" for _, text in corpus)).hexdigest()
    if not same or meta.get("content", content) != content:  # an older version wrote no content
        raise InputError(
            f"{path} has the vectors of other texts ({len(vectors)}, and {len(corpus)} are "
            "searched): write them again with embed.py from this file."
        )
    if meta["weights"] != encoder.weights:
        raise InputError(
            f"{path} was written by another run than {encoder.folder.name}: vectors of two models "
            "can't be compared, so write them anew with embed.py and this run."
        )
    return vectors


def find_nearest(
    queries: np.ndarray, vectors: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and cosines `[queries, count]` of the nearest vectors, the nearest first.

    The search is exact: it looks at every vector, in blocks whose cosines fit into memory. Among
    equal cosines the first rows win.

    Args:
        queries: `[queries, dimension]`, of length 1; `vectors`: `[rows, dimension]`, the same.
        count: how many, at most the number of rows.
    """
    block = max(count, NUMBERS_AT_ONCE // max(len(queries), 1))
    rows = np.zeros((len(queries), 0), np.int64)
    cosines = np.zeros((len(queries), 0), np.float32)
    for first in range(0, len(vectors), block):
        found = queries @ np.asarray(vectors[first : first + block]).T
        numbers = np.broadcast_to(np.arange(first, first + found.shape[1]), found.shape)
        cosines, rows = np.hstack([cosines, found]), np.hstack([rows, numbers])
        cosines, rows = keep_highest(cosines, rows, count)
    return rows, cosines


def search_texts(
    encoder: BiEncoder,
    queries: Sequence[str],
    corpus: Sequence[tuple[Id, str]],
    count: int,
    vectors_path: Path | None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of the corpus and cosines `[count]` of each query, the nearest first.

    Args:
        encoder: of queries and corpus.
        queries: their texts.
        corpus: ids and texts.
        count: of the texts that are kept, at most the size of the corpus.
        vectors_path: of the corpus, from `write_vectors`; None: the corpus is encoded.

    Raises:
        InputError: the vectors are of other texts.
    """
    if vectors_path:
        vectors = open_vectors(vectors_path, encoder, corpus)
    else:
        vectors = encoder.encode([text for _, text in corpus], "corpus")
    wanted = encoder.encode(queries, "queries")
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        found = find_nearest(wanted[start : start + QUERIES_AT_ONCE], vectors, count)
        yield from zip(*found, strict=True)


def keep_highest(scores: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest scores of each query and their rows; among equals the first rows win."""
    if scores.shape[1] > count:
        # All scores above the lowest one that is kept, and the first of those equal to it.
        lowest = -np.partition(-scores, count - 1, axis=1)[:, count - 1 : count]
        above, equal = scores > lowest, scores == lowest
        room = count - above.sum(axis=1, keepdims=True)
        kept = above | equal & (np.cumsum(equal, axis=1) <= room)
        scores, rows = scores[kept].reshape(-1, count), rows[kept].reshape(-1, count)
    order = np.argsort(-scores, axis=1, kind="stable")
    scores, rows = (np.take_along_axis(array, order, axis=1) for array in (scores, rows))
    return scores, rows

"""Lay out the triples of examples as labels of the pointers."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from core.base.files import project_path
from core.batches import Batch
from core.data.tokens import Window
from core.windows import WindowGenerator
from task.records import Example, read_examples
from task.settings import Settings


class TripleGenerator(WindowGenerator):
    """Batches of windows, with the labels of the pointers if `labels` is true.

    A triple is a label only in windows that contain both of its spans.

    Args as in `WindowGenerator`; triples whose predicate is not in `predicates` are ignored.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        predicates: Sequence[str],
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        labels: bool = True,
    ) -> None:
        self.predicates, self.entity_heads = list(predicates), settings.entity_heads
        super().__init__(examples, tokenizer, encoder_inputs, settings, batch_size, labels)

    def label_window(self, example: Example, window: Window) -> dict[str, np.ndarray]:
        return pointer_labels(example, window, self.predicates, self.entity_heads)

    def measure(self) -> None:
        """Set `widths`: the most pairs that a head has in a window; batches are padded to it."""
        names = ("entity_labels", "head_labels", "tail_labels") if self.labels else ()
        self.widths = {
            name: max(1, *(label[name].shape[1] for label in self.labels)) for name in names
        }

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        batch = self.encoder_batch(positions, length)
        for name, width in self.widths.items():  # none without labels
            heads = len(self.labels[0][name])
            batch[name] = np.full((len(positions), heads, width, 2), -1, np.int32)
            for row, position in zip(batch[name], positions, strict=True):
                pairs = self.labels[position][name]  # [heads, pairs of this window, 2]
                row[:, : pairs.shape[1]] = pairs
        if self.labels:
            batch["annotated"] = np.stack([self.labels[p]["annotated"] for p in positions])
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        """Read a further file, for extras."""
        return read_examples(project_path(path), labelled)


def pointer_labels(
    example: Example, window: Window, predicates: list[str], entity_heads: str
) -> dict[str, np.ndarray]:
    """Return the true pairs of each pointer in one window.

    Worked example: "[CLS] Ada founded Zenco [SEP]", one predicate. `entity_labels` of subject and
    object are [[[1, 1]], [[3, 3]]]; `head_labels` and `tail_labels` are both [[[1, 3]]].

    Returns:
        `entity_labels`, `head_labels` and `tail_labels` `[heads, pairs, 2]`, filled with -1, and
        `annotated` `[predicates]`: 1 where the record was annotated for the predicate.
    """
    number_of = {predicate: number for number, predicate in enumerate(predicates)}
    # For each head of a pointer a list of pairs (first token, last token), or of linked tokens.
    spans: list[list] = [[] for _ in range(entity_head_count(len(predicates), entity_heads))]
    first_links: list[list] = [[] for _ in predicates]
    last_links: list[list] = [[] for _ in predicates]
    for triple in example.triples:
        # (first token, last token); None: not entirely in this window.
        subject, object_ = window.token_span(triple.subject), window.token_span(triple.object)
        number = number_of.get(triple.predicate)
        if subject is None or object_ is None or number is None:
            continue  # number is None: a predicate that the training file does not have
        entity_head = 0 if entity_heads == "shared" else 2 * number
        spans[entity_head].append(subject)
        spans[entity_head + 1].append(object_)
        first_links[number].append((subject[0], object_[0]))
        last_links[number].append((subject[1], object_[1]))
    known = example.annotated_predicates  # None: all
    return {
        "entity_labels": pad_pairs(spans),
        "head_labels": pad_pairs(first_links),
        "tail_labels": pad_pairs(last_links),
        "annotated": np.array([known is None or name in known for name in predicates], np.float32),
    }


def entity_head_count(predicates: int, entity_heads: str) -> int:
    """Count the heads of the entity pointer: one for subjects and one for objects, in this order.

    With `per_predicate` each predicate has these two.
    """
    return 2 if entity_heads == "shared" else 2 * predicates


def pad_pairs(pairs_by_head: list[list]) -> np.ndarray:
    """Return the pairs of each head without duplicates, `[heads, pairs, 2]`, filled with -1."""
    unique = [list(dict.fromkeys(pairs)) for pairs in pairs_by_head]
    filled = np.full((len(unique), max(map(len, unique)), 2), -1, np.int32)
    for row, pairs in zip(filled, unique, strict=True):
        if pairs:
            row[: len(pairs)] = pairs
    return filled

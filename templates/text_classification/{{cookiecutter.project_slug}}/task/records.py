"""The records of a file: texts with labels; read and checked, and which labels there are."""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from core.base.errors import InputError
from core.base.extras import need
from core.data.records import Id, collect, read_field, read_records, whole_number
from library.class_weights import weights_by_label
from task.settings import Settings

TABLES = (".csv", ".tsv")
# Besides "weight", which `read_records` reads and sets for every task.
FIELDS = ("id", "context", "text_a", "text_b", "label", "labels", "group", "fold_group", "target")
OPTIONAL = ("text_b", "group", "fold_group", "context")
FIELD_OF = {False: '"label"', True: '"labels"'}  # by `several`, as messages name it


@dataclass(frozen=True)
class Example:
    """One record of a file.

    `labels` holds the one label of a record, or any number of them where `several` is true. Where
    `labelled` is false they are unknown. Examples of one `group` are ranked against each other;
    those of one `fold_group` are never in two folds. `probabilities` are those of labels, as
    another model may give them: the model learns these, and `labels` are the likely ones. `weight`
    is that of the record in the loss. `context` are texts that are read before the others.
    """

    id: Id
    text_a: str
    text_b: str | None
    labels: tuple[str, ...]
    several: bool
    group: str | None
    line: int
    labelled: bool = True
    fold_group: str | None = None
    probabilities: tuple[tuple[str, float], ...] = ()
    weight: float = 1.0
    context: tuple[str, ...] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The context, the text, and the second text of a pair."""
        last = () if self.text_b is None else (self.text_b,)
        return (*(self.context or ()), self.text_a, *last)

    @property
    def line_of_text(self) -> str:
        """All texts on one line."""
        return " ‖ ".join(self.texts)


@dataclass(frozen=True)
class Labels:
    """What the training file says there is to predict.

    Attributes:
        names: every label, sorted; the model's outputs are in this order.
        several: a record has any number of them, not exactly one.
        positive: the label that a ranking asks for, or whose threshold is tuned; None: none.
        counts: of the training records with each label, in the order of `names`.
        records: of the training file.
        pairs: whether they have a second text.
    """

    names: tuple[str, ...]
    several: bool
    positive: str | None
    counts: tuple[float, ...]
    records: int
    pairs: bool

    # True in a subclass of extras/competition, which then does every step that labels decide.
    are_numbers: ClassVar[bool] = False

    @property
    def has_threshold(self) -> bool:
        """Whether a label is given where its probability is above a threshold."""
        return self.several or (self.positive is not None and len(self.names) == 2)

    def targets(self, examples: Sequence[Example]) -> np.ndarray:
        """Return `[examples, labels]`: 1 where an example has a label, or its probability.

        Labels that are not among `names` don't count.
        """
        number = {name: index for index, name in enumerate(self.names)}
        targets = np.zeros((len(examples), len(self.names)), np.float32)
        for row, example in zip(targets, examples, strict=True):
            for label, share in label_shares(example):
                if label in number:
                    row[number[label]] = share
        return targets

    def hits(self, examples: Sequence[Example]) -> np.ndarray:
        """Return `[examples, labels]`: whether an example has a label, or likely has it."""
        return self.targets([replace(one, probabilities=()) for one in examples]) > 0

    def consistent(self, probabilities: np.ndarray) -> np.ndarray:
        """Return probabilities `[examples, labels]` that do not contradict each other."""
        return probabilities


def read_examples(
    path: str | Path, require_labels: bool = True, settings: Settings | None = None
) -> Sequence[Example]:
    """Read a JSON Lines file, or a table with extras/competition, and check every field.

    Args:
        path: records `{"id", "text_a", "text_b" (optional), "label", "group" (optional)}`; with
            several labels a record, `"labels": [...]` replaces `"label"` in all records.
        require_labels: False for files to predict, whose labels are unknown.
        settings: `output`, and the columns of a table; None: the defaults.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    settings = settings or Settings.model_construct()
    reader = functools.partial(read_example, require_labels=require_labels, settings=settings)
    table, is_table = getattr(settings, "competition", None), Path(path).suffix.lower() in TABLES
    tables = need("competition", "tables") if table or is_table else None
    if tables and tables.has_own_columns(path, settings):
        examples = tables.read_table(path, settings, require_labels, reader)
    else:
        names = tables.number_fields(table) if tables and settings.output == "number" else ()
        examples = read_records(path, (*FIELDS, *names), reader)
    check_alike(path, collect(find_kinds, examples, joined=True))
    return examples


def check_alike(path: str | Path, kinds: dict[tuple, int]) -> None:
    """Refuse records of several kinds in one file.

    Args:
        path: of the file.
        kinds: from `find_kinds`.

    Raises:
        InputError: names file and line of the first record that is unlike the first one.
    """
    ((first_several, *first_has), first_line), *others = kinds.items()
    for (several, *has), line in others:
        place = f"{path}, line {line}: the record"
        if None not in (several, first_several) and several != first_several:
            raise InputError(
                f"{place} has {FIELD_OF[several]}, but line {first_line} has "
                f'{FIELD_OF[first_several]}: write "labels" in every record if any may have '
                'several, or else "label".'
            )
        for name, own, wanted in zip(OPTIONAL, has, first_has, strict=True):
            if own != wanted:
                have = ("has a", "has none") if own else ("has no", "has one")
                raise InputError(
                    f'{place} {have[0]} "{name}", but line {first_line} {have[1]}: give it to all '
                    "records, or to none."
                )


def tokenizer_texts(examples: Sequence[Example]) -> Iterator[str]:
    """Yield the texts that a vocabulary is learned from."""
    yield from (text for example in examples for text in example.texts)


def find_kinds(examples: Sequence[Example]) -> dict[tuple, int]:
    """Return kind of record -> its first line.

    A kind is `several`, None without labels, and whether it has each of the fields `OPTIONAL`.
    """
    found: dict[tuple, int] = {}
    for example in examples:
        has = (getattr(example, name) is not None for name in OPTIONAL)
        found.setdefault((example.several if example.labelled else None, *has), example.line)
    return found


def read_example(record: dict, line: int, require_labels: bool, settings: Settings) -> Example:
    """Check one record, whatever is to be predicted."""
    if settings.output == "number":
        reader = need("competition", "examples")
        return reader.read_numbers(record, line, require_labels, settings)
    table = getattr(settings, "competition", None)
    if table and (table.hierarchy or table.label_aliases):
        record = need("competition", "paths").name_labels(record, table)
    return read_labelled(record, line, require_labels)


def read_labelled(record: dict, line: int, require_labels: bool) -> Example:
    """Check one record that has labels, or is to get them."""
    # Hosts, and tables with empty cells, write null for what is unknown.
    record = {name: value for name, value in record.items() if value is not None}
    identity = read_field(record, "id", Id)
    if isinstance(record.get("label"), bool):
        record = {**record, "label": str(record["label"]).lower()}  # as JSON writes it
    if "label" in record and "labels" in record:
        raise InputError('the record has both "label" and "labels": keep one of them.')
    several, labels, probabilities = "labels" in record, [], ()
    labelled = require_labels or several or "label" in record
    if isinstance(record.get("labels" if several else "label"), dict):
        read_soft_labels = need("distillation", "soft_labels").read_soft_labels
        labels, probabilities = read_soft_labels(record, several)
    elif several:
        labels = [whole_number(label) for label in read_field(record, "labels", list)]
        if not all(type(label) in (str, int) for label in labels):
            raise InputError(f'"labels" must be a list of strings or numbers, not {labels!r}.')
    elif labelled:
        labels = [read_field(record, "label", str | int)]
    if "" in labels:
        raise InputError("a label is empty: give it a name.")
    groups = {
        name: str(read_field(record, name, str | int)) if name in record else None
        for name in ("group", "fold_group")
    }
    return Example(
        id=identity,
        text_a=read_field(record, "text_a", str),
        text_b=read_field(record, "text_b", str) if "text_b" in record else None,
        labels=tuple(dict.fromkeys(str(label) for label in labels)),
        several=several,
        line=line,
        labelled=labelled,
        probabilities=probabilities,
        group=groups["group"],
        fold_group=groups["fold_group"],
        context=read_context(record) if "context" in record else None,
    )


def read_context(record: dict) -> tuple[str, ...]:
    """Return the texts that are read before the others; raises as `read_field`."""
    texts = read_field(record, "context", list)
    return tuple(read_field({"context": text}, "context", str) for text in texts)


def collect_targets(examples: Sequence[Example], settings: Settings) -> Labels:
    """Return what the training examples say there is to predict: labels, or numbers.

    Raises:
        InputError: as `collect_labels`, or the numbers or class weights do not fit the loss.
    """
    table = getattr(settings, "competition", None)
    if settings.output == "number":
        return need("competition", "examples").collect_targets(examples, settings)
    negative_label = getattr(getattr(settings, "retrieval", None), "negative_label", "")
    labels = collect_labels(examples, settings.positive_label, negative_label)
    if unknown := weights_by_label(settings.class_weights).keys() - labels.names:
        what = f"class_weights names {min(unknown)!r}, which no training example has"
        raise InputError(f"{what}: write the label as the training file does.")
    if table and table.hierarchy:
        return need("competition", "examples").as_paths(labels, table.hierarchy)
    return labels


def collect_labels(
    examples: Sequence[Example], positive_label: str = "", negative_label: str = ""
) -> Labels:
    """Return what the training examples say there is to predict.

    Args:
        examples: of the training file.
        positive_label: a label; empty: in rankings "1", or, if that is not a label, the rarer one
            of two.
        negative_label: of pairs that do not belong together. Where all training pairs have the
            positive label, a loss of extras/retrieval can still learn, and this one is added.

    Raises:
        InputError: there is nothing to learn, or no such label.
    """
    counts = collect(count_labels, examples, joined=True)
    if examples[0].text_b is not None and negative_label and [*counts] == [positive_label]:
        counts = Counter({negative_label: 0, **counts})
    names, several = sorted(counts), examples[0].several
    # There is no label, or all examples have all labels.
    if all(count == len(examples) for count in counts.values()):
        have = f"has the label {', '.join(map(repr, names))}" if names else "has no label"
        fix = "add examples with other labels."
        if negative_label and examples[0].text_b is not None and len(names) == 1:
            fix = (
                f"set positive_label = {names[0]!r} if these pairs belong together, and the losses "
                "of extras/retrieval learn from them."
            )
        raise InputError(f"every training example {have}: there is nothing to learn: {fix}")
    positive = positive_label or None
    if positive is not None and (several or positive not in counts):
        why = "each record may have several labels" if several else "no training example has it"
        shown = ", ".join(names[:10]) + ", ..." * (len(names) > 10)
        raise InputError(f"positive_label = {positive!r}, but {why}: the labels are {shown}.")
    if positive is None and examples[0].group is not None and not several:
        if len(names) > 2 and "1" not in counts:
            raise InputError(
                f"the records have groups to rank, and {len(names)} labels: say with "
                "positive_label which of them is to come first."
            )
        positive = "1" if "1" in counts else min(names, key=counts.__getitem__)
    return Labels(
        names=tuple(names),
        several=several,
        positive=positive,
        counts=tuple(counts[name] for name in names),
        records=len(examples),
        pairs=examples[0].text_b is not None,
    )


def count_labels(examples: Sequence[Example]) -> Counter[str]:
    """Return how many examples have each label; a soft label counts by its probability."""
    counts: Any = Counter()  # of probabilities too
    for example in examples:
        for label, share in label_shares(example):
            counts[label] += share
    return counts


def label_shares(example: Example) -> Iterable[tuple[str, float]]:
    """Return the labels of an example with their probabilities: 1 where it gives none."""
    return example.probabilities or ((label, 1) for label in example.labels)


def check_kind(
    examples: Sequence[Example], labels: Labels, path: str | Path, scored: bool = True
) -> None:
    """Refuse records unlike those of the training file: one text or two, one label or several.

    Without `scored` labels make no difference.

    Raises:
        InputError: names file and line.
    """
    for (several, pair, *_), line in collect(find_kinds, examples, joined=True).items():
        have, wanted = ("two texts" if two else "one text" for two in (pair, labels.pairs))
        if scored and several is not None and several != labels.several:
            have, wanted = FIELD_OF[several], FIELD_OF[labels.several]
        if have != wanted:
            raise InputError(
                f"{path}, line {line}: the record has {have}, but the training file has "
                f"{wanted}: write the same in all files."
            )

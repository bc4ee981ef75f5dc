"""Checks of the records of any task: repeats, leaks, labels that can't be learned."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from core.base.files import project_path, read_json_lines
from core.base.settings import RecordSettings
from core.base.words import excerpt
from core.data.checks import Finding, normalise
from extras.doctor.drift import find_drift

BAR_WIDTH = 40
SHOWN_PLACES = 3
# Fields whose items have spans.
WITH_SPANS = ("entities", "triples", "events")
# Up to this share of texts that training has too is a warning: short sentences come again.
FEW_LEAKED = 0.02

# What programs write into a cell without a value. "none" and "na" are labels as often.
EMPTY = ("nan", "<na>", "null", "#n/a")

MOST_WORDS, MOST_NAME = 60, 100  # characters


@dataclass(frozen=True)
class Text:
    """The text of a record, its line, and its gold in words; None: nobody has labelled it."""

    text: str
    line: int
    gold: tuple[str, ...] | None = ()


class Files(dict[str, Sequence[Any]]):
    """File name -> examples, the training file first; `added` are others that are learned from."""

    added: tuple[str, ...] = ()


# File name -> the texts of its records.
Texts = Mapping[str, Sequence[Text]]


def read_files(
    settings: RecordSettings, read_examples: Callable[[Path, bool], Sequence[Any]]
) -> Files:
    """Return file -> examples, the training file first; the test file is optional.

    `read_examples` gets a path, and whether labels are required: the test file needs none.
    """
    names = (settings.train_file, settings.dev_file)
    files = Files({name: read_examples(project_path(name), True) for name in names})
    if len(files) == 1:  # its leaks are found as those of a copy
        files[f"{settings.dev_file} (dev_file)"] = files[settings.dev_file]
    if project_path(settings.test_file).is_file():
        files.setdefault(settings.test_file, read_examples(project_path(settings.test_file), False))
    else:
        print(f"note: test_file = {settings.test_file!r} is not a file, so it is not checked.")
    table = getattr(settings, "distillation", None)
    for name in table.files if table else ():
        path = project_path(name)
        parts = sorted(path.glob("fold_*.jsonl")) if path.is_dir() else [path]
        own = {(name if part == path else f"{name}/{part.name}"): part for part in parts}
        files |= {part: read_examples(file, True) for part, file in own.items()}
        files.added += tuple(own)
    return files


def find_record_faults(
    files: Mapping[str, Sequence[Any]],
    texts_of: Callable[[Any], Sequence[str]],
    gold_of: Callable[[Any], Sequence[str] | None],
    count_labels: Callable[[Sequence[Any]], Counter] | None = None,
    gold: str = "labels",
    passage_of: Callable[[Any], str] | None = None,
) -> list[Finding]:
    """Return repeats, contradictions, leaks, and labels that the training file does not have.

    Args:
        files: name of a file -> its examples, the training file first.
        texts_of: gives the text of an example, or both texts of a pair; a leak of the first text
            of a pair is found too.
        gold_of: gives the gold of an example in words; None: it is not labelled.
        count_labels: counts the labels of examples; None: there are none.
        gold: the word for what `gold_of` gives.
        passage_of: gives what several records may share; None: the longest text of a record.
    """
    shared_of = passage_of or (lambda example: max(texts_of(example), key=len))
    texts, first_texts = {}, {}
    for name, examples in files.items():
        rows = [(texts_of(example), example.line, gold_of(example)) for example in examples]
        labelled = any(own for *_, own in rows)  # a record of many may have no label
        texts[name] = [
            Text("\n".join(parts), line, None if own is None or not labelled else tuple(own))
            for parts, line, own in rows
        ]
        first_texts[name] = [
            replace(text, text=parts[0])
            for text, (parts, *_) in zip(texts[name], rows, strict=True)
            if len(parts) > 1
        ]
    added = getattr(files, "added", ())
    findings = [*find_blank_texts(files, texts_of), *find_other_words(files)]
    findings += [*find_duplicates(texts), *find_contradictions(texts, gold)]
    findings += [*find_leaks(texts, added), *find_leaks_of_first_texts(first_texts, added)]
    findings += find_weight_faults(files)
    findings += find_drift(
        {
            name: [(shared_of(example), "\n".join(texts_of(example))) for example in own]
            for name, own in files.items()
            if name not in added
        }
    )
    findings += find_missing_gold(texts)
    if count_labels:
        labels = {name: count_labels(examples) for name, examples in files.items()}
        findings += find_strange_labels(labels)
        findings += find_unseen_labels(labels)
    return findings


def find_blank_texts(
    files: Mapping[str, Sequence[Any]], texts_of: Callable[[Any], Sequence[str]]
) -> Iterator[Finding]:
    """Find records with a text that is empty, or blank."""
    for file, examples in files.items():
        blank = [one for one in examples if not all(text.strip() for text in texts_of(one))]
        if blank:
            yield Finding(
                "warning",
                f"records with an empty text: {len(blank)} of {len(examples)}",
                f"{file}, line {blank[0].line} for one",
                "give each record the same fields, with text in them.",
            )


def find_other_words(files: Mapping[str, Sequence[Any]]) -> Iterator[Finding]:
    """Find spans that do not read as the words which their records give for them."""
    for file, examples in files.items():
        path, other = project_path(file), []
        fields = [name for name in WITH_SPANS if examples and hasattr(examples[0], name)]
        is_records = fields and path.suffix in (".json", ".jsonl") and path.is_file()
        for line, record in read_json_lines(path) if is_records else ():
            for start, end, words in spans_with_words(record, fields):
                read = str(record.get("text"))[start:end]
                place = f"line {line}: [{start}, {end}] is {read!r}, not {words!r}"
                other += [place] if read != words else []
        if other:
            fix = "correct the offsets: the end of a span is that of the first character behind it."
            what = f"spans that read otherwise than the words of the record: {len(other)}"
            yield Finding("error", what, f"{file}, {other[0]}, for one", fix)


def spans_with_words(record: dict, fields: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and words of the spans of some fields that have their words too."""
    items = [item for name in fields for item in record.get(name) or ()]
    for item in items:
        for part in (item, *(item.get("arguments") or ())):
            for name in ("span", "subject", "object", "trigger"):
                span, words = part.get(name), part.get("text" if name == "span" else f"{name}_text")
                if span and isinstance(words, str):
                    yield (*span, words)


def find_duplicates(texts: Texts) -> Iterator[Finding]:
    """Find texts that occur twice in one labelled file with the same gold.

    A file without labels is one to predict, which keeps its records. Differences in case and white
    space are ignored, here and below.
    """
    for file, records in texts.items():
        if all(record.gold is None for record in records):
            continue
        repeated = [own for own in group_by_text(records) if len(own) > 1 and agree(own)]
        if repeated:
            extra = sum(len(own) - 1 for own in repeated)
            shown = ", ".join(str(record.line) for record in repeated[0][:SHOWN_PLACES])
            yield Finding(
                "warning",
                f"repeated texts: {extra} of {len(records)} records",
                f"{file}, lines {shown}{', ...' * (len(repeated[0]) > SHOWN_PLACES)} for one",
                "keep one of each, or score them as what they are: the same record.",
            )


def find_contradictions(texts: Texts, gold: str) -> Iterator[Finding]:
    """Find texts whose gold differs from record to record, in one file or in several.

    Args:
        texts: of all files.
        gold: the word for what differs.
    """
    places = {id(text): file for file, records in texts.items() for text in records}
    known = [text for records in texts.values() for text in records if text.gold is not None]
    against = [own for own in group_by_text(known) if not agree(own)]
    if against:
        other = next(text for text in against[0] if not agree([text, against[0][0]]))
        shown = (
            f"{places[id(text)]}, line {text.line}: {describe_gold(text)}"
            for text in (against[0][0], other)
        )
        merge = (
            f"if all {gold} are right, merge the records into one; if not, correct the wrong ones"
        )
        if gold == "numbers":
            merge = "take their mean, or correct the wrong ones"
        yield Finding(
            "warning",
            f"the same text with different {gold}: {count(len(against), 'text')}",
            f"{' and '.join(shown)}, for one",
            f"{merge}: no model can give both.",
        )


def agree(records: Sequence[Text]) -> bool:
    """Return whether all records that are labelled have the same gold, in any order."""
    return len({frozenset(record.gold) for record in records if record.gold is not None}) <= 1


def describe_gold(record: Text) -> str:
    """Return the gold of a record in a few words."""
    gold = record.gold or ("none",)
    more = f" and {len(gold) - SHOWN_PLACES} more" if len(gold) > SHOWN_PLACES else ""
    words = (excerpt(one, most=MOST_WORDS) for one in gold[:SHOWN_PLACES])
    return " + ".join(words) + more


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 text` or `2 texts`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def find_weight_faults(files: Mapping[str, Sequence[Any]]) -> Iterator[Finding]:
    """Find weights that leave nothing to learn, and those that no score reads."""
    train, *others = files
    for file in (train, *others):
        weights = np.array([getattr(example, "weight", 1.0) for example in files[file]])
        learned = file == train or file in getattr(files, "added", ())
        if (weights == 1).all():
            continue
        where = f"{file}, line {files[file][int(np.argmax(weights != 1))].line}, for one"
        if not learned:
            what, fix = "records have a weight", "leave it out: each counts once in the scores."
            yield Finding("note", f"{what}, which no score reads", where, fix)
        elif not weights.any():
            fix = "give those to learn from a weight above 0."
            yield Finding("error", "every record has the weight 0: none is learned", where, fix)
        else:
            what = f"{(weights != 1).sum()} of {len(weights)} records have a weight other than 1"
            scale = f"from {weights.min():g} to {weights.max():g}, {weights.mean():.3g} on average"
            yield Finding("note", f"{what}: {scale}", where, "it multiplies the loss of a record.")


def find_leaks(texts: Texts, added: Sequence[str] = ()) -> Iterator[Finding]:
    """Find texts that occur in two files.

    Args:
        texts: the training file first; its texts make the score of another file too good. A file
            without labels has no score here, so its texts are only noted.
        added: further files that are learned from; they may share texts with the training file.
    """
    train = next(iter(texts))
    learned = [train, *added]
    texts = {file: texts[file] for file in (*learned, *(f for f in texts if f not in learned))}
    firsts = {
        file: {normalise(own[0].text): own[0] for own in group_by_text(records)}
        for file, records in texts.items()
    }
    for first, second in itertools.combinations(firsts, 2):
        if second in learned:
            continue
        # In file order, so that the same place is named each time.
        shared = [text for text in firsts[second] if text in firsts[first]]
        if shared:
            places = [firsts[file][shared[0]].line for file in (first, second)]
            scored = any(record.gold is not None for record in texts[second])
            trained = first in learned and len(shared) > FEW_LEAKED * len(firsts[second])
            effect = "says nothing" if trained else "is a little too good"
            count = f"{len(shared)} of {len(firsts[second])}"
            fix = f"take them out of {first}, or the score on {second} {effect}."
            if not scored:
                fix = (
                    f"leave them if the competition gave them: {second} has no labels, so no score "
                    "here is too good."
                )
            yield Finding(
                "note" if not scored else "error" if trained else "warning",
                f"texts of {second} that are in {first} too: {count}",
                f"{second}, line {places[1]}, is {first}, line {places[0]}, for one",
                fix,
            )


def find_leaks_of_first_texts(texts: Texts, added: Sequence[str] = ()) -> Iterator[Finding]:
    """Find first texts of pairs in two files, such as a dev question with answers in training."""
    for leak in find_leaks(texts, added) if texts else ():
        what = leak.what.replace("texts of", "first texts of")
        yield replace(leak, level="note" if leak.level == "note" else "warning", what=what)


def find_unseen_labels(labels: dict[str, Counter]) -> Iterator[Finding]:
    """Find labels that are not in the training file.

    Args:
        labels: file -> number of each label; the training file first.
    """
    (train, known), *others = labels.items()
    for file, counts in others:
        unseen = Counter({label: n for label, n in counts.items() if n and not known[label]})
        if unseen:
            names = ", ".join(f"{name} ({n})" for name, n in unseen.most_common(SHOWN_PLACES))
            yield Finding(
                "warning",
                f"labels never seen in {train}: {len(unseen)}, of {unseen.total()} items",
                f"{file}: {names}{', ...' if len(unseen) > SHOWN_PLACES else ''}",
                f"add examples of them to {train}: no model can find them otherwise.",
            )


def find_strange_labels(labels: dict[str, Counter]) -> Iterator[Finding]:
    """Find labels that differ in spelling only, and labels that are an empty cell or a list.

    Args:
        labels: file -> number of each label.
    """
    places = {name: file for file, counts in reversed(labels.items()) for name in counts}
    total = sum(labels.values(), Counter())
    alike: dict[str, list[str]] = {}
    for name, _ in total.most_common():
        alike.setdefault(spell(name), []).append(name)
    twins = [own for own in alike.values() if len(own) > 1]
    if twins:
        shown = ", ".join(f"{name!r} ({total[name]}, in {places[name]})" for name in twins[0])
        yield Finding(
            "warning",
            f"labels that differ only in how they are written: {len(twins)}",
            f"{shown} for one",
            "write each in one way: the model takes them for different labels.",
        )
    for what, names, fix in (
        (
            "labels that look like an empty cell",
            [name for name in total if name.strip().casefold() in EMPTY],
            "leave these records out, or give the label a name of its own if it is one.",
        ),
        (
            "labels that are a list or an object in JSON",
            [name for name in total if is_json(name)],
            'write one label, or several as "labels": ["a", "b"].',
        ),
    ):
        if names:
            where = f"{places[names[0]]}: {excerpt(names[0], most=MOST_WORDS)!r} for one"
            items = sum(total[name] for name in names)
            yield Finding("warning", f"{what}: {len(names)}, of {items} items", where, fix)


def spell(label: str) -> str:
    """Return a label without what spellings differ in: case, blanks, hyphens, and 1.0 for 1."""
    label = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", normalise(label))
    return re.sub(r"(?<![\d.])(\d+)\.0+(?![\d.])", r"\1", label)


def is_json(label: str) -> bool:
    """Return whether a label is a list or an object in JSON."""
    try:
        return label.startswith(("{", "[")) and isinstance(json.loads(label), list | dict)
    except (ValueError, RecursionError):
        return False


def find_missing_gold(texts: Texts) -> Iterator[Finding]:
    """Find a dev file without any gold: its score can choose nothing.

    Args:
        texts: of all files; the training file first, then dev.
    """
    dev = next(iter([*texts][1:]), None)
    if dev is not None and not any(record.gold for record in texts[dev]):
        yield Finding(
            "warning",
            "no record has gold, so the score is the same after every epoch and chooses nothing",
            dev,
            "name a dev_file with labels, such as a part of the training file.",
        )


def group_by_text(records: Sequence[Text]) -> list[list[Text]]:
    """Return the records of each text together."""
    groups: dict[str, list[Text]] = {}
    for record in records:
        groups.setdefault(normalise(record.text), []).append(record)
    return [*groups.values()]


def draw_histogram(values: Sequence[int] | Counter, unit: str) -> list[str]:
    """Return lines of text: bars for lengths, or for how often each label occurs."""
    if isinstance(values, Counter):
        return label_histogram(values, unit)
    return length_histogram(values, unit)


def length_histogram(lengths: Sequence[int], unit: str, bins: int = 10) -> list[str]:
    """Return the lengths of records as text bars, below the median and the extremes."""
    if not len(lengths):
        return [f"{unit}: no record"]
    values = np.asarray(lengths)
    # Whole numbers at every edge, so that a bar's name is exact.
    step = max(1, -(-(int(np.ptp(values)) + 1) // bins))
    starts, counts = np.unique(values - (values - values.min()) % step, return_counts=True)
    names = [f"{start}" if step == 1 else f"{start} to {start + step - 1}" for start in starts]
    head = (
        f"{unit}: shortest {values.min()}, median {np.median(values):g}, "
        f"95 % up to {np.percentile(values, 95):g}, longest {values.max()}"
    )
    return [head, *draw_bars(names, counts.tolist())]


def label_histogram(counts: Counter, unit: str = "labels", most: int = 30) -> list[str]:
    """Return the counts of the most frequent labels as text bars."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    bars = draw_bars([name for name, _ in rows[:most]], [count for _, count in rows[:most]])
    more = f"  and {len(rows) - most} more, {sum(n for _, n in rows[most:])} in all"
    head = f"{unit}: {len(rows)} kinds, {counts.total()} in all"
    return [head, *bars, *([more] if rows[most:] else [])]


def draw_bars(names: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return one line per name; the name comes last, because Chinese names are wide."""
    largest = max(counts, default=1)
    bars = ["█" * round(BAR_WIDTH * count / largest) or "▏" for count in counts]
    return [
        f"  {count:>7} {bar:<{BAR_WIDTH}} {excerpt(name, most=MOST_NAME)}"
        for name, count, bar in zip(names, counts, bars, strict=True)
    ]

"""What check.py asks of the data: can the labels be learned from these texts?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer

from common.data_checks import (
    Finding,
    Texts,
    find_duplicates,
    find_leaks,
    find_unseen_labels,
    label_histogram,
    length_histogram,
    normalise,
)
from common.encoder import freeze_layers, load_encoder
from common.optimizers import make_optimizer
from common.regularization import make_regularization
from common.settings import project_path
from common.training import TrainingModel
from task.data import (
    Example,
    Labels,
    check_kind,
    collect_labels,
    encode_examples,
    label_targets,
    read_examples,
)
from task.decode import choose_labels
from task.model import build_models, compared_scores
from task.settings import Settings

# The most frequent label stands so many times for each record of the rarest one.
IMBALANCE = 20
# Share of the records that lose their end without a warning.
FEW_CUT = 0.01


def read_files(settings: Settings) -> tuple[dict[str, list[Example]], Labels]:
    """Return file -> examples, the training file first, and its labels.

    A test file may be absent, or lack labels.
    """
    files = {
        settings.train_file: read_examples(project_path(settings.train_file)),
        settings.dev_file: read_examples(project_path(settings.dev_file)),
    }
    if project_path(settings.test_file).is_file():
        test = read_examples(project_path(settings.test_file), require_labels=False)
        files.setdefault(settings.test_file, test)
    labels = collect_labels(files[settings.train_file], settings.positive_label)
    for name, examples in files.items():
        check_kind(examples, labels, name)
    return files, labels


def find_data_faults(files: dict[str, list[Example]]) -> list[Finding]:
    """Find repeats, leaks, contradictions and labels that the training file never shows."""
    texts: Texts = {
        name: [(example.id, "\n".join(example.texts), example.line) for example in examples]
        for name, examples in files.items()
    }
    # Also a first text alone: a question of dev that has been answered in training.
    first_texts: Texts = {
        name: [(e.id, e.text_a, e.line) for e in examples if e.text_b is not None]
        for name, examples in files.items()
    }
    first_leaks = [
        replace(leak, level="warning", what=leak.what.replace("texts of", "first texts of"))
        for leak in find_leaks(first_texts)
    ]
    labels = {name: count_labels(examples) for name, examples in files.items()}
    return [
        *find_duplicates(texts),
        *find_leaks(texts),
        *first_leaks,
        *find_contradictions(files),
        *find_unseen_labels(labels),
    ]


def find_contradictions(files: dict[str, list[Example]]) -> list[Finding]:
    """Find texts, or pairs, that have one label here and another one there."""
    places: dict[str, list[tuple[str, Example]]] = {}
    for name, examples in files.items():
        for example in examples:
            if example.labels is not None:
                key = "\n".join(map(normalise, example.texts))
                places.setdefault(key, []).append((name, example))
    against = []
    for found in places.values():
        (file, first), *others = found
        other = next((item for item in others if set(item[1].labels) != set(first.labels)), None)
        if other is not None:
            against.append((file, first, *other))
    if not against:
        return []
    file, first, other_file, other = against[0]
    return [
        Finding(
            "warning",
            f"the same text with different labels: {len(against)} texts",
            f"{file}, line {first.line}, has {', '.join(first.labels) or 'none'} and {other_file}, "
            f"line {other.line}, {', '.join(other.labels) or 'none'}, for one",
            "decide on one label: no model can give both.",
        )
    ]


def find_label_faults(
    files: dict[str, list[Example]], labels: Labels, settings: Settings
) -> list[Finding]:
    """Find labels that are so rare that the loss forgets them, and texts that are missing."""
    findings = []
    most, fewest = max(labels.counts), min(labels.counts)
    ranked = files[settings.train_file][0].group is not None
    if most > IMBALANCE * fewest and settings.class_weights == "none" and not ranked:
        names = [labels.names[labels.counts.index(count)] for count in (most, fewest)]
        findings.append(
            Finding(
                "note",
                f"{names[0]!r} stands {most} times, {names[1]!r} {fewest} times",
                settings.train_file,
                'if rare labels count as much in your competition, try class_weights = "balanced".',
            )
        )
    for name, examples in files.items():
        empty = [example for example in examples if not all(t.strip() for t in example.texts)]
        single = [example for example in examples if (example.text_b is None) == labels.pairs]
        for found, what in ((empty, "an empty text"), (single, "another number of texts")):
            if found:
                findings.append(
                    Finding(
                        "warning",
                        f"records with {what}: {len(found)} of {len(examples)}",
                        f"{name}, line {found[0].line} for one",
                        "give each record the same fields, with text in them.",
                    )
                )
    return findings


def measure_tokens(
    examples: Sequence[Example], tokenizer: Tokenizer, max_length: int
) -> tuple[list[int], list[Example]]:
    """Return the tokens that are read of each example, and the examples that are cut."""
    encodings = encode_examples(tokenizer, examples, max_length, "encode")
    cut = [
        example
        for example, encoding in zip(examples, encodings, strict=True)
        if encoding.overflowing
    ]
    return [len(encoding.ids) for encoding in encodings], cut


def find_cut_texts(
    name: str, examples: Sequence[Example], cut: Sequence[Example], max_length: int
) -> list[Finding]:
    """Find files of which more than a few records lose their end."""
    if len(cut) <= FEW_CUT * len(examples):
        return []
    return [
        Finding(
            "warning",
            f"records longer than max_length = {max_length} tokens, which lose their end: "
            f"{len(cut)} of {len(examples)}",
            f"{name}, line {cut[0].line} for one",
            "raise max_length, or shorten the texts to what decides.",
        )
    ]


def measure_oracle(examples: Sequence[Example], labels: Labels) -> float | None:
    """Return the accuracy of a perfect model: below 1 where labels are unknown to it."""
    known = [example for example in examples if example.labels is not None]
    if not known:
        return None
    found = [choose_labels(row, labels, 0.5) for row in label_targets(known, labels)]
    right = [set(e.labels) == set(names) for e, names in zip(known, found, strict=True)]
    return float(np.mean(right))


def count_labels(examples: Sequence[Example]) -> Counter:
    """Count the records with each label."""
    return Counter(label for example in examples for label in example.labels or ())


def describe_file(
    name: str, examples: Sequence[Example], labels: Labels, tokens: list[int], cut: int
) -> str:
    """Return the numbers and the histograms of a file."""
    oracle = measure_oracle(examples, labels)
    lines = [
        f"\n{name}: {len(examples)} records, {cut} cut at the end",
        *([f"oracle (gold labels, encoded and decoded): {oracle:.4f}"] if oracle else []),
        length_histogram([sum(map(len, example.texts)) for example in examples], "characters"),
        length_histogram(tokens, "tokens"),
        label_histogram(count_labels(examples), "labels"),
    ]
    groups: dict[str, bool] = {}
    for example in examples:
        if example.group is not None:
            has = labels.positive in (example.labels or ())
            groups[example.group] = groups.get(example.group, False) or has
    if groups:
        without = sum(not has for has in groups.values())
        lines.append(f"groups: {len(groups)}, {without} without {labels.positive!r}: not ranked")
    return "\n".join(lines)


def build_compiled(tokenizer: Tokenizer, labels: Labels, settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    encoder = load_encoder(settings, tokenizer)
    model, inference = build_models(encoder, labels, settings)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    freeze_layers(encoder, settings.frozen_layers)
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(inference, labels)),
    )
    return model
